"""A model's blocks: numbers of their schedules, and latencies by strategy."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import math
import os
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.experiments.experiment import layer_name
from benchmarks.offline_cost_model import OfflineCostModel
from benchmarks.schedule_counts import Complexity, complexity
from benchmarks.simulated_gpu import DEVICES, SimulatedCostModel
from ios_tf.cli import arguments
from ios_tf.cost.database import open_database
from ios_tf.errors import UserError
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.model.loading import keras_model_of, saved_model, traced
from ios_tf.options import BenchOptions, ConvertOptions
from ios_tf.scheduler import (
    STRATEGIES,
    BlockTooLargeError,
    CostModel,
    Problem,
    Pruning,
    SearchOptions,
    make_units,
    search,
)
from ios_tf.scheduler.state_space import MAX_TRANSITIONS
from ios_tf.tables import table
from ios_tf.tuning.cache import directory_of, latency_database
from ios_tf.tuning.parts import DEFAULT_PATTERNS, Patterns, parts_of

SIMULATED_PREFIX = "simulated:"
MEASURED_PREFIX = "measured:"


@dataclasses.dataclass(frozen=True)
class Blocks:
    """The blocks of one signature of a model.

    Attributes:
      problems: distinct blocks, in the graph's order.
      counts: signature of a block -> number of such blocks.
      notes: remarks for the user, one line each.
      pruning, patterns: the limits and the units of the search.
    """

    problems: Sequence[Problem]
    counts: collections.Counter[str]
    notes: Sequence[str]
    pruning: Pruning
    patterns: Patterns


def _frozen(
    model: Any,
    signature: str | None,
    log: Callable[[str], None],
    tags: Sequence[str] | None,
    calibrated: bool,
) -> frozen_graphs.FrozenSignature:
    keras_model = None
    if not signature:
        keras_model = keras_model_of(model, log=log, calibrated=calibrated)
    if keras_model is not None:
        function, _ = traced(keras_model)
        return frozen_graphs.freeze_flat(keras_model.name, function, keep_filters=True)
    with saved_model(model, log=log) as source:
        loaded = saved_models.load(source, tags)
        name = saved_models.choose_signature(signature, loaded)
        frozen = frozen_graphs.freeze(name, loaded.signatures[name], keep_filters=True)
    if graph_optimizer.is_converted(frozen):
        raise UserError(
            f"signature {name!r} of the model is already converted. Name the original "
            "model"
        )
    return frozen


def blocks_of(
    model: Any,
    batch_size: int,
    pruning: Pruning,
    patterns: Patterns = DEFAULT_PATTERNS,
    signature: str | None = None,
    log: Callable[[str], None] = lambda line: None,
    tags: Sequence[str] | None = None,
    count_only: bool = False,
) -> Blocks:
    """Returns the blocks that `ios_tf.convert` would search; it has the same arguments.

    With `count_only` (for `complexity_table`), blocks that are too large to search are
    not cut, and batch norms of `models:NAME` keep their initial statistics.

    Raises:
      UserError: as for `ios_tf.convert`.
    """
    limit = {"max_transitions": None} if count_only else {}
    frozen = _frozen(model, signature, log, tags, not count_only)
    collected = graph_optimizer.collect(
        graph_optimizer.fold_constants(frozen), batch_size
    )
    counts: collections.Counter[str] = collections.Counter()
    problems: dict[str, Problem] = {}
    notes = []
    for block in collected.blocks:
        problem = collected.problems[block["signature"]]
        parts, forced = parts_of(problem, pruning, patterns, **limit)
        if forced:
            notes.append(_too_large(problem, "search", forced))
        for part in parts:
            counts[part.problem.signature] += 1
            problems.setdefault(part.problem.signature, part.problem)
    if not problems:
        raise UserError(f"{model} has no blocks to schedule")
    return Blocks(list(problems.values()), counts, notes, pruning, patterns)


def add_block_options(
    parser: argparse.ArgumentParser, max_groups: int, max_group_size: int
) -> None:
    """Adds the options that choose a model and its blocks."""
    arguments.add_model(parser)
    arguments.add_options(
        parser,
        ConvertOptions,
        *("max_groups", "max_group_size", "group_patterns", "block_end_patterns"),
        max_groups=max_groups,
        max_group_size=max_group_size,
    )
    arguments.add_options(parser, BenchOptions, "batch_size", "signature")


def blocks_of_options(
    options: argparse.Namespace, single_source: bool = False, count_only: bool = False
) -> Blocks:
    """Returns the blocks that `add_block_options` selects.

    `single_source` is as for `Pruning`, and `count_only` as for `blocks_of`.
    """
    return blocks_of(
        options.model,
        options.batch_size,
        Pruning(options.max_group_size, options.max_groups, single_source),
        Patterns(
            tuple(options.group_patterns or ()), tuple(options.block_end_patterns or ())
        ),
        options.signature,
        print,
        options.tags,
        count_only,
    )


# The names of `columns`.
COLUMNS = ("n", "d", "states", "bound", "transitions", "schedules")


def count(
    blocks: Blocks,
) -> tuple[list[tuple[Problem, int, Complexity]], list[str]]:
    """Counts the schedules of all blocks.

    Blocks with too many transitions to count are cut as for a search.

    Returns:
      Each distinct block with the number of its occurrences and its counts, and notes
      for the user.
    """
    counted = []
    notes = list(blocks.notes)
    waiting = [
        (problem, blocks.counts[problem.signature]) for problem in blocks.problems
    ]
    while waiting:
        problem, times = waiting.pop(0)
        units = make_units(problem, blocks.patterns.units_of(problem))
        try:
            counts = complexity(units.contracted, blocks.pruning)
        except BlockTooLargeError:
            parts, forced = parts_of(
                problem, blocks.pruning, blocks.patterns, MAX_TRANSITIONS
            )
            notes.append(_too_large(problem, "count", forced))
            waiting[:0] = [(part.problem, times) for part in parts]
            continue
        counted.append((problem, times, counts))
    return counted, notes


def complexity_table(blocks: Blocks) -> str:
    """Returns the result of `count` as a table, with the largest block last."""
    counted, notes = count(blocks)
    rows = [(_label(problem, n), *columns(counts)) for problem, n, counts in counted]
    problem, _, counts = max(counted, key=lambda each: each[2].transitions)
    rows.append((f"largest: {layer_name(problem.names[0])}", *columns(counts)))
    lines = [table(("block", *COLUMNS), rows), *(f"note: {n}" for n in notes)]
    return "\n".join(lines)


def latency_table(
    blocks: Blocks, cost_model: CostModel, strategies: Sequence[str]
) -> str:
    """Returns all blocks' latencies in ms by strategy, as sums over their stages."""
    ordered = [s for s in reversed(STRATEGIES) if s in strategies]
    totals = dict.fromkeys(ordered, 0.0)
    rows = []
    for problem in blocks.problems:
        latencies = {}
        units = blocks.patterns.units_of(problem)
        for strategy in ordered:
            options = SearchOptions(strategy, blocks.pruning, units)
            try:
                latencies[strategy] = search(problem, cost_model, options).latency_ms
            except LookupError:  # a stage has not been measured
                latencies[strategy] = math.nan
            count = blocks.counts[problem.signature]
            totals[strategy] += latencies[strategy] * count
        rows.append((_label(problem, count), *map(_ms, latencies.values())))
    rows.append(("all", *map(_ms, totals.values())))
    first = totals[ordered[0]]
    ratios = [f"{ms / first:.3f}" for ms in totals.values()]
    rows.append((f"/ {ordered[0]}", *("?" if r == "nan" else r for r in ratios)))
    return "\n".join(
        [table(("block", *ordered), rows), *(f"note: {n}" for n in blocks.notes)]
    )


