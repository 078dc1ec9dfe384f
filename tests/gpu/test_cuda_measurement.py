"""On a GPU, the search measures the GPU's time of a stage as the stage runs in a
program. It does not measure the host's time, a GPU with low clocks, or copies that a
program does not make.

The fake GPU's times are simulated: each kernel takes a number of microseconds of the
GPU, and each launch takes time of the host.
"""

import json
import threading

import cuda_engine
import cuda_helpers
import numpy as np
import pytest
from commands import run_python

from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.native import engine
from ios_tf.scheduler import Problem, SearchOptions, search

pytestmark = pytest.mark.one_core

RELU = {"type": "activation", "activation": "relu"}
CONV = {"type": "conv2d", "kernel": [1, 1], "filters": 16}
POOL = {"type": "pool", "pool": "max", "kernel": [3, 3], "padding": "SAME"}


def block_of(*operators: dict, outputs=None) -> dict:
    return {
        "version": 1,
        "inputs": [[1, 6, 5, 16]],
        "operators": list(operators),
        "outputs": outputs or [len(operators) - 1],
    }


def stages(*groups: list[list[int]], strategy: str = "concurrent") -> dict:
    return {
        "version": 1,
        "stages": [{"strategy": strategy, "groups": g} for g in groups],
    }


def medians(block: dict, *schedules: dict, **options: int) -> np.ndarray:
    profiler = engine.Profiler(block, cuda_engine.DEVICE)
    options = {"warmup": 0, "number": 1, "repeat": 3} | options
    return np.median(profiler.sample(schedules, **options)[0], axis=1)


def test_short_stages_are_as_long_as_their_kernels(gpu):
    """Two stages take twice as long as one, because launch times are excluded."""
    gpu.fake.set(time_scale=1)  # kernels take less time than their launches
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(2)))
    one, two = medians(block, stages([[0]]), stages([[0]], [[1]]))
    assert one < 0.004
    assert two == pytest.approx(2 * one, rel=0.01)


def test_the_gpu_does_not_wait_for_launches_one_by_one(gpu):
    """If captures fail, each kernel is launched separately.

    The fake GPU then needs 2 µs more for a kernel than for a node of a graph. The
    host's 3 µs for a launch do not count.
    """
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(2)))
    gpu.fake.set(time_scale=1)
    (captured,) = medians(block, stages([[0]]))
    gpu.fake.set(fail_begin_capture=1)
    (launched,) = medians(block, stages([[0]]))
    assert launched == pytest.approx(captured + 0.002, rel=0.01)


@pytest.mark.parametrize("operator", [RELU, CONV])
@pytest.mark.parametrize("fills", [True, False])
def test_stages_share_multiprocessors(gpu, operator, fills):
    """Operators run concurrently only if the GPU has free multiprocessors.

    Two operators that each fill the GPU gain nothing by concurrency, which even needs a
    fork and a join. Two operators that fit together take the time of one. The search
    chooses the faster schedule in both cases.
    """
    # The activation has 32 blocks of 64 threads, which fill one multiprocessor. The
    # convolution's engines have 32 or 256 blocks, which fill one multiprocessor each.
    sms = 1 if operator is RELU else 32
    if not fills:
        sms *= 2 if operator is RELU else 16
    gpu.fake.set(time_scale=10, sms=sms, join_nanoseconds=4000)
    block = block_of(*({**operator, "inputs": [-1]} for _ in range(2)), outputs=[0, 1])
    block["inputs"] = [[1, 16, 32, 16]]
    alone, in_turn, together = medians(
        block, stages([[0]]), stages([[0]], [[1]]), stages([[0], [1]])
    )
    assert in_turn == pytest.approx(2 * alone, rel=0.01)
    if fills:
        assert in_turn < together < in_turn + 0.005
    else:
        assert alone < together < alone + 0.005
    if operator is RELU:  # 2048 threads of 0.01 us, and 1 us for the launch
        assert alone == pytest.approx(0.02148, rel=0.01)
    found = search(
        Problem.from_json(engine.problem(block)),
        ProfiledCostModel(cuda_engine.DEVICE),
        SearchOptions("parallel"),
    )
    groups = [stage.groups for stage in found.schedule.stages]
    assert groups == ([((0,),), ((1,),)] if fills else [((0,), (1,))])


# The filter of this convolution has 16 KiB. Its input and output have 256 bytes each.
WIDE = {"type": "conv2d", "kernel": [1, 1], "filters": 64}


