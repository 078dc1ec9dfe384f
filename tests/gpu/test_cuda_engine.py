"""Programs on the fake GPU: random blocks with random legal schedules run eagerly and
as graphs, from several threads and streams. Planted mistakes must be found."""

import ctypes
import gc
import re
import threading

import cuda_engine
import cuda_helpers
import numpy as np
import pytest
from commands import run_python
from random_blocks import RandomBlock, random_schedule
from threads import in_threads

from ios_tf.native import engine

pytestmark = pytest.mark.one_core


class Case:
    """A random block with a random schedule, as a program on the fake GPU."""

    def __init__(
        self,
        seed: int,
        operators: int,
        dtype: str = "float32",
        device: str = cuda_engine.DEVICE,
    ):
        rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.random = RandomBlock(rng, operators)
        self.block = self.random.json | {"dtype": dtype}
        self.schedule = random_schedule(rng, engine.problem(self.block))
        self.program = engine.Program(
            self.block, self.schedule, self.random.weights, device
        )

    def inputs(self, batch: int = 1) -> list[np.ndarray]:
        return self.random.random_inputs(batch)

    def expected(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        return cuda_engine.on_cpu(
            self.random.json, self.schedule, self.random.weights, inputs, self.dtype
        )

    def assert_right(self, actual, expected) -> None:
        tolerance = cuda_engine.TOLERANCE[self.dtype]
        cuda_engine.assert_close(actual, expected, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(15))
def test_random_block_under_a_random_schedule(gpu, seed, dtype):
    gpu.fake.set(seed=seed)
    case = Case(seed, 3 + seed, dtype)
    inputs = case.inputs()
    expected = case.expected(inputs)
    run = cuda_engine.DeviceRun(gpu, case.program, inputs, dtype)
    gpu.fake.library.fake_cuda_reset()
    # The first run is eager, the second captures a graph, and the others replay it. The
    # fake GPU orders the work differently in each run.
    for _ in range(6):
        case.assert_right(run(), expected)
    assert gpu.fake.report()["counts"]["cuGraphLaunch"] == 5
    run.close()


@pytest.mark.parametrize("seed", range(2))
def test_other_batches_and_other_pointers(gpu, seed):
    """There are more batch sizes and addresses than the engine keeps prepared."""
    gpu.fake.set(seed=seed)
    case = Case(seed, 5)
    runs = []
    for batch in [*range(1, 11), 1, 2, *[3] * 10]:
        inputs = case.inputs(batch)
        run = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
        runs.append((run, case.expected(inputs)))
    for _ in range(3):
        for run, _ in runs:
            run.enqueue()  # each run has its own stream, and all are pending at once
        for run, expected in runs:
            case.assert_right(run.results(), expected)
    for run, _ in runs:
        run.close()


def test_pointers_that_change_do_not_make_graphs(gpu):
    case = Case(2, 6)
    inputs = case.inputs()
    for _ in range(4):
        case.assert_right(case.program.run(inputs), case.expected(inputs))


@pytest.mark.parametrize("seed", range(4))
def test_runs_on_one_stream_do_not_wait_for_the_host(gpu, seed):
    gpu.fake.set(seed=seed)
    case = Case(seed, 10)
    all_inputs = [case.inputs() for _ in range(4)]
    run = cuda_engine.DeviceRun(gpu, case.program, all_inputs[0], "float32")
    run(), run()
    gpu.fake.reset()
    others = [
        cuda_engine.DeviceRun(gpu, case.program, x, "float32", run.stream)
        for x in all_inputs
    ]
    for other in others:
        other.enqueue()
    counts = gpu.fake.report()["counts"]
    assert not {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"} & {
        *counts
    }
    for other, inputs in zip(others, all_inputs, strict=True):
        case.assert_right(other.results(), case.expected(inputs))
        other.close()
    run.close()


@pytest.mark.parametrize("seed", range(3))
def test_threads_share_a_program(gpu, seed):
    """Each thread has its own stream. Some shapes are new to all threads."""
    gpu.fake.set(seed=seed)
    case = Case(seed, 10)

    def call(batch: int) -> None:
        with gpu.context():
            inputs = case.inputs(batch)
            expected = case.expected(inputs)
            run = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
            for _ in range(8):
                case.assert_right(run(), expected)
            run.close()
            for _ in range(3):
                case.assert_right(case.program.run(inputs), expected)

    in_threads(call, (1, 2, 1, 3, 1))


def test_threads_enqueue_without_waiting(gpu):
    """A call may enqueue a run on an instance whose previous run has not ended yet."""
    case = Case(5, 8)
    inputs = case.inputs()
    expected = case.expected(inputs)
    runs = [
        cuda_engine.DeviceRun(gpu, case.program, inputs, "float32") for _ in range(20)
    ]
    for _ in range(3):
        for run in runs:
            run.enqueue()
    for run in runs:
        case.assert_right(run.results(), expected)
        run.close()


def test_threads_that_share_a_stream_share_an_instance(gpu):
    """TensorFlow's threads share one compute stream, which runs their calls in turn."""
    case = Case(5, 8)
    inputs = case.inputs()
    expected = case.expected(inputs)
    first = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
    runs = [first] + [
        cuda_engine.DeviceRun(gpu, case.program, inputs, "float32", first.stream)
        for _ in range(15)
    ]
    first()
    before = gpu.fake.report()["live"]
    gpu.fake.set(slow_launches=500)
    start = threading.Barrier(len(runs))

    def call(run: cuda_engine.DeviceRun) -> None:
        start.wait()
        for _ in range(20):
            run.enqueue()

    in_threads(call, runs)
    for kind in ("stream", "event"):  # each instance has its own streams and events
        assert gpu.fake.report()["live"][kind] == before[kind]
    for run in runs:
        case.assert_right(run.results(), expected)
    for run in reversed(runs):  # the first run owns the stream
        run.close()


def test_each_instance_has_a_handle_of_cudnn(gpu):
    """Instances return their handles to a pool, which has only as many handles as were
    used at the same time."""
    case = Case(5, 8)
    inputs = case.inputs()
    run = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
    run()

    def handles(count: int) -> int:
        programs = [Case(5, 8) for _ in range(count)]
        for one in programs:
            other = cuda_engine.DeviceRun(gpu, one.program, inputs, "float32")
            one.assert_right(other(), case.expected(inputs))
            other.close()
        return gpu.fake.report()["live"]["cudnn handle"]

    most = handles(20)
    assert most >= 20 + 1  # the first program also has a handle
    assert handles(20) == handles(3) == most
    run.close()


def test_handles_do_not_keep_streams_that_were_destroyed(gpu):
    case = Case(5, 8)
    inputs = case.inputs()
    run = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
    run()
    run.close()
    engine.Profiler(case.block, cuda_engine.DEVICE).sample([case.schedule])
    del case, run
    gc.collect()
    cudnn = ctypes.CDLL(str(gpu.fake.directory / "libcudnn.so.9"))
    assert gpu.fake.report()["live"]["cudnn handle"] > 0
    assert cudnn.fake_cudnn_stale_handles() == 0


def test_the_legacy_stream_is_never_used(gpu):
    """The legacy stream waits for streams of other libraries and breaks their
    captures."""
    case = Case(6, 8)
    inputs = case.inputs()
    gpu.fake.reset()
    engine.Profiler(case.block, cuda_engine.DEVICE).sample([case.schedule])
    case.program.run(inputs)
    run = cuda_engine.DeviceRun(gpu, Case(6, 8).program, inputs, "float32")
    run()
    run.close()
    counts = gpu.fake.report()["counts"]
    assert counts["cuLaunchKernel"] > 0
    assert "legacy stream" not in counts


_LANES = "from ios_tf.native import engine; print(engine.lane_count('gpu'))"


@pytest.mark.parametrize(
    ("connections", "lanes"), [(None, 8), ("4", 4), ("32", 16), ("x", 8)]
)
def test_lanes_have_hardware_queues(gpu, connections, lanes, monkeypatch):
    """There are as many lanes as queues: 8, unless the environment says otherwise."""
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS", raising=False)
    if connections is not None:
        monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections)
    done = run_python("-c", _LANES, LD_LIBRARY_PATH=gpu.fake.directory)
    assert int(done.stdout) == lanes


