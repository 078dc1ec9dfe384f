"""The dynamic program while latencies change, compared with a plain recursion."""

import functools
import math

import numpy as np
import pytest
from scheduler_helpers import problem_of

from ios_tf.scheduler import Pruning
from ios_tf.scheduler.dynamic_programming import DynamicProgram, solve
from ios_tf.scheduler.state_space import build_state_space


def space_of(seed):
    problem, _, _ = problem_of(seed, 2 + seed % 8)
    return build_state_space(problem, Pruning(0, 0))


def least(space, stage_ms):
    """The lowest cost, and the fewest stages of a schedule with this cost."""

    @functools.cache
    def of_state(state):
        if state == 0:
            return 0, 0
        transitions = range(space.first[state], space.first[state + 1])
        ways = []
        for transition in transitions:
            cost, length = of_state(int(space.rest[transition]))
            ways.append((cost + stage_ms[space.stage[transition]], length + 1))
        return min(ways)

    return of_state(len(space.first) - 2)


@pytest.mark.parametrize("seed", range(60))
def test_changes_give_what_a_new_program_gives(seed):
    space = space_of(seed)
    random = np.random.default_rng(seed)
    # With small whole numbers, sums are exact, and many schedules have the same cost.
    stage_ms = random.integers(1, 6, space.stages.shape[1]).astype(float)
    program = DynamicProgram(space, stage_ms)
    for step in range(12):
        changed = random.choice(len(stage_ms), min(3, len(stage_ms)), replace=False)
        # Every fourth change also makes stages faster.
        lowest = -1 if step % 4 == 3 else 0
        stage_ms[changed] += random.integers(lowest, 4, len(changed))
        program.change({int(i): stage_ms[i] for i in changed})
        chosen, cost = program.cheapest()
        assert (cost, len(chosen)) == least(space, stage_ms)
        assert (chosen, cost) == solve(space, stage_ms)
        without_first = stage_ms.copy()
        without_first[0] = math.inf
        copy = program.changed({0: math.inf})
        assert copy.cheapest()[1] == solve(space, without_first)[1]
        assert program.cheapest() == (chosen, cost)
    assert program.stage_ms.tolist() == stage_ms.tolist()


def test_a_stage_without_latency_is_not_chosen():
    space = space_of(5)
    stage_ms = np.ones(space.stages.shape[1])
    program = DynamicProgram(space, stage_ms)
    chosen, _ = program.cheapest()
    program.change({chosen[0]: math.inf})
    stage_ms[chosen[0]] = math.inf
    assert program.cheapest()[1] == least(space, stage_ms)[0]
    program.change({chosen[0]: 0.5})
    stage_ms[chosen[0]] = 0.5
    assert program.cheapest()[1] == least(space, stage_ms)[0]


@pytest.mark.parametrize("seed", range(40))
def test_cheapest_way_with_each_stage(seed):
    space = space_of(seed)
    stage_ms = np.random.default_rng(seed).uniform(0.5, 2.0, space.stages.shape[1])
    found = DynamicProgram(space, stage_ms).cheapest_with_each()
    chosen, lowest = solve(space, stage_ms)
    assert found[chosen] == pytest.approx([lowest] * len(chosen))
    for stage in range(len(stage_ms)):
        # If a stage has a very negative cost, the cheapest schedule contains it.
        cheap = stage_ms.copy()
        cheap[stage] -= 100.0
        _, with_stage = solve(space, cheap)
        assert found[stage] == pytest.approx(with_stage + 100.0)


@pytest.mark.parametrize("seed", range(40))
def test_cheapest_way_with_each_stage_below_a_limit(seed):
    space = space_of(seed)
    random = np.random.default_rng(seed)
    stage_ms = random.uniform(0.5, 2.0, space.stages.shape[1])
    program = DynamicProgram(space, stage_ms)
    limit = 1.5 * program.cheapest()[1]
    for step in range(12):
        changed = random.choice(len(stage_ms), min(2, len(stage_ms)), replace=False)
        # In one step, stages become faster, and in another step, the limit is higher.
        stage_ms[changed] *= random.uniform(0.5, 1.0) if step == 6 else 1.05
        program.change({int(i): stage_ms[i] for i in changed})
        limit *= 1.2 if step == 9 else 0.99
        every = DynamicProgram(space, stage_ms).cheapest_with_each()
        found = program.cheapest_with_each(limit)
        assert found[every < limit] == pytest.approx(every[every < limit])
        assert np.all(found[every >= limit] >= limit)
