"""Searches with the real engine for blocks that do not fit into memory."""

import pytest

from ios_tf.cost.cost_model import Measurement, compare_within_memory
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.native import engine
from ios_tf.scheduler import Problem, sequential_schedule, split_schedules
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings


def branches(batch: int, size: int) -> Problem:
    """Two convolutions of the same images, and a concat."""
    conv = {"type": "conv2d", "padding": "SAME", "inputs": [-1], "filters": 4}
    operators = [{**conv, "kernel": [1, 1]}, {**conv, "kernel": [3, 3]}]
    operators.append({"type": "concat", "inputs": [0, 1]})
    block = {
        "version": 1,
        "name": "branches",
        "dtype": "float32",
        "inputs": [[batch, size, size, 4]],
        "operators": operators,
        "outputs": [2],
    }
    return Problem.from_json(engine.problem(block))


# The images take 256 GB or 1 TB.
@pytest.mark.parametrize("size", [512, 1024])
def test_what_cannot_be_measured_is_sequential(size):
    problem = branches(1 << 16, size)
    cost_model = ProfiledCostModel("cpu", Measurement(0, 1, 1))
    found, stats = Searcher(cost_model, SearchSettings()).schedule_all([problem])
    schedule = found[problem.signature]
    assert schedule.stages == sequential_schedule(problem).stages
    assert schedule.metadata["latency_ms"] == schedule.metadata["sequential_ms"] == 0
    assert stats.too_large == {"branches"}


def test_without_time_only_the_first_schedules_are_compared():
    problem = branches(1, 8)
    candidates = [sequential_schedule(problem).stages] * 5
    cost_model = ProfiledCostModel("cpu", Measurement(0, 1, 1))
    assert len(cost_model.compare(problem, candidates, seconds=0.0)) == 3
    assert len(cost_model.compare(problem, candidates)) == 5
    assert cost_model.measurements == 8


@pytest.mark.parametrize("time_limit", [0, 300])
def test_chains_get_their_time(time_limit):
    """The split schedules of a chain are compared even after the time limit.

    The search of the chain therefore does not count as stopped.
    """
    conv = {"type": "conv2d", "kernel": [1, 1], "filters": 4}
    block = {
        "version": 1,
        "inputs": [[8, 6, 6, 4]],
        "operators": [{**conv, "inputs": [-1]}, {**conv, "inputs": [0]}],
        "outputs": [1],
    }
    problem = Problem.from_json(engine.problem(block))
    assert problem.is_chain
    cost_model = ProfiledCostModel("cpu", Measurement(0, 1, 1))
    searcher = Searcher(cost_model, SearchSettings(), time_limit=time_limit)
    found, stats = searcher.schedule_all([problem])
    splits = split_schedules(problem, cost_model.lanes)
    assert len(splits) >= 3
    assert cost_model.measurements == 1 + len(splits)
    assert not stats.stopped
    assert "stopped_after" not in found[problem.signature].metadata


def test_candidates_that_do_not_fit_together_are_measured_alone():
    held: list[int] = []
    released = 0

    def compare(candidates):
        """Raises MemoryError if unreleased candidates add up to more than 10."""
        held.extend(candidates)
        if sum(held) > 10:
            raise MemoryError
        return [float(candidate) for candidate in candidates]

    def release():
        nonlocal released
        released += 1
        held.clear()

    assert compare_within_memory(compare, [4, 5], release) == [4, 5]
    assert released == 0
    assert compare_within_memory(compare, [4, 11, 6], release) == [4, float("inf"), 6]
    assert held == []


def test_exhaustion_is_told_from_other_errors():
    problem = branches(1 << 16, 1024)
    with pytest.raises(engine.EngineMemoryError, match="out of memory"):
        ProfiledCostModel("cpu").compare(problem, [sequential_schedule(problem).stages])
    with pytest.raises(engine.EngineError) as error:
        engine.problem({"version": 1})
    assert not isinstance(error.value, MemoryError)
