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


class BlockSearch:
    """One search of a block, until a deadline by `time.monotonic`.

    Attributes, which `run` sets:
      gap: if the search was stopped, the fraction by which another schedule could be
        faster than the best one so far; otherwise None.
      too_large: whether the free memory was too small to measure everything.
      bounded: number of candidates that were not measured, because lower bounds of
        their latencies show that they are not the fastest.
      states, transitions: size of the dynamic program; 0 if there was none.
    """

    def __init__(
        self,
        cost_model: BlockCostModel,
        cached: CachedCostModel,
        settings: SearchSettings,
        problem: Problem,
        deadline: float,
        progress: Callable[[float], None] = lambda done: None,
    ) -> None:
        """`cost_model` measures whole blocks, and `cached` measures stages."""
        self.gap: float | None = None
        self.too_large = False
        self.bounded = 0
        self.states = 0
        self.transitions = 0
        self._cost_model = cost_model
        self._cached = cached
        self._settings = settings
        self._problem = problem
        self._deadline = deadline
        self._progress = progress

    def run(self) -> Schedule:
        """The block's schedule, with its latencies in its metadata."""
        problem, cost_model = self._problem, self._cost_model
        start = time.monotonic()
        before = cost_model.measurements
        sequential = sequential_schedule(problem)
        choices = self._choices()
        candidates = list({s.stages: s for s in [*choices, sequential]}.values())
        latencies = self._latencies(candidates)
        if len(latencies) < len(candidates):
            choices = [one for one in choices if one.stages in latencies]
            self.gap = 1.0 if self.gap is None else self.gap
        if math.inf in latencies.values():
            self.too_large = True
        if latencies[sequential.stages] == math.inf:
            # Without the latency of the sequential schedule, it is unknown whether
            # another one is faster.
            latencies = dict.fromkeys(latencies, 0.0)
        best = min(choices, key=lambda schedule: latencies[schedule.stages])
        limit = _WORTHWHILE * latencies[sequential.stages]
        if self._settings.searches and latencies[best.stages] > limit:
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
        problem, settings = self._problem, self._settings
        if not settings.searches:
            return [BASELINES[settings.strategy](problem)]
        sequential = sequential_schedule(problem)
        splitting = splits(problem, settings, self._cost_model)
        if problem.is_chain:
            return [sequential, *splitting]
        optima: list[Schedule] = []
        try:
            optima = self._optima()
        except MemoryError:
            self.too_large = True
            self._cost_model.release()
        choices = [sequential, *optima[:1], *splitting]
        if settings.strategy in ("auto", "parallel"):
            choices.append(greedy_schedule(problem))
        return choices + optima[1:]

    def _optima(self) -> list[Schedule]:
        """Returns the schedule of the lowest cost, and its near ties."""
        problem, settings = self._problem, self._settings
        result = search(
            problem,
            self._cached,
            SearchOptions(
                settings.strategy,
                settings.pruning,
                units=settings.patterns.units_of(problem),
                tie=1 - _WORTHWHILE,
            ),
            Bounds(
                self._cached.lower_bound,
                1 - _WORTHWHILE,
                lambda: time.monotonic() > self._deadline,
                self._cached.forecast,
            ),
            progress=lambda state: self._progress(state.done),
        )
        self.bounded = result.stats.stages_total - result.stats.stages_asked
        self.states = result.stats.states
        self.transitions = result.stats.transitions
        self.gap = result.gap
        return [result.schedule, *result.near_ties]

    def _latencies(
        self, candidates: Sequence[Schedule]
    ) -> dict[tuple[Stage, ...], float]:
        """Measures as many candidates as the time allows. Returns ms by stages."""
        cost_model = self._cost_model
        stages = [schedule.stages for schedule in candidates]
        latencies = compare_within_memory(
            lambda some: cost_model.compare(
                self._problem, some, max(self._deadline - time.monotonic(), 0.0)
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
