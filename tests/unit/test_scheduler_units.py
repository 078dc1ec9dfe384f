"""Units, which are scheduled as a whole, and parts, into which large blocks are cut."""

import random

import pytest
from scheduler_helpers import assert_valid, make_problem, problem_of, random_edges

from ios_tf.scheduler import (
    UNPRUNED,
    Problem,
    SearchOptions,
    Stage,
    computed_by_readers,
    make_units,
    matching_units,
    partition,
    search,
)
from ios_tf.scheduler.problem import mask_of, operators_of


def _typed(types, edges, outputs):
    """A problem whose operators have types and read their predecessors."""
    count = len(types)
    data = make_problem(count, merge_classes=[], operator_keys=types)
    for op, operator in enumerate(data["block"]["operators"]):
        operator["type"] = types[op]
        operator["inputs"] = sorted(u for u, v in edges if v == op) or [-1]
    data["block"]["outputs"] = outputs
    return Problem.from_json(data)


def test_a_sum_belongs_to_its_only_reader():
    # Operators 2, 3 and 4 are a chain of two sums and their only reader. Operator 5 is
    # a sum with two readers, and operator 8 is a sum that is an output.
    types = ["conv", "conv", "add", "add", "conv", "add", "conv", "conv", "add"]
    edges = [(0, 2), (1, 2), (2, 3), (0, 3), (3, 4), (1, 5), (4, 5), (5, 6), (5, 7)]
    edges += [(6, 8), (7, 8)]
    problem = _typed(types, edges, [8])
    units = computed_by_readers(problem)
    assert [sorted(operators_of(unit)) for unit in units] == [[2, 3, 4]]
    made = make_units(problem, units)
    assert sorted(made.masks) == sorted(
        [0b11100, *(1 << op for op in (0, 1, 5, 6, 7, 8))]
    )
    # The edges between units are 0, 1 -> (2 3 4) -> 5 -> 6, 7 -> 8, and 1 -> 5.
    place = {mask: i for i, mask in enumerate(made.masks)}
    sums = place[0b11100]
    reads = made.contracted.predecessors[sums]
    assert reads == mask_of([place[1], place[2]])
    assert made.contracted.predecessors[place[1 << 5]] == mask_of([sums, place[2]])
    # Operators that belong to another unit are not used again.
    assert computed_by_readers(problem, taken=0b10000) == [0b1100]
    assert computed_by_readers(problem, taken=0b01000) == []


class _Costs:
    """A random cost for each set of operators."""

    def stage_latency(self, problem, stage):
        operators = sorted(op for group in stage.groups for op in group)
        return random.Random(str(operators)).random() * (len(operators) + 0.5)


@pytest.mark.parametrize("seed", range(30))
def test_a_search_of_units_is_one_of_the_contracted_graph(seed):
    problem, edges, _ = problem_of(seed, 8)
    rng = random.Random(seed)
    op = rng.randrange(7)
    # The two operators are neighbors in a topological order, so no path leaves the pair
    # and returns.
    pair = 0b11 << op
    result = search(
        problem, _Costs(), SearchOptions("parallel", UNPRUNED, units=[pair])
    )
    assert_valid(result.schedule, problem)
    for stage in result.schedule.stages:
        assert stage.operators & pair in (0, pair)

    number = [i if i <= op else i - 1 for i in range(8)]
    contracted = Problem.from_edges(
        7, {(number[u], number[v]) for u, v in edges if number[u] != number[v]}
    )

    class Expanded:
        def stage_latency(self, _, stage):
            inside = {i for group in stage.groups for i in group}
            operators = mask_of(i for i in range(8) if number[i] in inside)
            return _Costs().stage_latency(problem, Stage.concurrent(problem, operators))

    expected = search(contracted, Expanded(), SearchOptions("parallel", UNPRUNED))
    assert result.latency_ms == pytest.approx(expected.latency_ms, rel=1e-12)
    assert result.stats.transitions == expected.stats.transitions


def test_units_do_not_merge_but_others_do():
    problem = Problem.from_edges(4, [(2, 3)], [[0, 1, 2]])
    made = make_units(problem, [0b1100])
    assert [sorted(operators_of(mask)) for mask in made.masks] == [[0], [1], [2, 3]]
    assert made.contracted.merge_classes == (0b11,)


def test_units_of_patterns():
    names = [
        f"stage{s}_node{n}_{what}" for s in (1, 2) for n in (0, 1) for what in "ab"
    ]
    data = make_problem(8, merge_classes=[])
    for operator, name in zip(data["block"]["operators"], names, strict=True):
        operator["name"] = name
    problem = Problem.from_json(data)
    by_node = matching_units(problem, [r"stage(\d+)_node(\d+)_"])
    assert by_node == [0b11, 0b1100, 0b110000, 0b11000000]
    first_wins = matching_units(problem, [r"stage1", r"node(0)"])
    assert first_wins == [0b1111, 0b110000]
    assert matching_units(problem, [r"nothing"]) == []


def test_refuses_units_that_cannot_run():
    problem = Problem.from_edges(3, [(0, 1), (1, 2)])
    with pytest.raises(ValueError, match="depend on each other in a cycle") as error:
        make_units(problem, [0b101])
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="operator '1' is in two units"):
        make_units(problem, [0b011, 0b110])


def _parts(problem, fits=lambda mask: True, borders=()):
    masks, forced = partition(make_units(problem), fits, borders)
    assert sum(masks) == problem.all_operators
    position = 0
    for mask in masks:  # consecutive, so the parts can run in this order
        assert mask >> position == (1 << mask.bit_count()) - 1
        position += mask.bit_count()
    return [mask.bit_count() for mask in masks], forced


def _cells(count, size):
    """Cells that read the two preceding cells, so no single tensor separates them."""
    edges = []
    for cell in range(count):
        first, last = cell * (size + 2), cell * (size + 2) + size + 1
        branches = range(first + 1, last)
        edges += [(first, op) for op in branches] + [(op, last) for op in branches]
        if cell > 0:
            edges.append((first - 1, first))
        if cell > 1:
            edges.append((first - 1 - (size + 2), first))
    return Problem.from_edges(count * (size + 2), edges)


@pytest.mark.parametrize("count, size", [(6, 14), (5, 16), (9, 11)])
def test_cells_are_separated_at_their_waists(count, size):
    sizes, forced = _parts(_cells(count, size))
    assert (len(sizes), forced) == (count, 0)
    # The sizes of the last two parts may vary, because the first operator of the last
    # cell may also belong to the part before it.
    assert sizes[:-2] == [size + 2] * (count - 2)


def test_small_blocks_and_blocks_without_a_waist_stay_whole():
    assert _parts(_cells(3, 6)) == ([24], 0)
    edges = random_edges(random.Random(0), 33, 0.3)
    assert _parts(Problem.from_edges(33, edges)) == ([33], 0)


def test_what_does_not_fit_is_cut_until_it_does():
    antichain = Problem.from_edges(40, [])
    sizes, forced = _parts(antichain, lambda mask: mask.bit_count() <= 12)
    assert forced == len(sizes) - 1 > 2
    assert max(sizes) <= 12
    # Even a single operator does not fit, so every operator becomes a part.
    assert _parts(Problem.from_edges(3, []), lambda mask: False) == ([1, 1, 1], 2)


def test_borders_replace_waists():
    assert _parts(_cells(6, 6), borders=["^15$", "^40$"]) == ([16, 25, 7], 0)
    assert _parts(_cells(6, 6), borders=["^47$"]) == ([48], 0)
