"""Complexity of a block: the columns of the paper's Table 1 (section 4.2)."""

from __future__ import annotations

import dataclasses

from ios_tf.scheduler.problem import Problem, operators_of
from ios_tf.scheduler.pruning import UNPRUNED, Pruning
from ios_tf.scheduler.state_space import build_state_space


@dataclasses.dataclass(frozen=True)
class Complexity:
    """The size of a block's schedule space.

    Attributes:
      operators: number of operators, the paper's n.
      width: number of operators in the largest antichain, the paper's d.
      states: number of non-empty states that the dynamic program visits.
      transitions: number of pairs (S, S') of a state and one of its non-empty endings.
      schedules: number of different sequences of stages, whatever their strategies.
    """

    operators: int
    width: int
    states: int
    transitions: int
    schedules: int

    @property
    def bound(self) -> float:
        """The paper's upper bound on transitions, C(n / d + 2, 2) ^ d."""
        per_chain = self.operators / self.width
        return ((per_chain + 2) * (per_chain + 1) / 2) ** self.width


def complexity(problem: Problem, pruning: Pruning = UNPRUNED) -> Complexity:
    """Counts the schedule space of a block exactly.

    `Pruning(None, None, single_source=True)` gives the counts that the paper
    published.

    Raises:
      BlockTooLargeError: there are too many transitions to enumerate.
    """
    space = build_state_space(problem, pruning)
    # Python integers: the paper's blocks have up to 1e23 schedules.
    schedules = [1]
    rest = space.rest
    for i in range(1, len(space.first) - 1):
        reached = rest[space.first[i] : space.first[i + 1]].tolist()
        schedules.append(sum([schedules[j] for j in reached]))
    return Complexity(
        operators=len(problem),
        width=width(problem),
        states=len(space.first) - 2,
        transitions=space.transitions,
        schedules=schedules[-1],
    )


def width(problem: Problem) -> int:
    """The number of operators in the largest antichain.

    By Dilworth's theorem, this is the smallest number of chains that cover the block.
    It equals the number of operators minus the size of a maximum matching between
    operators and their descendants.
    """
    count = len(problem)
    descendants = [0] * count
    for op in reversed(range(count)):
        for successor in operators_of(problem.successors[op]):
            descendants[op] |= 1 << successor | descendants[successor]
    follows: dict[int, int] = {}  # operator -> the one before it in its chain

    def extend(op: int, tried: set[int]) -> bool:
        for later in operators_of(descendants[op]):
            if later not in tried:
                tried.add(later)
                if later not in follows or extend(follows[later], tried):
                    follows[later] = op
                    return True
        return False

    return count - sum(extend(op, set()) for op in range(count))
