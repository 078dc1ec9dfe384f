"""Traces of the engine, without TensorFlow: what they contain, and what goes wrong."""

import collections

import chrome_traces
import numpy as np
import pytest
from commands import run_python
from threads import in_threads
from traced_program import OPERATORS, program, run

import ios_tf
from ios_tf.native import engine, tracing

RUNS = 4


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


def operators(path) -> list[chrome_traces.Event]:
    return [e for e in chrome_traces.read(path) if e.category == "operator"]


def calls(path) -> list[chrome_traces.Event]:
    return [e for e in chrome_traces.read(path) if e.category == "call"]


def test_the_file_has_each_operator_of_each_run(path):
    one = program()
    run(one)
    with ios_tf.trace(path):
        for _ in range(RUNS):
            run(one)
    run(one)
    found = operators(path)
    assert collections.Counter(e.name for e in found) == dict.fromkeys(OPERATORS, RUNS)
    chrome_traces.assert_no_overlap(found)
    chrome_traces.assert_no_overlap(calls(path))
    assert {e.track for e in found} <= {"caller 1: lane 1", "caller 1: lane 2"}
    assert {e.track for e in calls(path)} == {"caller 1: calls"}
    assert [e.name for e in calls(path)] == ["network"] * RUNS
    for event in found:
        number = OPERATORS.index(event.name)
        assert event.arguments["stage"] == (1 if number < 2 else 2)
        assert event.arguments["group"] == (2 if number == 1 else 1)
        assert event.arguments["algorithm"] == "direct"
        assert event.arguments["precision"] == "float32"
        assert event.arguments["shape"] == [1, 12, 12, 4]
        call = calls(path)[event.arguments["call"] - 1]
        assert call.begin <= event.begin and event.end <= call.end + 1e-3


def test_bytes_and_operations(path):
    one = program()
    with ios_tf.trace(path):
        run(one)
    arguments = {e.name: e.arguments for e in operators(path)}
    tensor = 12 * 12 * 4
    assert arguments["left"]["bytes"] == 4 * (2 * tensor + 3 * 3 * 4 * 4)
    assert arguments["right"]["bytes"] == 4 * (2 * tensor + 4 * 4)
    assert arguments["sum"]["bytes"] == 4 * 3 * tensor
    # The convolution has a multiplication and an addition for each weight and pixel.
    assert arguments["right"]["operations"] == 2 * 4 * tensor
    assert arguments["sum"]["type"] == "add"


def test_an_operator_that_computes_another_one():
    """A depthwise convolution by rows computes the 1x1 convolution before it."""
    common = {"type": "conv2d", "padding": "SAME"}
    operators = [
        {**common, "name": "expand", "inputs": [-1], "kernel": [1, 1], "filters": 16},
        {**common, "name": "depthwise", "inputs": [0], "kernel": [3, 3]}
        | {"filters": 16, "groups": 16},
        {**common, "name": "project", "inputs": [1], "kernel": [1, 1], "filters": 4},
    ]
    shape = [1, 8, 8, 8]
    block = {"version": 1, "inputs": [shape], "operators": operators, "outputs": [2]}
    stages = [{"strategy": "concurrent", "groups": [[i]]} for i in range(3)]
    schedule = {"version": 1, "stages": stages, "algorithms": {"rows": [1]}}
    weights = [np.ones(s) for s in ((1, 1, 8, 16), (3, 3, 1, 16), (1, 1, 16, 4))]
    one = engine.Program(block, schedule, weights)
    with tracing.record() as recording:
        one.run([np.ones(shape, np.float32)])
    depthwise, project = recording.trace.slices()
    assert (depthwise.operator, depthwise.algorithm) == ("depthwise", "rows")
    assert (project.operator, project.stage) == ("project", 2)
    assert depthwise.bytes == 4 * 64 * (8 + 16) + 4 * 16 * (8 + 9)
    assert depthwise.operations == 2 * 64 * 16 * (8 + 9)


def test_stages_run_one_after_the_other():
    one = program()
    with tracing.record() as recording:
        for _ in range(RUNS):
            run(one)
    for number in range(RUNS):
        of_call = [s for s in recording.trace.slices() if s.call == number]
        first = [s for s in of_call if s.stage == 0]
        second = [s for s in of_call if s.stage == 1]
        assert {s.operator for s in first} == {"left", "right"}
        assert max(s.end_us for s in first) <= min(s.begin_us for s in second)
        busy = sum(s.end_us - s.begin_us for s in of_call)
        call = recording.trace.calls[number]
        lanes = len({s.lane for s in of_call})
        assert 0 < busy <= lanes * (call.end_us - call.begin_us)


def test_micro_batches_have_a_slice_each():
    stage = {"strategy": "split", "groups": [[0, 1, 2, 3]], "micro_batches": 2}
    one = program([stage])
    with tracing.record() as recording:
        run(one, batch=5)
        run(one, batch=1)  # cannot be split
    parts = collections.Counter(
        (s.call, s.operator, s.micro_batch, s.shape[0])
        for s in recording.trace.slices()
    )
    expected = {(0, name, i, 2 + i): 1 for name in OPERATORS for i in (0, 1)}
    expected |= {(1, name, 0, 1): 1 for name in OPERATORS}
    assert parts == expected
    assert [call.batch_size for call in recording.trace.calls] == [5, 1]
    assert {s.stage for s in recording.trace.slices()} == {0}


