"""optimize: a function of Python in, a faster equal function out, nothing written."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import concrete_function as concrete
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from ios_tf.conversion import notes
from ios_tf.conversion.comparison import Comparison, DifferenceError
from ios_tf.conversion.options import SearchOptions
from ios_tf.conversion.planning import Function, Plan, computed_directly
from ios_tf.conversion.report import Report
from ios_tf.errors import UserError, first_line
from ios_tf.model import frozen_graphs
from ios_tf.model.loading import traced
from ios_tf.model.weights import Weights
from ios_tf.scheduler import Schedule
from ios_tf.tuning.searcher import Searcher

_KINDS = (
    "a keras.Model, a tf.function with an input_signature, a ConcreteFunction or "
    "tf.saved_model.load(DIRECTORY).signatures[NAME]"
)


class OptimizedFunction:
    """The function that `optimize` returns: called as the original is.

    Attributes:
      report: what was done; it is shown where this object is, too.
    """

    def __init__(
        self,
        original: _Original,
        compute: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
        report: Report,
    ) -> None:
        self._form = original.call
        self._compute = compute
        self.__name__ = original.name
        self.__signature__ = original.call.signature
        self.report = report

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._form.result(self._compute(self._form.tensors(args, kwargs)))

    def __repr__(self) -> str:
        kind = "optimized" if self.report.blocks else "not optimized"
        signature = f"{self.__name__}{self.__signature__}"
        return f"<{kind} function {signature}>\n{self.report.table()}"


def optimize(
    model_or_function: Any,
    batch_size: int | Sequence[int] = 1,
    *,
    device: str = "auto",
    strategy: str = "both",
    max_groups: int = 8,
    max_group_size: int = 3,
    time_limit: float = 300.0,
    units: Sequence[str] = (),
    borders: Sequence[str] = (),
    cache_dir: str | None = None,
    warmup: int = 2,
    number: int = 3,
    repeat: int = 3,
    keep_slower: bool = False,
    winograd: bool = True,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> OptimizedFunction:
    """Makes an equal function that runs faster in this process.

    Variables become constants, with the values they have now: whatever changes them
    later, such as training, does not change the result. Schedules are searched, kept
    and found as by `convert`; no model is written.

    Args:
      model_or_function: a `keras.Model`, which is run with `training=False`; a
        `tf.function` with an `input_signature`; a `ConcreteFunction`; or a signature of
        a loaded SavedModel.
      batch_size: the batch size to schedule for, where the function's is dynamic, or
        several: a batch then runs by the schedule of the nearest one, by ratio, the
        smaller of two.
      device, strategy, max_groups, max_group_size, time_limit, units, borders,
        cache_dir, warmup, number, repeat, keep_slower, winograd, progress, say: as of
        `convert`.

    Returns:
      A function of the same signature: arguments, which may be numpy arrays, results
      and their structures are the original's. It has a `report`. Where there is nothing
      to schedule, or the function changes variables, it runs the original, and the
      report says so.

    Raises:
      UserError: one line that says what is wrong with the input.
      NativeLibraryError: the native library is missing.
    """
    options = SearchOptions(
        batch_size,
        device,
        strategy,
        max_groups,
        max_group_size,
        time_limit,
        units,
        borders,
        cache_dir,
        warmup,
        number,
        repeat,
        keep_slower,
        winograd,
    )
    original = _Original.of(model_or_function)
    with options.searcher(say, progress) as searcher:
        report = options.report(searcher, None)
        compute = _faster(original, searcher, report, options.keeps_all)
    if not compute:
        report.notes.append("the original function is run")
        compute = original.compute
    return OptimizedFunction(original, compute, report)


class _Call:
    """How a function is called: between Python's arguments and flat tensors."""

    def __init__(
        self,
        function: Any,
        defaults: Mapping[str, Any],
        prepare: Callable[..., Any] | None = None,
    ) -> None:
        """`prepare`: makes the arguments of those that a caller gives."""
        self._type = function.function_type
        self._defaults = defaults
        self._keywords = function._arg_keywords
        self._positional = function._num_positional_args
        self._prepare = prepare
        self.signature = inspect.signature(prepare) if prepare else self._signature()

    @property
    def types(self) -> Sequence[Any]:
        """Of the tensors that the function's graph takes."""
        return self._type.flat_inputs

    def _signature(self) -> inspect.Signature:
        return inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    parameter.kind,
                    default=self._defaults.get(name, inspect.Parameter.empty),
                )
                for name, parameter in self._type.parameters.items()
            ]
        )

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tf.Tensor]:
        """Arguments as the flat tensors that the function's graph takes.

        Raises:
          TypeError, ValueError: the arguments are not those of the function.
        """
        if self._prepare:
            args, kwargs = self._prepare(*args, **kwargs), {}
        try:
            bound = self._type.bind_partial(*args, **kwargs)
            for name, value in self._defaults.items():
                bound.arguments.setdefault(name, value)
            bound = self._type.bind_with_defaults(bound.args, bound.kwargs, {})
        except TypeError:
            # TensorFlow takes tensors by their own names, too, such as the only
            # argument of a signature without its name.
            values = {**dict(zip(self._keywords, args, strict=False)), **kwargs}
            if len(args) > self._positional or values.keys() != {*self._keywords}:
                raise
            types = zip(self._keywords, self.types, strict=True)
            return [one for key, of in types for one in of.to_tensors(values[key])]
        return self._type.unpack_inputs(bound)

    def result(self, tensors: Sequence[tf.Tensor]) -> Any:
        """The flat tensors of the graph as the function returns them."""
        return self._type.pack_output(tensors)