def test_latencies_are_of_one_revision_of_the_backend():
    """Latencies of older kernels are not reused, because the device's name differs."""
    names = [engine.device_fingerprint(d) for d in ("gpu", "gpu,tf32=off")]
    assert re.search(r", cuDNN [\d.]+, revision \d+$", names[0])
    assert names[1] == names[0] + ", no TF32"


def test_two_gpus(gpu):
    """One thread uses two GPUs in turn. Each has its own kernels, handles and
    memory."""
    gpu.fake.set(devices=2)
    cases = [Case(7, 9, device=f"gpu:{i},tf32=off") for i in range(2)]
    inputs = cases[0].inputs()
    expected = cases[0].expected(inputs)
    runs = []
    for i, case in enumerate(cases):
        with gpu.context(i):
            runs.append(cuda_engine.DeviceRun(gpu, case.program, inputs, "float32"))
    for _ in range(3):
        for i, run in enumerate(runs):
            with gpu.context(i):
                cases[i].assert_right(run(), expected)
            cases[i].assert_right(cases[i].program.run(inputs), expected)
    for i, run in enumerate(runs):
        with gpu.context(i):
            run.close()


@pytest.mark.parametrize("seed", range(4))
def test_profiler(gpu, seed):
    gpu.fake.set(seed=seed)
    rng = np.random.default_rng(seed)
    block = RandomBlock(rng, 10)
    problem = engine.problem(block.json)
    schedules = [random_schedule(rng, problem) for _ in range(3)]
    profiler = engine.Profiler(block.json, cuda_engine.DEVICE)
    latencies = profiler.sample(schedules, warmup=1, number=2, repeat=3)[0]
    assert latencies.shape == (3, 3)
    assert np.all(latencies > 0)
    # Simulated time does not vary.
    np.testing.assert_allclose(latencies, latencies[:, :1].repeat(3, 1), rtol=1e-3)


