"""Endings against all subsets of a state, with the limits checked one by one."""

import pytest
from scheduler_helpers import fits_pruning, graph_components, problem_of, subsets

from ios_tf.scheduler import UNPRUNED, Problem, Pruning
from ios_tf.scheduler.endings import endings, merge_endings
from ios_tf.scheduler.problem import mask_of, operators_of
from ios_tf.scheduler.state_space import (
    BlockTooLargeError,
    build_state_space,
    enumerate_states,
)

_PRUNINGS = [
    UNPRUNED,
    Pruning(),
    Pruning(1, 1),
    Pruning(1, 3),
    Pruning(2, 2),
    Pruning(3, 1),
    Pruning(3, 2),
    Pruning(4, 0),
    Pruning(0, 2),
    Pruning(None, 1),
]


def _brute_force_states(operators, edges):
    everything = [frozenset(), *subsets(range(operators))]
    return [s for s in everything if all(u in s for u, v in edges if v in s)]


def _brute_force_endings(state, edges):
    return [
        ending
        for ending in subsets(state)
        if not any(u in ending and v in state - ending for u, v in edges)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_states_and_endings_are_complete(seed):
    problem, edges, classes = problem_of(seed, 4 + seed % 5)
    states = _brute_force_states(len(problem), edges)
    assert sorted(enumerate_states(problem)) == sorted(map(mask_of, states))
    pruning_of_seed = _PRUNINGS[seed % len(_PRUNINGS)]
    for pruning in (UNPRUNED, Pruning(3, 2), pruning_of_seed):
        for state in states:
            expected = [
                ending
                for ending in _brute_force_endings(state, edges)
                if fits_pruning(ending, edges, pruning)
            ]
            found = endings(problem, mask_of(state), pruning)
            # Sorted lists: no ending twice.
            assert sorted(found) == sorted(map(mask_of, expected))
            expected_merges = [
                ending
                for ending in expected
                if len(ending) == 1 or any(ending <= set(c) for c in classes)
            ]
            found = merge_endings(problem, mask_of(state), pruning)
            assert sorted(found) == sorted(map(mask_of, expected_merges))


@pytest.mark.parametrize("seed", range(20))
def test_single_source_groups_are_successor_closures(seed):
    problem, edges, _ = problem_of(seed, 7)

    def closure(op, state):
        reached = {op}
        for u, v in edges:  # sorted by u: one pass suffices
            if u in reached and v in state:
                reached.add(v)
        return frozenset(reached)

    for state in _brute_force_states(7, edges):
        closures = {closure(op, state) for op in state}
        expected = [
            ending
            for ending in _brute_force_endings(state, edges)
            if all(g in closures for g in graph_components(ending, edges))
        ]
        pruning = Pruning(None, None, single_source=True)
        found = endings(problem, mask_of(state), pruning)
        assert sorted(found) == sorted(map(mask_of, expected))


def test_a_group_may_have_several_sources():
    # 0 -> 2 <- 1: the authors' own enumeration misses the whole as one ending.
    problem = Problem.from_edges(3, [(0, 2), (1, 2)])
    assert set(endings(problem, 0b111, UNPRUNED)) == {0b100, 0b101, 0b110, 0b111}
    restricted = Pruning(None, None, single_source=True)
    assert 0b111 not in endings(problem, 0b111, restricted)


def test_state_space_links_states_by_stages():
    problem, _, _ = problem_of(3, 8)
    space = build_state_space(problem, Pruning(2, 2))
    assert space.states[0] == 0
    assert space.states[-1] == problem.all_operators
    assert len(set(space.stages)) == len(space.stages)
    for i, state in enumerate(space.states):
        span = range(space.first[i], space.first[i + 1])
        stages = [space.stages[space.stage[t]] for t in span]
        assert sorted(stages) == sorted(endings(problem, state, Pruning(2, 2)))
        assert [space.states[space.rest[t]] for t in span] == [
            state ^ stage for stage in stages
        ]


def test_too_large_blocks_are_refused():
    with pytest.raises(
        BlockTooLargeError, match="operators has more than 1,000 states"
    ):
        build_state_space(Problem.from_edges(40, []), Pruning(), limit=1000)
    with pytest.raises(BlockTooLargeError, match="1,000 transitions: lower"):
        build_state_space(Problem.from_edges(9, []), Pruning(), limit=1000)


def test_blocks_of_more_than_64_operators():
    chain = Problem.from_edges(100, [(i, i + 1) for i in range(99)])
    space = build_state_space(chain, Pruning(3, 8))
    assert len(space.states) == 101
    assert space.transitions == 98 * 3 + 2 + 1
    assert list(operators_of(space.states[-1])) == list(range(100))


@pytest.mark.parametrize("value", [-1, 2.5, "3"])
def test_pruning_refuses(value):
    with pytest.raises(ValueError, match="max_groups"):
        Pruning(3, value)