class _Original:
    """The function that was given, with fixed types of its arguments."""

    def __init__(self, name: str, owner: Any, function: Any, call: _Call) -> None:
        """`owner`: keeps alive what `function`, a ConcreteFunction, captures."""
        self.name = name
        self.call = call
        self.owner = owner
        self.function = function
        if any(one.dtype in (tf.resource, tf.variant) for one in call.types):
            raise UserError(
                f"{name} takes variables or data sets as arguments: pass a function of "
                "tensors"
            )

    @classmethod
    def of(cls, given: Any) -> _Original:
        """Finds the function in what a user gives.

        Raises:
          UserError: there is none, or several.
        """
        import keras

        if isinstance(given, keras.Model):
            return cls._of_keras(given)
        if isinstance(given, polymorphic_function.Function):
            return cls._of_tf_function(given)
        if isinstance(given, concrete.ConcreteFunction):
            return cls(_name(given), given, given, _Call(given, {}))
        signatures = getattr(given, "signatures", None)
        if isinstance(signatures, Mapping) and signatures:
            if len(signatures) > 1:
                names = ", ".join(sorted(signatures))
                raise UserError(
                    f"the model has several signatures, {names}: pass one of them, "
                    f"model.signatures[{min(signatures)!r}]"
                )
            ((name, function),) = signatures.items()
            return cls(name, given, function, _Call(function, {}))
        if isinstance(given, (str, os.PathLike)):
            raise UserError(
                f"a model on disk is converted by ios_tf.convert; pass {_KINDS}"
            )
        if isinstance(given, OptimizedFunction):
            raise UserError("it is optimized already; pass the original")
        if callable(given) and not isinstance(given, type):
            raise UserError(
                f"{_name(given)} has no fixed signature: pass {_KINDS} (such as "
                "tf.function(f, input_signature=[tf.TensorSpec([None, 224, 224, 3])]))"
            )
        raise UserError(f"pass {_KINDS}, not {type(given).__name__}")

    @classmethod
    def _of_tf_function(cls, given: Any) -> _Original:
        name = _name(given)
        if given.input_signature is None:
            raise UserError(
                f"the tf.function {name} has no input_signature: pass "
                f"{name}.get_concrete_function(tf.TensorSpec(SHAPE, DTYPE), ...)"
            )
        call_with = given.function_spec.default_values
        try:
            function = given.get_concrete_function()
        # The function's own code may raise anything where it is traced.
        except Exception as error:
            raise UserError(
                f"the tf.function {name} cannot be traced: {first_line(error)}"
            ) from error
        return cls(name, given, function, _Call(function, call_with))

    @classmethod
    def _of_keras(cls, model: Any) -> _Original:
        import keras

        function, specs = traced(model)

        def convert(value: Any, spec: tf.TensorSpec) -> Any:
            return keras.ops.convert_to_tensor(value, spec.dtype)

        names = list(inspect.signature(model.call).parameters)[: len(specs)]

        def prepare(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            bound = signature.bind(*args, **kwargs)
            if bound.arguments.pop("training", False):
                raise ValueError(f"{model_name} was optimized for training=False")
            return tuple(
                _like(spec, value, convert)
                for spec, value in zip(specs, bound.args, strict=True)
            )

        model_name = model.name
        parameter = inspect.Parameter
        signature = inspect.Signature(
            [
                *(parameter(name, parameter.POSITIONAL_OR_KEYWORD) for name in names),
                parameter("training", parameter.KEYWORD_ONLY, default=False),
            ]
        )
        prepare.__signature__ = signature
        return cls(model_name, model, function, _Call(function, {}, prepare))

    def compute(self, tensors: list[tf.Tensor]) -> Sequence[tf.Tensor]:
        """The outputs of the function's graph."""
        function = self.function
        result = function._call_flat(tensors, function.captured_inputs)
        output = function.function_type.output
        return output.to_tensors(result) if output is not None else []


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None) or getattr(function, "name", None)
    name = name.decode() if isinstance(name, bytes) else name or type(function).__name__
    # TensorFlow adds a prefix and a number to the name of a function that it traces.
    return re.sub(r"^__inference_(.+)_\d+$", r"\1", name)


