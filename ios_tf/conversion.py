"""convert: a SavedModel in, a faster equal SavedModel out."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf import _native, devices, final_check, graphs, memory, optimizer
from ios_tf.cache import ScheduleCache, default_directory, latency_database
from ios_tf.cost import Measurement, open_database
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.errors import UserError
from ios_tf.graphs import FrozenSignature
from ios_tf.optimizer import Collected
from ios_tf.output import copy_directory, written_directory
from ios_tf.parts import Patterns
from ios_tf.report import Report, SizeReport
from ios_tf.scheduler import STRATEGIES, Problem, Pruning, Schedule
from ios_tf.search import Searcher
from ios_tf.source import saved_model

_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
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
      model: a SavedModel directory, the path of a `.keras` file, `keras:NAME` for a
        network of `keras.applications`, `models:NAME` for one of `ios_tf.models`, or a
        `keras.Model`.
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
      weights: for `keras:NAME`: "imagenet", or None for random ones.
      overwrite: replace `output` if it is a SavedModel.
      progress: show progress on standard error.
      say: gets lines of information about the model.

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
        _convert(source, directory, searcher, signatures, report)
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

    @property
    def problems(self) -> dict[str, Problem]:
        """The blocks of all batch sizes, by signature."""
        return {s: p for c in self.collected.values() for s, p in c.problems.items()}


def _convert(
    source: str,
    directory: str,
    searcher: Searcher,
    wanted: Sequence[str] | None,
    report: Report,
) -> None:
    """Converts the SavedModel `source` into the existing directory `directory`."""
    loaded = graphs.load(source)
    keys = sorted(loaded.signatures)
    for key in wanted or ():
        if key not in keys:
            raise UserError(graphs.no_signature(key, loaded))
    function_of, functions = _functions(
        loaded, wanted or keys, list(report.sizes), searcher.cost_model.device.kind
    )
    converted = [f for f in functions.values() if f.collected]
    _note_the_rest(converted, report)
    problems = {
        signature: problem
        for function in converted
        for signature, problem in function.problems.items()
    }
    if not problems:
        report.notes.append("the model is copied unchanged")
        copy_directory(source, directory)
        return
    schedules, stats = searcher.schedule_all(problems.values())
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
    rewritten = {
        key: _rebuild(function, schedules, searcher, report)
        for key, function in functions.items()
    }
    graphs.save(
        loaded, {name: rewritten[function_of[name]] for name in keys}, directory
    )
    memory.release_unused()
    extra = os.path.join(source, "assets.extra")
    if tf.io.gfile.isdir(extra):
        copy_directory(extra, os.path.join(directory, "assets.extra"))


def _functions(
    loaded: Any, wanted: Sequence[str], batch_sizes: Sequence[int], device: str
) -> tuple[dict[str, int], dict[int, _Function]]:
    """The functions of a model, and the function of each signature."""
    numbers: dict[tuple[Any, ...], int] = {}
    function_of: dict[str, int] = {}
    functions: dict[int, _Function] = {}
    for name, signature in loaded.signatures.items():
        frozen = graphs.freeze(name, signature)
        # Keras exports the same function under two names: work is done once.
        number = numbers.setdefault((name in wanted, *frozen.key()), len(numbers))
        function_of[name] = number
        if number in functions:
            continue
        if name not in wanted:
            functions[number] = _Function(frozen, {})
            continue
        if optimizer.is_converted(frozen):
            raise UserError(
                f"signature {name!r} is converted already; convert the original model"
            )
        folded = optimizer.fold_constants(frozen)
        collected = {
            size: optimizer.collect(folded, size, device) for size in batch_sizes
        }
        functions[number] = _Function(folded, collected)
        _check_batch_sizes(name, functions[number])
    return function_of, functions


def _check_batch_sizes(name: str, function: _Function) -> None:
    """Whether the function is one network, with the batch sizes it is scheduled for."""
    sizes = list(function.collected)
    if len(sizes) == 1 or not function.problems:
        return
    fixed = _fixed_batch_size(function.frozen)
    if fixed:
        raise UserError(
            f"signature {name!r} has the fixed batch size {fixed}: it cannot be "
            f"scheduled for {', '.join(map(str, sizes))}"
        )
    first = function.collected[sizes[0]]
    for size in sizes[1:]:
        if _network(function.collected[size]) != _network(first):
            raise UserError(
                f"signature {name!r} computes another network for batch size {size} "
                f"than for {sizes[0]}: schedule it for one of them"
            )


def _fixed_batch_size(frozen: FrozenSignature) -> int | None:
    """The batch size of a signature whose inputs leave no other."""
    leading = [
        spec.shape[0] if spec.shape.rank else None
        for spec in frozen.inputs.values()
        if spec.shape.rank != 0
    ]
    return leading[0] if leading and None not in leading else None


def _network(collected: Collected) -> list[Any]:
    """The blocks without their batch sizes."""
    blocks = []
    for found in collected.blocks:
        block = collected.problems[found["signature"]].block
        inputs = [shape[1:] for shape in block["inputs"]]
        blocks.append((found["names"], block["operators"], inputs, block["outputs"]))
    return blocks


def _rebuild(
    function: _Function,
    schedules: Mapping[str, Schedule],
    searcher: Searcher,
    report: Report,
) -> Any:
    if not function.problems:
        return graphs.rebuild(function.frozen, function.frozen.graph_def)
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
    return graphs.rebuild(function.frozen, checked.graph_def)


def _note_the_rest(functions: Sequence[_Function], report: Report) -> None:
    """Says in the report what the schedules do not cover."""
    left: collections.Counter[str] = collections.Counter()
    outside = inside = 0
    # They are the same for all batch sizes.
    reports = [next(iter(f.collected.values())).report for f in functions]
    for function, of_function in zip(functions, reports, strict=True):
        left.update(of_function.get("left_to_tensorflow", {}))
        graph_def = function.frozen.graph_def
        outside += _convolutions(graph_def.node)
        inside += sum(_convolutions(f.node_def) for f in graph_def.library.function)
    report.left_to_tensorflow = dict(left)
    report.notes += [
        f"the model has the fixed batch size {fixed}: it is scheduled for that"
        for fixed in {_fixed_batch_size(f.frozen) for f in functions if f.problems}
        if fixed and fixed not in report.sizes
    ]
    if not outside and not inside:
        report.notes.append("the model has no convolution")
        return
    if inside:
        report.notes.append(
            f"{inside} convolutions inside of control flow are left to TensorFlow"
        )
    unscheduled = sum(left[op] for op in _CONVOLUTIONS)
    if unscheduled:
        reasons = collections.Counter(
            refusal["reason"]
            for of_function in reports
            for refusal in of_function.get("refused", ())
        )
        report.notes.append(
            f"{unscheduled} of {outside} convolutions are left to TensorFlow: "
            + ("; ".join(reason for reason, _ in reasons.most_common(3)) or _UNKNOWN)
        )


def _convolutions(nodes: Sequence[Any]) -> int:
    return sum(node.op in _CONVOLUTIONS for node in nodes)
