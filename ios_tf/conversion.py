"""convert: a SavedModel in, a faster equal SavedModel out."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf import _native, devices, final_check, graphs, memory, optimizer
from ios_tf.cache import ScheduleCache, default_directory, latency_database
from ios_tf.comparison import Comparison, Reference
from ios_tf.cost import Measurement, open_database
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.errors import UserError
from ios_tf.functions import (
    CONVOLUTIONS,
    count_convolutions,
    hidden_convolutions,
    other_convolutions,
)
from ios_tf.graphs import FrozenSignature
from ios_tf.optimizer import Collected
from ios_tf.output import copy_directory, written_directory
from ios_tf.parts import Patterns
from ios_tf.report import Report, SizeReport
from ios_tf.scheduler import (
    STRATEGIES,
    Problem,
    Pruning,
    Schedule,
    sequential_schedule,
)
from ios_tf.search import Searcher, SearchStats
from ios_tf.source import first_line, saved_model

_UNKNOWN = "their shapes are unknown, or they are of a kind the engine does not have"


def convert(
    model: Any,
    output: str | os.PathLike[str],
    *,
    batch_size: int | Sequence[int] = 1,
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
    signatures: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    weights: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Report:
    """Converts a model into an equal SavedModel that runs faster with this package.

    The convolutions' schedules (paper, section 4) are found by measuring on this
    machine. Signatures, their input and output names, dtypes and shapes stay as they
    are; a dynamic batch stays dynamic. The result also loads into TensorFlow alone.

    Args:
      model: a SavedModel directory, the path of a `.keras` or `.h5` file, `keras:NAME`
        for a network of `keras.applications`, `models:NAME` for one of
        `ios_tf.models`, or a `keras.Model`.
      output: directory to write; any TensorFlow filesystem path.
      batch_size: the batch size to schedule for, where the model's is dynamic, or
        several: a batch then runs by the schedule of the nearest one, by ratio, the
        smaller of two.
      device: the device to schedule for: "cpu"; "gpu", the first one TensorFlow uses;
        or "auto", the GPU if there is one and the CUDA libraries can be loaded.
      strategy: "both", which may also split batches, "parallel", "merge", "greedy" or
        "sequential".
      max_groups: groups per stage the search considers, the paper's s; 0: any.
      max_group_size: operators per group, the paper's r; 0: any.
      time_limit: seconds after which the searches end with what they have found; 0:
        none.
      units: regular expressions; operators whose names match one, and equally in its
        groups, are scheduled as one operator.
      borders: regular expressions; a block ends with an operator whose name matches.
      cache_dir: where schedules and latencies are kept; by default $IOS_TF_CACHE or
        ~/.cache/ios_tf.
      warmup, number, repeat: a latency is the median of `repeat` measurements of
        `number` runs each, after `warmup` runs; noisy ones are repeated.
      signatures: the signatures to convert; by default all. Others are kept as they
        are.
      tags: of the MetaGraph to convert, where a SavedModel has several.
      weights: for `keras:NAME`: "imagenet", or None for random ones.
      overwrite: replace `output` if it is a SavedModel.
      progress: show progress on standard error.
      say: gets lines of information about the model.

    Before the search, the model is written, loaded and compared with the original with
    sequential schedules; after it, with its own. A model with a signature that changes
    a variable, or without convolutions, is copied.

    Returns:
      What was done.

    Raises:
      UserError: one line that says what is wrong with the input.
      NativeLibraryError: the native library is missing.
    """
    batch_sizes = _batch_sizes(batch_size)
    settings = _settings(
        strategy,
        max_groups,
        max_group_size,
        warmup,
        number,
        repeat,
        time_limit,
    )
    chosen = devices.choose(device, say)
    device_name = _native.device_fingerprint(chosen.engine)
    cache_dir = cache_dir or default_directory()
    output = os.fspath(output)
    report = Report(output, device_name, {size: SizeReport() for size in batch_sizes})
    database = open_database(latency_database(cache_dir), device_name)
    with (
        contextlib.closing(database),
        written_directory(output, overwrite) as directory,
        saved_model(model, weights, say) as source,
    ):
        searcher = Searcher(
            MeasuredCostModel(chosen, settings.measurement),
            strategy,
            settings.pruning,
            ScheduleCache(cache_dir, device_name),
            progress,
            database,
            Patterns(tuple(units), tuple(borders)),
            time_limit,
        )
        _Conversion(source, tags, signatures, searcher, report).run(directory)
    return report


@dataclasses.dataclass(frozen=True)
class _Settings:
    pruning: Pruning
    measurement: Measurement


def _batch_sizes(batch_size: int | Sequence[int]) -> list[int]:
    several = isinstance(batch_size, Sequence) and not isinstance(batch_size, str)
    sizes = list(batch_size) if several else [batch_size]
    for size in sizes or [None]:
        if not isinstance(size, int) or size < 1:
            raise UserError(f"batch_size must be a whole number >= 1, not {size!r}")
        if sizes.count(size) > 1:
            raise UserError(f"batch_size is to name {size} once")
    return sorted(sizes)


def _settings(
    strategy: str,
    max_groups: int,
    max_group_size: int,
    warmup: int,
    number: int,
    repeat: int,
    time_limit: float,
) -> _Settings:
    if strategy not in STRATEGIES:
        raise UserError(f"strategy must be one of {', '.join(STRATEGIES)}")
    if not time_limit >= 0:
        raise UserError(f"time_limit must be at least 0 seconds, not {time_limit!r}")
    try:
        return _Settings(
            Pruning(max_group_size, max_groups), Measurement(warmup, number, repeat)
        )
    except ValueError as error:
        raise UserError(str(error)) from None


@dataclasses.dataclass(frozen=True)
class _Function:
    """One function of the model: several signatures may share it."""

    frozen: FrozenSignature
    collected: Mapping[int, Collected]  # by batch size; empty: it is not converted
    reference: Reference

    @property
    def problems(self) -> dict[str, Problem]:
        """The blocks of all batch sizes, by signature."""
        return {s: p for c in self.collected.values() for s, p in c.problems.items()}


class _Conversion:
    """One SavedModel on its way."""

    def __init__(
        self,
        source: str,
        tags: Sequence[str] | None,
        wanted: Sequence[str] | None,
        searcher: Searcher,
        report: Report,
    ) -> None:
        self._source = source
        self._searcher = searcher
        self._report = report
        self._device = searcher.cost_model.device.kind
        self._loaded = graphs.load(source, tags)
        (self._tags,) = [tags] if tags else graphs.tag_sets(source)
        keys = list(self._loaded.signatures)
        for key in wanted or ():
            if key not in keys:
                raise UserError(graphs.no_signature(key, self._loaded))
        # The function of each signature, and all functions.
        self._function_of: dict[str, int] = {}
        self._functions: dict[int, _Function] = {}
        self._wanted = wanted or keys

    def run(self, directory: str) -> None:
        """Converts the model into a directory that exists."""
        report = self._report
        try:
            self._freeze()
        except graphs.ChangesVariableError as change:
            report.notes.append(
                f"{change}, so it is no constant (a Keras model that was exported in "
                "training mode? export it with training=False)"
            )
            self._copy(directory)
            return
        converted = [f for f in self._functions.values() if f.collected]
        _note_the_rest(converted, report)
        problems = {s: p for f in converted for s, p in f.problems.items()}
        if not problems:
            self._copy(directory)
            return
        self._try()
        schedules, stats = self._searcher.schedule_all(problems.values())
        _note_search(report, stats)
        graph_defs = {
            number: _rewrite(function, schedules, self._searcher, report)
            for number, function in self._functions.items()
        }
        report.comparisons = self._save(graph_defs, directory, timed=list(report.sizes))
        for comparison in report.comparisons:
            report.notes += comparison.notes
            for size in comparison.slower():
                report.notes.append(
                    f"signature {comparison.signature!r} takes longer than the "
                    f"original at batch size {size}: convert it while nothing else "
                    "runs, or keep the original"
                )
        extra = os.path.join(self._source, "assets.extra")
        if tf.io.gfile.isdir(extra):
            copy_directory(extra, os.path.join(directory, "assets.extra"))

    def _copy(self, directory: str) -> None:
        self._report.notes.append("the model is copied unchanged")
        copy_directory(self._source, directory)

    def _freeze(self) -> None:
        """Finds the functions of the model, and their blocks."""
        numbers: dict[tuple[Any, ...], int] = {}
        batch_sizes = list(self._report.sizes)
        for name, signature in self._loaded.signatures.items():
            frozen = graphs.freeze(name, signature)
            # Keras exports the same function under two names: work is done once.
            key = (name in self._wanted, *frozen.key())
            number = numbers.setdefault(key, len(numbers))
            self._function_of[name] = number
            if number in self._functions:
                continue
            collected = {}
            if name in self._wanted:
                if optimizer.is_converted(frozen):
                    raise UserError(
                        f"signature {name!r} is converted already; convert the "
                        "original model"
                    )
                frozen = optimizer.fold_constants(frozen)
                collected = {
                    size: optimizer.collect(frozen, size, self._device)
                    for size in batch_sizes
                }
            reference = Reference(name, signature, frozen, self._device)
            function = _Function(frozen, collected, reference)
            self._functions[number] = function
            _check_batch_sizes(name, function)

    def _try(self) -> None:
        """Writes, loads and runs the model with sequential schedules.

        What cannot work is known before the search, not after it.
        """
        graph_defs = {
            number: final_check.rewrite(
                function.frozen,
                {s: sequential_schedule(p) for s, p in function.problems.items()},
                list(function.collected),
                self._device,
            )
            if function.problems
            else function.frozen.graph_def
            for number, function in self._functions.items()
        }
        with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
            self._save(graph_defs, os.path.join(directory, "model"))

    def _save(
        self,
        graph_defs: Mapping[int, Any],
        directory: str,
        timed: Sequence[int] = (),
    ) -> list[Comparison]:
        """Writes the model with these graphs, loads it, and compares it."""
        try:
            self._write(graph_defs, directory)
            size = sum(graph_def.ByteSize() for graph_def in graph_defs.values())
            memory.release_unused(size)
            written = tf.saved_model.load(directory)
        # Whatever TensorFlow cannot save or load, it says with all kinds of errors.
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"TensorFlow cannot save the model again: {first_line(error)}"
            ) from error
        sizes = list(self._report.sizes)
        another = next(size for size in itertools.count(3) if size not in sizes)
        sizes = [*(sizes if timed else sizes[:1]), another]
        comparisons = []
        for number, function in self._functions.items():
            # What is not converted is not worth a second look.
            if function.problems or not timed:
                reference = function.reference
                fixed = _fixed_batch_size(function)
                comparison = reference.compare(
                    written.signatures[reference.name],
                    graph_defs[number],
                    [fixed] if fixed else sizes,
                    [fixed] if fixed and timed else timed,
                )
                comparisons.append(comparison)
        del written
        memory.release_unused(size)
        return comparisons

    def _write(self, graph_defs: Mapping[int, Any], directory: str) -> None:
        rebuilt = {
            number: graphs.rebuild(function.frozen, graph_defs[number])
            for number, function in self._functions.items()
        }
        signatures = {name: rebuilt[n] for name, n in self._function_of.items()}
        graphs.save(self._loaded, signatures, directory, self._tags)


def _note_search(report: Report, stats: SearchStats) -> None:
    report.different_blocks = stats.blocks
    report.cached_blocks = stats.cached
    report.measurements = stats.measured
    report.reused = stats.reused
    report.bounded = stats.bounded
    report.search_seconds = stats.seconds
    report.notes += [
        f"block {name} is too large to search and cut in {cuts + 1} or more parts; "
        "--max_groups and --max_group_size make searches smaller"
        for name, cuts in stats.cut.items()
    ]
    if stats.stopped:
        unsearched = max(stats.stopped.values())
        report.notes.append(
            f"the searches of {len(stats.stopped)} blocks ended with the time limit: "
            "by what was measured, schedules at most "
            f"{unsearched:.0%} faster may exist; --time_limit gives more time"
            if unsearched < 1
            else f"the searches of {len(stats.stopped)} blocks ended with the time "
            "limit before they had seen all stages; --time_limit gives more time"
        )


def _check_batch_sizes(name: str, function: _Function) -> None:
    """Whether the function is one network, with the batch sizes it is scheduled for."""
    sizes = list(function.collected)
    if len(sizes) == 1 or not function.problems:
        return
    fixed = _fixed_batch_size(function)
    if fixed:
        raise UserError(
            f"signature {name!r} {_describe_fixed(function, fixed)}: it cannot be "
            f"scheduled for {', '.join(map(str, sizes))}"
        )
    first = function.collected[sizes[0]]
    for size in sizes[1:]:
        if _network(function.collected[size]) != _network(first):
            raise UserError(
                f"signature {name!r} computes another network for batch size {size} "
                f"than for {sizes[0]}: schedule it for one of them"
            )


def _fixed_batch_size(function: _Function) -> int | None:
    """How many images the blocks compute, where the inputs leave no other number."""
    inputs = function.frozen.inputs.values()
    if not function.problems or any(
        spec.shape.rank is None or None in spec.shape.as_list()[:1] for spec in inputs
    ):
        return None
    first = next(iter(function.problems.values()))
    return first.block["inputs"][0][0]


def _describe_fixed(function: _Function, fixed: int) -> str:
    leading = {
        spec.shape[0] for spec in function.frozen.inputs.values() if spec.shape.rank
    }
    if leading == {fixed}:
        return f"has the fixed batch size {fixed}"
    # Its inputs have no batch, or one that it takes apart.
    return f"computes {fixed} image{'s' * (fixed > 1)} in every call"


def _network(collected: Collected) -> list[Any]:
    """The blocks without their batch sizes."""
    blocks = []
    for found in collected.blocks:
        block = collected.problems[found["signature"]].block
        inputs = [shape[1:] for shape in block["inputs"]]
        blocks.append((found["names"], block["operators"], inputs, block["outputs"]))
    return blocks


def _rewrite(
    function: _Function,
    schedules: Mapping[str, Schedule],
    searcher: Searcher,
    report: Report,
) -> Any:
    """The graph of a function with its schedules."""
    if not function.problems:
        return function.frozen.graph_def
    checked = final_check.check(
        function.frozen,
        function.collected,
        schedules,
        searcher,
    )
    for batch_size, size in checked.sizes.items():
        if size.fell_back:
            report.notes.append(
                f"the schedules that were found for batch size {batch_size} are no "
                "faster than the sequential ones in the whole network: those are used"
            )
        blocks = function.collected[batch_size].blocks
        of_size = report.sizes[batch_size]
        of_size.sequential_ms += size.sequential_ms
        of_size.scheduled_ms += size.scheduled_ms
        of_size.add(size.schedules[block["signature"]] for block in blocks)
    # They are the same for all batch sizes.
    for block in blocks:
        report.operators += len(block["names"])
        report.blocks += schedules[block["signature"]].metadata["parts"]
    return checked.graph_def


def _note_the_rest(converted: Sequence[_Function], report: Report) -> None:
    """Says in the report what the schedules do not cover."""
    left: collections.Counter[str] = collections.Counter()
    outside = 0
    inside: collections.Counter[str] = collections.Counter()
    # They are the same for all batch sizes.
    reports = [next(iter(f.collected.values())).report for f in converted]
    for function, of_function in zip(converted, reports, strict=True):
        left.update(of_function.get("left_to_tensorflow", {}))
        graph_def = function.frozen.graph_def
        outside += count_convolutions(graph_def.node)
        inside += hidden_convolutions(graph_def)
    report.left_to_tensorflow = dict(left)
    fixed = [(f, _fixed_batch_size(f)) for f in converted]
    report.notes += {
        f"the model {_describe_fixed(function, size)}: it is scheduled for that": None
        for function, size in fixed
        if size and size not in report.sizes
    }
    if not outside and not inside:
        others = set().union(
            *(other_convolutions(f.frozen.graph_def) for f in converted)
        )
        names = f" the engine knows, but {', '.join(sorted(others))}" if others else ""
        report.notes.append(f"the model has no convolution{names}")
        return
    report.notes += [
        f"{count} convolutions inside of {where} are left to TensorFlow"
        for where, count in inside.items()
    ]
    unscheduled = sum(left[op] for op in CONVOLUTIONS)
    if unscheduled:
        refused = [r for of_function in reports for r in of_function.get("refused", ())]
        report.notes.append(
            f"{unscheduled} of {outside} convolutions are left to TensorFlow: "
            + (_reasons(refused) or _UNKNOWN)
        )


def _reasons(refused: Sequence[Mapping[str, str]]) -> str:
    """The most frequent reasons for which nodes were refused, and those nodes."""
    nodes = collections.defaultdict(list)
    for refusal in refused:
        nodes[refusal["reason"]].append(refusal["node"])
    most = sorted(nodes, key=lambda reason: -len(nodes[reason]))[:3]
    return "; ".join(f"{_some(nodes[reason])}: {reason}" for reason in most)


def _some(names: Sequence[str]) -> str:
    """One or two names, and how many more there are."""
    more = len(names) - 2
    return ", ".join(names[:2]) + (f" and {more} more" if more > 0 else "")