def test_many_callers_of_several_programs(path):
    sequential = [{"strategy": "concurrent", "groups": [[i]]} for i in range(4)]
    programs = [program(name="one"), program(sequential, name="two")]
    count = 6

    def call(number: int) -> None:
        for _ in range(RUNS):
            run(programs[number % 2], batch=1 + number % 3)

    with ios_tf.trace(path):
        in_threads(call, range(count))
    found = operators(path)
    names = collections.Counter(e.name for e in found)
    assert names == dict.fromkeys(OPERATORS, RUNS * count)
    chrome_traces.assert_no_overlap(found)
    chrome_traces.assert_no_overlap(calls(path))
    regions = collections.Counter(e.name for e in calls(path))
    assert regions == {"one": RUNS * count / 2, "two": RUNS * count / 2}
    # At most as many callers run at once as there are cores. Other callers wait, and
    # then appear on the same tracks.
    callers = {e.track for e in calls(path)}
    assert len(callers) <= engine.lane_count()


def test_a_full_trace_keeps_the_latest_calls(path, caplog):
    one = program()
    with ios_tf.trace(path, max_operators=2 * len(OPERATORS) + 1):
        for batch in (1, 2, 3, 4, 5):
            run(one, batch)
    assert [e.arguments["batch_size"] for e in calls(path)] == [4, 5]
    assert len(operators(path)) == 2 * len(OPERATORS)
    assert chrome_traces.facts(path)["dropped_calls"] == 3
    assert chrome_traces.facts(path)["dropped_operators"] == 3 * len(OPERATORS)
    assert "oldest 3 calls with 12 operators were dropped" in caplog.text


def test_nothing_ran(path, caplog):
    with ios_tf.trace(path):
        pass
    assert chrome_traces.read(path) == []
    assert "the engine ran nothing on the CPU" in caplog.text


def test_an_exception_of_the_block_still_writes_the_file(path):
    one = program()
    with pytest.raises(KeyboardInterrupt), ios_tf.trace(path):
        run(one)
        raise KeyboardInterrupt
    assert len(operators(path)) == len(OPERATORS)
    with ios_tf.trace(path):  # a new trace can be recorded
        run(one)


def test_a_nested_trace_is_refused_and_the_outer_one_goes_on(path, tmp_path):
    one = program()
    inner = tmp_path / "inner.json"
    with ios_tf.trace(path):
        run(one)
        with (
            pytest.raises(ios_tf.UserError, match="End this trace first"),
            ios_tf.trace(inner),
        ):
            pytest.fail("the block must not run")
        run(one)
    assert len(operators(path)) == 2 * len(OPERATORS)
    assert not inner.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing/trace.json", "No such file"), (".", "Is a directory")],
)
def test_a_path_that_cannot_be_written_fails_before_the_block(name, reason, tmp_path):
    with (
        pytest.raises(ios_tf.UserError, match=reason),
        ios_tf.trace(tmp_path / name),
    ):
        pytest.fail("the block must not run")


def test_a_directory_that_vanishes(tmp_path, caplog):
    directory = tmp_path / "directory"
    directory.mkdir()
    with pytest.raises(ios_tf.UserError, match="cannot be written: No such file"):  # noqa: SIM117
        with ios_tf.trace(directory / "trace.json"):
            directory.rmdir()
    directory.mkdir()
    # If the block raises an exception, the failure to write is only logged.
    with pytest.raises(ZeroDivisionError):  # noqa: SIM117
        with ios_tf.trace(directory / "trace.json"):
            directory.rmdir()
            raise ZeroDivisionError
    assert "cannot be written: No such file" in caplog.text


@pytest.mark.parametrize("limit", [0, -1, 1.5, "many"])
def test_the_limit_must_be_a_whole_number(limit, path):
    with (
        pytest.raises(ios_tf.UserError, match="max_operators"),
        ios_tf.trace(path, max_operators=limit),
    ):
        pytest.fail("the block must not run")
    assert not path.exists()


FORK = """
import os, sys
import ios_tf
from traced_program import program, run

one = program()
with ios_tf.trace(sys.argv[1]):
    run(one)
    child = os.fork()
    if child == 0:
        run(one)
        with ios_tf.trace(sys.argv[2]):  # the child has no trace yet
            run(one)
            run(one)
    else:
        assert os.waitpid(child, 0)[1] == 0
        run(one)
if child == 0:  # leaves the parent's block, too
    os._exit(0)
"""


def test_a_forked_child_has_a_trace_of_its_own(path, tmp_path):
    child = tmp_path / "child.json"
    run_python("-c", FORK, path, child)
    assert len(calls(path)) == 2
    assert len(calls(child)) == 2
    assert len(operators(child)) == 2 * len(OPERATORS)
