"""Random problems and brute force on sets: a reference that is independent of the code.

Nothing here uses the package's bitmask code, except to construct problems.
"""

import functools
import itertools
import json
import pathlib
import random

from ios_tf.scheduler import Problem, Strategy

DATA = pathlib.Path(__file__).resolve().parent / "data"


def table_1(block):
    """The row of the paper's Table 1 for the largest block of a network, with
    counts."""
    return json.loads((DATA / "table_1.json").read_text())["blocks"][block]


def random_edges(rng, operators, density):
    return [
        (u, v)
        for u, v in itertools.combinations(range(operators), 2)
        if rng.random() < density
    ]


def random_merge_classes(rng, operators, edges):
    """Up to three sets, which may overlap, of operators that do not read each other."""
    classes = []
    for _ in range(rng.randrange(4)):
        members = []
        for op in rng.sample(range(operators), operators):
            touching = {(op, m) for m in members} | {(m, op) for m in members}
            if len(members) < 4 and not touching & edges:
                members.append(op)
        if len(members) > 1:
            classes.append(sorted(members))
    return classes


def random_graph(seed, operators):
    """(edges, merge classes) of a random DAG; its density varies with the seed."""
    rng = random.Random(seed)
    edges = random_edges(rng, operators, rng.choice([0.15, 0.3, 0.5]))
    return edges, random_merge_classes(rng, operators, set(edges))


def graph_components(operators, edges):
    """Connected components of the subgraph on a set of operators."""
    left, components = set(operators), []
    while left:
        component = {left.pop()}
        while True:
            more = {
                x
                for u, v in edges
                for x, y in ((u, v), (v, u))
                if y in component and x in left
            }
            if not more:
                break
            component |= more
            left -= more
        components.append(frozenset(component))
    return components


def fits_pruning(operators, edges, pruning):
    groups = graph_components(operators, edges)
    size, count = pruning.max_group_size, pruning.max_groups
    return (not size or all(len(group) <= size for group in groups)) and (
        not count or len(groups) <= count
    )


def assert_valid(schedule, problem):
    """Asserts that a schedule is valid by the paper's definition (section 3)."""
    count = len(problem)
    edges = [(u, v) for v, refs in enumerate(problem.inputs) for u in refs if u >= 0]
    assert schedule.signature == problem.signature
    stage_of = {}
    for number, stage in enumerate(schedule.stages):
        assert stage.groups and all(stage.groups)
        members = [op for group in stage.groups for op in group]
        assert not stage_of.keys() & members and len({*members}) == len(members)
        stage_of |= dict.fromkeys(members, number)
        assert stage.strategy is Strategy.CONCURRENT or len(stage.groups) == 1
        assert (stage.strategy is Strategy.SPLIT) == (stage.micro_batches > 1)
        if stage.strategy is Strategy.MERGE:
            assert len(members) > 1
            assert any(
                all(merge_class >> op & 1 for op in members)
                for merge_class in problem.merge_classes
            )
            continue
        if stage.strategy is Strategy.CONCURRENT:
            inside = [(u, v) for u, v in edges if {u, v} <= {*members}]
            components = graph_components(members, inside)
            assert {*map(frozenset, stage.groups)} == {*components}
        for group in stage.groups:
            place = {op: i for i, op in enumerate(group)}
            within = [(u, v) for u, v in edges if {u, v} <= place.keys()]
            assert all(place[u] < place[v] for u, v in within)
    assert stage_of.keys() == {*range(count)}
    assert all(stage_of[u] <= stage_of[v] for u, v in edges)
    for op, algorithm in schedule.algorithms.items():
        assert 0 <= op < count and algorithm in problem.algorithms[op]


def subsets(operators):
    operators = sorted(operators)
    for size in range(1, len(operators) + 1):
        yield from map(frozenset, itertools.combinations(operators, size))


def all_schedules(operators, edges, allowed):
    """Every sequence of stages, front to back.

    A stage is any set of operators that `allowed` accepts and whose operators read only
    operators of earlier stages or of the stage itself.
    """
    reads = {v: {u for u, w in edges if w == v} for v in range(operators)}

    @functools.cache
    def first_stages(left):
        return [
            stage
            for stage in subsets(left)
            if not any(reads[op] & (left - stage) for op in stage) and allowed(stage)
        ]

    def extend(done, left):
        if not left:
            yield done
        for stage in first_stages(left):
            yield from extend([*done, stage], left - stage)

    return extend([], frozenset(range(operators)))


def make_problem(operators=4, **changes):
    """The JSON of a small block: a chain of convolutions next to a single one."""
    data = {
        "version": 1,
        "signature": "ab" * 32,
        "block": {
            "version": 1,
            "name": "small",
            "dtype": "float32",
            "inputs": [[1, 8, 8, 16]],
            "operators": [
                {"name": f"op{i}", "type": "conv2d", "inputs": [i - 1]}
                for i in range(operators - 1)
            ]
            + [{"name": "alone", "type": "conv2d", "inputs": [-1]}],
            "outputs": [operators - 2, operators - 1],
        },
        "shapes": [[1, 8, 8, 16]] * operators,
        "flops": [1000] * operators,
        "merge_classes": [[0, operators - 1]],
        "operator_keys": ["conv"] * operators,
        "algorithms": [[]] * operators,
    }
    data.update(changes)
    return data


def problem_of(seed, operators):
    edges, classes = random_graph(seed, operators)
    return Problem.from_edges(operators, edges, classes), edges, classes