def _branches(count: int) -> dict:
    conv = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 16}
    return {
        "version": 1,
        "name": "branches",
        "inputs": [[1, 12, 11, 16]],
        "operators": [
            *[{**conv, "inputs": [-1]} for _ in range(count)],
            {"type": "concat", "inputs": list(range(count))},
            {**conv, "inputs": [count]},
        ],
        "outputs": [count + 1],
    }


def _stages(*groups_of_stages: list[list[int]]) -> dict:
    stages = [{"strategy": "concurrent", "groups": g} for g in groups_of_stages]
    return {"version": 1, "stages": stages}


CONCURRENT = _stages([[0], [1], [2], [3]], [[4, 5]])
SEQUENTIAL = _stages([[0]], [[1]], [[2]], [[3]], [[4]], [[5]])


BRANCHES_INPUTS = [np.ones((1, 12, 11, 16), np.float32)]
ARENA_BYTES = 12 * 11 * 64 * 4  # the size of the concat, the largest allocation


def _weights() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [(3, 3, 16, 16)] * 4 + [(3, 3, 64, 16)]
    return [rng.normal(size=s).astype(np.float32) / 24 for s in shapes]


def test_concurrent_stages_are_measured_faster(gpu):
    profiler = engine.Profiler(_branches(4), cuda_engine.DEVICE)
    concurrent, sequential = np.median(
        profiler.sample([CONCURRENT, SEQUENTIAL])[0], axis=1
    )
    assert concurrent < 0.75 * sequential


def _branches_run(gpu) -> cuda_engine.DeviceRun:
    program = engine.Program(_branches(4), CONCURRENT, _weights(), cuda_engine.DEVICE)
    return cuda_engine.DeviceRun(gpu, program, BRANCHES_INPUTS, "float32")


def _waits(gpu) -> int:
    return gpu.fake.report()["counts"].get("cuStreamWaitEvent", 0)


@pytest.mark.parametrize("seed", range(3))
def test_each_removed_event_is_found(gpu, seed):
    """In an eager run, leaving out any wait between lanes is found as a violation."""
    gpu.fake.set(seed=seed, fail_begin_capture=1)
    run = _branches_run(gpu)
    run()
    before = _waits(gpu)
    run()
    waits = _waits(gpu) - before
    assert waits == 1 + 2 * 3  # the last run; forks and joins of three lanes
    found = []
    for n in range(waits):
        gpu.fake.plant("drop_event", n)
        run.set_inputs(BRANCHES_INPUTS)  # other lanes must wait for this stream
        run()
        gpu("cuCtxSynchronize")
        assert gpu.fake.report()["counts"].get("planted drop_event") == 1
        found.append(bool(gpu.fake.take_violations()))
    # The first wait is for the last run, which was on the same stream, so leaving it
    # out is not a mistake.
    assert found == [n > 0 for n in range(waits)]
    run.close()


