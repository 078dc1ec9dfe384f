"""Dynamic program over states: the paper's Algorithm 1 (section 4), bottom up.

    cost[S] = min over endings S' of S of cost[S - S'] + stage latency[S']

Single-operator endings are never pruned, so every state is reached and visiting
them by size is the paper's memoised recursion without its depth.
"""

from __future__ import annotations

import numpy as np

from ios_tf.scheduler.state_space import StateSpace


def solve(space: StateSpace, stage_ms: np.ndarray) -> tuple[list[int], float]:
    """The cheapest way through a state space.

    Args:
      space: states and transitions.
      stage_ms: float64[stages], the latency of every distinct stage.

    Returns:
      Indices into `space.stages` in execution order, and the sum of their latencies.
      Of schedules that cost exactly the same, one with the fewest stages; the choice
      is deterministic.
    """
    count = len(space.states)
    cost = np.zeros(count)
    length = np.zeros(count, np.int32)
    choice = np.zeros(count, np.int64)
    transition_ms = stage_ms[space.stage]
    first = space.first.tolist()
    for state in range(1, count):
        begin, end = first[state], first[state + 1]
        rest = space.rest[begin:end]
        candidates = transition_ms[begin:end] + cost[rest]
        lowest = candidates.min()
        ties = np.flatnonzero(candidates == lowest)
        best = ties[np.argmin(length[rest[ties]])]
        cost[state] = lowest
        length[state] = length[rest[best]] + 1
        choice[state] = begin + best
    stages = []
    state = count - 1
    while state:
        stages.append(int(space.stage[choice[state]]))
        state = space.rest[choice[state]]
    return stages[::-1], float(cost[-1])
