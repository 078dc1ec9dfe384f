"""State space: all states of a block and the transitions between them, as arrays.

A state S is a set of operators that contains everything its operators read. A
transition is a pair of states (S, T), T a subset of S; its ending is S - T.

The space is built by adding the operators one by one, in a topological order. Each pair
(S, T) of the operators so far becomes up to three pairs: the new operator is in neither
state, only in S (and thus in the ending), or in both. No pair is built twice and no
pair is removed later, so the work is proportional to the result.

An ending is dropped as soon as it breaks a limit of `pruning` that it would also break
with more operators.

The space does not contain costs. The dynamic program is thus plain arithmetic on
arrays, the number of stages is known before any is measured, and the space can be
solved again when costs change.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ios_tf.scheduler import bitsets
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.pruning import Pruning

# The largest number of transitions. A transition takes 12 bytes of memory, and another
# 12 bytes while the space is built. The largest block of the paper has 3.6 million
# transitions without pruning.
MAX_TRANSITIONS = 30_000_000


class BlockTooLargeError(ValueError):
    """The block has more transitions than a search may hold in memory."""


@dataclasses.dataclass(frozen=True)
class StateSpace:
    """The states and transitions. Transitions [first[i], first[i + 1]) lead to state i.

    Attributes:
      states: bitsets, fewest operators first: the first is empty, the last is the
        whole block.
      levels: int64, states [levels[i], levels[i + 1]) have i + 1 operators.
      stages: bitsets, the distinct endings of all states.
      first: int64[states + 1].
      stage: int32[transitions], index of the ending in `stages`.
      rest: int32[transitions], index in `states` of the state without the ending.
    """

    states: np.ndarray
    levels: np.ndarray
    stages: np.ndarray
    first: np.ndarray
    stage: np.ndarray
    rest: np.ndarray

    @property
    def transitions(self) -> int:
        return len(self.stage)


def build_state_space(
    problem: Problem,
    pruning: Pruning,
    only_merges: bool = False,
    limit: int = MAX_TRANSITIONS,
) -> StateSpace:
    """Enumerates all states, and all of their endings that `pruning` allows.

    Args:
      problem: the block.
      pruning: limits on endings.
      only_merges: allows only endings of one operator, or of operators that may merge.
      limit: the largest number of transitions.

    Raises:
      BlockTooLargeError: there are more than `limit` transitions.
    """
    rules = _Rules(problem, pruning, only_merges)
    states = np.zeros((bitsets.words_for(len(problem)), 1), np.uint64)
    stages = states
    alone = np.zeros(1, np.int32)
    pairs = _Pairs(alone, alone, alone)
    for op in range(len(problem)):
        states, with_op = _extended(
            states, op, bitsets.contains(states, problem.predecessors[op])
        )
        inside_upper = np.flatnonzero(with_op[pairs.upper] >= 0)
        inside_both = np.flatnonzero(with_op[pairs.lower] >= 0)
        wanted = np.zeros(stages.shape[1], bool)
        wanted[pairs.stage[inside_upper]] = True
        stages, stage_with_op = _extended(stages, op, rules.may_add(stages, op, wanted))
        inside_upper = inside_upper[stage_with_op[pairs.stage[inside_upper]] >= 0]
        count = len(pairs.upper) + len(inside_upper) + len(inside_both)
        if count - states.shape[1] > limit:  # (S, S) is not a transition
            raise BlockTooLargeError(
                f"block {problem.name!r} of {len(problem)} operators is too large to "
                f"search: its dynamic program has more than {limit:,} transitions. "
                "Lower max_group_size or max_groups, or cut the block into smaller "
                "blocks"
            )
        pairs = pairs.extended(with_op, stage_with_op, inside_upper, inside_both)
    return _assembled(states, stages, rules.complete(stages), pairs)


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """Pairs of a state and a smaller state inside it. All members are int32[pairs].

    Attributes:
      upper: indices of the larger states.
      lower: indices of the smaller states.
      stage: indices of the endings, which are the differences between the two states.
    """

    upper: np.ndarray
    lower: np.ndarray
    stage: np.ndarray

    def extended(
        self,
        with_op: np.ndarray,
        stage_with_op: np.ndarray,
        inside_upper: np.ndarray,
        inside_both: np.ndarray,
    ) -> _Pairs:
        """Appends some pairs with one more operator.

        Args:
          with_op: for each state, the index of the state with the operator, or -1.
          stage_with_op: for each ending, the index of the ending with the operator,
            or -1.
          inside_upper: pairs to append with the operator only in the larger state.
          inside_both: pairs to append with the operator in both states.
        """
        upper, lower, stage = self.upper, self.lower, self.stage
        return _Pairs(
            np.concatenate(
                [upper, with_op[upper[inside_upper]], with_op[upper[inside_both]]]
            ),
            np.concatenate([lower, lower[inside_upper], with_op[lower[inside_both]]]),
            np.concatenate(
                [stage, stage_with_op[stage[inside_upper]], stage[inside_both]]
            ),
        )


def _extended(
    sets: np.ndarray, op: int, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Appends the chosen sets with `op` added.

    Returns:
      All sets, and for each old set the index of the set with `op`, or -1.
    """
    added = sets[:, chosen] | bitsets.column(1 << op, len(sets))
    place = np.full(sets.shape[1], -1, np.int32)
    place[chosen] = np.arange(added.shape[1]) + sets.shape[1]
    return np.concatenate([sets, added], axis=1), place