def test_each_event_removed_from_a_graph_is_found(gpu):
    counting = _branches_run(gpu)
    counting()
    before = _waits(gpu)
    counting()
    waits = _waits(gpu) - before
    counting.close()
    for n in range(1, waits):  # wait 0 is not inside the graph
        run = _branches_run(gpu)
        run()
        gpu.fake.plant("drop_event", n)
        run()
        gpu("cuCtxSynchronize")
        assert gpu.fake.report()["counts"].get("planted drop_event") == 1
        assert gpu.fake.take_violations()
        run.close()


def test_a_shared_arena_is_found(gpu):
    """Two programs that run at the same time get the same memory, by a planted
    mistake."""
    one = _branches_run(gpu)
    gpu.fake.plant("share_memory", ARENA_BYTES)
    other = _branches_run(gpu)
    assert gpu.fake.report()["counts"]["planted share_memory"] == 1
    one.enqueue(), other.enqueue()
    gpu("cuCtxSynchronize")
    assert gpu.fake.take_violations()
    one.close(), other.close()


@pytest.mark.parametrize(
    ("option", "attempts"),
    [("fail_begin_capture", 1), ("fail_end_capture", 3), ("fail_instantiate", 1)],
)
def test_where_capturing_fails_work_runs_eagerly(gpu, option, attempts):
    case = Case(3, 9)  # creating the program also captures, to time plans
    before = engine.failed_captures()
    gpu.fake.reset()
    gpu.fake.set(**{option: 1})
    inputs = case.inputs()
    expected = case.expected(inputs)
    run = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
    for _ in range(17):
        case.assert_right(run(), expected)
    counts = gpu.fake.report()["counts"]
    assert "cuGraphLaunch" not in counts
    # The engine does not try to capture in each run.
    assert counts["cuStreamBeginCapture"] == attempts
    assert engine.failed_captures() == before + 1
    # The failure may be temporary, so the engine tries again, after more and more runs.
    for _ in range(2 + 32):
        run.enqueue()
    assert gpu.fake.report()["counts"]["cuStreamBeginCapture"] == 2 * attempts
    gpu.fake.set(**{option: 0})
    for _ in range(2):
        case.assert_right(run(), expected)
    assert gpu.fake.report()["counts"]["cuGraphLaunch"] == 2
    assert engine.failed_captures() == before + 2
    run.close()


@pytest.mark.parametrize("n", [0, 3])
def test_a_capture_that_another_thread_invalidates_is_repeated(gpu, n):
    """The call repeats the capture, and its work is done once, by the graph."""
    case = Case(3, 9)
    before = engine.failed_captures()
    inputs = case.inputs()
    expected = case.expected(inputs)
    run = cuda_engine.DeviceRun(gpu, case.program, inputs, "float32")
    case.assert_right(run(), expected)
    gpu.fake.library.fake_cuda_reset()
    gpu.fake.plant("invalidate_capture", n)
    for calls in (1, 2):
        case.assert_right(run(), expected)
        counts = gpu.fake.report()["counts"]
        assert counts["planted invalidate_capture"] == 1
        assert counts["cuGraphLaunch"] == calls
    assert engine.failed_captures() == before
    run.close()


@pytest.mark.parametrize("count", [20, 100])
def test_addresses_that_rotate_share_a_graph(gpu, count):
    """There are more addresses than the engine keeps graphs for, or even remembers."""
    case = Case(4, 6)
    inputs = [case.inputs() for _ in range(4)]
    expected = [case.expected(x) for x in inputs]
    first = cuda_engine.DeviceRun(gpu, case.program, inputs[0], "float32")
    runs = [first] + [
        cuda_engine.DeviceRun(gpu, case.program, inputs[i % 4], "float32", first.stream)
        for i in range(1, count)
    ]

    def rotate() -> dict:
        gpu.fake.library.fake_cuda_reset()
        for run in runs:
            run.enqueue()
        for i, run in enumerate(runs):
            case.assert_right(run.results(), expected[i % 4])
        return gpu.fake.report()["counts"]

    rotate(), rotate()
    counts = rotate()
    assert counts["cuGraphLaunch"] == count
    for name in ("cuGraphInstantiate", "cuLaunchKernel", "cudnnBackendExecute"):
        assert name not in counts
    # Addresses that are used many times in a row get their own graph again.
    for _ in range(70):
        runs[-1].enqueue()
    gpu.fake.library.fake_cuda_reset()
    runs[-1].enqueue()
    counts = gpu.fake.report()["counts"]
    assert counts["cuGraphLaunch"] == 1 and "cuMemcpyDtoDAsync" not in counts
    for run in reversed(runs):  # the first run owns the stream
        run.close()


