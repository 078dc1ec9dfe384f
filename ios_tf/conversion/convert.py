"""convert: turns a model into an equivalent SavedModel that runs faster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from ios_tf import validation
from ios_tf.conversion import notes, phases
from ios_tf.conversion.comparison import Comparison
from ios_tf.conversion.measuring import empty_report, searcher_for
from ios_tf.conversion.planning import Function, drop_extra_batch_sizes, of_signature
from ios_tf.conversion.report import Report
from ios_tf.conversion.report_document import name_of
from ios_tf.conversion.samples import Samples, samples_of, use_samples, warmup_samples
from ios_tf.conversion.steps import Conversion
from ios_tf.cost.samples import RECORDER
from ios_tf.errors import UserError, first_line
from ios_tf.model import (
    assigned_variables,
    frozen_graphs,
    graph_optimizer,
    saved_models,
)
from ios_tf.model.captured_variables import large_bytes
from ios_tf.model.loading import saved_model
from ios_tf.model.not_converted import NotConvertedError
from ios_tf.model.outputs import (
    check_apart,
    clear_directory,
    copy_directory,
    written_directory,
)
from ios_tf.model.temp_dirs import step_directory
from ios_tf.native import malloc
from ios_tf.options import ConvertOptions, with_options
from ios_tf.reasons import Decision, Reason
from ios_tf.report.document import write as write_report
from ios_tf.tuning.searcher import NetworkSearcher


@with_options(ConvertOptions)
def convert(
    model: Any, output: str | os.PathLike[str], options: ConvertOptions
) -> Report:
    """Converts a model into an equivalent SavedModel that this package runs faster.

    The search for schedules (paper, section 4) measures on this machine. Signatures
    keep their input and output names, dtypes and shapes. If the batch size is dynamic,
    it stays dynamic. The result also loads into TensorFlow without this package.

    Args:
      model: a SavedModel directory, the path of a `.keras` or `.h5` file, `keras:NAME`
        for a network of `keras.applications`, `models:NAME` for one of
        `ios_tf.models`, or a `keras.Model`.
      output: directory to write; any TensorFlow filesystem path.
      {options}

    The model is written, loaded and compared with the original twice: before the search
    with sequential schedules, and after the search with the best schedules. Each
    region, and then the whole model, is timed in turn with TensorFlow. A region or
    model that is not at least 1 % faster is left to TensorFlow.

    The model is copied if it has no convolutions or gains nothing. It is also copied if
    a signature assigns a variable, or if TensorFlow's own optimizers fail for a
    signature or change its outputs.

    Returns:
      A report of what was done.

    Raises:
      UserError: one line that says what is wrong with the input.
      NativeLibraryError: the native library is missing.

    Examples:
      >>> report = ios_tf.convert(model, "converted", batch_size=(1, 8))
      >>> report.verdict in ("converted", "copied", "undecided")
      True
      >>> loaded = tf.saved_model.load("converted")
      >>> serve = loaded.signatures["serving_default"]
      >>> serve(images=tf.constant(images))["output_0"].shape
      TensorShape([8, 5])
    """
    output = validation.path("output", output)
    if isinstance(model, (str, os.PathLike)) and os.path.exists(model):
        check_apart(os.fspath(model), output)
    samples = samples_of(options.samples)
    with (
        searcher_for(options) as searcher,
        written_directory(output, options.overwrite or options.again) as directory,
        contextlib.ExitStack() as stack,
    ):
        with searcher.progress.phase(phases.READ):
            exported = saved_model(model, options.weights, options.log)
            source = stack.enter_context(exported)
        with RECORDER.watched() as load:
            conversion = _Conversion(source, directory, samples, searcher, options)
            report = conversion.run(
                empty_report(options, searcher, output, name_of(model))
            )
        named = model if isinstance(model, (str, os.PathLike)) else "MODEL"
        command = f"ios_tf convert {named} {output} --again"
        report = notes.load(report, load[0], command)
        report = notes.sizes(report, source, directory)
        write_report(report.to_json(), directory)
        return report


class _Conversion(Conversion):
    """The conversion of one SavedModel.

    Args:
      source: the directory of the model.
      directory: an existing directory, to which `run` writes the result.
      samples: real inputs, if the user has given some.
    """

    def __init__(
        self,
        source: str,
        directory: str,
        samples: Samples | None,
        searcher: NetworkSearcher,
        options: ConvertOptions,
    ) -> None:
        super().__init__(searcher, options)
        self._samples = samples
        self._warmup = warmup_samples(source)
        self._image_size = options.height_and_width
        self._source = source
        self._directory = directory
        with self._progress.phase(phases.LOAD):
            self._loaded = saved_models.load(source, options.tags)
        keys = list(self._loaded.signatures)
        for key in options.signatures or ():
            if key not in keys:
                raise UserError(saved_models.no_signature(key, self._loaded))
        # Maps each signature's name to the number of its function.
        self._function_of: dict[str, int] = {}
        self._wanted = options.signatures or keys

    def run(self, report: Report) -> Report:
        """Writes the converted model, or a copy of the original.

        `report`: the report to complete.
        """
        try:
            with self._progress.phase(phases.FIND_BLOCKS):
                self._freeze()
            others = [one for one in self._function_of if one not in self._wanted]
            report = notes.not_requested(report, others)
            report = notes.unsupported_nodes(report, self._with_blocks())
            report = self._converted(report)
        except NotConvertedError as error:
            self._discard()  # the model may be written for a comparison
            report = report.with_decisions(error.decision)
        if not report.comparisons:
            copy_directory(self._source, self._directory)
            text = "the model is copied unchanged"
            return report.with_decisions(Decision(Reason.COPIED, text))
        extra = os.path.join(self._source, "assets.extra")
        if tf.io.gfile.isdir(extra):
            copy_directory(extra, os.path.join(self._directory, "assets.extra"))
        return notes.lost_functions(report, self._loaded.lost)

    def _discard(self) -> None:
        clear_directory(self._directory)

    def _freeze(self) -> None:
        """Finds the functions of the model, and the blocks of each function."""
        numbers: dict[tuple[Any, ...], int] = {}
        for name, signature in self._loaded.signatures.items():
            frozen = frozen_graphs.freeze(name, signature, keep_filters=True)
            # Equal functions are converted only once, because Keras exports a function
            # under two names.
            key = (name in self._wanted, *frozen.key())
            number = numbers.setdefault(key, len(numbers))
            self._function_of[name] = number
            if number in self._functions:
                continue
            self._functions[number] = Function.find(
                name,
                signature,
                frozen,
                self._batch_sizes if name in self._wanted and frozen.outputs else [],
                self._image_size,
                self._device,
                self._weights,
            )
        by_name = {n: self._functions[k].frozen for n, k in self._function_of.items()}
        assigned_variables.check_others(self._loaded.signatures, by_name)
        self._functions = drop_extra_batch_sizes(self._functions)
        used = [function.reference.use_samples for function in self._with_blocks()]
        use_samples(used, self._samples, self._warmup)

    def _compare(
        self, graph_defs: Mapping[int, Any], timed: Collection[int] = ()
    ) -> dict[int, Comparison]:
        """Writes the model with these graphs, loads it, and compares its functions."""
        if timed:
            return self._compare_in(self._directory, graph_defs, timed)
        with step_directory() as directory:
            path = os.path.join(directory, "model")
            return self._compare_in(path, graph_defs, timed)

    def _compare_in(
        self, directory: str, graph_defs: Mapping[int, Any], timed: Collection[int]
    ) -> dict[int, Comparison]:
        try:
            self._write(graph_defs, directory)
            size = sum(graph_def.ByteSize() for graph_def in graph_defs.values())
            size += self._weights.nbytes + self._table_bytes()
            malloc.release_unused(size)
            self._progress.update(0.2, "save")
            written = tf.saved_model.load(directory)
            self._progress.update(0.4, "compare")
        # TensorFlow raises many kinds of errors for models that it cannot save or load.
        except UserError:
            raise
        except Exception as error:
            self._check_folding()  # raises if TensorFlow is at fault
            raise UserError(
                "TensorFlow cannot save and load the converted model: "
                f"{first_line(error)}"
            ) from error
        comparisons = {
            number: function.compare(
                written.signatures[function.reference.name],
                graph_defs[number],
                self._batch_sizes,
                timed=bool(timed),
                portable=True,
            )
            for number, function in self._functions.items()
            if (number in timed or not timed) and function.frozen.outputs
        }
        del written
        malloc.release_unused(size)
        return comparisons

    def _table_bytes(self) -> int:
        """The bytes of the original's large variables, which the result shares."""
        captures = {
            str(id(tensor)): tensor
            for function in self._functions.values()
            for tensor in function.frozen.captures.values()
        }
        return large_bytes(captures)

    def _check_folding(self) -> None:
        for function in self._with_blocks():
            name = function.reference.name
            with of_signature(name):
                graph_optimizer.check_folding(
                    frozen_graphs.freeze(name, self._loaded.signatures[name])
                )

    def _write(self, graph_defs: Mapping[int, Any], directory: str) -> None:
        weights = self._weights
        for function in self._functions.values():
            assigned_variables.restore(function.frozen)
        rebuilt = {
            number: frozen_graphs.rebuild(
                function.frozen, *weights.take(function.frozen, graph_defs[number])
            )
            for number, function in self._functions.items()
        }
        signatures = {name: rebuilt[n] for name, n in self._function_of.items()}
        saved_models.save(self._loaded, signatures, directory, weights.variables)
