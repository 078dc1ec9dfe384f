"""Traces of converted models: the command, and operators in TensorFlow's profiler."""

import collections
import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path

import chrome_traces
import numpy as np
import pytest
import shared
import tensorflow as tf
from commands import run
from tensorflow.core.protobuf import saved_model_pb2
from threads import in_threads

import ios_tf
from benchmarks import __main__ as benchmarks
from benchmarks import profiler
from ios_tf.conversion.show import converted_regions, text_of
from ios_tf.conversion.trace import trace_model

RUNS = 3


@pytest.fixture(scope="module")
def model() -> str:
    return shared.converted_cells()


@pytest.fixture(scope="module")
def signature(model):
    loaded = tf.saved_model.load(model)
    function = loaded.signatures["serving_default"]
    function.model = loaded  # keeps the variables
    return function


def images(function, batch: int = 1) -> dict[str, tf.Tensor]:
    [(name, spec)] = function.structured_input_signature[1].items()
    return {name: tf.ones([batch, *spec.shape[1:]])}


@pytest.fixture(scope="module")
def nodes(model) -> set[str]:
    """The names of the nodes in the functions of the model and its original."""
    names = set()
    for path in (model, shared.cells()):
        text = Path(path, "saved_model.pb").read_bytes()
        [meta_graph] = saved_model_pb2.SavedModel.FromString(text).meta_graphs
        for function in meta_graph.graph_def.library.function:
            names.update(node.name for node in function.node_def)
    return names


def assert_are_nodes(names: Iterable[str], nodes: set[str]) -> None:
    """Asserts that the names are those of nodes, after the names of inlined calls."""
    for name in names:
        parts = name.split("/")
        assert any("/".join(parts[i:]) in nodes for i in range(len(parts))), name


def test_the_command(model, nodes, tmp_path, capfd):
    path = tmp_path / "trace.json"
    flags = [f"--runs={RUNS}", "--json"]
    code, output, error = run(capfd, "trace", model, str(path), *flags)
    assert (code, error) == (0, "")
    result = json.loads(output)
    assert (result["file"], result["calls"]) == (str(path), RUNS)
    events = chrome_traces.read(path)
    calls = [e for e in events if e.category == "call"]
    operators = [e for e in events if e.category == "operator"]
    assert len(calls) == RUNS
    names = collections.Counter(e.arguments["node"] for e in operators)
    assert_are_nodes(names, nodes)
    assert all(e.arguments["node"].endswith("/" + e.name) for e in operators)
    assert len({e.name.partition("/")[0] for e in operators}) > 1
    assert {*names.values()} == {RUNS}
    # Other types may have no work of their own: a concat, for example.
    kinds = {"conv2d", "sepconv", "pool"}
    shown = {
        x
        for x in re.findall(r"(\S+) \((\w+)", text_of(converted_regions(model)))
        if x[1] in kinds
    }
    traced = {(e.name, e.arguments["type"]) for e in operators}
    assert {x for x in traced if x[1] in kinds} == shown
    chrome_traces.assert_no_overlap(operators)
    assert result["operator_runs"] == len(operators)
    assert result["lanes"] == len({e.track for e in operators})
    # Operators run inside of their call, and take part of its time on each lane.
    lanes = {e.track for e in operators}
    for number, call in enumerate(calls, 1):
        inside = [e for e in operators if e.arguments["call"] == number]
        assert min(e.begin for e in inside) >= call.begin
        assert max(e.end for e in inside) <= call.end + 1e-3
        busy = sum(e.end - e.begin for e in inside)
        assert 0 < busy <= len(lanes) * (call.end - call.begin)


def test_an_unconverted_model_is_an_error(tmp_path, capfd):
    path = tmp_path / "trace.json"
    code, _, error = run(capfd, "trace", shared.cells(), str(path))
    assert code == 1 and len(error.splitlines()) == 1
    assert "so there is nothing to trace" in error
    assert not path.exists()


@pytest.mark.parametrize("flag", ["--runs=0", "--batch_size=x", "--input=images"])
def test_wrong_usage_writes_nothing(flag, model, tmp_path, capfd):
    path = tmp_path / "trace.json"
    code, _, error = run(capfd, "trace", model, str(path), flag)
    assert code in (1, 2) and len(error.splitlines()) == 1
    assert flag.partition("=")[0] in error
    assert not path.exists()


