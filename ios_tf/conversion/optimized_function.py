"""optimize: turns a function or model into a faster equivalent function in memory."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import tensorflow as tf
from tensorflow.python.trackable.base import Trackable

from ios_tf import validation
from ios_tf.conversion import notes, phases
from ios_tf.conversion.comparison import Comparison
from ios_tf.conversion.direct_function import DirectFunction
from ios_tf.conversion.measuring import empty_report, searcher_for
from ios_tf.conversion.originals import KERAS_ENDPOINT, Original
from ios_tf.conversion.planning import Function, drop_extra_batch_sizes, of_signature
from ios_tf.conversion.report import Report
from ios_tf.conversion.samples import Samples, samples_of
from ios_tf.conversion.steps import Conversion
from ios_tf.cost.samples import RECORDER
from ios_tf.errors import UserError, first_line
from ios_tf.model import (
    assigned_variables,
    frozen_graphs,
    function_library,
    graph_optimizer,
    saved_models,
)
from ios_tf.model.flat_calls import FlatCall
from ios_tf.model.not_converted import NoFunctionError, NotConvertedError
from ios_tf.model.outputs import size_of, written_directory
from ios_tf.model.temp_dirs import remove_abandoned_steps
from ios_tf.options import OptimizeOptions, with_options
from ios_tf.reasons import Decision, Reason
from ios_tf.report.document import PATH
from ios_tf.report.document import write as write_report
from ios_tf.tuning.searcher import NetworkSearcher


class OptimizedFunction(DirectFunction):
    """The function that `optimize` returns. Call it like the original.

    Several threads may call it at the same time. `save` writes it as a SavedModel.

    Attributes:
      report: what was done. The `repr` of this object shows it, too.
    """

    def __init__(
        self,
        original: Original,
        compute: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
        report: Report,
        variables: Sequence[tf.Variable] = (),
    ) -> None:
        super().__init__(original, compute)
        self._variables = variables
        self.report = report

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the function as a SavedModel, with the schedules that were found.

        The SavedModel has a signature `serving_default`, contains the report, and also
        loads into TensorFlow without this package, like a result of `convert`. The
        function of a Keras model becomes `serve`, as in `model.export`. The object that
        `tf.saved_model.load` returns for other functions can be called. Nothing is
        searched or measured again.

        Args:
          directory: directory to write; any TensorFlow filesystem path.
          overwrite: replace a SavedModel at this path.

        Raises:
          UserError: the directory exists or cannot be written, or the function reads a
            table that belongs to another object.

        Examples:
          >>> faster = ios_tf.optimize(model)
          >>> faster.save("saved")
          >>> loaded = tf.saved_model.load("saved")
          >>> loaded.serve(images).shape
          TensorShape([8, 5])
        """
        path = validation.path("directory", directory)
        original, compute, call = self._original, self._compute, self._original.call

        def function(*args: Any, **kwargs: Any) -> Any:
            return call.result(compute(call.tensors(args, kwargs)))

        with written_directory(path, overwrite) as temporary:
            args, kwargs = call.specs
            names = [tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
            if original.endpoint == KERAS_ENDPOINT:
                names.append(KERAS_ENDPOINT)
                endpoint = tf.function(function, input_signature=args, autograph=False)
            else:
                function.__signature__ = call.signature  # type: ignore[attr-defined]
                endpoint = tf.function(function, autograph=False)
            concrete = endpoint.get_concrete_function(*args, **kwargs)
            signatures = dict.fromkeys(names, _as_signature(concrete))
            resources = _resources(original, concrete)
            try:
                saved_models.save(
                    saved_models.Signatures(signatures, resources),
                    signatures,
                    temporary,
                    self._variables,
                    {original.endpoint: endpoint},
                )
            except UserError:
                raise
            # TensorFlow raises many kinds of errors for functions that it cannot save.
            except Exception as error:
                raise UserError(
                    f"TensorFlow cannot save the function {original.name!r}: "
                    f"{first_line(error)}"
                ) from error
            report = dataclasses.replace(
                self.report, output=path, output_bytes=size_of(temporary, PATH)
            )
            write_report(report.to_json(), temporary)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the optimized function {self.__name__!r} cannot be pickled or copied, "
            "because it contains TensorFlow's graphs. Write it with save(DIRECTORY), "
            "and load it with tf.saved_model.load(DIRECTORY)"
        )

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __repr__(self) -> str:
        kind = "optimized" if self.report.blocks else "not optimized"
        signature = f"{self.__name__}{self.__signature__}"
        return f"<{kind} function {signature}>\n{self.report.table()}"