def test_no_memory_to_rotate_addresses_in(gpu):
    case = Case(4, 6)
    inputs = case.inputs()
    expected = case.expected(inputs)
    runs = [
        cuda_engine.DeviceRun(gpu, case.program, inputs, "float32", 0)
        for _ in range(20)
    ]
    runs[0].enqueue()
    gpu.fake.set(memory_limit=gpu.fake.report()["live"]["bytes"])
    for run in runs * 2:
        run.enqueue()
    for run in runs:
        case.assert_right(run.results(), expected)
        run.close()


@pytest.mark.parametrize("capturing", [False, True])
def test_a_launch_that_fails_leaves_nothing_unordered(gpu, capturing):
    """A launch fails in the middle of a stage.

    Kernels that were launched before on other streams must still be ordered before what
    the caller does next, and later runs must give correct results.
    """
    for n in range(5):
        gpu.fake.set(fail_begin_capture=int(not capturing))
        run = _branches_run(gpu)
        expected = run()
        for _ in range(2):
            gpu.fake.plant("fail_launch", n)
            try:
                run.enqueue()
            except engine.EngineError as error:
                assert "\n" not in str(error)
            # After the error, the caller may overwrite the input tensors. The fake GPU
            # records a violation if a kernel that was launched before the error could
            # still read them.
            run.set_inputs(BRANCHES_INPUTS)
        assert gpu.fake.report()["counts"]["planted fail_launch"] == 2
        assert gpu.fake.take_violations() == []
        for _ in range(3):
            cuda_engine.assert_close(run(), expected, 1e-4)
        run.close()


_CONVOLUTION = {"type": "conv2d", "kernel": [3, 3], "filters": 8, "padding": "SAME"}


def _chain(length: int, width: int) -> tuple[engine.Program, list[int]]:
    """A program that is a chain of convolutions, and the shape of its input."""
    shape = [1, 6, width, 8]
    operators = [{**_CONVOLUTION, "inputs": [i - 1]} for i in range(length)]
    block = {
        "version": 1,
        "inputs": [shape],
        "operators": operators,
        "outputs": [length - 1],
    }
    stages = [{"strategy": "concurrent", "groups": [[i]]} for i in range(length)]
    weights = [np.zeros((3, 3, 8, 8), np.float32) for _ in operators]
    return engine.Program(
        block, {"version": 1, "stages": stages}, weights, "gpu"
    ), shape


# The width of images in a `_chain` whose arena has 4 MiB per image.
_WIDE = (4 << 20) // (2 * 6 * 8 * 4)


def _runs_of_sizes(
    gpu, program: engine.Program, shape: list[int], sizes: int
) -> list[cuda_engine.DeviceRun]:
    """Runs of the batch sizes from 1 to `sizes`."""
    return [
        cuda_engine.DeviceRun(
            gpu, program, [np.zeros([size, *shape[1:]], np.float32)], "float32"
        )
        for size in range(1, sizes + 1)
    ]


@pytest.mark.parametrize(("sizes", "width"), [(8, 7), (20, 7), (12, _WIDE)])
def test_batch_sizes_in_turn(gpu, sizes, width):
    """A call with a shape that was seen before only launches a graph."""
    gpu.fake.set(inert=width == _WIDE)  # 312 MiB are not allocated
    program, shape = _chain(3, width)
    runs = _runs_of_sizes(gpu, program, shape, sizes)
    for _ in range(3):
        for run in runs:
            run.enqueue()
    gpu.fake.reset()
    for run in runs:
        run.enqueue()
    counts = gpu.fake.report()["counts"]
    assert counts["cuGraphLaunch"] == sizes
    for expensive in ("cudnn plans", "cudnn plans loaded", "cuMemAlloc"):
        assert expensive not in counts
    assert "cuStreamSynchronize" not in counts
    for run in runs:
        run.close()


