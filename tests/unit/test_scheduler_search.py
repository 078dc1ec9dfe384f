"""The search compared with brute force; near ties, baselines and progress."""

import itertools
import random

import pytest
from commands import run_python
from scheduler_helpers import (
    all_schedules,
    assert_valid,
    fits_pruning,
    graph_components,
    problem_of,
    random_graph,
)

from benchmarks.schedule_counts import complexity
from ios_tf.scheduler import (
    UNPRUNED,
    Bounds,
    Problem,
    Progress,
    Pruning,
    SearchOptions,
    Stage,
    Strategy,
    UnknownLatencyError,
    search,
)

_PRUNINGS = [
    UNPRUNED,
    Pruning(),
    Pruning(1, 2),
    Pruning(2, 2),
    Pruning(3, 1),
    Pruning(2, None),
    Pruning(None, 2),
]


class _RandomCosts:
    """Random costs that depend only on the operators, the strategy and a seed."""

    def __init__(self, seed):
        self._seed = seed
        self.asked = []

    def cost(self, operators, strategy):
        rng = random.Random(f"{self._seed} {sorted(operators)} {strategy}")
        return rng.random() * (len(operators) + 0.5)

    def stage_latency(self, problem, stage):
        operators = frozenset(op for group in stage.groups for op in group)
        assert (operators, stage.strategy) not in self.asked
        self.asked.append((operators, stage.strategy))
        return self.cost(operators, stage.strategy.value)


def _brute_force(operators, edges, classes, costs, strategy, pruning):
    """The least cost of all schedules, and the number of schedules."""

    def mergeable(stage):
        return len(stage) > 1 and any(stage <= set(c) for c in classes)

    def allowed(stage):
        if strategy == "merge" and len(stage) > 1 and not mergeable(stage):
            return False
        return fits_pruning(stage, edges, pruning)

    stage_cost = {}

    def cost(stage):
        if stage not in stage_cost:
            options = []
            if strategy != "merge" or len(stage) == 1:
                options.append(costs.cost(stage, "concurrent"))
            if strategy != "parallel" and mergeable(stage):
                options.append(costs.cost(stage, "merge"))
            stage_cost[stage] = min(options)
        return stage_cost[stage]

    totals = [
        sum(map(cost, stages)) for stages in all_schedules(operators, edges, allowed)
    ]
    return min(totals), len(totals)


