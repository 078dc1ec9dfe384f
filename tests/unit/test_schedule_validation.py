"""The engine accepts exactly the schedules that are valid by definition."""

import json
import random

import numpy as np
import pytest
from scheduler_helpers import assert_valid, random_edges

from ios_tf.native import engine
from ios_tf.scheduler import (
    Problem,
    Schedule,
    Stage,
    Strategy,
    greedy_schedule,
    sequential_schedule,
)

CHANNELS = 8
OPERATORS = 7


def random_block(rng):
    """A block of convolutions, some of which may merge, activations and sums."""
    edges = random_edges(rng, OPERATORS, 0.3)
    operators = []
    for op in range(OPERATORS):
        inputs = [u for u, v in edges if v == op] or [-1]
        operator = {"type": "activation", "activation": "relu"}
        if len(inputs) > 1:
            operator = {"type": "add"}
        elif rng.random() < 0.7:
            kernel = rng.choice([[1, 1], [3, 3]])
            operator = {"type": "conv2d", "kernel": kernel, "padding": "SAME"}
            operator["filters"] = CHANNELS
        operators.append({**operator, "inputs": inputs})
    read = {ref for operator in operators for ref in operator["inputs"]}
    outputs = [op for op in range(OPERATORS) if op not in read]
    return {
        "version": 1,
        "inputs": [[4, 3, 3, CHANNELS]],
        "operators": operators,
        "outputs": outputs,
    }


def weights(block):
    return [
        np.zeros((*operator["kernel"], CHANNELS, CHANNELS), np.float32)
        for operator in block["operators"]
        if operator["type"] == "conv2d"
    ]


def mutated(stages, rng):
    """The stages with one random change that may break a rule."""
    stages = [
        [s.strategy, [list(g) for g in s.groups], s.micro_batches] for s in stages
    ]
    at = rng.randrange(len(stages))
    stage = stages[at]
    group = rng.choice(stage[1]) if stage[1] else []
    change = rng.randrange(9)
    if change == 0:
        stages.insert(at, stages.pop(rng.randrange(len(stages))))
    elif change == 1:
        rng.shuffle(group)
    elif change == 2:
        stage[1] = [[op for g in stage[1] for op in g]]
    elif change == 3:
        stage[1] = [[op] for g in stage[1] for op in g]
    elif change == 4 and group:
        group[rng.randrange(len(group))] = rng.randrange(OPERATORS)
    elif change == 5:
        stage[0] = rng.choice(list(Strategy))
    elif change == 6:
        stage[2] = rng.randrange(4)
    elif change == 7:
        del group[-1:]
    elif len(stages) > 1:  # joins the stage with the next one
        stage[1] += stages.pop((at + 1) % len(stages))[1]
    return [Stage(s, tuple(tuple(g) for g in gs), m) for s, gs, m in stages]


def refusal(error, function, *arguments):
    try:
        function(*arguments)
    except error as reason:
        return str(reason)
    return None


@pytest.mark.parametrize("seed", range(40))
def test_valid_schedules_are_taken_and_others_refused(seed):
    rng = random.Random(seed)
    block = random_block(rng)
    problem = Problem.from_json(engine.problem(block))
    taken = 0
    for _ in range(50):
        stages = list(
            rng.choice([sequential_schedule, greedy_schedule])(problem).stages
        )
        for _ in range(rng.randrange(6)):
            stages = mutated(stages, rng)
        algorithms = {}
        if rng.random() < 0.3:
            algorithms = {rng.randrange(OPERATORS + 1): "winograd_2x2"}
        schedule = Schedule(tuple(stages), problem.signature, algorithms=algorithms)
        document = json.loads(schedule.to_json())
        schedule = Schedule.from_json(document)
        text = json.dumps(document)
        broken = refusal(AssertionError, assert_valid, schedule, problem)
        by_door = refusal(engine.EngineError, engine.check_schedule, block, text)
        by_program = refusal(
            engine.EngineError, engine.Program, block, document, weights(block)
        )
        assert (broken is None) == (by_door is None), (stages, broken, by_door)
        assert by_door == by_program
        taken += broken is None
    assert 5 < taken < 50
