"""Search: finds the schedule of a block under a cost model. The package's entry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ios_tf.scheduler import bitsets
from ios_tf.scheduler.baselines import greedy_schedule, sequential_schedule
from ios_tf.scheduler.dynamic_programming import solve
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.pruning import PAPER_PRUNING, Pruning
from ios_tf.scheduler.schedule import Schedule, Stage
from ios_tf.scheduler.state_space import StateSpace, build_state_space, may_merge

# both: every stage is concurrent or merge, whichever is faster. parallel: all are
# concurrent. merge: stages are one operator or a merge. greedy and sequential: see
# baselines.py.
STRATEGIES = ("both", "parallel", "merge", "greedy", "sequential")


class CostModel(Protocol):
    """What a search asks for latencies; `ios_tf.cost` has implementations."""

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""


class TableCostModel(CostModel, Protocol):
    """A cost model that knows the latencies of all concurrent stages beforehand."""

    def concurrent_latencies(self, problem: Problem, stages: np.ndarray) -> np.ndarray:
        """float64[stages], milliseconds, of the concurrent stages of bitsets."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a search is.

    Attributes:
      states: non-empty states of the dynamic program; 0 for the baselines.
      transitions: pairs of a state and an ending of it; 0 for the baselines.
      stages_asked: latencies the cost model has given.
      stages_total: latencies it will have given at the end; with bounds, at most.
      done: how much of the search is done, 0 to 1.
    """

    states: int
    transitions: int
    stages_asked: int
    stages_total: int
    done: float = 0.0


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """A schedule, its latency as the sum of its stages' in ms, and the effort."""

    schedule: Schedule
    latency_ms: float
    stats: Progress


def search(
    problem: Problem,
    cost_model: CostModel,
    strategy: str = "both",
    pruning: Pruning = PAPER_PRUNING,
    progress: Callable[[Progress], None] | None = None,
    bound: Callable[[Problem, Stage], float] | None = None,
    tolerance: float = 0.0,
) -> SearchResult:
    """Finds the schedule of the lowest total stage latency (paper, section 4).

    Args:
      problem: the block.
      cost_model: asked at most once for every (stage, strategy) that can be in a
        schedule; without `bound`, exactly once.
      strategy: one of STRATEGIES.
      pruning: limits on stages; the baselines know none.
      progress: called before the first latency is asked for, and after each.
      bound: milliseconds that a concurrent stage cannot be faster than. The cost
        model is then asked only for stages of schedules that could win.
      tolerance: with `bound`, the schedule's latency may be so much above the lowest
        one, as a fraction.

    Raises:
      ValueError: unknown strategy, or a latency that is not a number >= 0.
      BlockTooLargeError: too many transitions to hold.
    """
    if strategy not in STRATEGIES:
        raise ValueError(
            f"unknown strategy {strategy!r}: use one of {', '.join(STRATEGIES)}"
        )
    if strategy in ("sequential", "greedy"):
        make = sequential_schedule if strategy == "sequential" else greedy_schedule
        schedule = make(problem)
        start = Progress(0, 0, 0, len(schedule.stages))
        asker = _Asker(problem, cost_model, progress, start)
        latency_ms = math.fsum([asker.ask(stage) for stage in schedule.stages])
        return SearchResult(schedule, latency_ms, asker.state)

    space = build_state_space(problem, pruning, only_merges=strategy == "merge")
    mergeable = may_merge(problem, space.stages)
    if strategy == "parallel":
        mergeable[:] = False
    concurrent = np.full(len(mergeable), True) if strategy != "merge" else ~mergeable
    start = Progress(
        states=len(space.first) - 2,
        transitions=space.transitions,
        stages_asked=0,
        stages_total=int(mergeable.sum() + concurrent.sum()),
    )
    asker = _Asker(problem, cost_model, progress, start)
    candidates = _Candidates(space, asker, mergeable, concurrent)
    if bound:
        chosen, latency_ms = candidates.solve_with_bounds(bound, tolerance)
    else:
        candidates.ask_all()
        chosen, latency_ms = solve(space, candidates.known_ms())
    schedule = Schedule(tuple(map(candidates.stage, chosen)), problem.signature)
    return SearchResult(schedule, latency_ms, asker.state)


