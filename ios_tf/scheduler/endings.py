"""Endings of a state: what its last stage can be (paper, section 4.1).

An ending is closed under successors inside its state, so each of its connected
components is itself an ending, and any two disjoint endings have no edge between
them. Endings with at most s groups of at most r operators are therefore exactly
the unions of at most s disjoint connected endings of at most r operators: both
limits are applied while building, and no ending is met twice.
"""

from __future__ import annotations

from ios_tf.scheduler.problem import Problem, operators_of
from ios_tf.scheduler.pruning import Pruning


def endings(problem: Problem, state: int, pruning: Pruning) -> list[int]:
    """All non-empty endings of a state (a bitmask) that `pruning` allows."""
    operators = state.bit_count()
    # Every group holds an operator that nothing in the state reads.
    last = sum(not problem.successors[op] & state for op in operators_of(state))
    groups_limit = pruning.groups_limit(last)
    if (
        not pruning.single_source
        and groups_limit == last
        and pruning.group_size_limit(operators) == operators
    ):
        return _all_endings(problem, state)
    # unions[k]: the endings of k groups among the groups seen so far.
    unions: list[list[int]] = [[0]] + [[] for _ in range(groups_limit)]
    for group in connected_endings(problem, state, pruning):
        for count in range(groups_limit, 0, -1):
            if unions[count - 1]:
                unions[count] += [
                    union | group for union in unions[count - 1] if not union & group
                ]
    return [union for same_count in unions[1:] for union in same_count]


def connected_endings(problem: Problem, state: int, pruning: Pruning) -> list[int]:
    """What one group of the last stage of a state can be."""
    limit = pruning.group_size_limit(state.bit_count())
    closures = _successor_closures(problem, state, limit)
    groups = list(closures)
    if pruning.single_source:
        return groups
    # A connected ending is the union of the closures of its sources, and these can
    # be added one by one such that each overlaps those before.
    found = set(groups)
    for group in groups:  # grows while it is read
        for closure in closures:
            if group & closure and closure & ~group:
                union = group | closure
                if union.bit_count() <= limit and union not in found:
                    found.add(union)
                    groups.append(union)
    return groups


def merge_endings(problem: Problem, state: int, pruning: Pruning) -> list[int]:
    """Endings that are one operator, or operators that may merge."""
    last = [op for op in operators_of(state) if not problem.successors[op] & state]
    found = {1 << op: None for op in last}
    limit = pruning.groups_limit(state.bit_count())
    for merge_class in problem.merge_classes:
        subsets = [0]
        for op in last:
            if merge_class >> op & 1:
                subsets += [
                    subset | 1 << op for subset in subsets if subset.bit_count() < limit
                ]
        # Classes may overlap: a dictionary, not a list.
        found.update((subset, None) for subset in subsets if subset)
    return list(found)


def _all_endings(problem: Problem, state: int) -> list[int]:
    """The unpruned case, where groups need not be known."""
    found = [0]
    for op in reversed(list(operators_of(state))):
        needed = problem.successors[op] & state
        bit = 1 << op
        if needed:
            found += [ending | bit for ending in found if needed & ending == needed]
        else:
            found += [ending | bit for ending in found]
    return found[1:]


def _successor_closures(problem: Problem, state: int, limit: int) -> list[int]:
    """Each operator with all that follows it in the state, if at most `limit`."""
    closures: dict[int, int] = {}
    for op in reversed(list(operators_of(state))):
        closure = 1 << op
        for successor in operators_of(problem.successors[op] & state):
            if successor not in closures:
                break  # too large already
            closure |= closures[successor]
        else:
            if closure.bit_count() <= limit:
                closures[op] = closure
    return list(closures.values())
