"""Search: finds a block's best schedule by a cost model; the package's entry point."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from ios_tf.scheduler import bitsets
from ios_tf.scheduler.baselines import BASELINES
from ios_tf.scheduler.dynamic_programming import DynamicProgram, solve
from ios_tf.scheduler.forecasts import Forecast, Forecaster, Form
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.pruning import PAPER_PRUNING, Pruning
from ios_tf.scheduler.schedule import Schedule, Stage
from ios_tf.scheduler.state_space import StateSpace, build_state_space, may_merge
from ios_tf.scheduler.units import Units, make_units
from ios_tf.strategies import STRATEGIES

_NEAR_TIES = 3  # the largest number of near ties that a search returns
# A forecast learns of this many stages at once, up to _EXPECTED_AHEAD stages before the
# search needs their bounds.
_EXPECTED_AT_ONCE = 500
_EXPECTED_AHEAD = 20_000
# The number of stages that a search keeps as objects, about 500 bytes each.
_STAGES_KEPT = 2 * _EXPECTED_AHEAD


class CostModel(Protocol):
    """The source of latencies for a search. `ios_tf.cost` has implementations."""

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""


class UnknownLatencyError(LookupError):
    """A cost model does not know the latency of a stage; the message says which."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a search.

    Attributes:
      states: non-empty states of the dynamic program; 0 for the baselines.
      transitions: pairs of a state and an ending of it; 0 for the baselines.
      stages_asked: the number of latencies that the cost model has given.
      stages_total: latencies that the whole search needs; with bounds, an upper limit.
      done: the completed fraction of the search, 0 to 1.
    """

    states: int
    transitions: int
    stages_asked: int
    stages_total: int
    done: float = 0.0


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The result of a search.

    Attributes:
      schedule: the best schedule.
      latency_ms: the sum of its stages' latencies.
      stats: the effort, as the progress at the end.
      near_ties: schedules whose sums of latencies are nearly as low, best first.
      gap: if the search was stopped, the fraction by which the lowest possible latency
        may be below `latency_ms`. None if it was not stopped.
    """

    schedule: Schedule
    latency_ms: float
    stats: Progress
    near_ties: tuple[Schedule, ...] = ()
    gap: float | None = None


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The schedules that a search considers.

    Attributes:
      strategy: one of STRATEGIES.
      pruning: limits on stages; the baselines ignore them.
      units: disjoint sets of operators, as bitmasks; each set is scheduled as if it
        were one operator. Pruning counts units. The baselines ignore units.
      tie: schedules whose latency exceeds that of the best schedule by at most this
        fraction are near ties. If None, the search does not look for near ties.

    Raises:
      ValueError: the strategy is unknown.
    """

    strategy: str = "auto"
    pruning: Pruning = PAPER_PRUNING
    units: Iterable[int] = ()
    tie: float | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"unknown strategy {self.strategy!r}: use one of "
                f"{', '.join(STRATEGIES)}"
            )


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds that let a search ask for fewer latencies.

    Attributes:
      latency_ms: returns a lower bound of a stage's latency in milliseconds. The cost
        model is then asked only for stages of schedules that could be the best.
      tolerance: the fraction by which the schedule's latency may exceed the lowest
        possible one.
      stop: ends the search when it returns true. The result is then the best schedule
        whose stages all have a latency.
      forecast: learns early which bounds and latencies the search will ask for.
    """

    latency_ms: Callable[[Problem, Stage], float]
    tolerance: float = 0.0
    stop: Callable[[], bool] = lambda: False
    forecast: Forecast | None = None