def _assembled(
    states: np.ndarray, stages: np.ndarray, allowed: np.ndarray, pairs: _Pairs
) -> StateSpace:
    """Makes the space: sorts the states by size, and drops pairs by their endings.

    Only pairs whose endings are `allowed` become transitions.
    """
    kept = allowed[pairs.stage]
    number = np.cumsum(allowed, dtype=np.int32) - 1
    sizes = bitsets.sizes(states)
    order = np.argsort(sizes, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    upper = rank[pairs.upper[kept]]
    by_state = _stable_argsort(upper)
    return StateSpace(
        states=states[:, order],
        levels=np.searchsorted(sizes[order], np.arange(1, sizes[order[-1]] + 2)),
        stages=stages[:, allowed],
        first=np.concatenate(
            [[0], np.cumsum(np.bincount(upper, minlength=len(order)))]
        ),
        stage=number[pairs.stage[kept]][by_state],
        rest=rank[pairs.lower[kept]][by_state],
    )


def _stable_argsort(values: np.ndarray) -> np.ndarray:
    """Returns the order that sorts whole numbers >= 0, in linear time (radix sort)."""
    order = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    if values.max(initial=0) > 0xFFFF:
        high = (values >> 16).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order


class _Rules:
    """Decides which endings a pruning allows."""

    def __init__(self, problem: Problem, pruning: Pruning, only_merges: bool) -> None:
        self._problem = problem
        self._only_merges = only_merges
        self._single_source = pruning.single_source
        count = len(problem)
        self._group_size = min(pruning.max_group_size or count, count)
        self._groups = min(pruning.max_groups or count, count)

    def may_add(self, stages: np.ndarray, op: int, wanted: np.ndarray) -> np.ndarray:
        """Returns which of the wanted stages may get `op` without breaking a limit."""
        result = wanted.copy()
        chosen = np.flatnonzero(wanted)
        bit = bitsets.column(1 << op, len(stages))
        extended = stages[:, chosen] | bit
        if self._only_merges:
            result[chosen] = self._may_merge(extended)
        elif self._single_source or self._group_size < len(self._problem):
            seeds = np.broadcast_to(bit, extended.shape)
            group = bitsets.component(seeds, extended, self._problem.adjacent)
            good = bitsets.sizes(group) <= self._group_size
            if self._single_source:
                good &= self._sources(group) == 1
            result[chosen] = good
        return result

    def complete(self, stages: np.ndarray) -> np.ndarray:
        """Returns which stages obey the limits that can only be checked in the end."""
        allowed = bitsets.sizes(stages) > 0
        if self._only_merges or self._groups == len(self._problem):
            return allowed
        # Only stages with more sources than allowed groups must be checked, because a
        # stage has at most as many groups as sources.
        many = np.flatnonzero(self._sources(stages) > self._groups)
        left = stages[:, many]
        for _ in range(self._groups):
            seeds = bitsets.lowest(left)
            left = left & ~bitsets.component(seeds, left, self._problem.adjacent)
        allowed[many] = ~np.any(left, axis=0)
        return allowed

    def _may_merge(self, stages: np.ndarray) -> np.ndarray:
        sizes = bitsets.sizes(stages)
        return (sizes == 1) | (
            may_merge(self._problem, stages) & (sizes <= self._groups)
        )

    def _sources(self, sets: np.ndarray) -> np.ndarray:
        """The number of operators in each set that read no operator of the set."""
        count = np.zeros(sets.shape[1], np.int64)
        for op, predecessors in enumerate(self._problem.predecessors):
            inside = bitsets.contains(sets, 1 << op)
            count += inside & bitsets.contains(~sets, predecessors)
        return count


def may_merge(problem: Problem, stages: np.ndarray) -> np.ndarray:
    """bool[stages]: true if the stage may run as one merged operator."""
    result = np.zeros(stages.shape[1], bool)
    for merge_class in problem.merge_classes:
        result |= bitsets.contained(stages, merge_class)
    return result & (bitsets.sizes(stages) > 1)