def wide_block(*inputs: int) -> dict:
    """Convolutions that each read the tensor with the given number."""
    operators = [{**WIDE, "inputs": [i]} for i in inputs]
    outputs = [i for i in range(len(inputs)) if i not in inputs]
    return block_of(*operators, outputs=outputs) | {"inputs": [[1, 1, 1, 64]]}


def test_stages_alone_are_faster_than_in_a_network(gpu):
    """A stage alone finds its weights in the L2 cache. In a network, the weights of the
    other stages have evicted them.

    Memory moves 100 bytes per microsecond, and starting a kernel takes 1 us.
    """
    block = wide_block(-1, 0, 1)
    network = stages([[0]], [[1]], [[2]])
    gpu.fake.set(time_scale=1, dram_bytes_per_us=100, l2_bytes=40_960)
    alone = [medians(block, stages([[i]]))[0] for i in range(3)]
    assert all(0.002 < ms < 0.005 for ms in alone)
    # Each stage reads the output of the stage before from the cache.
    in_microseconds = 3 * 1 + (3 * 16_384 + 4 * 256) / 100
    assert medians(block, network)[0] == pytest.approx(in_microseconds / 1e3, rel=1e-3)
    gpu.fake.set(l2_bytes=65_536)  # all weights fit
    assert medians(block, network)[0] == pytest.approx(sum(alone), rel=0.01)


def test_concurrency_gains_nothing_where_memory_is_the_limit(gpu):
    """Two convolutions with cold weights take as long side by side as in turn."""
    block = wide_block(-1, -1)
    in_turn, together = stages([[0]], [[1]]), stages([[0], [1]])
    gpu.fake.set(time_scale=1, dram_bytes_per_us=100, l2_bytes=16_384)
    one = (16_384 + 2 * 256) / 100
    assert medians(block, in_turn)[0] == pytest.approx(2 * (1 + one) / 1e3, rel=1e-3)
    found = medians(block, together)[0]
    assert 2 * one < 1e3 * found < 2 * (1 + one) + 5
    # With weights in the cache, the time of one convolution is saved.
    gpu.fake.set(l2_bytes=65_536)
    assert medians(block, together)[0] < 0.7 * medians(block, in_turn)[0]


# Prints the times of one and of two convolutions on a GPU of 64 multiprocessors.
TWO_CONVOLUTIONS = """
import json
import cuda_helpers
fake = cuda_helpers.fake_cuda()
import test_cuda_measurement as test
fake.set(time_scale=10, sms=64)
operators = [{**test.CONV, "inputs": [-1]}] * 2
block = test.block_of(*operators, outputs=[0, 1]) | {"inputs": [[1, 16, 32, 16]]}
times = test.medians(block, test.stages([[0]]), test.stages([[0], [1]]))
print(json.dumps([times.tolist(), None, []]))
"""


def test_the_plan_that_is_fastest_alone_is_slower_in_a_stage(tmp_path):
    """The plan of engine 3 has 256 blocks, so two of these plans take twice as long as
    one. The plan of engine 0 has 32 blocks, so two of these plans run side by side.

    The engine chooses engine 3, which is the fastest alone (finding N6).
    """

    def times() -> list[float]:
        plans = str(tmp_path)
        return cuda_helpers.run_apart(TWO_CONVOLUTIONS, "", IOS_TF_PLAN_CACHE=plans)[0]

    cuda_helpers.build_fakes()
    chosen = times()
    (file,) = tmp_path.iterdir()
    text = file.read_text()
    assert text.count('"eng3_k2=3"') == 1
    file.write_text(text.replace("eng3_k2=3", "eng0_k2=0"))
    other = times()
    assert chosen[0] < 0.9 * other[0]
    assert other[1] == pytest.approx(other[0], rel=0.01)
    assert chosen[1] > 1.5 * other[1]


def test_a_capture_that_another_thread_invalidates_changes_no_time(gpu):
    """The capture is repeated. Without a graph, a kernel would take 2 us longer."""
    gpu.fake.set(time_scale=1)
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(2)))
    (expected,) = medians(block, stages([[0]]))
    gpu.fake.plant("invalidate_capture")
    (found,) = medians(block, stages([[0]]))
    assert gpu.fake.report()["counts"]["planted invalidate_capture"] == 1
    assert found == pytest.approx(expected, rel=1e-3)


def test_a_driver_may_reject_empty_graphs(gpu):
    """Without the time of an empty graph, the time of launching a graph is included.

    A graph has 32 runs, and launching it takes 3 µs.
    """
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(2)))
    gpu.fake.set(time_scale=1)
    (expected,) = medians(block, stages([[0]]))
    gpu.fake.set(no_empty_graphs=1)
    (found,) = medians(block, stages([[0]]))
    assert found == pytest.approx(expected + 0.003 / 32, abs=2e-5)


