"""Schedules for several callers: converted, stored, and chosen at run time."""

import concurrent.futures
import contextlib
import json
import threading
from pathlib import Path

import graph_helpers as gh
import numpy as np
import pytest
import stock
import tensorflow as tf
from batch_sizes import freeze, function_of, original, rewrite, write
from cache_helpers import undoing_enable
from shared import FAST

import ios_tf
from ios_tf.cli import main
from ios_tf.conversion import timing
from ios_tf.conversion.show import converted_regions, text_of
from ios_tf.cost.cost_model import Measurement
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.cost.stage_key import stage_key
from ios_tf.model import graph_optimizer
from ios_tf.native import tracing
from ios_tf.scheduler import Load, Problem, Stage, greedy_schedule, sequential_schedule

pytestmark = pytest.mark.usefixtures("cache")

LOADS = [Load(1), Load(1, 4), Load(8), Load(8, 4)]


def images_of(batch_size: int) -> tf.Tensor:
    return tf.constant(gh.random_array(batch_size, 17, 17, 3))


@pytest.fixture(scope="module")
def problem(saved) -> Problem:
    """A block that four callers run at the same time."""
    problems = graph_optimizer.collect(freeze(saved), Load(1, 4)).problems
    return next(iter(problems.values()))


def test_a_load_of_one_caller_is_a_batch_size():
    assert Load(8) == 8
    assert hash(Load(8)) == hash(8)
    assert Load(8, 4) != 8
    assert Load(8, 4) == Load(8, 4)
    assert Load(8, 4) != Load(8, 2)
    assert {8: "a", Load(8, 4): "b"}[Load(8, 4)] == "b"
    assert {8: "a", Load(8, 4): "b"}[Load(8)] == "a"
    assert f"{Load(8)}, {Load(8, 4)}" == "8, 8 with 4 callers"
    assert json.dumps([Load(8), Load(8, 4)]) == "[8, 8]"


def test_blocks_for_several_callers_have_names_of_their_own(saved, problem):
    alone = next(iter(graph_optimizer.collect(freeze(saved), 1).problems.values()))
    assert (alone.callers, problem.callers) == (1, 4)
    assert alone.signature != problem.signature
    assert "callers" not in alone.block
    stage = Stage.concurrent(alone, 1)
    keys = [stage_key(one, stage) for one in (alone, problem)]
    assert keys[1] == keys[0].replace("float32", "4 callers float32", 1)


def test_a_stage_is_measured_with_all_callers_at_once(problem):
    model = ProfiledCostModel("cpu", Measurement(1, 2, 2))
    whole = [Stage.concurrent(problem, 1 << op) for op in range(len(problem))]
    found = model.compare(problem, [whole, greedy_schedule(problem).stages])
    assert all(0 < ms < 10_000 for ms in found)
    assert model.stage_latency(problem, whole[0]) > 0
    assert model.stage_latency(problem, Stage.concurrent(problem, 1), 2) > 0


def test_every_call_runs_by_the_schedule_for_the_callers_in_progress(saved, tmp_path):
    # Calls with many images take long enough to be in progress at the same time.
    forms = {Load(64): greedy_schedule, Load(64, 4): sequential_schedule}
    network = tf.saved_model.load(write(saved, forms, str(tmp_path / "out")))
    signature = network.signatures["serving_default"]
    name = next(iter(signature.structured_input_signature[1]))
    images = images_of(64)
    expected = original(saved)(images)
    seen: set[int] = set()

    def call() -> None:
        (output,) = signature(**{name: images}).values()
        np.testing.assert_allclose(output, expected, atol=1e-4)

    def recorded(callers: int) -> set[int]:
        pool = concurrent.futures.ThreadPoolExecutor(callers)
        with tracing.record(100_000) as recording, pool:
            for done in [pool.submit(call) for _ in range(2 * callers)]:
                done.result()
        return {one.callers for one in recording.trace.calls}

    assert recorded(1) == {1}
    # Repeats the calls, because threads may happen to call one after the other.
    for _ in range(100):
        seen |= recorded(8)
        if 4 in seen:
            break
    assert 4 in seen