def _like(spec: Any, value: Any, convert: Callable[[Any, tf.TensorSpec], Any]) -> Any:
    """Puts a Keras model's argument into the structure it was built with."""
    import keras

    if isinstance(spec, Mapping) and isinstance(value, Mapping):
        value = {name: value[name] for name in spec if name in value}
    flat, specs = keras.tree.flatten(value), keras.tree.flatten(spec)
    if len(flat) != len(specs):
        raise ValueError(f"the model takes {len(specs)} tensors, not {len(flat)}")
    return keras.tree.pack_sequence_as(
        spec, [convert(one, of) for one, of in zip(flat, specs, strict=True)]
    )


def _faster(
    original: _Original, searcher: Searcher, report: Report, keeps_all: bool
) -> Callable[[list[tf.Tensor]], Sequence[tf.Tensor]] | None:
    """A faster equivalent; None if there is none, and the report says why."""
    name, device = original.name, searcher.cost_model.device.kind
    try:
        frozen = frozen_graphs.freeze_flat(name, original.function, keep_filters=True)
    except frozen_graphs.NoFunctionError as reason:
        report.notes.append(str(reason))
        return None

    def named(compute: Callable[..., Any]) -> Callable[..., dict[str, tf.Tensor]]:
        """A function of flat tensors as one of the names of inputs and outputs."""
        return lambda **inputs: dict(
            zip(
                frozen.outputs,
                compute([inputs[key] for key in frozen.inputs]),
                strict=True,
            )
        )

    # Later changes of the original, such as training, must not change this.
    weights = Weights()
    function = Function.find(
        name,
        named(original.compute),
        weights.copied(frozen),
        list(report.sizes),
        device,
        weights,
    )
    notes.the_rest(report, [function])
    if not function.problems:
        return None

    def rebuild(graph_def: Any) -> Callable[[list[tf.Tensor]], Sequence[tf.Tensor]]:
        try:
            rebuilt = frozen_graphs.rebuild(
                function.frozen, *weights.take(function.frozen, graph_def)
            )
        # TensorFlow raises all kinds of errors for what it cannot import again.
        except Exception as error:
            raise UserError(
                f"TensorFlow cannot make the function {name!r} again: "
                f"{first_line(error)}"
            ) from error

        def compute(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            results = rebuilt._call_flat(tensors, rebuilt.captured_inputs)
            return [results[key] for key in frozen.outputs]

        # Variables live as long as they do; so do tables and others.
        compute.owners = weights, original.owner if frozen.captures else None
        return compute

    # A graph that cannot work fails before the search, not after it.
    sequential = function.rewrite_sequential(device)
    sizes = list(report.sizes)
    function.compare(named(rebuild(sequential)), sequential, sizes, timed=False)
    schedules, stats = searcher.schedule_all(function.problems.values())
    notes.search(report, stats)

    def find(schedules: Mapping[str, Schedule]) -> tuple[Plan, Any, Comparison]:
        plan = Plan.find(function, schedules, searcher, keeps_all)
        graph_def = plan.rewrite(device)
        compute = rebuild(graph_def)
        comparison = function.compare(named(compute), graph_def, sizes, timed=True)
        return plan, compute, comparison

    try:
        plan, compute, comparison = find(schedules)
    except DifferenceError as error:
        if not any(schedule.algorithms for schedule in schedules.values()):
            raise
        notes.too_inexact(report, error)
        plan, compute, comparison = find(computed_directly(schedules))
    if not keeps_all and not (plan.gains and comparison.is_faster()):
        notes.slower(report, comparison)
        return None
    notes.plan(report, plan, schedules)
    notes.comparisons(report, [comparison])
    return compute
