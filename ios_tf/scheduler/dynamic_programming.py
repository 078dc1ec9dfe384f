"""Dynamic program over states: the paper's Algorithm 1 (section 4), bottom up.

    cost[S] = min over endings S' of S of cost[S - S'] + stage latency[S']

Endings of a single operator are never pruned, so that every state is reached. Visiting
the states by size gives the same result as the paper's memoised recursion, without deep
recursion.

A search replaces lower bounds by latencies, a few at a time. A latency is hardly ever
lower than its bound. So if a stage's bound is replaced, only the costs of states whose
cheapest way contains the stage can change. Only few states do: for the largest block of
RandWire, the median is 12 of 2,523 states.
"""

from __future__ import annotations

import copy
import dataclasses
import heapq
import itertools
import math
from collections.abc import Mapping

import numpy as np

from ios_tf.scheduler.state_space import StateSpace

_NONE = -1  # the empty state has no ending


class DynamicProgram:
    """The cheapest ways to all states, while the latencies of stages change.

    A way to a state is a sequence of stages that runs exactly the state's operators.

    Attributes:
      stage_ms: float64[stages], the present latency of every distinct stage.
    """

    def __init__(self, space: StateSpace, stage_ms: np.ndarray) -> None:
        """Solves the program for the first latency of each stage of the space."""
        count = len(space.first) - 1
        self._space = space
        self.stage_ms = stage_ms.copy()
        # For each state: the cost of the cheapest way to it, the number of its stages,
        # its last stage, and the state without that stage.
        self._cost = np.zeros(count)
        self._length = np.zeros(count, np.int32)
        self._ending = np.full(count, _NONE, np.int32)
        self._rest = np.full(count, _NONE, np.int32)
        # Transitions that were on a way below the limit in `cheapest_with_each`.
        self._useful: _Transitions | None = None
        self._limit_ms = math.inf
        self._solve()

    def cheapest(self) -> tuple[list[int], float]:
        """The cheapest way through the space.

        Returns:
          Indices into `space.stages` in execution order, and the sum of their
          latencies. If several ways have exactly the same cost, one with the fewest
          stages is chosen. A new program always chooses the same way.
        """
        stages = []
        state = len(self._cost) - 1
        while state:
            stages.append(int(self._ending[state]))
            state = self._rest[state]
        return stages[::-1], float(self._cost[-1])

    def change(self, stage_ms: Mapping[int, float]) -> None:
        """Changes the latencies of some stages, by index."""
        stages = list(stage_ms)
        old = self.stage_ms[stages]
        self.stage_ms[stages] = list(stage_ms.values())
        if np.any(self.stage_ms[stages] < old):
            self._useful = None
            self._solve()
            return
        # States are sorted by size, and depend on smaller states only.
        waiting = {state for stage in stages for state in _where(self._ending, stage)}
        queue = sorted(waiting)  # a heap
        while queue:
            state = heapq.heappop(queue)
            if self._solve_state(state):
                for user in _where(self._rest, state):
                    if user not in waiting:
                        waiting.add(user)
                        heapq.heappush(queue, user)

    def changed(self, stage_ms: Mapping[int, float]) -> DynamicProgram:
        """A copy in which the latencies of some stages are changed, by index."""
        result = copy.copy(self)
        for name in ("stage_ms", "_cost", "_length", "_ending", "_rest"):
            setattr(result, name, getattr(self, name).copy())
        result.change(stage_ms)
        return result

    def cheapest_with_each(self, limit_ms: float = math.inf) -> np.ndarray:
        """The cost of the cheapest way that contains each stage, float64[stages].

        Costs of `limit_ms` or more may be too high, and even infinite. This makes later
        calls fast: their limit should not be higher.
        """
        if self._useful is None or limit_ms > self._limit_ms:
            self._useful = _Transitions.of(self._space)
        self._limit_ms = limit_ms
        useful = self._useful
        after = np.full(len(self._cost), np.inf)  # the cost from a state to the end
        after[-1] = 0.0
        cost_ms = np.empty(len(useful.stage))  # of the cheapest way by each transition
        for low, high in reversed(list(itertools.pairwise(useful.levels.tolist()))):
            stage, rest = useful.stage[low:high], useful.rest[low:high]
            rest_after = self.stage_ms[stage] + after[useful.state[low:high]]
            np.minimum.at(after, rest, rest_after)
            cost_ms[low:high] = self._cost[rest] + rest_after
        result = np.full(len(self.stage_ms), np.inf)
        np.minimum.at(result, useful.stage, cost_ms)
        self._useful = useful.only(cost_ms < limit_ms)
        return result

    def _solve(self) -> None:
        """Solves all states; states of one size together."""
        space, cost, length = self._space, self._cost, self._length
        choice = np.zeros(len(cost), np.int64)
        for low, high in itertools.pairwise(space.levels.tolist()):
            first = space.first[low : high + 1]
            begin, end = first[0], first[-1]
            starts = first[:-1] - begin
            endings = np.diff(first)
            rest = space.rest[begin:end]
            candidates = self.stage_ms[space.stage[begin:end]] + cost[rest]
            cost[low:high] = np.minimum.reduceat(candidates, starts)
            is_lowest = candidates == np.repeat(cost[low:high], endings)
            lengths = np.where(is_lowest, length[rest], np.iinfo(np.int32).max)
            shortest = np.minimum.reduceat(lengths, starts)
            is_best = is_lowest & (lengths == np.repeat(shortest, endings))
            position = np.where(is_best, np.arange(begin, end), space.transitions)
            choice[low:high] = np.minimum.reduceat(position, starts)
            length[low:high] = shortest + 1
        self._ending[1:] = space.stage[choice[1:]]
        self._rest[1:] = space.rest[choice[1:]]

    def _solve_state(self, state: int) -> bool:
        """Solves one state. Returns whether its cost or length has changed."""
        space = self._space
        own = slice(space.first[state], space.first[state + 1])
        endings, rests = space.stage[own], space.rest[own]
        candidates = self.stage_ms[endings] + self._cost[rests]
        chosen = candidates.argmin()
        lowest = candidates[chosen]
        best = (candidates == lowest).nonzero()[0]
        if len(best) > 1:
            chosen = best[self._length[rests[best]].argmin()]
        self._ending[state], self._rest[state] = endings[chosen], rests[chosen]
        length = self._length[rests[chosen]] + 1
        if lowest == self._cost[state] and length == self._length[state]:
            return False
        self._cost[state], self._length[state] = lowest, length
        return True


