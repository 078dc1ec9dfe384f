"""Search: finds the schedule of a block under a cost model. The package's entry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from ios_tf.scheduler.baselines import greedy_schedule, sequential_schedule
from ios_tf.scheduler.dynamic_programming import solve
from ios_tf.scheduler.endings import endings, merge_endings
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.pruning import PAPER_PRUNING, Pruning
from ios_tf.scheduler.schedule import Schedule, Stage
from ios_tf.scheduler.state_space import build_state_space

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
      stages_total: latencies it will have given at the end.
    """

    states: int
    transitions: int
    stages_asked: int
    stages_total: int


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
) -> SearchResult:
    """Finds the schedule of the lowest total stage latency (paper, section 4).

    Args:
      problem: the block.
      cost_model: asked once for every (stage, strategy) that can be in a schedule.
      strategy: one of STRATEGIES.
      pruning: limits on stages; the baselines know none.
      progress: called before the first latency is asked for, and after each.

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
    stage_ms = np.full(len(space.stages), math.inf)
    merged = [False] * len(space.stages)
    for i, operators in enumerate(space.stages):
        if concurrent[i]:
            stage_ms[i] = asker.ask(Stage.concurrent(problem, operators))
        if mergeable[i]:
            merge_ms = asker.ask(Stage.merge(operators))
            if merge_ms < stage_ms[i]:
                stage_ms[i], merged[i] = merge_ms, True
    chosen, latency_ms = solve(space, stage_ms)
    stages = [
        Stage.merge(space.stages[i])
        if merged[i]
        else Stage.concurrent(problem, space.stages[i])
        for i in chosen
    ]
    schedule = Schedule(tuple(stages), problem.signature)
    return SearchResult(schedule, latency_ms, asker.state)


class _Asker:
    """Asks the cost model, checks its answers and reports progress."""

    def __init__(
        self,
        problem: Problem,
        cost_model: CostModel,
        progress: Callable[[Progress], None] | None,
        start: Progress,
    ) -> None:
        self._problem = problem
        self._cost_model = cost_model
        self._progress = progress
        self.state = start
        if progress:
            progress(start)

    def ask(self, stage: Stage) -> float:
        latency_ms = self._cost_model.stage_latency(self._problem, stage)
        if not (math.isfinite(latency_ms) and latency_ms >= 0):
            raise ValueError(
                f"block {self._problem.name!r}: the cost model gave {latency_ms} ms "
                f"for the {stage.strategy.value} stage {stage.groups}"
            )
        self.state = dataclasses.replace(
            self.state, stages_asked=self.state.stages_asked + 1
        )
        if self._progress:
            self._progress(self.state)
        return latency_ms