def test_attributes_name_the_callers_only_if_there_are_several(saved):
    def attributes(*loads):
        frozen = rewrite(freeze(saved), dict.fromkeys(loads, greedy_schedule))
        nodes = [n for n in frozen.graph_def.node if "_ios_batch" in n.attr]
        assert nodes
        return frozen, [
            (list(n.attr["_ios_batch"].list.i), list(n.attr["_ios_callers"].list.i))
            for n in nodes
        ]

    assert attributes(1, 8)[1][0] == ([1, 8], [])
    frozen, found = attributes(*LOADS)
    assert set(map(str, found)) == {str(([1, 1, 8, 8], [1, 4, 1, 4]))}
    (program,) = graph_optimizer.lowered_programs(frozen)
    assert [(s["batch_size"], s["callers"]) for s in program["schedules"]] == [
        (1, 1),
        (1, 4),
        (8, 1),
        (8, 4),
    ]


def test_converts_for_several_callers(saved, tmp_path, cache):
    output = str(tmp_path / "out")
    report = ios_tf.convert(saved, output, callers=[1, 4], **FAST)
    loads = [Load(1), Load(1, 4)]
    assert list(report.sizes) == loads
    (comparison,) = report.comparisons
    assert list(comparison.latencies) == loads
    assert comparison.batch_sizes == [1, 3]
    document = report.to_json()
    assert list(document["batch_sizes"]) == ["1", "1 with 4 callers"]
    networks = [(n["batch_size"], n["callers"]) for n in document["networks"]]
    assert networks == [(1, 1), (1, 4)]
    assert "1 with 4 callers" in str(report)
    assert "1 with 4 callers" in text_of(converted_regions(output))
    found = stock.serve(output, images_of(5), tmp_path)
    np.testing.assert_allclose(found, original(saved)(images_of(5)), atol=1e-4)
    page = tmp_path / "report.html"
    assert main.main(["report", output, str(page)]) == 0
    assert "batch 1 with 4 callers" in page.read_text()
    for load in loads:
        for signature in graph_optimizer.collect(freeze(saved), load).problems:
            assert list(Path(cache).glob(f"*/{signature}.json"))


def test_a_fixed_batch_size_is_scheduled_for_every_number_of_callers(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([2, 9, 9, 4])])
    def branches(x):
        filters = tf.constant(gh.random_array(3, 3, 4, 4))
        return {"y": tf.concat([tf.nn.conv2d(x, filters, 1, "SAME")] * 2, 3)}

    module = tf.Module()
    module.function = branches
    model = str(tmp_path / "model")
    tf.saved_model.save(module, model, signatures=branches)
    report = ios_tf.convert(model, str(tmp_path / "out"), callers=[2, 3], **FAST)
    (comparison,) = report.comparisons
    assert list(comparison.latencies) == [Load(2, 2), Load(2, 3)]
    assert list(comparison.batch_sizes) == [2]


def test_callers_call_at_the_same_time():
    barrier = threading.Barrier(3)
    first_call = threading.local()

    def call():
        if not hasattr(first_call, "done"):
            first_call.done = True
            barrier.wait()  # returns only if three threads are here
        return []

    def fail():
        raise ValueError("no")

    (ms,) = timing.latencies([(contextlib.nullcontext, call)], 3)
    assert ms > 0
    with pytest.raises(ValueError, match="no"):
        timing.latencies([(contextlib.nullcontext, fail)], 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"callers": 0}, "callers must be"),
        ({"callers": [2, 2]}, "callers lists 2 more than once"),
        ({"callers": []}, "at least one number of callers"),
        ({"callers": 5000}, "callers must be"),
    ],
)
def test_bad_numbers_of_callers(saved, tmp_path, arguments, message):
    with pytest.raises(ios_tf.UserError, match=message):
        ios_tf.convert(saved, str(tmp_path / "out"), **arguments)
    assert not (tmp_path / "out").exists()


def test_enable_looks_up_the_schedules_of_its_callers(saved, tmp_path):
    frozen = freeze(saved)
    with undoing_enable():
        status = ios_tf.enable(cache_dir=str(tmp_path / "c"), callers=4)
        assert (status.callers, status.batch_size) == (4, 1)
        assert "callers=4" in str(status)
        function_of(frozen)(images_of(1))
        waiting = list((tmp_path / "c" / "pending").glob("*/*.json"))
        blocks = [json.loads(file.read_text())["block"] for file in waiting]
        assert {block["callers"] for block in blocks} == {4}