def search(
    problem: Problem,
    cost_model: CostModel,
    options: SearchOptions = SearchOptions(),
    bounds: Bounds | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> SearchResult:
    """Finds the schedule of the lowest total stage latency (paper, section 4).

    Args:
      problem: the block.
      cost_model: gives the latency of each stage in each form. Without `bounds`, it is
        asked exactly once for every stage and form that a schedule may contain; with
        `bounds`, at most once.
      options: the schedules to consider.
      bounds: let the search ask for fewer latencies. The baselines ask for all
        latencies.
      progress: called before the first latency is asked for, and after each.

    Raises:
      ValueError: a latency is not a number >= 0, or the units overlap or cannot be
        ordered.
      LookupError: without `bounds`, the cost model knows too few latencies for any
        schedule. With `bounds` or a baseline, it does not know a latency that the
        search asks for.
      BlockTooLargeError: there are too many transitions to hold in memory.
    """
    strategy = options.strategy
    if strategy in BASELINES:
        schedule = BASELINES[strategy](problem)
        start = Progress(0, 0, 0, len(schedule.stages))
        asker = _Asker(problem, cost_model, progress, start)
        latency_ms = math.fsum([asker.ask(stage) for stage in schedule.stages])
        return SearchResult(schedule, latency_ms, asker.state)

    made = make_units(problem, options.units)
    space = build_state_space(made.contracted, options.pruning, strategy == "merge")
    mergeable = may_merge(made.contracted, space.stages)
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
    candidates = _Candidates(made, space, asker, mergeable, concurrent)
    gap = None
    if bounds:
        chosen, latency_ms, gap = candidates.solve_with_bounds(bounds)
    else:
        candidates.ask_all()
        chosen, latency_ms = solve(space, candidates.known_ms())
    if math.isinf(latency_ms):
        raise LookupError(
            f"block {problem.name!r}: the cost model has too few stage latencies for a "
            "complete schedule. The latencies of all single operators would be enough"
        )
    stages = tuple(map(candidates.stage, chosen))
    near_ties: tuple[Schedule, ...] = ()
    if options.tie is not None:
        near_ties = candidates.near_ties(chosen, latency_ms, options.tie)
    return SearchResult(
        Schedule(stages, problem.signature), latency_ms, asker.state, near_ties, gap
    )


# The forms of a stage. If both are equally fast, the first one is used.
_CONCURRENT, _MERGE = 0, 1


class _Candidates:
    """The stages of a state space, each concurrent or a merge, and their latencies."""

    def __init__(
        self,
        units: Units,
        space: StateSpace,
        asker: _Asker,
        mergeable: np.ndarray,
        concurrent: np.ndarray,
    ) -> None:
        self._units = units
        self._space = space
        self._asker = asker
        self._exists = np.stack([concurrent, mergeable])
        # Latencies, float64[form, stage]. Infinite if a form does not exist, or if its
        # latency is not known yet.
        self._ms = np.full(self._exists.shape, math.inf)
        # The cache does not refer to this object, so that no cycle of references keeps
        # the state space in memory after the search.
        operators = units.operator_sets(space.stages)
        make_stage = functools.partial(_make_stage, units.problem, operators)
        self._stage = functools.lru_cache(_STAGES_KEPT)(make_stage)

    def known_ms(self) -> np.ndarray:
        """The latency of each stage in its faster form; infinite if not known yet."""
        return self._ms.min(axis=0)

    def stage(self, i: int) -> Stage:
        """Returns a stage in its faster form."""
        return self._stage((int(self._ms[:, i].argmin()), i))

    def ask_all(self) -> None:
        """Asks for the latencies of all stages. Unknown ones stay infinite."""
        for row in (_MERGE, _CONCURRENT):
            for i in np.flatnonzero(self._exists[row]).tolist():
                with contextlib.suppress(UnknownLatencyError):
                    self._ask((row, i))

    def near_ties(
        self, chosen: Sequence[int], latency_ms: float, tie: float
    ) -> tuple[Schedule, ...]:
        """Returns near ties: for each chosen stage, the best schedule without it."""
        program = DynamicProgram(self._space, self.known_ms())
        found: dict[tuple[Stage, ...], float] = {}
        for i in chosen:
            row = self._ms[:, i].argmin()
            kept, self._ms[row, i] = self._ms[row, i], math.inf
            other, other_ms = program.changed({i: self._ms[:, i].min()}).cheapest()
            if other_ms <= latency_ms * (1 + tie):
                found[tuple(map(self.stage, other))] = other_ms
            self._ms[row, i] = kept
        best = sorted(found, key=found.__getitem__)[:_NEAR_TIES]
        signature = self._units.problem.signature
        return tuple(Schedule(stages, signature) for stages in best)

    def solve_with_bounds(
        self, bounds: Bounds
    ) -> tuple[list[int], float, float | None]:
        """Like `solve`, but asks only for stages that could be in the result.

        Each round finds the cheapest schedule, with lower bounds as the costs of stages
        whose latencies are not known yet. No schedule can cost less than this. If the
        latencies of all of its stages are known, it is the best schedule. Otherwise the
        round asks for the latencies of its stages that are not known.

        Returns:
          The results of `solve`, and the gap of a search that was stopped, else None.
        """
        asker = self._asker
        optimistic_ms, complete = self._lower_bounds(bounds)
        program = DynamicProgram(self._space, optimistic_ms.min(axis=0))
        forecaster = None
        if bounds.forecast and complete:
            forecaster = Forecaster(bounds.forecast, asker.problem, self._stage)
        asker.done, first_gap = 0.0, None
        found_ms = math.inf  # the latency of the best schedule so far
        while True:
            chosen, lowest_ms = program.cheapest()
            rows = optimistic_ms[:, chosen].argmin(axis=0)
            is_unknown = np.isinf(self._ms[rows, chosen])
            forms = zip(rows.tolist(), chosen, strict=True)
            needed = list(itertools.compress(forms, is_unknown))
            if forecaster and needed:
                limit_ms = found_ms * (1 - bounds.tolerance)
                forecaster.expect(needed, program, optimistic_ms, self._ms, limit_ms)
            for form in needed:
                self._ask(form)
            arrived = forecaster.arrived() if forecaster and needed else []
            for form in arrived:
                self._ask(form)
            asked = needed + arrived
            for form in asked:
                optimistic_ms[form] = self._ms[form]
            program.change({i: optimistic_ms[:, i].min() for _, i in asked})
            found_ms = min(found_ms, math.fsum(self._ms[:, chosen].min(axis=0)))
            gap_ms = found_ms * (1 - bounds.tolerance) - lowest_ms
            is_best = complete and (gap_ms <= 0 or not needed)
            if is_best or not needed or bounds.stop():
                break
            first_gap = first_gap or gap_ms
            asker.done = max(asker.done, 1 - gap_ms / first_gap)
        if forecaster:
            forecaster.end()
        # The stages whose latencies are known may form a better schedule.
        best, best_ms = solve(self._space, self.known_ms())
        if is_best:
            return best, best_ms, None
        return best, best_ms, 1 - lowest_ms / best_ms if complete else 1.0

    def _lower_bounds(self, bounds: Bounds) -> tuple[np.ndarray, bool]:
        """Lower bounds of the latencies of all forms, and whether all were computed.

        Small stages come first. So even a search that is stopped early has bounds of
        all stages of one operator, which form a schedule.
        """
        optimistic_ms = np.full(self._exists.shape, math.inf)
        problem, forecast = self._asker.problem, bounds.forecast
        sizes = bitsets.sizes(self._space.stages)
        forms: list[Form] = [
            (row, i)
            for i in np.argsort(sizes, kind="stable").tolist()
            for row in np.flatnonzero(self._exists[:, i]).tolist()
        ]
        expected = 0
        for place, form in enumerate(forms):
            if sizes[form[1]] > 1 and bounds.stop():
                return optimistic_ms, False
            while forecast and expected < min(len(forms), place + _EXPECTED_AHEAD):
                following = forms[expected : expected + _EXPECTED_AT_ONCE]
                forecast.expect_bounds(problem, [*map(self._stage, following)])
                expected += len(following)
            optimistic_ms[form] = bounds.latency_ms(problem, self._stage(form))
        return optimistic_ms, True

    def _ask(self, form: Form) -> None:
        self._ms[form] = self._asker.ask(self._stage(form))


def _make_stage(problem: Problem, operators: np.ndarray, form: Form) -> Stage:
    row, i = form
    mask = bitsets.to_mask(operators, i)
    if row == _MERGE:
        return Stage.merge(mask)
    return Stage.concurrent(problem, mask)


@dataclasses.dataclass
class _Asker:
    """Asks the cost model, checks its answers and reports progress."""

    problem: Problem
    cost_model: CostModel
    progress: Callable[[Progress], None] | None
    state: Progress
    done: float | None = None  # if None: stages_asked / stages_total

    def __post_init__(self) -> None:
        if self.progress:
            self.progress(self.state)

    def ask(self, stage: Stage) -> float:
        latency_ms = self.cost_model.stage_latency(self.problem, stage)
        if not (math.isfinite(latency_ms) and latency_ms >= 0):
            raise ValueError(
                f"block {self.problem.name!r}: the cost model gave {latency_ms} ms "
                f"for the {stage.strategy.value} stage {stage.groups}. A latency must "
                "be a finite number >= 0"
            )
        asked = self.state.stages_asked + 1
        done = asked / self.state.stages_total if self.done is None else self.done
        self.state = dataclasses.replace(self.state, stages_asked=asked, done=done)
        if self.progress:
            self.progress(self.state)
        return latency_ms
