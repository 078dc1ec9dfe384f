"""Search: finds the schedule of a block under a cost model. The package's entry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ios_tf.scheduler.baselines import greedy_schedule, sequential_schedule
from ios_tf.scheduler.dynamic_programming import solve
from ios_tf.scheduler.endings import endings, merge_endings
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.pruning import PAPER_PRUNING, Pruning
from ios_tf.scheduler.schedule import Schedule, Stage
from ios_tf.scheduler.state_space import StateSpace, build_state_space

# both: every stage is concurrent or merge, whichever is faster. parallel: all are
# concurrent. merge: stages are one operator or a merge. greedy and sequential: see
# baselines.py.
STRATEGIES = ("both", "parallel", "merge", "greedy", "sequential")


class CostModel(Protocol):
    """What a search asks for latencies; `ios_tf.cost` has implementations."""

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""


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

    endings_of = merge_endings if strategy == "merge" else endings
    space = build_state_space(problem, pruning, endings_of)
    mergeable = [strategy != "parallel" and problem.may_merge(s) for s in space.stages]
    concurrent = [strategy != "merge" or not merge for merge in mergeable]
    start = Progress(
        states=len(space.states) - 1,
        transitions=space.transitions,
        stages_asked=0,
        stages_total=sum(mergeable) + sum(concurrent),
    )
    asker = _Asker(problem, cost_model, progress, start)
    merge_ms = np.full(len(space.stages), math.inf)
    for i in np.flatnonzero(mergeable):
        merge_ms[i] = asker.ask(Stage.merge(space.stages[i]))
    concurrent_ms = np.full(len(space.stages), math.inf)
    if bound:
        chosen, latency_ms = _solve_with_bounds(
            space, merge_ms, concurrent_ms, concurrent, asker, bound, tolerance
        )
    else:
        for i in np.flatnonzero(concurrent):
            concurrent_ms[i] = asker.ask(Stage.concurrent(problem, space.stages[i]))
        chosen, latency_ms = solve(space, np.minimum(merge_ms, concurrent_ms))
    stages = [
        Stage.merge(space.stages[i])
        if merge_ms[i] < concurrent_ms[i]
        else Stage.concurrent(problem, space.stages[i])
        for i in chosen
    ]
    schedule = Schedule(tuple(stages), problem.signature)
    return SearchResult(schedule, latency_ms, asker.state)


def _solve_with_bounds(
    space: StateSpace,
    merge_ms: np.ndarray,
    concurrent_ms: np.ndarray,
    concurrent: Sequence[bool],
    asker: _Asker,
    bound: Callable[[Problem, Stage], float],
    tolerance: float,
) -> tuple[list[int], float]:
    """`solve`, asking only for the concurrent stages that could be in its result.

    The cheapest way where stages not asked for yet cost their bound costs no more
    than any schedule. If all its stages have been asked for, it is the best one.

    Args:
      merge_ms: latencies of merges, infinite where there is none.
      concurrent_ms: infinite; gets the latencies that were asked for.
      concurrent: whether a stage may be concurrent.
    """
    problem = asker.problem
    optimistic_ms = merge_ms.copy()
    for i in np.flatnonzero(concurrent):
        stage = Stage.concurrent(problem, space.stages[i])
        optimistic_ms[i] = min(optimistic_ms[i], bound(problem, stage))
    asker.done, first_gap = 0.0, None
    while True:
        chosen, lowest_ms = solve(space, optimistic_ms)
        known_ms = np.minimum(merge_ms, concurrent_ms)
        unknown = [i for i in chosen if known_ms[i] > optimistic_ms[i]]
        if not unknown:
            return chosen, lowest_ms
        for i in unknown:
            stage = Stage.concurrent(problem, space.stages[i])
            concurrent_ms[i] = asker.ask(stage)
            known_ms[i] = optimistic_ms[i] = min(concurrent_ms[i], merge_ms[i])
        # What was asked for so far holds a schedule by now.
        best, best_ms = solve(space, known_ms)
        if lowest_ms >= best_ms * (1 - tolerance):
            return best, best_ms
        gap = best_ms * (1 - tolerance) - lowest_ms
        first_gap = first_gap or gap
        asker.done = max(asker.done, 1 - gap / first_gap)


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
        self._cost_model = cost_model
        self._progress = progress
        self.state = start
        self.done: float | None = None  # None: as many as were asked for
        if progress:
            progress(start)

    def ask(self, stage: Stage) -> float:
        latency_ms = self._cost_model.stage_latency(self.problem, stage)
        if not (math.isfinite(latency_ms) and latency_ms >= 0):
            raise ValueError(
                f"block {self.problem.name!r}: the cost model gave {latency_ms} ms "
                f"for the {stage.strategy.value} stage {stage.groups}"
            )
        asked = self.state.stages_asked + 1
        done = asked / self.state.stages_total if self.done is None else self.done
        self.state = dataclasses.replace(self.state, stages_asked=asked, done=done)
        if self._progress:
            self._progress(self.state)
        return latency_ms