def _as_signature(concrete: Any) -> Any:
    """A function with flat outputs, because a signature cannot have nested outputs.

    The outputs are named output_0, output_1 and so on, as TensorFlow names the outputs
    of a function that returns a sequence.
    """
    outputs = concrete.structured_outputs
    values = outputs.values() if isinstance(outputs, Mapping) else outputs
    if _is_tensor(values) or all(map(_is_tensor, values)):
        return concrete

    def flat(*args: Any, **kwargs: Any) -> dict[str, tf.Tensor]:
        results = tf.nest.flatten(concrete(*args, **kwargs), expand_composites=True)
        tensors = filter(tf.is_tensor, results)
        return {f"output_{i}": tensor for i, tensor in enumerate(tensors)}

    args, kwargs = concrete.structured_input_signature
    return tf.function(flat, autograph=False).get_concrete_function(*args, **kwargs)


def _is_tensor(value: Any) -> bool:
    return tf.is_tensor(value) or isinstance(value, tf.TypeSpec)


def _resources(original: Original, concrete: Any) -> list[Any]:
    """The variables, tables and assets of the original that a function captures.

    Raises:
      UserError: the function reads a table that the original does not own.
    """
    found: list[Any] = []
    if isinstance(original.owner, Trackable):
        found, _ = saved_models.resources_of(original.owner, [concrete])
    nodes = function_library.nodes(concrete.graph.as_graph_def())
    if not found and any("Table" in node.op for node in nodes):
        raise UserError(
            f"the function {original.name!r} cannot be saved, because it reads a table "
            "that belongs to another object. Convert the SavedModel with "
            "ios_tf.convert, or pass the loaded model instead of its signature to "
            "ios_tf.optimize"
        )
    return [*found, *original.function.variables]


@with_options(OptimizeOptions)
def optimize(model_or_function: Any, options: OptimizeOptions) -> OptimizedFunction:
    """Makes an equivalent function that runs faster in this process.

    Variables become constants with their current values. Later changes, such as
    training, do not affect the result. Schedules are searched and cached as by
    `convert`, but no model is written.

    Args:
      model_or_function: a `keras.Model`, which is run with `training=False`; a
        `tf.function` with an `input_signature`; a `ConcreteFunction`; or a signature of
        a loaded SavedModel.
      {options}

    Returns:
      A function with the original's signature: the same arguments, which may be numpy
      arrays, and the same structure of results. It has a `report`. If nothing can be
      scheduled, or if the original assigns variables, the result runs the original, and
      the report says so.

    Raises:
      UserError: one line that says what is wrong with the input.
      NativeLibraryError: the native library is missing.

    Examples:
      >>> faster = ios_tf.optimize(model, batch_size=(1, 8))
      >>> faster(images).shape
      TensorShape([8, 5])
      >>> faster.report.speedup > 0
      True
    """
    if isinstance(model_or_function, OptimizedFunction):
        raise UserError("the function is already optimized. Pass the original function")
    samples = samples_of(options.samples)
    original = Original.of(model_or_function, "ios_tf.optimize")
    remove_abandoned_steps()
    with searcher_for(options) as searcher:
        report = empty_report(options, searcher, None, original.name)
        with RECORDER.watched() as load:
            try:
                with searcher.progress.phase(phases.FIND_BLOCKS):
                    found = _Optimization(original, samples, searcher, options)
                report = found.run(report)
            except NotConvertedError as error:
                report = report.with_decisions(error.decision)
        report = notes.load(report, load[0], "ios_tf.optimize")
    if report.comparisons:
        return OptimizedFunction(original, found.compute, report, found.variables)
    report = report.with_decisions(
        Decision(Reason.ORIGINAL_RUNS, "the returned function runs the original")
    )
    return OptimizedFunction(original, original.compute, report)


