"""Tests of IosRegion and IosStageLatency on a TensorFlow device "GPU".

test_gpu_device.py runs these tests in a separate process, because the device exists for
a whole process.
"""

import collections
import dataclasses
import os
from typing import Any

import gpu_device
import graph_helpers as gh
import numpy as np
import pytest
import shared
import tensorflow as tf
from cache_helpers import undoing_enable
from tensorflow.core.framework import graph_pb2
from threads import in_threads

import ios_tf
from ios_tf.conversion import inner_tensors, timing
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.model import frozen_graphs
from ios_tf.native import devices, plugin
from ios_tf.scheduler import Problem, sequential_schedule
from ios_tf.tuning import pending, roofline
from ios_tf.tuning.cache import ScheduleCache
from ios_tf.tuning.settings import SearchSettings

# The thread that looks for new schedules reads this variable when it starts, and any
# test may start the thread.
os.environ["IOS_TF_REFRESH_SECONDS"] = "0.02"
DEVICE = gpu_device.load()
# The device must be chosen before anything runs on the GPU.
CHOSEN = devices.choose("gpu")
GPU, CPU = "/device:GPU:0", "/device:CPU:0"
# Tolerances relative to the largest value.
TOLERANCE = {"float32": 2e-3, "float16": 1e-2, "bfloat16": 3e-2}
# These calls make the host wait for the GPU.
WAITS = "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"


@pytest.fixture(autouse=True)
def no_violations():
    DEVICE.cuda.reset()
    yield
    DEVICE.misalign(0)
    assert DEVICE.cuda.take_violations() == []
    DEVICE.cuda.reset()


@pytest.fixture
def tf32():
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    yield tf.config.experimental.enable_tensor_float_32_execution
    tf.config.experimental.enable_tensor_float_32_execution(enabled)


def values(*shape: int, seed: int = 0) -> tf.Tensor:
    with tf.device(CPU):
        return tf.constant(gh.random_array(*shape, seed=seed) / 4)


def network(x, dtype="float32"):
    """Two branches that may merge, a pooling, and a classifier."""
    with tf.device(CPU):
        weights = [
            tf.cast(values(*shape, seed=i), dtype)
            for i, shape in enumerate([(3, 3, 3, 8), (3, 3, 8, 4), (1, 1, 8, 6)])
        ]
        x = tf.nn.relu(tf.nn.conv2d(x, weights[0], 1, "SAME"))
        branches = [tf.nn.conv2d(x, w, 1, "SAME") for w in weights[1:]]
        x = tf.concat([tf.nn.relu(b) for b in branches], 3)
        x = tf.nn.max_pool2d(x, 3, 2, "SAME")
        x = tf.reduce_mean(x, [1, 2])
        return tf.linalg.matmul(x, tf.cast(values(10, 5), dtype))


def placed(graph: gh.Graph, device: str, *ops: str) -> gh.Graph:
    """The graph with all nodes, or only the nodes of these ops, placed on a device."""
    graph_def = graph_pb2.GraphDef()
    graph_def.CopyFrom(graph.graph_def)
    for node in graph_def.node:
        if not ops or node.op in ops:
            node.device = device
    return graph.with_def(graph_def)


def freeze(dtype: str = "float32") -> gh.Graph:
    def function(x):
        with tf.device(CPU):
            return tf.cast(network(tf.cast(x, dtype), dtype), tf.float32)

    return placed(gh.freeze(function, (None, 9, 8, 3)), "")


def expected(images: np.ndarray) -> np.ndarray:
    (result,) = gh.run(placed(freeze(), CPU), images)
    return result


def difference(found: np.ndarray, images: np.ndarray) -> float:
    truth = expected(images)
    assert found.shape == truth.shape
    return np.abs(found - truth).max() / np.abs(truth).max()


def lowered(dtype: str = "float32", merge: bool = True) -> gh.Graph:
    """The network as one region on the GPU; all other nodes are on the CPU."""
    rewritten = gh.rewrite(freeze(dtype), merge, batch_size=2, device="gpu")
    graph = placed(gh.lower(rewritten, device="gpu"), CPU)
    assert graph.ops()["IosRegion"] == 1
    return placed(graph, GPU, "IosRegion")


def region():
    """The region as a function whose argument and result are on the GPU."""
    return gh.as_function(placed(lowered(), ""))


def on_gpu(images: np.ndarray) -> tf.Tensor:
    with tf.device(GPU):
        return tf.identity(tf.constant(images))


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_region_in_a_graph(dtype, merge):
    graph = lowered(dtype, merge)
    for batch in (2, 3):
        images = gh.random_array(batch, 9, 8, 3)
        (found,) = gh.run(graph, images)
        assert difference(found, images) < TOLERANCE[dtype]


