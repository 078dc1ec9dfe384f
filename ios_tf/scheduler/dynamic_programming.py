"""Dynamic program over states: the paper's Algorithm 1 (section 4), bottom up.

    cost[S] = min over endings S' of S of cost[S - S'] + stage latency[S']

Endings of a single operator are never pruned, so that every state is reached. Visiting
the states by size gives the same result as the paper's memoised recursion, without deep
recursion.
"""

from __future__ import annotations

import itertools

import numpy as np

from ios_tf.scheduler.state_space import StateSpace


def solve(space: StateSpace, stage_ms: np.ndarray) -> tuple[list[int], float]:
    """Finds the cheapest way through a state space.

    Args:
      space: states and transitions.
      stage_ms: float64[stages], the latency of every distinct stage.

    Returns:
      Indices into `space.stages` in execution order, and the sum of their latencies. If
      several schedules have exactly the same cost, the result is one with the fewest
      stages, always the same one.
    """
    count = len(space.first) - 1
    cost = np.zeros(count)
    length = np.zeros(count, np.int32)
    choice = np.zeros(count, np.int64)
    transition_ms = stage_ms[space.stage]
    # All states of one size are solved together, because they depend on smaller states
    # only.
    for low, high in itertools.pairwise(space.levels.tolist()):
        first = space.first[low : high + 1]
        begin, end = first[0], first[-1]
        starts = first[:-1] - begin
        endings = np.diff(first)
        rest = space.rest[begin:end]
        candidates = transition_ms[begin:end] + cost[rest]
        cost[low:high] = np.minimum.reduceat(candidates, starts)
        is_lowest = candidates == np.repeat(cost[low:high], endings)
        lengths = np.where(is_lowest, length[rest], np.iinfo(np.int32).max)
        shortest = np.minimum.reduceat(lengths, starts)
        is_best = is_lowest & (lengths == np.repeat(shortest, endings))
        position = np.where(is_best, np.arange(begin, end), space.transitions)
        choice[low:high] = np.minimum.reduceat(position, starts)
        length[low:high] = shortest + 1
    stages = []
    state = count - 1
    while state:
        stages.append(int(space.stage[choice[state]]))
        state = space.rest[choice[state]]
    return stages[::-1], float(cost[-1])


def cheapest_with(space: StateSpace, stage_ms: np.ndarray) -> np.ndarray:
    """The cost of the cheapest way that contains each stage, float64[stages].

    Args:
      space: states and transitions.
      stage_ms: float64[stages], the latency of every distinct stage.
    """
    transition_ms = stage_ms[space.stage]
    count = len(space.first) - 1
    before = np.zeros(count)  # from the empty state
    after = np.full(count, np.inf)  # to the whole block
    after[-1] = 0.0
    state = np.repeat(np.arange(count), np.diff(space.first))
    levels = list(itertools.pairwise(space.levels.tolist()))
    for low, high in levels:
        first = space.first[low : high + 1]
        own = slice(first[0], first[-1])
        candidates = transition_ms[own] + before[space.rest[own]]
        before[low:high] = np.minimum.reduceat(candidates, first[:-1] - first[0])
    for low, high in reversed(levels):
        own = slice(space.first[low], space.first[high])
        candidates = transition_ms[own] + after[state[own]]
        np.minimum.at(after, space.rest[own], candidates)
    result = np.full(len(stage_ms), np.inf)
    through = before[space.rest] + transition_ms + after[state]
    np.minimum.at(result, space.stage, through)
    return result