def test_a_path_that_cannot_be_written(model, tmp_path, capfd):
    code, output, error = run(capfd, "trace", model, str(tmp_path / "no" / "a.json"))
    assert (code, output) == (1, "")
    assert error.endswith("No such file or directory\n")


def test_python_gets_the_slices(model, nodes):
    recorded = trace_model(model, runs=2, batch_size=3)
    assert [call.batch_size for call in recorded.calls] == [3, 3]
    assert [call.caller for call in recorded.calls] == [0, 0]
    slices = list(recorded.slices())
    assert len(slices) == len(recorded)
    assert_are_nodes({piece.operator for piece in slices}, nodes)
    assert all(0 <= s.begin_us <= s.end_us <= recorded.duration_us for s in slices)
    # The greedy schedule has stages of several groups, which run on several lanes.
    assert {s.group for s in slices} > {0, 1}


def test_the_benchmark_of_the_cost(model, capfd):
    assert benchmarks.main(["tracing", model, "--rounds=2", "--calls=1"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert sum("with a trace / without" in line for line in lines) == 2
    assert benchmarks.main(["profiler", model, "--calls=2"]) == 0
    assert "sum in the profiler" in capfd.readouterr().out


def test_several_models_and_threads_and_an_exception(model, signature, tmp_path):
    other = tf.saved_model.load(model)
    functions = [signature, other.signatures["serving_default"]]
    for function in functions:
        function(**images(function))

    def call(function) -> None:
        for _ in range(RUNS):
            function(**images(function))

    path = tmp_path / "trace.json"
    with pytest.raises(ZeroDivisionError), ios_tf.trace(path):
        in_threads(call, 2 * functions)
        raise ZeroDivisionError
    events = chrome_traces.read(path)
    assert sum(e.category == "call" for e in events) == 4 * RUNS
    for category in ("call", "operator"):
        chrome_traces.assert_no_overlap([e for e in events if e.category == category])


def test_the_profiler_of_tensorflow_has_the_operators(model, signature, tmp_path):
    inputs = images(signature)
    signature(**inputs)
    recorded = trace_model(model)
    expected = collections.Counter(piece.operator for piece in recorded.slices())
    with tf.profiler.experimental.Profile(str(tmp_path / "profile")):
        for _ in range(RUNS):
            for output in signature(**inputs).values():
                np.asarray(output)
    events = profiler.read(tmp_path / "profile")
    regions = [e for e in events if "IosRegion" in e.name]
    callers = {region.thread for region in regions}
    operators = sorted(
        (e for e in events if e.is_operator), key=lambda e: (e.thread, e.begin_ns)
    )
    for event in operators:
        assert event.arguments["lane"] >= 1 and event.arguments["bytes"] > 0
        assert any(
            region.begin_ns <= event.begin_ns and event.end_ns <= region.end_ns
            for region in regions
        ), event
        # The operator ran on the thread of a caller, or on a thread of the engine.
        assert event.thread in callers or event.thread[0].startswith("ios_worker")
    for before, after in itertools.pairwise(operators):
        assert before.thread != after.thread or before.end_ns <= after.begin_ns
    found = collections.Counter(event.name for event in operators)
    assert found == {name: RUNS * count for name, count in expected.items()}


def test_the_profiler_encloses_the_trace(signature):
    inputs = images(signature)
    signature(**inputs)
    recorded, events = profiler.observe(profiler.waiting(signature, inputs), RUNS)

    # Each operator runs once in each call, and one call follows the other.
    traced = sorted(recorded.slices(), key=lambda s: (s.operator, s.begin_us))
    profiled = sorted(
        (e for e in events if e.is_operator), key=lambda e: (e.name, e.begin_ns)
    )
    assert len(traced) > RUNS
    assert [s.operator for s in traced] == [e.name for e in profiled]
    pairs = list(zip(traced, profiled, strict=True))
    threads = {(s.thread, e.thread) for s, e in pairs}
    assert len(threads) == len({s.thread for s in traced})
    # The two clocks differ by a constant. With it, each slice lies inside of its event,
    # so an operator's time in the profiler is never shorter than that in the trace.
    least = max(e.begin_ns - round(1e3 * s.begin_us) for s, e in pairs)
    most = min(e.end_ns - round(1e3 * s.end_us) for s, e in pairs)
    assert least <= most
