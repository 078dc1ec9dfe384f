"""Predicts latencies of networks on simulated devices."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence

import numpy as np

from benchmarks.network import Network
from benchmarks.simulated_gpu import SimulatedCostModel, SimulatedDevice
from ios_tf.scheduler import (
    PAPER_PRUNING,
    Problem,
    Schedule,
    SearchOptions,
    search,
)
from ios_tf.tuning.parts import DEFAULT_PATTERNS, parts_of


class SearchParts:
    """The parts of a network that are searched, and how often each part occurs."""

    def __init__(self, network: Network) -> None:
        problems: dict[str, Problem] = {}
        counts: collections.Counter[str] = collections.Counter()
        for region in network.regions:
            for block in region.parts:
                parts, _ = parts_of(network.problems[block.signature], PAPER_PRUNING)
                for part in parts:
                    problems.setdefault(part.problem.signature, part.problem)
                    counts[part.problem.signature] += 1
        self._problems = list(problems.values())
        self._counts = list(counts.values())

    def schedules(self, device: SimulatedDevice, strategy: str) -> list[Schedule]:
        """Returns the best schedule of each part."""
        model = SimulatedCostModel(device)
        return [
            search(
                problem,
                model,
                SearchOptions(
                    strategy, PAPER_PRUNING, units=DEFAULT_PATTERNS.units_of(problem)
                ),
            ).schedule
            for problem in self._problems
        ]

    def latency_ms(
        self, device: SimulatedDevice, schedules: Sequence[Schedule]
    ) -> float:
        """Returns the network's ms by schedules of its parts."""
        model = SimulatedCostModel(device)
        return math.fsum(
            count * model.stage_latency(problem, stage)
            for problem, count, schedule in zip(
                self._problems, self._counts, schedules, strict=True
            )
            for stage in schedule.stages
        )


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Returns Spearman's rank correlation; equal values have their mean rank.

    The result is NaN if all values of `a` or of `b` are equal.
    """

    def ranks(values: Sequence[float]) -> np.ndarray:
        array = np.asarray(values)
        less = (array[:, None] > array).sum(axis=1)
        equal = (array[:, None] == array).sum(axis=1)
        return less + (equal - 1) / 2

    if len(set(a)) == 1 or len(set(b)) == 1:
        return math.nan
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])