def test_batch_of_no_images():
    (found,) = gh.run(lowered(), np.zeros([0, 9, 8, 3], np.float32))
    assert found.shape == (0, 5)


def test_tensorflow_s_switch_for_tf32(tf32):
    images = gh.random_array(2, 9, 8, 3)
    differences = []
    for enabled in (True, False):
        tf32(enabled)
        (found,) = gh.run(lowered(), images)
        differences.append(difference(found, images))
    assert differences[0] > 1e-5 > differences[1]


def test_computing_never_waits_for_the_gpu():
    call = region()
    x = on_gpu(gh.random_array(2, 9, 8, 3))
    results = [call(x) for _ in range(3)]
    before = DEVICE.cuda.report()["counts"]
    results += [call(x) for _ in range(5)]
    after = DEVICE.cuda.report()["counts"]
    assert [after.get(w) for w in WAITS] == [before.get(w) for w in WAITS]
    for (result,) in results:
        assert result.device.endswith(GPU)
        assert difference(result.numpy(), x.numpy()) < TOLERANCE["float32"]


def test_same_memory_is_one_graph_launch():
    call = region()
    x = on_gpu(gh.random_array(2, 9, 8, 3))
    for _ in range(3):
        call(x)
    before = DEVICE.cuda.report()["counts"]
    for _ in range(4):
        call(x)
    after = DEVICE.cuda.report()["counts"]
    assert after["cuGraphLaunch"] - before["cuGraphLaunch"] == 4
    for name in ("cuLaunchKernel", "cuGraphInstantiate"):
        assert after.get(name) == before.get(name)


@pytest.mark.parametrize("offset", [4, 8, 64])
def test_inputs_that_are_not_aligned(offset):
    call = region()
    images = gh.random_array(2, 9, 8, 3)
    call(on_gpu(images))  # the first call builds cuDNN's plans
    DEVICE.misalign(offset)
    x = on_gpu(images)
    DEVICE.misalign(0)
    (found,) = call(x)
    assert difference(found.numpy(), images) < TOLERANCE["float32"]


def test_concurrent_calls():
    call = region()
    batches = [gh.random_array(2, 9, 8, 3, seed=i) for i in range(4)]

    def work(images: np.ndarray) -> None:
        for _ in range(3):
            (found,) = call(on_gpu(images))
            assert difference(found.numpy(), images) < TOLERANCE["float32"]

    in_threads(work, batches)


def test_wrong_shape_is_an_error():
    call = region()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must match .\?"):
        call(on_gpu(gh.random_array(2, 9, 8, 4)))


def test_out_of_memory_is_an_error_that_is_survived():
    call = region()
    x = on_gpu(gh.random_array(2, 9, 8, 3))
    call(x)
    large = on_gpu(gh.random_array(16, 90, 80, 3))
    DEVICE.cuda.set(memory_limit=DEVICE.cuda.report()["live"]["bytes"] + 4096)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        call(large)
    DEVICE.cuda.reset()
    (found,) = call(x)
    assert difference(found.numpy(), x.numpy()) < TOLERANCE["float32"]


def test_tensorflow_takes_memory_as_it_needs_it():
    assert CHOSEN.kind == "gpu"
    (found,) = tf.config.get_visible_devices("GPU")
    assert tf.config.experimental.get_memory_growth(found)


def test_all_memory_is_tensorflow_s():
    """Weights, intermediate tensors and plans use memory of TensorFlow's allocator.

    TensorFlow reserves nearly all memory, so the driver itself has none left.
    """
    x = on_gpu(gh.random_array(3, 9, 8, 3))
    assert DEVICE.cuda.report()["live"]["bytes"] == DEVICE.taken()
    call = region()
    for _ in range(3):
        (found,) = call(x)
    assert difference(found.numpy(), x.numpy()) < TOLERANCE["float32"]
    assert DEVICE.cuda.report()["live"]["bytes"] == DEVICE.taken()
    before = DEVICE.allocated()
    measure_sequential_stages()
    assert DEVICE.allocated() > before
    assert DEVICE.cuda.report()["live"]["bytes"] == DEVICE.taken()


def test_memory_that_work_still_uses_is_not_written():
    """Weights may get the memory of freed results that pending work still uses.

    The results have 200 and 2000 bytes, as many as the weights of the matrix product
    and of the convolutions.
    """
    call = region()
    inputs = [on_gpu(gh.random_array(rows, 9, 8, 3)) for rows in (10, 100)]
    for seed in range(2):
        DEVICE.cuda.set(seed=seed)
        for x in inputs:
            results = [call(x) for _ in range(4)]
            del results
            again = region()
            (found,) = again(x)
            assert difference(found.numpy(), x.numpy()) < TOLERANCE["float32"]