@dataclasses.dataclass(frozen=True)
class _Transitions:
    """Some transitions of a state space, sorted by the size of their states.

    Attributes:
      state, stage, rest: int32[transitions], indices of the state, of its ending, and
        of the state without the ending.
      levels: int64, transitions [levels[i], levels[i + 1]) lead to states of i + 1
        operators.
    """

    state: np.ndarray
    stage: np.ndarray
    rest: np.ndarray
    levels: np.ndarray

    @classmethod
    def of(cls, space: StateSpace) -> _Transitions:
        """All transitions of a space."""
        states = np.arange(len(space.first) - 1, dtype=np.int32)
        state = np.repeat(states, np.diff(space.first))
        return cls(state, space.stage, space.rest, space.first[space.levels])

    def only(self, kept: np.ndarray) -> _Transitions:
        """The kept transitions, or all transitions if most of them are kept."""
        if 2 * np.count_nonzero(kept) > len(kept):
            return self
        levels = np.concatenate([[0], np.cumsum(kept)])[self.levels]
        return _Transitions(self.state[kept], self.stage[kept], self.rest[kept], levels)


def _where(values: np.ndarray, value: int) -> list[int]:
    """The indices of a value, ascending."""
    return list((values == value).nonzero()[0].tolist())


def solve(space: StateSpace, stage_ms: np.ndarray) -> tuple[list[int], float]:
    """Finds the cheapest way through a state space: see `DynamicProgram.cheapest`."""
    return DynamicProgram(space, stage_ms).cheapest()
