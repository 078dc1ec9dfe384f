"""convert: turns a model into an equivalent SavedModel that runs faster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from ios_tf import validation
from ios_tf.conversion import notes, phases
from ios_tf.conversion.comparison import Comparison, DifferenceError
from ios_tf.conversion.error_budget import (
    Choice,
    in_float32,
    is_float32,
    requested_precision,
    within_budget,
)
from ios_tf.conversion.measuring import (
    empty_report,
    keeps_all,
    loads_of,
    searcher_for,
)
from ios_tf.conversion.networks import with_networks
from ios_tf.conversion.planning import (
    Function,
    Plan,
    computed_directly,
    drop_extra_batch_sizes,
    of_signature,
)
from ios_tf.conversion.report import Report
from ios_tf.conversion.report_document import name_of
from ios_tf.conversion.samples import (
    Samples,
    samples_of,
    use_samples,
    warmup_samples,
)
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
    copy_directory,
    written_directory,
)
from ios_tf.model.temp_dirs import step_directory
from ios_tf.model.weights import Weights
from ios_tf.native import malloc
from ios_tf.native.graph import FLOAT32, Precision
from ios_tf.options import ConvertOptions, with_options
from ios_tf.reasons import Decision
from ios_tf.reasons.models import COPIED
from ios_tf.report.document import write as write_report
from ios_tf.scheduler import Schedule
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
            precision = requested_precision(options, searcher.cost_model.device)
            conversion = _Conversion(source, samples, searcher, options, precision)
            report = empty_report(options, searcher, output, name_of(model))
            report = conversion.run(directory, report)
        named = model if isinstance(model, (str, os.PathLike)) else "MODEL"
        command = f"ios_tf convert {named} {output} --again"
        report = notes.load(report, load[0], command)
        report = notes.sizes(report, source, directory)
        write_report(report.to_json(), directory)
        return report


class _Conversion:
    """The conversion of one SavedModel."""

    def __init__(
        self,
        source: str,
        samples: Samples | None,
        searcher: NetworkSearcher,
        options: ConvertOptions,
        precision: Precision,
    ) -> None:
        tags, wanted = options.tags, options.signatures
        self._keeps_all = keeps_all(options)
        self._samples = samples
        self._warmup = warmup_samples(source)
        self._batch_sizes = loads_of(options)
        self._image_size = options.height_and_width
        self._weights = Weights()
        self._source = source
        self._searcher = searcher
        self._precision = precision
        self._device = searcher.cost_model.device.kind
        self._progress = searcher.progress
        with self._progress.phase(phases.LOAD):
            self._loaded = saved_models.load(source, tags)
        self._interface = saved_models.interface(source, tags)
        keys = list(self._loaded.signatures)
        for key in wanted or ():
            if key not in keys:
                raise UserError(saved_models.no_signature(key, self._loaded))
        # Maps each signature's name to the number of its function, and numbers to
        # functions.
        self._function_of: dict[str, int] = {}
        self._functions: dict[int, Function] = {}
        self._wanted = wanted or keys

    def run(self, directory: str, report: Report) -> Report:
        """Writes the converted model, or a copy of the original, into a directory.

        Args:
          directory: an existing directory.
          report: the report to complete.

        Returns:
          The completed report.
        """
        try:
            with self._progress.phase(phases.FIND_BLOCKS):
                self._freeze()
            others = [one for one in self._function_of if one not in self._wanted]
            report = notes.not_requested(report, others)
            report = notes.unsupported_nodes(report, self._with_blocks())
            return self._converted(directory, report)
        except NotConvertedError as error:
            tf.io.gfile.rmtree(directory)  # may hold the model written for comparison
            return self._copied(directory, report.with_decisions(error.decision))

    def _converted(self, directory: str, report: Report) -> Report:
        """Does the work of `run`; raises NotConvertedError if a copy is needed."""
        if not any(function.problems for function in self._with_blocks()):
            return self._copied(directory, report)
        with self._progress.phase(phases.TRY):
            self._try()
            exact = dict(self._functions)
            choices = self._choose_precision()
        try:
            functions = self._with_blocks()
            narrow = notes.precisions(report, choices, functions)
            report = self._searched(directory, narrow)
        except DifferenceError as error:
            if self._functions == exact:
                raise
            tf.io.gfile.rmtree(directory)
            self._functions = exact
            choices = [in_float32(choice, error) for choice in choices]
            report = notes.precisions(report, choices, ())
            report = self._searched(directory, report)
        if not report.comparisons:
            return self._copied(directory, report)
        report = notes.lost_functions(report, self._loaded.lost)
        extra = os.path.join(self._source, "assets.extra")
        if tf.io.gfile.isdir(extra):
            copy_directory(extra, os.path.join(directory, "assets.extra"))
        return report

    def _choose_precision(self) -> list[Choice]:
        """Lets operators compute in the requested precision if it is exact enough."""
        if self._precision == FLOAT32:
            return []
        choices = []
        for number, function in self._functions.items():
            if not is_float32(function):
                continue
            self._functions[number], choice = within_budget(
                function,
                self._precision,
                self._batch_sizes,
                self._searcher,
                self._keeps_all,
            )
            choices.append(choice)
        return choices

    def _searched(self, directory: str, report: Report) -> Report:
        """Searches for schedules and writes the model (see `_finished`)."""
        functions = self._with_blocks()
        problems = {s: p for f in functions for s, p in f.problems.items()}
        with self._progress.phase(phases.SEARCH, measures=True):
            schedules, stats = self._searcher.schedule_all(problems.values())
        report = notes.search(report, stats)
        try:
            return self._finished(schedules, directory, report)
        except DifferenceError as error:
            if not any(schedule.algorithms for schedule in schedules.values()):
                raise
            tf.io.gfile.rmtree(directory)
            report = notes.rejected_algorithms(report, error)
            return self._finished(computed_directly(schedules), directory, report)

    def _finished(
        self, schedules: Mapping[str, Schedule], directory: str, report: Report
    ) -> Report:
        """Writes the model.

        A function that becomes faster gets these schedules. Other functions keep their
        original graphs.

        If no function becomes faster, the returned report has no comparisons.
        """
        with self._progress.phase(phases.CHECK, measures=True):
            plans = {
                number: Plan.find(function, schedules, self._searcher, self._keeps_all)
                for number, function in self._functions.items()
                if function.problems
            }
        with self._progress.phase(phases.COMPARE, measures=True):
            kept, lost = self._save_faster(plans, directory)
        with self._progress.phase(phases.MEASURE, measures=True):
            report = with_networks(report, list(plans.values()), self._searcher)
        for number, comparison in (kept | lost).items():
            if not self._keeps_all:
                report = notes.undecided(report, plans[number], comparison)
        for number, comparison in lost.items():
            report = notes.slower(report, plans[number], comparison)
        for number in kept:
            report = notes.plan(report, plans[number], schedules)
        return notes.comparisons(report, list(kept.values()))

    def _save_faster(
        self, plans: Mapping[int, Plan], directory: str
    ) -> tuple[dict[int, Comparison], dict[int, Comparison | None]]:
        """Writes the model with those plans that make their functions faster.

        Returns:
          The comparisons of the kept plans, and those of the rejected plans, by
          function. The comparison is None for a plan that leaves all regions to
          TensorFlow.
        """
        kept = {n: plan for n, plan in plans.items() if plan.gains}
        merged = set(kept)
        lost: dict[int, Comparison | None] = dict.fromkeys(plans.keys() - kept.keys())
        graph_defs = {n: f.frozen.graph_def for n, f in self._functions.items()}
        graph_defs |= {n: plan.rewrite(self._device) for n, plan in kept.items()}
        # The model is compared again after each change. The loop ends, because each
        # function changes at most twice: first it loses its merged convolutions, and
        # then all of its regions.
        while kept:
            comparisons = self._save(graph_defs, directory, timed=kept)
            changed = False
            for number, comparison in comparisons.items():
                plan = plans[number]
                if comparison.converted_ratios:
                    ratios = comparison.converted_ratios.values()
                    best = max(ratio.estimate for ratio in ratios)
                    self._progress.best(best, "TensorFlow")
                if self._keeps_all:
                    continue
                if not plan.is_faster(comparison):
                    changed = True
                    lost[number] = comparison
                    del kept[number]
                    graph_defs[number] = plan.function.frozen.graph_def
                elif number in merged and comparison.slower_in_tensorflow():
                    # A merged convolution may be faster on the engine but slower in
                    # TensorFlow. The engine then merges instead, and the graph keeps
                    # the separate convolutions.
                    merged.remove(number)
                    before = graph_defs[number]
                    graph_defs[number] = plan.rewrite(
                        self._device, materialise_merges=False
                    )
                    changed |= graph_defs[number] != before
            if not changed:
                return comparisons, lost
            tf.io.gfile.rmtree(directory)
        return {}, lost

    def _with_blocks(self) -> list[Function]:
        return [f for f in self._functions.values() if f.collected]

    def _copied(self, directory: str, report: Report) -> Report:
        copy_directory(self._source, directory)
        return report.with_decisions(Decision(COPIED, "the model is copied unchanged"))

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

    def _try(self) -> None:
        """Writes, loads and runs the model with sequential schedules.

        If the model cannot be converted, this fails before the search instead of after
        it.
        """
        graph_defs = {
            number: function.rewrite_sequential(self._device)
            for number, function in self._functions.items()
        }
        with step_directory() as directory:
            self._save(graph_defs, os.path.join(directory, "model"))

    def _save(
        self,
        graph_defs: Mapping[int, Any],
        directory: str,
        timed: Collection[int] = (),
    ) -> dict[int, Comparison]:
        """Writes the model with these graphs, loads it, and compares its functions.

        `timed`: the numbers of the functions to compare and time. If it is empty, all
        functions are compared and none is timed.
        """
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
        for function in self._functions.values():
            if function.collected:
                name = function.reference.name
                signature = self._loaded.signatures[name]
                with of_signature(name):
                    graph_optimizer.check_folding(frozen_graphs.freeze(name, signature))

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
        saved_models.save(
            self._loaded, signatures, directory, self._interface, weights.variables
        )