@pytest.mark.parametrize("seed", range(520))
def test_finds_the_optimum(seed):
    # The seeds cover all sizes up to 8. The widest graphs of this size have a million
    # schedules.
    operators = 1 + seed % 8
    edges, classes = random_graph(seed, operators)
    if len(edges) < operators - 3:
        edges = sorted({*edges, *((0, v) for v in range(1, operators))})
        classes = [c for c in classes if 0 not in c]
    problem = Problem.from_edges(operators, edges, classes)
    strategy = ("auto", "parallel", "merge", "auto")[seed // 8 % 4]
    pruning = _PRUNINGS[seed // 32 % len(_PRUNINGS)]
    costs = _RandomCosts(seed)
    result = search(problem, costs, SearchOptions(strategy, pruning))
    best, count = _brute_force(operators, edges, classes, costs, strategy, pruning)

    assert result.latency_ms == pytest.approx(best, rel=1e-12)
    assert_valid(result.schedule, problem)
    total = 0.0
    for stage in result.schedule.stages:
        operators_in = {op for group in stage.groups for op in group}
        assert fits_pruning(operators_in, edges, pruning)
        total += costs.cost(operators_in, stage.strategy.value)
    assert total == pytest.approx(best, rel=1e-12)
    assert result.stats.stages_asked == result.stats.stages_total == len(costs.asked)
    if strategy != "merge":
        assert complexity(problem, pruning).schedules == count


@pytest.mark.parametrize("tightness", [0.0, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("seed", range(40))
def test_bounds_leave_the_optimum_as_it_is(seed, tightness):
    problem, _, _ = problem_of(seed, 7)
    strategy = ("auto", "parallel", "merge")[seed % 3]
    pruning = _PRUNINGS[seed % len(_PRUNINGS)]
    everything = search(problem, _RandomCosts(seed), SearchOptions(strategy, pruning))

    def bound(problem, stage):
        operators = frozenset(op for group in stage.groups for op in group)
        low = tightness * (1 - 0.1 * random.Random(f"{seed} {operators}").random())
        return low * costs.cost(operators, stage.strategy.value)

    costs = _RandomCosts(seed)
    bounded = search(problem, costs, SearchOptions(strategy, pruning), Bounds(bound))
    assert bounded.latency_ms == pytest.approx(everything.latency_ms, rel=1e-12)
    assert_valid(bounded.schedule, problem)
    assert bounded.stats.stages_asked == len(costs.asked)
    assert bounded.stats.stages_asked <= everything.stats.stages_asked

    costs = _RandomCosts(seed)
    tolerant = search(
        problem, costs, SearchOptions(strategy, pruning), Bounds(bound, 0.1)
    )
    assert tolerant.latency_ms * 0.9 <= everything.latency_ms * (1 + 1e-12)
    assert tolerant.stats.stages_asked <= bounded.stats.stages_asked


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("questions", [0, 3, 12, 40])
def test_a_search_that_is_stopped_says_how_far_it_may_be(seed, questions):
    problem, _, _ = problem_of(seed, 7)
    strategy = ("auto", "parallel", "merge")[seed % 3]
    everything = search(problem, _RandomCosts(seed), SearchOptions(strategy, UNPRUNED))
    costs = _RandomCosts(seed)
    left = iter(range(questions))

    def bound(problem, stage):
        operators = frozenset(op for group in stage.groups for op in group)
        return 0.5 * costs.cost(operators, stage.strategy.value)

    result = search(
        problem,
        costs,
        SearchOptions(strategy, UNPRUNED),
        Bounds(bound, stop=lambda: next(left, None) is None),
    )
    assert_valid(result.schedule, problem)
    if result.gap is None:
        assert result.latency_ms == pytest.approx(everything.latency_ms, rel=1e-12)
    else:
        assert 0 <= result.gap <= 1
        lowest_ms = result.latency_ms * (1 - result.gap)
        assert lowest_ms <= everything.latency_ms * (1 + 1e-12)


def test_tight_bounds_save_most_of_the_questions():
    problem, _, _ = problem_of(3, 8)
    everything = search(
        problem, _RandomCosts(3), SearchOptions("parallel", UNPRUNED)
    ).stats
    costs = _RandomCosts(3)

    def bound(problem, stage):
        operators = {op for group in stage.groups for op in group}
        return 0.99 * costs.cost(operators, stage.strategy.value)

    bounded = search(
        problem, costs, SearchOptions("parallel", UNPRUNED), Bounds(bound)
    ).stats
    assert bounded.stages_total == everything.stages_asked
    assert bounded.stages_asked * 5 < everything.stages_asked


def test_the_complete_space_holds_better_schedules_than_the_restricted():
    better = 0
    for seed in range(40):
        problem, _, _ = problem_of(seed, 7)
        costs = [_RandomCosts(seed), _RandomCosts(seed)]
        complete = search(problem, costs[0], SearchOptions("auto", UNPRUNED)).latency_ms
        restricted = Pruning(None, None, single_source=True)
        single = search(problem, costs[1], SearchOptions("auto", restricted)).latency_ms
        assert complete <= single
        better += complete < single
    assert better > 5


class _KnowsSome(_RandomCosts):
    """Knows the latencies of single operators and of a share of the other stages."""

    def __init__(self, seed, share):
        super().__init__(seed)
        self._share = share

    def knows(self, problem, stage):
        operators = sorted(op for group in stage.groups for op in group)
        name = f"{operators} {stage.strategy.value}"
        return len(operators) == 1 or random.Random(name).random() < self._share

    def stage_latency(self, problem, stage):
        if not self.knows(problem, stage):
            raise UnknownLatencyError("not this one")
        return super().stage_latency(problem, stage)


@pytest.mark.parametrize("seed", range(40))
def test_stages_of_unknown_latency_are_left_out(seed):
    operators = 6
    edges, classes = random_graph(seed, operators)
    problem = Problem.from_edges(operators, edges, classes)
    costs = _KnowsSome(seed, 0.4)
    result = search(problem, costs, SearchOptions("auto", Pruning(3, 2)))

    def least(stage):
        known = []
        for strategy in (Strategy.CONCURRENT, Strategy.MERGE):
            groups = (tuple(sorted(stage)),)
            merges = len(stage) > 1 and any(stage <= set(c) for c in classes)
            possible = strategy is Strategy.CONCURRENT or merges
            if possible and costs.knows(problem, Stage(strategy, groups)):
                known.append(costs.cost(stage, strategy.value))
        return min(known, default=None)

    def allowed(stage):
        return fits_pruning(stage, edges, Pruning(3, 2)) and least(stage) is not None

    best = min(
        sum(map(least, stages)) for stages in all_schedules(operators, edges, allowed)
    )
    assert result.latency_ms == pytest.approx(best, rel=1e-12)


def test_refuses_to_guess_what_it_does_not_know():
    class KnowsNothing:
        def stage_latency(self, problem, stage):
            raise UnknownLatencyError("nothing")

    with pytest.raises(
        LookupError, match="too few stage latencies for a complete schedule"
    ):
        search(Problem.from_edges(3, [(0, 1)]), KnowsNothing())


@pytest.mark.parametrize("tie", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(20))
def test_near_ties_are_other_schedules_within_the_limit(seed, tie):
    operators = 6
    edges, classes = random_graph(seed, operators)
    problem = Problem.from_edges(operators, edges, classes)
    costs = _RandomCosts(seed)
    result = search(problem, costs, SearchOptions("auto", UNPRUNED, tie=tie))

    def total(schedule):
        return sum(
            costs.cost({op for group in s.groups for op in group}, s.strategy.value)
            for s in schedule.stages
        )

    latencies = []
    for schedule in result.near_ties:
        assert_valid(schedule, problem)
        assert schedule.stages != result.schedule.stages
        latencies.append(total(schedule))
        assert latencies[-1] <= result.latency_ms * (1 + tie) * (1 + 1e-12)
    assert latencies == sorted(latencies)
    assert len({schedule.stages for schedule in result.near_ties}) == len(latencies)

    # The second best schedule differs from the best one in a stage, so it must be found
    # if it is a near tie.
    def forms(stage):
        yield costs.cost(stage, "concurrent")
        if len(stage) > 1 and any(stage <= set(c) for c in classes):
            yield costs.cost(stage, "merge")

    totals = (
        sum(costs_of_stages)
        for stages in all_schedules(operators, edges, lambda stage: True)
        for costs_of_stages in itertools.product(*map(forms, stages))
    )
    # A schedule with the same stages as the best one in another order is not a near
    # tie.
    second = min(total for total in totals if total > result.latency_ms * (1 + 1e-12))
    if second <= result.latency_ms * (1 + tie):
        assert latencies[0] == pytest.approx(second, rel=1e-12)
    else:
        assert latencies == []


class _PerOperator:
    """Every operator costs the same in any stage."""

    def stage_latency(self, problem, stage):
        return float(sum(map(len, stage.groups)))


@pytest.mark.parametrize("seed", range(20))
def test_exact_ties_go_to_fewest_stages_and_to_concurrent(seed):
    problem, edges, _ = problem_of(seed, 7)
    result = search(problem, _PerOperator(), SearchOptions("auto", UNPRUNED))
    assert result.latency_ms == 7
    assert len(result.schedule.stages) == 1
    assert result.schedule.stages[0].strategy is Strategy.CONCURRENT
    pruning = Pruning(1, 2)
    result = search(problem, _PerOperator(), SearchOptions("parallel", pruning))
    fewest = min(
        len(stages)
        for stages in all_schedules(7, edges, lambda s: fits_pruning(s, edges, pruning))
    )
    assert len(result.schedule.stages) == fewest
    again = search(problem, _PerOperator(), SearchOptions("parallel", pruning))
    assert again.schedule == result.schedule


def test_a_merge_that_gains_nothing_is_not_made():
    problem = Problem.from_edges(2, [], [[0, 1]])

    class OnePerStage:
        def stage_latency(self, problem, stage):
            return 1.0

    (stage,) = search(problem, OnePerStage(), SearchOptions("auto")).schedule.stages
    assert stage == Stage(Strategy.CONCURRENT, ((0,), (1,)))


def _stages(result):
    return [stage.groups for stage in result.schedule.stages]


def test_baselines():
    # Edges 0 -> 1 -> 4 and 2 -> 4; operator 3 is isolated.
    problem = Problem.from_edges(5, [(0, 1), (1, 4), (2, 4)], [[0, 2]])
    sequential = search(problem, _PerOperator(), SearchOptions("sequential"))
    assert _stages(sequential) == [((i,),) for i in range(5)]
    greedy = search(problem, _PerOperator(), SearchOptions("greedy", Pruning(1, 1)))
    assert _stages(greedy) == [((0,), (2,), (3,)), ((1,),), ((4,),)]
    for result in (sequential, greedy):
        assert_valid(result.schedule, problem)
        assert result.latency_ms == 5
        assert result.stats.stages_asked == len(result.schedule.stages)


@pytest.mark.parametrize("seed", range(30))
def test_baselines_are_valid_and_never_better(seed):
    problem, edges, _ = problem_of(seed, 8)
    optimum = search(
        problem, _RandomCosts(seed), SearchOptions("auto", UNPRUNED)
    ).latency_ms
    for strategy in ("sequential", "greedy"):
        result = search(problem, _RandomCosts(seed), SearchOptions(strategy))
        assert_valid(result.schedule, problem)
        assert optimum <= result.latency_ms + 1e-12
        for stage in result.schedule.stages:
            assert all(len(group) == 1 for group in stage.groups)
            operators = [op for group in stage.groups for op in group]
            assert len(graph_components(operators, edges)) == len(operators)


def test_merge_stages_are_one_operator_or_a_legal_merge():
    problem = Problem.from_edges(4, [(0, 3), (1, 3), (2, 3)], [[0, 1, 2]])

    class MergesAreFree(_PerOperator):
        def stage_latency(self, problem, stage):
            if stage.strategy is Strategy.MERGE:
                return 0.5
            return super().stage_latency(problem, stage)

    result = search(problem, MergesAreFree(), SearchOptions("merge"))
    assert _stages(result) == [((0, 1, 2),), ((3,),)]
    assert result.latency_ms == 1.5
    # Each operator of a merge counts as a group.
    result = search(problem, MergesAreFree(), SearchOptions("merge", Pruning(3, 2)))
    assert len(_stages(result)) == 3


def test_progress_counts_up_to_the_total():
    problem, _, _ = problem_of(5, 6)
    calls: list[Progress] = []
    result = search(problem, _PerOperator(), progress=calls.append)
    total = result.stats.stages_total
    assert [call.stages_asked for call in calls] == list(range(total + 1))
    assert {call.stages_total for call in calls} == {total}
    assert calls[-1] == result.stats
    counts = complexity(problem, Pruning())
    assert result.stats.states == counts.states
    assert result.stats.transitions == counts.transitions


@pytest.mark.parametrize("latency", [float("nan"), float("inf"), -1.0])
def test_refuses_impossible_latencies(latency):
    class Broken:
        def stage_latency(self, problem, stage):
            return latency

    for strategy in ("auto", "sequential"):
        with pytest.raises(ValueError, match="the cost model gave"):
            search(Problem.from_edges(2, [(0, 1)]), Broken(), SearchOptions(strategy))


def test_refuses_unknown_strategies():
    with pytest.raises(ValueError, match="unknown strategy 'fast': use one of auto"):
        search(Problem.from_edges(1, []), _PerOperator(), SearchOptions("fast"))


def test_long_chains_do_not_recurse():
    chain = Problem.from_edges(1500, [(i, i + 1) for i in range(1499)])
    result = search(chain, _PerOperator())
    assert len(result.schedule.stages) == 500


def test_needs_no_tensorflow():
    code = (
        "import sys; sys.modules['tensorflow'] = None; "
        "import ios_tf.scheduler, ios_tf.cost"
    )
    run_python("-c", code)