def cost_model_of(device: str, cache_dir: str | None = None) -> CostModel:
    """Returns the cost model of a device that this machine may lack.

    Args:
      device: "simulated:NAME", one of `benchmarks.simulated_gpu.DEVICES`, or
        "measured:NAME", the fingerprint of a device in the latency database.
      cache_dir: directory of the latency database, as for `ios_tf.convert`.

    Raises:
      UserError: the device is unknown.
    """
    path = latency_database(directory_of(cache_dir))
    known = [SIMULATED_PREFIX + name for name in DEVICES]
    known += [MEASURED_PREFIX + name for name in _measured_devices(path)]
    if device not in known:
        raise UserError(
            f"there is no device {device!r}. The devices are {', '.join(known)}"
        )
    kind, _, name = device.partition(":")
    if f"{kind}:" == SIMULATED_PREFIX:
        return SimulatedCostModel(DEVICES[name])
    return OfflineCostModel(open_database(path, name))


def _measured_devices(path: str) -> list[str]:
    """The fingerprints of the devices in a latency database, if it exists."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii", errors="replace") as file:
        lines = [line.split(" ") for line in file]
    names = dict.fromkeys(line[1] for line in lines if len(line) == 7)
    return [urllib.parse.unquote(name) for name in names]


def _ms(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.4f}"


def columns(counted: Complexity) -> tuple[str, ...]:
    """Returns table cells for the counts of a block."""
    return (
        str(counted.operators),
        str(counted.width),
        str(counted.states),
        _number(counted.bound),
        str(counted.transitions),
        _number(counted.schedules),
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value < 1e6 else f"{value:.1e}"


def _too_large(problem: Problem, for_one: str, cuts: int) -> str:
    return (
        f"block {problem.name} is too large for one {for_one}, so it was cut at "
        f"{cuts} more positions than usual"
    )


def _label(problem: Problem, count: int) -> str:
    return layer_name(problem.names[0]) + (f" x{count}" if count > 1 else "")