class _Candidates:
    """The stages of a state space, each concurrent or a merge, and their latencies."""

    def __init__(
        self,
        space: StateSpace,
        asker: _Asker,
        mergeable: np.ndarray,
        concurrent: np.ndarray,
    ) -> None:
        self._space = space
        self._asker = asker
        self._concurrent = np.flatnonzero(concurrent)
        # Infinite where there is none, or none has been asked for.
        self._merge_ms = np.full(len(mergeable), math.inf)
        self._concurrent_ms = np.full(len(mergeable), math.inf)
        for i in np.flatnonzero(mergeable).tolist():
            self._merge_ms[i] = asker.ask(Stage.merge(self._mask(i)))

    def known_ms(self) -> np.ndarray:
        """The latency of each stage, infinite if it has not been asked for."""
        return np.minimum(self._merge_ms, self._concurrent_ms)

    def stage(self, i: int) -> Stage:
        """The stage in the faster of its forms."""
        if self._merge_ms[i] < self._concurrent_ms[i]:
            return Stage.merge(self._mask(i))
        return self._as_concurrent(i)

    def ask_all(self) -> None:
        """Asks for all concurrent stages, at once where the cost model can."""
        if hasattr(self._asker.cost_model, "concurrent_latencies"):
            stages = self._space.stages[:, self._concurrent]
            self._concurrent_ms[self._concurrent] = self._asker.ask_for_many(stages)
            return
        for i in self._concurrent.tolist():
            self._concurrent_ms[i] = self._asker.ask(self._as_concurrent(i))

    def solve_with_bounds(
        self, bound: Callable[[Problem, Stage], float], tolerance: float
    ) -> tuple[list[int], float]:
        """`solve`, asking only for the concurrent stages that could be in its result.

        The cheapest way where stages not asked for yet cost their bound costs no more
        than any schedule. If all its stages have been asked for, it is the best one.
        """
        asker = self._asker
        optimistic_ms = self._merge_ms.copy()
        for i in self._concurrent.tolist():
            lowest_ms = bound(asker.problem, self._as_concurrent(i))
            optimistic_ms[i] = min(optimistic_ms[i], lowest_ms)
        asker.done, first_gap = 0.0, None
        while True:
            chosen, lowest_ms = solve(self._space, optimistic_ms)
            known_ms = self.known_ms()
            unknown = [i for i in chosen if known_ms[i] > optimistic_ms[i]]
            if not unknown:
                return chosen, lowest_ms
            for i in unknown:
                self._concurrent_ms[i] = asker.ask(self._as_concurrent(i))
                optimistic_ms[i] = min(self._concurrent_ms[i], self._merge_ms[i])
            # What was asked for so far holds a schedule by now.
            best, best_ms = solve(self._space, self.known_ms())
            if lowest_ms >= best_ms * (1 - tolerance):
                return best, best_ms
            gap = best_ms * (1 - tolerance) - lowest_ms
            first_gap = first_gap or gap
            asker.done = max(asker.done, 1 - gap / first_gap)

    def _as_concurrent(self, i: int) -> Stage:
        return Stage.concurrent(self._asker.problem, self._mask(i))

    def _mask(self, i: int) -> int:
        return bitsets.to_masks(self._space.stages[:, i : i + 1])[0]


class _Asker:
    """Asks the cost model, checks its answers and reports progress."""

    def __init__(
        self,
        problem: Problem,
        cost_model: CostModel,
        progress: Callable[[Progress], None] | None,
        start: Progress,
    ) -> None:
        self.problem = problem
        self.cost_model = cost_model
        self._progress = progress
        self.state = start
        self.done: float | None = None  # None: as many as were asked for
        if progress:
            progress(start)

    def ask(self, stage: Stage) -> float:
        latency_ms = self.cost_model.stage_latency(self.problem, stage)
        if not (math.isfinite(latency_ms) and latency_ms >= 0):
            raise ValueError(
                f"block {self.problem.name!r}: the cost model gave {latency_ms} ms "
                f"for the {stage.strategy.value} stage {stage.groups}"
            )
        self._count(1)
        return latency_ms

    def ask_for_many(self, stages: np.ndarray) -> np.ndarray:
        latencies = self.cost_model.concurrent_latencies(self.problem, stages)
        if not (np.all(np.isfinite(latencies)) and np.all(latencies >= 0)):
            raise ValueError(
                f"block {self.problem.name!r}: the cost model gave latencies that are "
                "no numbers >= 0"
            )
        self._count(stages.shape[1])
        return latencies

    def _count(self, asked: int) -> None:
        asked += self.state.stages_asked
        done = asked / self.state.stages_total if self.done is None else self.done
        self.state = dataclasses.replace(self.state, stages_asked=asked, done=done)
        if self._progress:
            self._progress(self.state)