def test_a_busy_gpu_makes_no_stage_faster(gpu):
    """The shortest sample of the baseline is used: two of three samples are
    disturbed."""
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(2)))
    (expected,) = medians(block, stages([[0]]))
    gpu.fake.set(slow_empty_graphs=100_000)
    (found,) = medians(block, stages([[0]]))
    assert found == pytest.approx(expected, rel=0.01)


def test_gpus_are_measured_at_the_same_time(gpu):
    gpu.fake.set(devices=2, hold_device=1)  # the first GPU is busy
    block = block_of({**RELU, "inputs": [-1]})
    done = []

    def measure(device: str) -> None:
        profiler = engine.Profiler(block, device)
        profiler.sample([stages([[0]])], warmup=0, number=1, repeat=1)
        done.append(device)

    threads = [
        threading.Thread(target=measure, args=[device]) for device in ("gpu", "gpu:1")
    ]
    threads[0].start()
    while "polls of a held device" not in gpu.fake.report()["counts"]:
        pass
    threads[1].start()
    threads[1].join(timeout=60)
    finished = list(done)
    gpu.fake.set(hold_device=0)
    for thread in threads:
        thread.join()
    assert finished == ["gpu:1"]


def test_graphs_are_on_the_gpu_before_they_are_timed(gpu):
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(2)))
    gpu.fake.reset()
    medians(block, stages([[0]]), stages([[0]], [[1]]))
    counts = gpu.fake.report()["counts"]
    assert counts["cuGraphLaunch"] > 0
    assert "cuGraphLaunch uploads" not in counts


@pytest.mark.parametrize("load", [0, 3000])
def test_samples_that_other_work_delays_are_marked(gpu, load):
    """Another process delays graphs with convolutions by up to 3 ms."""
    gpu.fake.set(time_scale=10_000, load=load)
    block = block_of({**CONV, "inputs": [-1]}) | {"inputs": [[1, 16, 32, 16]]}
    profiler = engine.Profiler(block, "gpu")
    milliseconds, disturbed = profiler.sample([stages([[0]])] * 2, repeat=9)
    expected = milliseconds > 1.05 * milliseconds.min(axis=1, keepdims=True)
    assert (disturbed == expected).all()
    assert disturbed.any() == (load > 0)


def test_long_stages_are_not_repeated_in_graphs(gpu):
    """The graph of a long stage has one run, because a network has many kernels."""
    gpu.fake.set(time_scale=10_000)
    block = block_of(*({**RELU, "inputs": [i - 1]} for i in range(3)))
    schedule = stages([[0]], [[1]], [[2]])
    medians(block, schedule)
    gpu.fake.library.fake_cuda_reset()
    medians(block, schedule, number=3)
    counts = gpu.fake.report()["counts"]
    assert counts["cuGraphInstantiate"] == 2  # the stage, and an empty graph
    assert counts["captured nodes"] == 3


def test_plans_are_timed_with_weights_that_are_not_in_the_cache(gpu):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(1, 1, 16, 16)).astype(np.float32)]
    block = block_of({**CONV, "inputs": [-1], "name": "cold"})
    gpu.fake.library.fake_cuda_reset()
    engine.Program(block, stages([[0]]), weights, "gpu")
    counts = gpu.fake.report()["counts"]
    assert counts["cuMemsetD8Async"] > 1
    # If there is no memory for emptying the cache, plans are timed without doing so.
    block["inputs"][0][1] = 7
    gpu.fake.set(memory_limit=gpu.fake.report()["live"]["bytes"] + 16384)
    engine.Program(block, stages([[0]]), weights, "gpu")


def test_building_plans_takes_the_host_s_time(gpu):
    """A plan takes the host 1.4 ms, or 300 ms if cuDNN compiles it.

    cuDNN compiles two plans of a convolution that writes into a concat. Later programs
    build only one plan.
    """
    gpu.fake.set(host_costs=1, tiles=2)
    block = block_of(
        {**CONV, "inputs": [-1]}, {"type": "concat", "inputs": [0, -1]}, outputs=[1]
    )
    block["inputs"] = [[1, 6, 11, 16]]
    prices = {
        "cuMemAlloc": 100,
        "cuMemFree": 100,
        "cuStreamCreate": 10,
        "cuModuleLoadData": 200,
        "cuGraphInstantiate": 10,
        "captured nodes": 1,
        "cudnnCreate": 10_000,
        "nvrtcCompileProgram": 130_000,
    }

    def spent_on_plans() -> tuple[int, int]:
        gpu.fake.library.fake_cuda_reset()
        weights = [np.zeros((1, 1, 16, 16), np.float32)]
        engine.Program(block, stages([[0]], [[1]]), weights, "gpu")
        counts = gpu.fake.report()["counts"]
        rest = sum(price * counts.get(name, 0) for name, price in prices.items())
        return counts["host microseconds"] - rest, counts["cudnn plans"]

    spent, plans = spent_on_plans()
    assert plans > 2
    assert spent == 2 * 300_000 + (plans - 2) * 1400
    spent, plans = spent_on_plans()
    assert plans == 1
    assert spent in (1400, 300_000)