def test_executions_have_a_part_of_the_memory(gpu):
    """Those of the batch sizes 23 to 31 have 972 MiB, and may have 1 GiB of 16 GiB."""
    gpu.fake.set(inert=1)
    program, shape = _chain(3, _WIDE)
    runs = _runs_of_sizes(gpu, program, shape, 31)
    for run in runs:
        run.enqueue()
    gpu.fake.library.fake_cuda_reset()
    for run in runs[22:]:
        run.enqueue()
    assert "cuMemAlloc" not in gpu.fake.report()["counts"]
    runs[21].enqueue()
    assert "cuMemAlloc" in gpu.fake.report()["counts"]
    for run in runs:
        run.close()


@pytest.mark.parametrize("bytes_left", [0, 10_000])
def test_other_shapes_make_room_for_a_new_one(gpu, bytes_left):
    case = Case(3, 6)
    batches = [1, 2, 3, 5, 8, 4]
    inputs = [case.inputs(batch) for batch in batches]
    runs = [cuda_engine.DeviceRun(gpu, case.program, x, "float32") for x in inputs]
    for run in runs[:-1]:
        run.enqueue()
    gpu.fake.set(memory_limit=gpu.fake.report()["live"]["bytes"] + bytes_left)
    for _ in range(2):
        for run in runs:
            run.enqueue()
    for run, x in zip(runs, inputs, strict=True):
        case.assert_right(run.results(), case.expected(x))
        run.close()


# Forks while another thread compiles a program. Prints the child's exit code.
FORK = """
import faulthandler, json, os, threading
import numpy as np
import cuda_helpers
fake = cuda_helpers.fake_cuda()
from ios_tf.native import engine
import test_cuda_engine as test
faulthandler.dump_traceback_later(60, exit=True)  # if the fork waits
program, shape = test._chain(2, 5)
fake.set(hold_plans=1)
new = [np.zeros([3, *shape[1:]], np.float32)]
threads = [threading.Thread(target=program.run, args=[new]) for _ in range(2)]
for thread in threads:
    thread.start()
while "polls of held plans" not in fake.report()["counts"]:
    pass
child = os.fork()
if child == 0:
    for images in (new[0], new[0][:1]):
        try:
            program.run([images])
        except engine.EngineError as error:
            assert "forked" in str(error) and "spawn" in str(error), error
        else:
            os._exit(1)
    os._exit(3)
_, status = os.waitpid(child, 0)
fake.set(hold_plans=0)
for thread in threads:
    thread.join()
report = fake.report()
print(json.dumps([os.waitstatus_to_exitcode(status), None, report["violations"]]))
"""


def test_a_fork_does_not_wait_for_a_compilation():
    cuda_helpers.build_fakes()
    code, _, _ = cuda_helpers.run_apart(FORK, "")
    assert code == 3  # the child's calls failed with a clear error


def test_plans_live_as_long_as_the_weights(gpu):
    """Plans are kept even for more shapes than a program keeps executions for."""
    program, shape = _chain(2, 2)
    for _ in range(2):
        gpu.fake.reset()
        for size in range(1, 68):  # executions of 64 sizes are kept
            program.run([np.zeros([size, *shape[1:]], np.float32)])
    counts = gpu.fake.report()["counts"]
    assert "cudnn plans" not in counts and "cudnn plans loaded" not in counts


def test_a_new_shape_stops_nobody(gpu):
    """Calls with known shapes run while the program is compiled for a new shape."""
    program, shape = _chain(2, 5)
    known = [np.zeros(shape, np.float32)]
    program.run(known)
    gpu.fake.set(hold_plans=1)
    outputs = []
    new = [np.zeros([3, *shape[1:]], np.float32)]
    threads = [
        threading.Thread(target=lambda: outputs.extend(program.run(new)))
        for _ in range(3)  # one of the threads compiles
    ]
    for thread in threads:
        thread.start()
    while "polls of held plans" not in gpu.fake.report()["counts"]:
        pass
    for _ in range(5):
        program.run(known)
    assert not outputs
    gpu.fake.set(hold_plans=0)
    for thread in threads:
        thread.join()
    assert [y.shape[0] for y in outputs] == [3, 3, 3]
