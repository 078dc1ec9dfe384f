"""Endings compared with all subsets of a state, checking each limit separately."""

import pytest
from scheduler_helpers import fits_pruning, graph_components, problem_of, subsets

from ios_tf.scheduler import UNPRUNED, Problem, Pruning, bitsets
from ios_tf.scheduler.problem import mask_of
from ios_tf.scheduler.state_space import BlockTooLargeError, build_state_space

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


def _endings(problem, pruning, only_merges=False):
    """The sorted endings of each state as bitmasks; checks the space's consistency."""
    space = build_state_space(problem, pruning, only_merges)
    states, stages = (
        [bitsets.to_mask(sets, i) for i in range(sets.shape[1])]
        for sets in (space.states, space.stages)
    )
    assert states[0] == 0
    assert states[-1] == problem.all_operators
    assert [mask.bit_count() for mask in states] == sorted(
        mask.bit_count() for mask in states
    )
    assert len(set(stages)) == len(stages)
    found = {}
    for i, state in enumerate(states):
        span = range(space.first[i], space.first[i + 1])
        endings = [stages[space.stage[t]] for t in span]
        assert [states[space.rest[t]] for t in span] == [
            state ^ ending for ending in endings
        ]
        found[state] = sorted(endings)
    assert len(found) == len(states)
    return found


def _brute_force_states(operators, edges):
    everything = [frozenset(), *subsets(range(operators))]
    return [s for s in everything if all(u in s for u, v in edges if v in s)]


def _brute_force_endings(state, edges):
    return [
        ending
        for ending in subsets(state)
        if not any(u in ending and v in state - ending for u, v in edges)
    ]


def _sorted_masks(sets):
    return sorted(map(mask_of, sets))  # in a list, duplicates are visible


@pytest.mark.parametrize("seed", range(60))
def test_states_and_endings_are_complete(seed):
    problem, edges, classes = problem_of(seed, 4 + seed % 5)
    states = _brute_force_states(len(problem), edges)
    for pruning in (UNPRUNED, Pruning(3, 2), _PRUNINGS[seed % len(_PRUNINGS)]):
        expected, expected_merges = {}, {}
        for state in states:
            endings = [
                ending
                for ending in _brute_force_endings(state, edges)
                if fits_pruning(ending, edges, pruning)
            ]
            expected[mask_of(state)] = _sorted_masks(endings)
            expected_merges[mask_of(state)] = _sorted_masks(
                ending
                for ending in endings
                if len(ending) == 1 or any(ending <= set(c) for c in classes)
            )
        assert _endings(problem, pruning) == expected
        assert _endings(problem, pruning, only_merges=True) == expected_merges


@pytest.mark.parametrize("limits", [(None, None), (3, 2), (2, None), (None, 1)])
@pytest.mark.parametrize("seed", range(20))
def test_single_source_groups_are_successor_closures(seed, limits):
    problem, edges, _ = problem_of(seed, 7)
    pruning = Pruning(*limits, single_source=True)

    def closure(op, state):
        reached = {op}
        for u, v in edges:  # one pass suffices because edges are sorted by u
            if u in reached and v in state:
                reached.add(v)
        return frozenset(reached)

    expected = {}
    for state in _brute_force_states(7, edges):
        closures = {closure(op, state) for op in state}
        expected[mask_of(state)] = _sorted_masks(
            ending
            for ending in _brute_force_endings(state, edges)
            if fits_pruning(ending, edges, pruning)
            and all(g in closures for g in graph_components(ending, edges))
        )
    assert _endings(problem, pruning) == expected


def test_a_group_may_have_several_sources():
    # In 0 -> 2 <- 1, the authors' enumeration misses the ending of all operators.
    problem = Problem.from_edges(3, [(0, 2), (1, 2)])
    assert _endings(problem, UNPRUNED)[0b111] == [0b100, 0b101, 0b110, 0b111]
    restricted = Pruning(None, None, single_source=True)
    assert _endings(problem, restricted)[0b111] == [0b100, 0b101, 0b110]


def test_too_large_blocks_are_refused():
    with pytest.raises(BlockTooLargeError, match="9 operators is too large to search"):
        build_state_space(Problem.from_edges(9, []), Pruning(), limit=1000)


@pytest.mark.parametrize("operators", [63, 64, 65, 130])
def test_blocks_of_more_than_one_word(operators):
    chain = Problem.from_edges(operators, [(i, i + 1) for i in range(operators - 1)])
    endings = _endings(chain, Pruning(3, 8))
    assert list(endings) == [2**size - 1 for size in range(operators + 1)]
    assert sum(map(len, endings.values())) == (operators - 2) * 3 + 2 + 1
    two = [(i, i + 2) for i in range(operators - 2)]
    chains = Problem.from_edges(operators, two)
    long, short = -(-operators // 2), operators // 2
    assert len(_endings(chains, Pruning(1, 1))) == (long + 1) * (short + 1)
    merges = Problem.from_edges(
        operators, two, [[0, 1], [operators - 2, operators - 1]]
    )
    stages = {e for found in _endings(merges, UNPRUNED, True).values() for e in found}
    assert {e for e in stages if e.bit_count() > 1} == {3, 3 << (operators - 2)}


@pytest.mark.parametrize("value", [-1, 2.5, "3"])
def test_pruning_refuses(value):
    with pytest.raises(ValueError, match="max_groups"):
        Pruning(3, value)
