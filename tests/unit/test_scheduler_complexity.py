"""Counts of states, transitions and schedules against the paper's Table 1."""

import itertools

import pytest
from scheduler_helpers import problem_of, table_1

from benchmarks.schedule_counts import complexity, width
from ios_tf.scheduler import UNPRUNED, Problem, Pruning

_SPACES = {
    "complete": UNPRUNED,
    "published": Pruning(None, None, single_source=True),
}


@pytest.mark.parametrize("space", _SPACES)
@pytest.mark.parametrize(
    "block", ["inception_v3", "randwire", "nasnet_a", "squeezenet"]
)
def test_table_1(block, space):
    data = table_1(block)
    problem = Problem.from_edges(data["operators"], data["edges"])
    counts = complexity(problem, _SPACES[space])
    assert counts.operators == data["operators"]
    assert counts.width == data["width"]
    assert counts.states == data["states"]
    assert counts.transitions == data[space]["transitions"]
    schedules = data[space]["schedules"]
    if isinstance(schedules, float):
        # Counts above 2^53 in the file are sums of rounded numbers. For example, its
        # unpruned count for RandWire differs from the exact count below by 3.5e-16 of
        # it.
        schedules = pytest.approx(schedules, rel=1e-15)
    assert counts.schedules == schedules
    if (block, space) == ("randwire", "complete"):
        # The exact count, computed in integers over all pairs of nested states.
        assert counts.schedules == 118464662394143512150016
    assert counts.transitions <= counts.bound


@pytest.mark.parametrize("operators", [1, 2, 3, 6])
def test_closed_forms(operators):
    chain = Problem.from_edges(
        operators, [(i, i + 1) for i in range(operators - 1)], name="chain"
    )
    counts = complexity(chain)
    assert (counts.width, counts.states) == (1, operators)
    assert counts.schedules == 2 ** (operators - 1)  # the number of compositions of n
    # The bound also counts pairs of equal states and pairs with the empty state.
    assert counts.transitions == operators * (operators + 1) // 2
    assert counts.bound == (operators + 2) * (operators + 1) / 2

    antichain = complexity(Problem.from_edges(operators, []))
    assert (antichain.width, antichain.states) == (operators, 2**operators - 1)
    assert antichain.transitions == 3**operators - 2**operators
    ordered_bell = {1: 1, 2: 3, 3: 13, 6: 4683}
    assert antichain.schedules == ordered_bell[operators]


@pytest.mark.parametrize("seed", range(60))
def test_width_is_the_largest_antichain(seed):
    problem, edges, _ = problem_of(seed, 3 + seed % 7)
    reaches = set(edges)
    for middle, u, v in itertools.product(range(len(problem)), repeat=3):
        if (u, middle) in reaches and (middle, v) in reaches:
            reaches.add((u, v))
    largest = max(
        size
        for size in range(1, len(problem) + 1)
        for chosen in itertools.combinations(range(len(problem)), size)
        if not any(pair in reaches for pair in itertools.combinations(chosen, 2))
    )
    assert width(problem) == largest
