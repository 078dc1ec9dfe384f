"""The network check: compares a network's schedules with sequential schedules.

The search measured each block by itself. In the network, the block's inputs may have
another layout, and the processor's caches may hold other data, so the block's best
schedule may be slow.
This check ensures that a converted model is not slower than with sequential schedules.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ios_tf.cost.cost_model import compare_within_memory
from ios_tf.model import graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.graph_optimizer import Collected
from ios_tf.scheduler import Load, Schedule, Stage, sequential_schedule
from ios_tf.scheduler.problem import batch_size_of
from ios_tf.tuning.searcher import NetworkSearcher

_SHARE = 0.25
# Identifies the schedules of several blocks by their stages and algorithms.
_Choice = tuple[tuple[tuple[Stage, ...], frozenset[tuple[int, str]]], ...]


@dataclasses.dataclass(frozen=True)
class CheckedSize:
    """The measurements at one batch size.

    Attributes:
      schedules: the schedules that are kept, by block signature.
      sequential_ms, scheduled_ms: latencies of all regions together with the sequential
        schedules, and with the kept ones.
      sequential_algorithms_ms: like `sequential_ms`, but with the algorithms of the
        kept schedules; None if this was not measured.
      fell_back: whether the sequential schedules were faster than all others.
    """

    schedules: Mapping[str, Schedule]
    sequential_ms: float
    scheduled_ms: float
    fell_back: bool
    sequential_algorithms_ms: float | None = None


@dataclasses.dataclass(frozen=True)
class Checked:
    """The kept schedules by block signature, and the measurements by batch size."""

    schedules: Mapping[str, Schedule]
    sizes: Mapping[int, CheckedSize]


def check(
    frozen: FrozenSignature,
    collected: Mapping[int, Collected],
    schedules: Mapping[str, Schedule],
    searcher: NetworkSearcher,
) -> Checked:
    """Keeps `schedules`, or other schedules if those are faster.

    Args:
      frozen, collected: the graph, and its blocks by batch size.
      schedules: the schedules of all blocks, by signature. Those of a baseline strategy
        are kept even if they are slower.
      searcher: the searcher that found them; its cost model measures.
    """
    problems = {s: p for c in collected.values() for s, p in c.problems.items()}
    sequential = {s: sequential_schedule(problem) for s, problem in problems.items()}
    found = {signature: schedules[signature] for signature in problems}
    others = searcher.alternatives(problems.values(), found)
    cost_model = searcher.cost_model
    device = cost_model.device.kind
    batch_sizes = list(collected)
    # The check gets only a part of the time limit, because other schedules are seldom
    # faster.
    seconds = _SHARE * searcher.time_limit / len(collected)
    light = frozen.without_weights
    rewritten: dict[_Choice, FrozenSignature] = {}

    def with_schedules(choice: Mapping[str, Schedule]) -> FrozenSignature:
        key = _key(choice, problems)
        if key not in rewritten:
            graph_def = graph_optimizer.rewrite(light, choice, batch_sizes, device)
            rewritten[key] = dataclasses.replace(light, graph_def=graph_def)
        return rewritten[key]

    sizes = {}
    for number, (batch_size, network) in enumerate(collected.items()):
        searcher.progress.update(number / len(collected), f"batch size {batch_size}")
        choices: dict[_Choice, Mapping[str, Schedule]] = {}
        for choice in (sequential, found, *others):
            choices.setdefault(_key(choice, network.problems), choice)
        latencies = compare_within_memory(
            functools.partial(cost_model.compare_programs, seconds=seconds),
            [
                programs(with_schedules(choice), batch_size, device)
                for choice in choices.values()
            ],
            cost_model.release,
        )
        if latencies[0] == math.inf:  # the sequential schedules could not be measured
            latencies = [0.0] * len(latencies)
        cost_model.release()
        measured = list(zip(choices.values(), latencies, strict=False))
        if not searcher.searches:
            best, best_ms = measured[-1]
        else:
            best, best_ms = min(measured, key=lambda one: one[1])
        if best_ms:
            searcher.progress.best(latencies[0] / best_ms, "sequential")
        sizes[batch_size] = CheckedSize(
            {signature: best[signature] for signature in network.problems},
            latencies[0],
            best_ms,
            best is sequential and len(measured) > 1,
            _sequential_ms(measured, sequential, best, network.problems),
        )
    kept = {s: k for size in sizes.values() for s, k in size.schedules.items()}
    return Checked(kept, sizes)


def _sequential_ms(
    measured: Iterable[tuple[Mapping[str, Schedule], float]],
    sequential: Mapping[str, Schedule],
    best: Mapping[str, Schedule],
    signatures: Iterable[str],
) -> float | None:
    """The latency of the sequential stages with the algorithms of `best`, if known."""
    names = list(signatures)
    wanted = {
        name: dataclasses.replace(sequential[name], algorithms=best[name].algorithms)
        for name in names
    }
    key = _key(wanted, names)
    return next((ms for choice, ms in measured if _key(choice, names) == key), None)


def _key(choice: Mapping[str, Schedule], signatures: Iterable[str]) -> _Choice:
    of_blocks = [choice[signature] for signature in signatures]
    return tuple((s.stages, frozenset(s.algorithms.items())) for s in of_blocks)


def programs(
    frozen: FrozenSignature, batch_size: int, device: str
) -> list[dict[str, Any]]:
    """Returns "block" and "schedule" of every region for a load of the graph."""
    programs = []
    callers = Load.of(batch_size).callers
    for program in graph_optimizer.lowered_programs(frozen, int(batch_size), device):
        # The batch size of a region may differ from that of the graph, because not
        # every tensor has one entry per image.
        block = {**program["block"], "callers": callers}
        size = batch_size_of(block)
        (schedule,) = (
            entry["schedule"]
            for entry in program["schedules"]
            if (entry["batch_size"], entry["callers"]) == (size, callers)
        )
        programs.append({"block": block, "schedule": schedule})
    return programs