def test_the_host_s_time_may_be_real(gpu):
    """With host_costs=2, each call sleeps for its time, also if calls are nested."""
    gpu.fake.set(host_costs=2)
    block = block_of({**CONV, "inputs": [-1]})
    block["inputs"] = [[1, 6, 12, 16]]
    weights = [np.zeros((1, 1, 16, 16), np.float32)]
    engine.Program(block, stages([[0]]), weights, "gpu")
    counts = gpu.fake.report()["counts"]
    assert counts["host microseconds"] > 4 * 1400
    assert counts["microseconds of sleep"] == counts["host microseconds"]


CLOCKS = """
import json
import cuda_helpers
fake = cuda_helpers.fake_cuda()
import test_cuda_measurement as test
block = test.block_of({**test.RELU, "inputs": [-1]})
print(json.dumps(float(test.medians(block, test.stages([[0]]))[0])))
"""


def test_the_first_measurement_finds_the_clocks_up():
    """The first measurement on a slow, idle GPU gives the same time as on a fast
    one."""
    cuda_helpers.build_fakes()

    def first(ramp: int) -> float:
        options = f"clock_ramp={ramp}"
        done = run_python("-c", CLOCKS, FAKE_CUDA_OPTIONS=options)
        return json.loads(done.stdout)

    assert first(1) == pytest.approx(first(0), rel=0.01)


@pytest.mark.parametrize(
    ("readers", "copies"),
    [
        ([{**POOL, "inputs": [0]}, {**RELU, "inputs": [1]}], 0),  # both read slices
        ([{**POOL, "inputs": [0]}, {**CONV, "inputs": [1]}], 1),  # cuDNN cannot
        ([{**POOL, "inputs": [0]}, {**CONV, "groups": 4, "inputs": [1]}], 1),
        ([{**POOL, "inputs": [0]}, {**CONV, "groups": 16, "inputs": [1]}], 0),
        ([{"type": "concat", "inputs": [0, 1]}], 0),  # equals the merged output
        ([{"type": "concat", "inputs": [1, 0]}], 1),  # one kernel copies both parts
    ],
)
def test_a_merge_is_measured_as_it_runs(gpu, readers, copies):
    """A measured merge copies the same parts of its output as a program does."""
    convs = [{**CONV, "inputs": [-1], "bias": bias} for bias in (False, False)]
    outputs = list(range(2, 2 + len(readers)))
    block = block_of(*convs, *readers, outputs=outputs)
    merge = {"strategy": "merge", "groups": [[0, 1]]}
    rest = [{"strategy": "concurrent", "groups": [[i]]} for i in outputs]
    rng = np.random.default_rng(0)
    groups = [op.get("groups", 1) for op in (*convs, *readers) if "filters" in op]
    weights = [rng.normal(size=(1, 1, 16 // n, 16)).astype(np.float32) for n in groups]
    # Counts the copies in one run of a program.
    schedule = {"version": 1, "stages": [merge, *rest]}
    program = engine.Program(block, schedule, weights, cuda_engine.DEVICE)
    inputs = [rng.normal(size=block["inputs"][0]).astype(np.float32)]
    expected = cuda_engine.on_cpu(block, schedule, weights, inputs, "float32")
    gpu.fake.library.fake_cuda_reset()
    cuda_engine.assert_close(program.run(inputs), expected, 1e-4)
    assert gpu.fake.report()["counts"].get("kernel Copy", 0) == copies
    # Each run of a measurement makes the same number of copies.
    profiler = engine.Profiler(block, cuda_engine.DEVICE)
    profiler.sample([{"version": 1, "stages": [merge]}])
    gpu.fake.library.fake_cuda_reset()
    profiler.sample([{"version": 1, "stages": [merge]}], warmup=0, number=1, repeat=1)
    counts = gpu.fake.report()["counts"]
    assert counts.get("kernel Copy", 0) == copies * counts["cudnnBackendExecute"]
