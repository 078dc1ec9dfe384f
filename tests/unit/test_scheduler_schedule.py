"""The JSON of schedules, and the engine's refusal of every kind of broken schedule."""

import dataclasses
import json

import pytest

from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage, Strategy


def _operator(kind, *inputs):
    return {"type": kind, "filters": 4, "inputs": inputs}


# Edges 0 -> 2 -> 3, 1 -> 3, 0 -> 4; 0 and 1 may merge, and so may 2 and 4.
_OPERATORS = [
    _operator("conv2d", -1),
    _operator("conv2d", -1),
    _operator("conv2d", 0),
    {"type": "add", "inputs": [2, 1]},
    _operator("conv2d", 0),
]
_PROBLEM = Problem.from_json(
    engine.problem(
        {
            "version": 1,
            "inputs": [[4, 3, 3, 4]],
            "operators": _OPERATORS,
            "outputs": [3, 4],
        }
    )
)


def _schedule(*stages):
    kinds = {"c": Strategy.CONCURRENT, "m": Strategy.MERGE, "s": Strategy.SPLIT}
    return Schedule(
        tuple(
            Stage(kinds[kind], tuple(map(tuple, groups)), *micro_batches)
            for kind, groups, *micro_batches in stages
        ),
        _PROBLEM.signature,
    )


_GOOD = {
    "sequential": [("c", [[i]]) for i in range(5)],
    "one stage": [("c", [[0, 1, 2, 3, 4]])],
    "any topological order": [("c", [[1, 0, 4, 2, 3]])],
    "two groups": [("c", [[0, 4, 2], [1]]), ("c", [[3]])],
    "groups in any order": [("c", [[1], [0, 4, 2]]), ("c", [[3]])],
    "merges": [("m", [[1, 0]]), ("m", [[2, 4]]), ("c", [[3]])],
    "splits": [("s", [[1, 0, 4, 2]], 4), ("c", [[3]])],
}

# The stages that follow the stages of operators 0 and 1.
_REST = [("c", [[2], [4]]), ("c", [[3]])]
_BROKEN = {
    "leaves out": ([("c", [[0, 2], [1]])], "operator 3 is not scheduled"),
    "nothing": ([], "operator 0 is not scheduled"),
    "twice": ([("c", [[0]]), ("c", [[0]])], "operator 0 is scheduled twice"),
    "twice in a stage": ([("c", [[0], [0]])], "operator 0 is scheduled twice"),
    "twice in a group": ([("c", [[0, 0]])], "operator 0 is scheduled twice"),
    "range": ([("c", [[5]])], "no operator 5"),
    "negative": ([("c", [[-1]])], "no operator -1"),
    "edge back": (
        [("c", [[2], [1], [4]]), ("c", [[0]]), ("c", [[3]])],
        "operator 2 runs in an earlier stage than its input 0",
    ),
    "no groups": ([("c", [])], "stage 0 is empty"),
    "empty group": ([("c", [[0], []])], "empty group"),
    "one group too few": (
        [("c", [[0, 1]]), *_REST],
        "operators 1 and 0 must be in different groups, because no edges connect them",
    ),
    "one group too many": (
        [("c", [[0], [2], [1], [4]]), ("c", [[3]])],
        "operators 0 and 2 must be in the same group, because one reads the other",
    ),
    "order": (
        [("c", [[2, 0, 4], [1]]), ("c", [[3]])],
        "operator 2 must come after its input 0",
    ),
    "no merge": ([("c", [[0]]), ("m", [[1, 2]]), ("c", [[3], [4]])], "cannot be"),
    "merge of one": ([("m", [[0]]), ("c", [[1]]), *_REST], "two or more"),
    "merge of two groups": ([("m", [[0], [1]]), *_REST], "must have one group"),
    "split of two groups": ([("s", [[0], [1]], 2), *_REST], "must have one group"),
    "split into one": (
        [("s", [[0, 1]]), *_REST],
        "split stage 0 cannot have micro_batches=1",
    ),
    "micro-batches without a split": (
        [("c", [[0], [1]], 2), *_REST],
        "concurrent stage 0 cannot have micro_batches=2",
    ),
    "order of a split": (
        [("s", [[1, 2, 0, 4]], 2), ("c", [[3]])],
        "operator 2 must come after its input 0",
    ),
    "merge too early": (
        [("m", [[2, 4]]), ("c", [[0], [1]]), ("c", [[3]])],
        "operator 2 runs in an earlier stage than its input 0",
    ),
}


@pytest.mark.parametrize("stages", _GOOD.values(), ids=_GOOD.keys())
def test_accepts(stages):
    schedule = _schedule(*stages)
    engine.check_schedule(_PROBLEM.block, schedule.to_json())
    assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize("stages, message", _BROKEN.values(), ids=_BROKEN.keys())
def test_refuses(stages, message):
    with pytest.raises(engine.EngineError, match=message) as error:
        engine.check_schedule(_PROBLEM.block, _schedule(*stages).to_json())
    assert "\n" not in str(error.value)


def test_refuses_the_schedule_of_another_block():
    schedule = dataclasses.replace(_schedule(*_GOOD["one stage"]), signature="ff")
    with pytest.raises(engine.EngineError, match="for another block"):
        engine.check_schedule(_PROBLEM.block, schedule.to_json())


def test_json_is_the_interchange_format():
    schedule = dataclasses.replace(
        _schedule(*_GOOD["merges"]), metadata={"device": "cpu", "latency_ms": 1.5}
    )
    data = json.loads(schedule.to_json())
    assert data == {
        "version": 1,
        "signature": _PROBLEM.signature,
        "device": "cpu",
        "latency_ms": 1.5,
        "stages": [
            {"strategy": "merge", "groups": [[1, 0]]},
            {"strategy": "merge", "groups": [[2, 4]]},
            {"strategy": "concurrent", "groups": [[3]]},
        ],
    }
    assert Schedule.from_json(data) == schedule


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "cannot be parsed as JSON"),
        ("[]", "JSON object"),
        ('{"version": 2}', "version 2"),
        ('{"version": 1}', 'no list "stages"'),
        ('{"version": 1, "signature": 1, "stages": []}', "signature"),
        ('{"version": 1, "stages": [1]}', "stage 0 of the schedule must be"),
        ('{"version": 1, "stages": [{"strategy": "x"}]}', "unknown strategy 'x'"),
        ('{"version": 1, "stages": [{"strategy": []}]}', "unknown strategy"),
        ('{"version": 1, "stages": [{"strategy": "merge"}]}', "lists of operator"),
        (
            '{"version": 1, "stages": [{"strategy": "merge", "groups": [[true]]}]}',
            "lists of operator",
        ),
        (
            '{"version": 1, "stages": [{"strategy": "split", "groups": [],'
            ' "micro_batches": 2.0}]}',
            "whole number",
        ),
    ],
)
def test_refuses_broken_json(text, message):
    with pytest.raises(ValueError, match=message):
        Schedule.from_json(text)