def region_for(*batch_sizes: int):
    """The region with schedules for these batch sizes, as a function that loads it."""
    rewritten = gh.rewrite(freeze(), batch_size=[*batch_sizes], device="gpu")
    graph = placed(gh.lower(rewritten, device="gpu"), CPU)
    call = gh.as_function(placed(placed(graph, GPU, "IosRegion"), ""))
    call(on_gpu(np.zeros([0, 9, 8, 3], np.float32)))
    return call


def test_a_scheduled_batch_size_may_be_too_large_to_compile():
    limit = DEVICE.cuda.report()["live"]["bytes"] + (1 << 20)
    DEVICE.cuda.set(memory_limit=limit)
    call = region_for(2, 5000)
    x = on_gpu(gh.random_array(2, 9, 8, 3))
    (found,) = call(x)
    assert difference(found.numpy(), x.numpy()) < TOLERANCE["float32"]
    DEVICE.cuda.reset()
    large = on_gpu(gh.random_array(5000, 9, 8, 3))
    DEVICE.cuda.set(memory_limit=limit)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        call(large)


def test_scheduled_batch_sizes_are_compiled_when_a_region_is_loaded():
    """Loading a region times the plans for its scheduled batch sizes.

    So the first calls with these sizes make no plans. The first call with another size
    times plans, and later calls do not.
    """

    def counts_of(function, *arguments) -> tuple[Any, collections.Counter]:
        before = collections.Counter(DEVICE.cuda.report()["counts"])
        result = function(*arguments)
        return result, collections.Counter(DEVICE.cuda.report()["counts"]) - before

    region_for(2)
    call, counts = counts_of(region_for, 2, 12)
    assert counts["kernel Spin"]  # for batches of 12
    of_calls = {}
    for batch in (7, 12, 2, 6):
        x = on_gpu(gh.random_array(batch, 9, 8, 3))
        (found,), of_calls[batch] = counts_of(call, x)
        assert difference(found.numpy(), x.numpy()) < TOLERANCE["float32"]
    assert [n for n, counts in of_calls.items() if counts["cudnn plans"]] == [7, 6]
    assert [n for n, counts in of_calls.items() if counts["kernel Spin"]] == [7]


def test_region_for_the_cpu_is_not_for_the_gpu():
    graph = lowered()
    for node in graph.graph_def.node:
        if node.op == "IosRegion":
            node.attr["device"].s = b"cpu"
    with pytest.raises(tf.errors.InvalidArgumentError, match="made for the cpu"):
        gh.run(graph, gh.random_array(1, 9, 8, 3))


def executed(function, *arguments) -> list[tuple[str, str]]:
    """The types and devices of the nodes that TensorFlow executes."""
    return [
        (node.op, node.device[-len(GPU) :])
        for node in gh.executed_nodes(function, *arguments)
    ]


def test_plugin_lowers_what_is_placed_on_the_gpu():
    rewritten = gh.rewrite(freeze(), batch_size=2, device="gpu")
    function = gh.as_function(placed(rewritten, ""))
    images = gh.random_array(2, 9, 8, 3)
    with tf.device(CPU):
        x = tf.constant(images)
    nodes = executed(function, x)
    assert ("IosRegion", GPU) in nodes
    assert not any("Conv2D" in op for op, _ in nodes)
    (found,) = function(x)
    assert difference(found.numpy(), images) < TOLERANCE["float32"]


def test_blocks_are_looked_up_where_conversions_keep_them(tmp_path, tf32):
    """The cache's directory depends on the GPU and on TensorFlow's switch for TF32."""
    names = []
    graph = freeze()
    with undoing_enable():
        for enabled in (True, False):
            tf32(enabled)
            cache = tmp_path / str(enabled)
            ios_tf.enable(cache_dir=str(cache), on_miss="greedy")
            function = gh.as_function(graph)
            with tf.device(CPU):
                x = tf.constant(gh.random_array(1, 9, 8, 3))
            assert ("IosRegion", GPU) in executed(function, x)
            (name,) = os.listdir(cache / "pending")
            waiting = os.listdir(cache / "pending" / name)
            assert ios_tf.status().pending == len(waiting) > 0
            assert name == plugin.device_fingerprint(devices.choose("gpu").engine)
            names.append(name)
    assert names[1] == names[0] + "_no_TF32"