class _Optimization(Conversion):
    """Makes functions from graphs that should compute the same as an original function.

    Attributes:
      compute: the latest of these functions, once `run` has made one.
      variables: the variables that it may read.
    """

    def __init__(
        self,
        original: Original,
        samples: Samples | None,
        searcher: NetworkSearcher,
        options: OptimizeOptions,
    ) -> None:
        """Raises NotConvertedError if the original cannot be converted."""
        super().__init__(searcher, options)
        if not original.function.outputs:
            raise NoFunctionError(Reason.NO_OUTPUTS, f"{original.name} has no outputs")
        self._original = original
        self._frozen = frozen_graphs.freeze_flat(
            original.name, original.function, keep_filters=True
        )
        # The functions use copies of the variables, because later changes of the
        # original, such as training, must not affect them.
        found = Function.find(
            original.name,
            self._named(original.compute),
            self._weights.copied(self._frozen),
            self._batch_sizes,
            options.height_and_width,
            self._device,
            self._weights,
        )
        if samples is not None:
            found.reference.use_samples(samples)
        self._functions = drop_extra_batch_sizes({0: found})

    def run(self, report: Report) -> Report:
        """Searches for the fastest function; returns the completed report.

        If no function is faster than the original, the report has no comparisons.

        Raises:
          NotConvertedError: the original cannot be converted.
        """
        report = notes.unsupported_nodes(report, self._with_blocks())
        try:
            return self._converted(report)
        finally:  # the comparisons called the function, which may assign variables
            assigned_variables.restore(self._functions[0].frozen)

    @property
    def variables(self) -> Sequence[tf.Variable]:
        return self._weights.variables

    def _compare(
        self, graph_defs: Mapping[int, Any], timed: Collection[int] = ()
    ) -> dict[int, Comparison]:
        """Makes a function from a graph, and compares the function with the original.

        Raises:
          UserError: TensorFlow cannot make the function, or the function returns other
            outputs than the original.
        """
        self.compute = self._rebuilt(graph_defs[0])
        comparison = self._functions[0].compare(
            self._named(self.compute),
            graph_defs[0],
            self._batch_sizes,
            timed=bool(timed),
        )
        return {0: comparison}

    def _named(
        self, compute: Callable[..., Any]
    ) -> Callable[..., dict[str, tf.Tensor]]:
        """Wraps a function of flat tensors, so that inputs and outputs have names."""
        frozen = self._frozen
        return lambda **inputs: dict(
            zip(
                frozen.outputs,
                compute([inputs[key] for key in frozen.inputs]),
                strict=True,
            )
        )

    def _rebuilt(self, graph_def: Any) -> FlatCall:
        frozen = self._functions[0].frozen
        try:
            rebuilt = frozen_graphs.rebuild(
                frozen, *self._weights.take(frozen, graph_def)
            )
        # TensorFlow raises many kinds of errors for graphs that it cannot import.
        except Exception as error:
            with of_signature(self._original.name):
                # Raises another error if TensorFlow's own optimizers cause the failure.
                graph_optimizer.check_folding(self._frozen)
            raise UserError(
                f"TensorFlow cannot rebuild the function {self._original.name!r}: "
                f"{first_line(error)}"
            ) from error
        # The outputs have names in alphabetical order, so they keep their order.
        return FlatCall(rebuilt)
