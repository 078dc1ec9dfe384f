"""State space: all states of a block and the transitions between them, as arrays.

Separating the space from the costs keeps the dynamic program arithmetic on arrays,
tells beforehand how many stages will be asked for, and lets the same space be
solved again when costs change.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from ios_tf.scheduler.endings import endings
from ios_tf.scheduler.problem import Problem, operators_of
from ios_tf.scheduler.pruning import Pruning

# 8 bytes each; the paper's largest block, unpruned, has 3.6 million.
MAX_TRANSITIONS = 30_000_000

Endings = Callable[[Problem, int, Pruning], list[int]]


class BlockTooLargeError(ValueError):
    """The block has more transitions than a search may hold in memory."""


@dataclasses.dataclass(frozen=True)
class StateSpace:
    """Transitions [first[i], first[i + 1]) lead to state i.

    Attributes:
      states: bitmasks, fewest operators first: states[0] is empty, states[-1] is
        the whole block.
      levels: int64, states [levels[i], levels[i + 1]) have i + 1 operators.
      stages: bitmasks, the distinct endings of all states.
      first: int64[states + 1].
      stage: int32[transitions], index of the ending in `stages`.
      rest: int32[transitions], index of the state without the ending in `states`.
    """

    states: list[int]
    levels: np.ndarray
    stages: list[int]
    first: np.ndarray
    stage: np.ndarray
    rest: np.ndarray

    @property
    def transitions(self) -> int:
        return len(self.stage)


def enumerate_states(problem: Problem, limit: int = MAX_TRANSITIONS) -> list[int]:
    """All states: sets of operators without an edge into them from outside.

    Raises:
      BlockTooLargeError: more than `limit`.
    """
    states = [0]
    level = {0: None}  # states of one size; a dictionary keeps the order
    while level:
        following: dict[int, None] = {}
        for state in level:
            for op in operators_of(problem.all_operators & ~state):
                if not problem.predecessors[op] & ~state:
                    following[state | 1 << op] = None
            if len(states) + len(following) > limit:
                raise BlockTooLargeError(
                    f"block {problem.name!r} of {len(problem)} operators has more "
                    f"than {limit:,} states: cut it into smaller blocks"
                )
        states += following
        level = following
    return states


def build_state_space(
    problem: Problem,
    pruning: Pruning,
    endings_of: Endings = endings,
    limit: int = MAX_TRANSITIONS,
) -> StateSpace:
    """Enumerates states and, for each, the endings that `endings_of` gives.

    Raises:
      BlockTooLargeError: more than `limit` states or transitions.
    """
    states = enumerate_states(problem, limit)
    index = {state: i for i, state in enumerate(states)}
    numbered = collections.defaultdict(itertools.count().__next__)
    stage, rest, first = array.array("i"), array.array("i"), [0]
    for state in states:
        found = endings_of(problem, state, pruning)
        stage.extend([numbered[ending] for ending in found])
        rest.extend([index[state ^ ending] for ending in found])
        first.append(len(stage))
        if len(stage) > limit:
            raise BlockTooLargeError(
                f"block {problem.name!r} of {len(problem)} operators has more than "
                f"{limit:,} transitions: lower max_group_size or max_groups, or cut "
                "it into smaller blocks"
            )
    sizes = [state.bit_count() for state in states]
    return StateSpace(
        states=states,
        levels=np.searchsorted(sizes, np.arange(1, sizes[-1] + 2)),
        stages=list(numbered),
        first=np.array(first, np.int64),
        stage=np.frombuffer(stage, np.int32),
        rest=np.frombuffer(rest, np.int32),
    )