def test_schedules_are_picked_up(tmp_path):
    """The background thread compiles new schedules for TensorFlow's GPU."""
    cache = str(tmp_path)
    images = gh.random_array(2, 9, 8, 3)
    truth = expected(images)
    limit = TOLERANCE["float32"] * np.abs(truth).max()
    graph = freeze()
    with undoing_enable():
        ios_tf.enable(cache_dir=cache, on_miss="greedy")
        function = gh.as_function(graph)
        with tf.device(CPU):
            x = tf.constant(images)
        np.testing.assert_allclose(function(x)[0], truth, atol=limit)
        (region,) = ios_tf.status().regions
        assert not region.waits
        device = plugin.device_fingerprint(devices.choose("gpu").engine)
        for path in pending.pending_files(cache, device):
            problem = pending.read_problem(cache, path)
            times = {"latency_ms": 1.0, "sequential_ms": 1.0}
            schedule = dataclasses.replace(sequential_schedule(problem), metadata=times)
            ScheduleCache(cache, device).put(schedule, SearchSettings())
        while not ios_tf.status().regions[0].picked_up:
            np.testing.assert_allclose(function(x)[0], truth, atol=limit)
        np.testing.assert_allclose(function(x)[0], truth, atol=limit)


def measure_sequential_stages():
    """Measures the sequential schedule of each block of the network."""
    collected = gh.collect(freeze(), batch_size=2, device="gpu")
    problems = [*map(Problem.from_json, collected["problems"])]
    model = MeasuredCostModel(devices.choose("gpu"))
    for problem in problems:
        before = DEVICE.cuda.report()["counts"].get("cuGraphLaunch", 0)
        (latency,) = model.compare(problem, [sequential_schedule(problem).stages])
        assert latency > 0
        assert DEVICE.cuda.report()["counts"]["cuGraphLaunch"] > before
    model.release()


def test_stages_are_measured_on_the_gpu():
    measure_sequential_stages()


def saved_model(path: str) -> str:
    module = tf.Module()
    module.call = tf.function(
        lambda x: {"y": network(x)},
        input_signature=[tf.TensorSpec([None, 9, 8, 3], tf.float32, "x")],
    )
    tf.saved_model.save(module, path, signatures=module.call)
    return path


def test_conversion_for_the_gpu(tmp_path, tf32, monkeypatch):
    with tf.device(CPU):
        model = saved_model(str(tmp_path / "model"))
    # In this process, the network's nodes are placed on CPU:0, because TensorFlow's own
    # kernels for GPUs cannot run. The nodes of users' networks name no device.
    monkeypatch.setattr(frozen_graphs, "freeze", unplaced(frozen_graphs.freeze))
    # Measuring TensorFlow's latency would run its own kernels on the GPU.
    latencies = shared.exactly(2.0, 1.0, 2.0)
    monkeypatch.setattr(timing, "latencies", lambda turns, callers: latencies)
    # Comparing tensors inside of the network would also run TensorFlow's kernels there.
    monkeypatch.setattr(inner_tensors, "compare", lambda *arguments: [])
    # The fake GPU computes on one core, so operators of the usual size take a minute.
    monkeypatch.setattr(roofline, "_CONVOLUTIONS", ((3, 5, 16), (1, 5, 32)))
    monkeypatch.setattr(roofline, "_SUM_SHAPE", [1, 65, 8, 8])
    cache = tmp_path / "cache"
    fast = {"warmup_runs": 0, "runs": 1, "sample_count": 1, "cache_dir": str(cache)}
    fast["keep_slower"] = True
    lines = []
    images = gh.random_array(3, 9, 8, 3)
    for enabled in (True, False):
        tf32(enabled)
        output = str(tmp_path / f"converted{enabled}")
        report = ios_tf.convert(model, output, batch_size=2, log=lines.append, **fast)
        assert report.operators == 7
        assert report.device.endswith("_no_TF32") != enabled
        function = tf.saved_model.load(output).signatures["serving_default"]
        with tf.device(CPU):
            x = tf.constant(images)
        assert ("IosRegion", GPU) in executed(function, x)
        found = function(x)["y"].numpy()
        assert difference(found, images) < TOLERANCE["float32"]
    assert lines == []
    names = sorted(d for d in os.listdir(cache) if (cache / d).is_dir())
    assert len(names) == 2
    assert names[1] == names[0] + "_no_TF32"


def unplaced(freeze):
    def freeze_unplaced(name, function, **keywords):
        frozen = freeze(name, function, **keywords)
        for node in frozen.graph_def.node:
            node.device = ""
        return frozen

    return freeze_unplaced
