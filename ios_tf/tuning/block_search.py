"""Searches the stages of one block: dynamic program, near ties, final check."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import BlockCostModel, compare_within_memory
from ios_tf.scheduler import (
    BASELINES,
    Bounds,
    Problem,
    Schedule,
    SearchOptions,
    Stage,
    greedy_schedule,
    search,
    sequential_schedule,
    split_schedules,
)
from ios_tf.tuning.settings import SearchSettings

# A schedule must take less than this fraction of the sequential schedule's latency. The
# margin is needed because, of several equally fast schedules, the one that is measured
# as the fastest always looks faster than it is.
_WORTHWHILE = 0.98


@dataclasses.dataclass
class SearchStats:
    """The effort of a model's searches.

    Attributes:
      blocks: number of different parts; each is scheduled by one dynamic program.
      cached: number of these parts whose schedule was in the cache.
      cut: maps names of blocks to the number of cuts that were made only because a part
          was too large to search.
      stopped: maps the signature of each block whose search was stopped to the fraction
        by which another schedule could be faster than the best one so far.
      too_large: names of blocks for which the free memory was too small to measure
        everything.
      measured: number of stages, groups and schedules that were measured.
      reused: number of stages and groups that had been measured before.
      bounded: number of candidates that were not measured, because lower bounds of
          their latencies show that they are not the fastest.
      states, transitions: sums over the dynamic programs of all searches.
      seconds: time of all searches.
    """

    blocks: int = 0
    cached: int = 0
    cut: dict[str, int] = dataclasses.field(default_factory=dict)
    stopped: dict[str, float] = dataclasses.field(default_factory=dict)
    too_large: set[str] = dataclasses.field(default_factory=set)
    measured: int = 0
    reused: int = 0
    bounded: int = 0
    states: int = 0
    transitions: int = 0
    seconds: float = 0.0


@dataclasses.dataclass
class BlockSearch:
    """One search of a block.

    Attributes:
      cost_model: measures whole blocks.
      cached: measures stages.
      settings: the settings of the search.
      problem: the block, with its algorithms.
      original: the block without algorithms; `stats` has its name and signature.
      deadline: when to stop, by `time.monotonic`.
      stats: the effort of the search is added to it.
      progress: called with the completed fraction of the dynamic program.
    """

    cost_model: BlockCostModel
    cached: CachedCostModel
    settings: SearchSettings
    problem: Problem
    original: Problem
    deadline: float
    stats: SearchStats
    progress: Callable[[float], None]

    def run(self) -> Schedule:
        """The block's schedule, with its latencies in its metadata."""
        problem, cost_model = self.problem, self.cost_model
        start = time.monotonic()
        before = cost_model.measurements
        sequential = sequential_schedule(problem)
        choices = self._choices()
        candidates = list({s.stages: s for s in [*choices, sequential]}.values())
        latencies = self._latencies(candidates)
        if len(latencies) < len(candidates):
            choices = [one for one in choices if one.stages in latencies]
            self.stats.stopped.setdefault(self.original.signature, 1.0)
        if math.inf in latencies.values():
            self.stats.too_large.add(self.original.name)
        if latencies[sequential.stages] == math.inf:
            # Without the latency of the sequential schedule, it is unknown whether
            # another one is faster.
            latencies = dict.fromkeys(latencies, 0.0)
        best = min(choices, key=lambda schedule: latencies[schedule.stages])
        limit = _WORTHWHILE * latencies[sequential.stages]
        if self.settings.searches and latencies[best.stages] > limit:
            best = sequential
        metadata = {
            "block": problem.name,
            "latency_ms": latencies[best.stages],
            "sequential_ms": latencies[sequential.stages],
            "measurements": cost_model.measurements - before,
            "search_seconds": round(time.monotonic() - start, 3),
        }
        greedy_ms = latencies.get(greedy_schedule(problem).stages)
        if greedy_ms is not None:
            metadata["greedy_ms"] = greedy_ms
        return dataclasses.replace(best, metadata=metadata)

    def _choices(self) -> list[Schedule]:
        """The schedules to choose from.

        A sum of stage latencies is only an estimate of a block's latency, so the
        choices are measured as whole blocks afterwards. The most promising choices come
        first, because the time may be over before all are measured.
        """
        problem, settings = self.problem, self.settings
        if not settings.searches:
            return [BASELINES[settings.strategy](problem)]
        sequential = sequential_schedule(problem)
        splitting = splits(problem, settings, self.cost_model)
        if problem.is_chain:
            return [sequential, *splitting]
        optima: list[Schedule] = []
        try:
            optima = self._optima()
        except MemoryError:
            self.stats.too_large.add(self.original.name)
            self.cost_model.release()
        choices = [sequential, *optima[:1], *splitting]
        if settings.strategy in ("auto", "parallel"):
            choices.append(greedy_schedule(problem))
        return choices + optima[1:]

    def _optima(self) -> list[Schedule]:
        """Returns the schedule of the lowest cost, and its near ties."""
        problem, settings = self.problem, self.settings
        result = search(
            problem,
            self.cached,
            SearchOptions(
                settings.strategy,
                settings.pruning,
                units=settings.patterns.units_of(problem),
                tie=1 - _WORTHWHILE,
            ),
            Bounds(
                self.cached.lower_bound,
                1 - _WORTHWHILE,
                lambda: time.monotonic() > self.deadline,
                self.cached.forecast,
            ),
            progress=lambda state: self.progress(state.done),
        )
        found = result.stats
        self.stats.bounded += found.stages_total - found.stages_asked
        self.stats.states += found.states
        self.stats.transitions += found.transitions
        if result.gap is not None:
            self.stats.stopped.setdefault(self.original.signature, result.gap)
        return [result.schedule, *result.near_ties]

    def _latencies(
        self, candidates: Sequence[Schedule]
    ) -> dict[tuple[Stage, ...], float]:
        """Measures as many candidates as the time allows. Returns ms by stages."""
        cost_model = self.cost_model
        stages = [schedule.stages for schedule in candidates]
        latencies = compare_within_memory(
            lambda some: cost_model.compare(
                self.problem, some, max(self.deadline - time.monotonic(), 0.0)
            ),
            stages,
            cost_model.release,
        )
        return dict(zip(stages, latencies, strict=False))


def splits(
    problem: Problem, settings: SearchSettings, cost_model: BlockCostModel
) -> list[Schedule]:
    """Returns schedules that split the block, if strategy and device allow this."""
    if settings.strategy != "auto" or not cost_model.lanes_divide_device:
        return []
    return split_schedules(problem, cost_model.lanes)
