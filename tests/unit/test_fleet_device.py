"""The device of a fleet measures tasks with the engine."""

from pathlib import Path

import pytest

from benchmarks.network import Network
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.fleet import device
from ios_tf.scheduler import Stage

DATA = Path(__file__).parents[1] / "support" / "data"


class SmallMemory(ProfiledCostModel):
    """A device with memory for one block at a time, which must have one operator."""

    def observe(self, problem, stage, lanes=0):
        self._profilers.setdefault(problem.signature, None)
        if len(self._profilers) > 1 or stage.operators.bit_count() > 1:
            raise MemoryError("the device's memory is full")
        self._profilers.clear()  # the engine must compile the block again
        return super().observe(problem, stage, lanes)


def task_of(problem, operators):
    stage = Stage.concurrent(problem, operators)
    return {
        "key": "a task",
        **device.block_json(problem),
        "stage": device.stage_json(stage),
        "lanes": 0,
    }


@pytest.fixture
def problems():
    found = Network.read(DATA / "squeezenet.json").problems.values()
    return sorted(found, key=len)[-2:]


def test_blocks_of_earlier_tasks_give_their_memory_back(problems, monkeypatch):
    monkeypatch.setattr(device, "ProfiledCostModel", SmallMemory)
    measuring = device.MeasuringDevice("cpu", {"sample_count": 1})
    for problem in [*problems, *problems]:
        answer = measuring.measure(task_of(problem, 1))
        assert answer["latency"]["median_ms"] > 0
    answer = measuring.measure(task_of(problems[0], 3))
    assert answer == {"error": "memory", "message": "the device's memory is full"}
