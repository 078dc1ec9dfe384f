"""Tests of the fake GPU itself: legal work gives correct results in every legal order,
and the fake GPU finds each kind of mistake."""

import ctypes
import threading
from collections.abc import Sequence

import cuda_driver as cd
import numpy as np
import pytest
from cuda_driver import CudaError

pytestmark = pytest.mark.one_core

COUNT = 64
KERNELS = """
template <typename T>
__device__ T Load(const T* p) {
  return *static_cast<const T*>(IosHostLoad(p, sizeof(T)));
}
template <typename T>
__device__ void Store(T* p, T value) {
  *static_cast<T*>(IosHostStore(p, sizeof(T))) = value;
}
#define KERNEL(name, expression)                                         \\
  extern "C" __global__ void __launch_bounds__(64)                       \\
      name(const float* a, const float* b, float* y) {                   \\
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                 \\
    const float x = Load(a + i), z = Load(b + i);                        \\
    Store(y + i, expression);                                            \\
  }
KERNEL(add, x + z)
KERNEL(subtract, x - z)
extern "C" __global__ void reverse(const float* a, float* y) {
  __shared__ float values[64];
  values[threadIdx.x] = Load(a + threadIdx.x);
  __syncthreads();
  const float mirrored = values[63 - threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = mirrored;
  __syncthreads();
  Store(y + threadIdx.x, values[threadIdx.x]);
}
extern "C" __global__ void half_waits(float* y) {
  if (threadIdx.x < 32) __syncthreads();
  Store(y + threadIdx.x, 1.0f);
}
extern "C" __global__ void copy4(const float4* a, float4* y) {
  Store(y + threadIdx.x, Load(a + threadIdx.x));
}
extern "C" __global__ void shift(const float* a, float* y) {
  Store(y + threadIdx.x, Load(a + threadIdx.x + 1));
}
extern "C" __global__ void first(float* y) { Store(y, 1.0f); }
"""


class Gpu(cd.Driver):
    """The fake driver, with the test's kernels, and the objects that a test creates."""

    def __init__(self, cuda):
        super().__init__(cuda.directory)
        self.fake = cuda
        self._made = []

    def __getattr__(self, kernel: str) -> int:
        return self.make("cuModuleGetFunction", self.module, kernel.encode())

    def load(self) -> None:
        code, self.image = self.compile(KERNELS)
        assert code == 0, self.image
        self.module = self.made("cuModuleLoadData", "cuModuleUnload", self.image)

    def made(self, make: str, destroy: str, *arguments) -> int:
        handle = self.make(make, *arguments)
        self._made.append((destroy, handle))
        return handle

    def stream(self, flags: int = cd.NON_BLOCKING) -> int:
        return self.made("cuStreamCreate", "cuStreamDestroy", flags)

    def event(self, flags: int = 2) -> int:
        return self.made("cuEventCreate", "cuEventDestroy", flags)

    def memory(self, values=None) -> int:
        address = self.made("cuMemAlloc", "cuMemFree", 4 * COUNT)
        if values is not None:
            self.upload(address, np.broadcast_to(values, COUNT))
            self("cuCtxSynchronize")
        return address

    def order(self, before: int, after: int) -> None:
        """Makes later work on stream `after` wait for the work on `before`."""
        event = self.event()
        self("cuEventRecord", event, before)
        self("cuStreamWaitEvent", after, event, 0)

    def capture(self, stream: int, enqueue, mode: int = cd.THREAD_LOCAL) -> int:
        self("cuStreamBeginCapture", stream, mode)
        enqueue()
        graph = self.make("cuStreamEndCapture", stream, result_is_last=True)
        exec_ = self.made("cuGraphInstantiateWithFlags", "cuGraphExecDestroy", graph, 0)
        self("cuGraphDestroy", graph)
        return exec_

    def clean_up(self) -> None:
        for destroy, handle in reversed(self._made):
            self(destroy, handle)


@pytest.fixture
def gpu(cuda):
    gpu = Gpu(cuda)
    with gpu.context():
        gpu.load()
        yield gpu
        gpu.clean_up()


def finish(gpu) -> list[str]:
    gpu("cuCtxSynchronize")
    return gpu.fake.take_violations()


def test_a_block_larger_than_its_kernel_s_bounds(gpu):
    x, y = gpu.memory(3), gpu.memory()
    with pytest.raises(CudaError):
        gpu.launch(gpu.add, gpu.stream(), x, x, y, threads=COUNT + 1)
    (violation,) = finish(gpu)
    assert "add with a bad configuration" in violation


@pytest.mark.parametrize("seed", range(8))
def test_events_order_streams(gpu, seed):
    gpu.fake.set(seed=seed)
    one, other = gpu.stream(), gpu.stream()
    x, y, z = gpu.memory(3), gpu.memory(), gpu.memory()
    for _ in range(3):
        gpu.launch(gpu.add, one, x, x, y)  # y = 6
        gpu.order(one, other)
        gpu.launch(gpu.add, other, x, y, z)  # z = 9
        gpu.order(other, one)
    gpu.launch(gpu.subtract, one, z, x, y)
    np.testing.assert_array_equal(gpu.download(y, COUNT, one), 6)
    assert finish(gpu) == []


@pytest.mark.parametrize("hazard", ["read", "write after read", "write after write"])
@pytest.mark.parametrize("seed", range(4))
def test_accesses_that_no_event_orders(gpu, hazard, seed):
    gpu.fake.set(seed=seed)
    one, other = gpu.stream(), gpu.stream()
    x, y, z = gpu.memory(1), gpu.memory(2), gpu.memory(3)
    gpu.launch(gpu.add, one, x, x, y)
    if hazard == "read":
        gpu.launch(gpu.add, other, x, y, z)
    elif hazard == "write after read":
        gpu.launch(gpu.add, other, z, z, x)
    else:
        gpu.launch(gpu.add, other, z, z, y)
    (violation,) = finish(gpu)
    assert "is not ordered after it" in violation


def test_a_dropped_event_is_found(gpu):
    one, other = gpu.stream(), gpu.stream()
    x, y, z = gpu.memory(1), gpu.memory(), gpu.memory()
    gpu.fake.plant("drop_event")
    gpu.launch(gpu.add, one, x, x, y)
    gpu.order(one, other)
    gpu.launch(gpu.add, other, x, y, z)
    gpu("cuCtxSynchronize")
    assert gpu.fake.report()["counts"]["planted drop_event"] == 1
    (violation,) = finish(gpu)
    assert "not ordered" in violation or "nothing has written" in violation


def test_shared_memory_is_found(gpu):
    one, other = gpu.stream(), gpu.stream()
    x, y = gpu.memory(1), gpu.memory()
    gpu.fake.plant("share_memory", 4 * COUNT)
    z = gpu.memory()
    gpu.launch(gpu.add, one, x, x, y)
    gpu.launch(gpu.add, other, x, x, z)
    (violation,) = finish(gpu)
    assert "writes byte 0" in violation


def diamond(gpu, one, other, x, parts, y):
    """Computes y = (x + x) - (x + (x + x)), with the two operands on two streams."""

    def enqueue():
        gpu.launch(gpu.add, one, x, x, parts[0])
        gpu.order(one, other)
        gpu.launch(gpu.add, other, x, parts[0], parts[1])
        gpu.launch(gpu.add, one, x, x, parts[2])
        gpu.order(other, one)
        gpu.launch(gpu.subtract, one, parts[2], parts[1], y)

    return enqueue


@pytest.mark.parametrize("seed", range(8))
def test_graphs(gpu, seed):
    gpu.fake.set(seed=seed)
    one, other, user = gpu.stream(), gpu.stream(), gpu.stream()
    x, y, *parts = gpu.memory(1), *[gpu.memory() for _ in range(4)]
    graph = gpu.capture(one, diamond(gpu, one, other, x, parts, y))
    assert "kernel add" in gpu.fake.report()["counts"]
    for value in (2, 5, 7):
        gpu.upload(x, np.full(COUNT, value))
        gpu("cuCtxSynchronize")
        gpu("cuGraphLaunch", graph, user)
        gpu("cuGraphLaunch", graph, user)
        np.testing.assert_array_equal(gpu.download(y, COUNT, user), -value)
    assert finish(gpu) == []


def test_launches_of_one_graph_are_in_order_and_of_two_are_not(gpu):
    one, other, *users = [gpu.stream() for _ in range(4)]
    x, y, *parts = gpu.memory(1), *[gpu.memory() for _ in range(4)]
    graphs = [gpu.capture(one, diamond(gpu, one, other, x, parts, y)) for _ in range(2)]
    for user in users:
        gpu("cuGraphLaunch", graphs[0], user)
    assert finish(gpu) == []
    for graph, user in zip(graphs, users, strict=True):
        gpu("cuGraphLaunch", graph, user)
    assert finish(gpu)


def test_a_missing_event_inside_a_graph_is_found(gpu):
    one, other = gpu.stream(), gpu.stream()
    x, y, *parts = gpu.memory(1), *[gpu.memory() for _ in range(4)]
    enqueue = diamond(gpu, one, other, x, parts, y)
    gpu.fake.plant("drop_event", 1)  # the join
    with pytest.raises(CudaError) as error:
        gpu.capture(one, enqueue)
    assert error.value.code == cd.CAPTURE_UNJOINED
    assert finish(gpu) == ["a capture ends with a stream that is not joined"]


@pytest.mark.parametrize(
    "call",
    [
        lambda gpu, stream, x: gpu("cuStreamSynchronize", stream),
        lambda gpu, stream, x: gpu("cuCtxSynchronize"),
        lambda gpu, stream, x: gpu.make("cuMemAlloc", 16),
        lambda gpu, stream, x: gpu("cuMemFree", x),
        lambda gpu, stream, x: gpu.upload(x, [1.0]),
        lambda gpu, stream, x: gpu.download(x, 1, stream),
        lambda gpu, stream, x: gpu.make("cuModuleLoadData", gpu.image),
    ],
)
def test_calls_that_captures_forbid(gpu, call):
    stream, x = gpu.stream(), gpu.memory(1)
    gpu("cuStreamBeginCapture", stream, cd.THREAD_LOCAL)
    with pytest.raises(CudaError):
        call(gpu, stream, x)
    with pytest.raises(CudaError) as error:
        gpu.make("cuStreamEndCapture", stream, result_is_last=True)
    assert error.value.code == cd.CAPTURE_INVALIDATED
    assert len(finish(gpu)) == 1


def in_another_thread(gpu, call) -> list[Exception]:
    errors = []

    def run():
        with gpu.context():
            try:
                call()
            except CudaError as error:
                errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors


@pytest.mark.parametrize(
    ("mode", "call", "forbidden"),
    [
        (cd.GLOBAL, "allocate", True),
        (cd.THREAD_LOCAL, "allocate", False),
        (cd.RELAXED, "allocate", False),
        (cd.RELAXED, "synchronize", True),
    ],
)
def test_what_other_threads_may_do_while_a_stream_is_captured(
    gpu, mode, call, forbidden
):
    stream = gpu.stream()
    gpu("cuStreamBeginCapture", stream, mode)
    calls = {
        "allocate": lambda: gpu("cuMemFree", gpu.allocate(4)),
        "synchronize": lambda: gpu("cuCtxSynchronize"),
    }
    assert bool(in_another_thread(gpu, calls[call])) == forbidden
    if forbidden:
        with pytest.raises(CudaError):
            gpu.make("cuStreamEndCapture", stream, result_is_last=True)
    else:
        graph = gpu.make("cuStreamEndCapture", stream, result_is_last=True)
        gpu("cuGraphDestroy", graph)
    assert bool(finish(gpu)) == forbidden


def test_a_thread_may_write_what_it_has_read(gpu):
    x, stream = gpu.memory(1), gpu.stream()
    gpu.launch(gpu.add, stream, x, x, x)
    assert finish(gpu) == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda gpu, s, x, y: gpu.launch(gpu.add, s, y, y, x), "nothing has written"),
        (lambda gpu, s, x, y: gpu.launch(gpu.add, s, x, x, y, blocks=2), "outside"),
        (lambda gpu, s, x, y: gpu.launch(gpu.first, s, y + 4 * COUNT), "outside"),
        (lambda gpu, s, x, y: gpu.launch(gpu.first, s, 64), "outside of device"),
        (lambda gpu, s, x, y: gpu.launch(gpu.first, s, y + 2), "not aligned"),
        (
            lambda gpu, s, x, y: gpu.launch(gpu.copy4, s, x + 4, y, threads=8),
            "not aligned",
        ),
        (lambda gpu, s, x, y: gpu.launch(gpu.first, s, y, threads=2), "twice"),
        (
            lambda gpu, s, x, y: gpu.launch(gpu.shift, s, x, x, threads=63),
            "reads and writes",
        ),
        (lambda gpu, s, x, y: gpu.launch(gpu.half_waits, s, y), "the same barrier"),
    ],
)
def test_bad_accesses(gpu, bad, message):
    x, y = gpu.memory(1), gpu.memory()
    bad(gpu, gpu.stream(), x, y)
    assert any(message in violation for violation in finish(gpu))


def test_use_after_free(gpu):
    x, y, stream = gpu.memory(1), gpu.allocate(COUNT), gpu.stream()
    graph = gpu.capture(stream, lambda: gpu.launch(gpu.add, stream, x, x, y))
    gpu("cuMemFree", y)
    gpu("cuGraphLaunch", graph, stream)
    (violation,) = finish(gpu)
    assert "of freed allocation" in violation


def test_an_upload_is_on_the_legacy_stream(gpu):
    x, y, stream = gpu.memory(), gpu.memory(), gpu.stream()
    gpu.upload(x, np.ones(COUNT))
    gpu.launch(gpu.add, stream, x, x, y)
    assert finish(gpu)
    blocking = gpu.stream(flags=0)
    gpu.upload(x, np.ones(COUNT))
    gpu.launch(gpu.add, blocking, x, x, y)
    assert finish(gpu) == []


def test_barriers(gpu):
    x, y, stream = gpu.memory(np.arange(COUNT)), gpu.memory(), gpu.stream()
    for seed in range(4):
        gpu.fake.set(seed=seed)
        gpu.launch(gpu.reverse, stream, x, y)
        expected = np.arange(COUNT)[::-1]
        np.testing.assert_array_equal(gpu.download(y, COUNT, stream), expected)
    assert finish(gpu) == []


def milliseconds(gpu, *streams: Sequence[int]) -> float:
    """The time of kernels on several streams. Each stream lists numbers of blocks."""
    x, y = gpu.memory(1), gpu.memory()
    start, end = gpu.event(0), gpu.event(0)
    first, *others = [gpu.stream() for _ in streams]
    gpu("cuEventRecord", start, first)
    for other in others:
        gpu.order(first, other)
    for stream, blocks in zip([first, *others], streams, strict=True):
        for n in blocks:
            gpu.launch(gpu.add, stream, x, x, y, blocks=n)
    for other in others:
        gpu.order(other, first)
    gpu("cuEventRecord", end, first)
    gpu("cuEventSynchronize", end)
    elapsed = ctypes.c_float()
    gpu("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
    assert finish(gpu) == []
    return elapsed.value


def test_concurrent_work_overlaps_in_simulated_time(gpu):
    gpu.fake.set(inert=1, time_scale=10_000)  # launches take far less time than kernels
    assert milliseconds(gpu, [1]) == pytest.approx(0.64, rel=0.02)
    assert milliseconds(gpu, [1, 1]) == pytest.approx(1.28, rel=0.02)
    assert milliseconds(gpu, [1], [1]) == pytest.approx(0.64, rel=0.02)


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ([[64]], 40.96),
        ([[64, 64]], 81.92),
        ([[64], [64]], 81.92),  # each fills the GPU
        ([[32], [32]], 20.48),
        ([[32], [32], [32]], 40.96),  # the third has no room
        ([[96]], 61.44),  # in two waves of 30.72 ms
        # The second wave starts at 30.72 ms and has only 32 blocks. So the other
        # kernel's 32 blocks, which take 20.48 ms each, also start then.
        ([[96], [32]], 61.44),
        # The second kernel's blocks take 40.96 ms each: 32 of them start at 30.72 ms,
        # and 32 at 61.44 ms.
        ([[96], [64]], 102.4),
        # The second kernel's blocks take 30.72 ms each: 32 of them start at 0 ms, 32 at
        # 20.48 ms, and 32 at 30.72 ms.
        ([[32], [96]], 61.44),
    ],
)
def test_blocks_wait_for_multiprocessors(gpu, streams, expected):
    """Two multiprocessors have room for 64 blocks of 64 threads. A block of a kernel
    takes 0.64 ms for each block of the kernel, or half of this if the kernel has two
    waves."""
    gpu.fake.set(inert=1, time_scale=10_000, sms=2)
    assert milliseconds(gpu, *streams) == pytest.approx(expected, rel=0.01)


def test_leaks_are_reported(gpu):
    before = gpu.fake.report()["live"]
    stream, x = gpu.make("cuStreamCreate", 1), gpu.allocate(COUNT)
    after = gpu.fake.report()["live"]
    assert after["stream"] - before.get("stream", 0) == 1
    assert after["bytes"] - before["bytes"] == 4 * COUNT
    gpu("cuStreamDestroy", stream)
    gpu("cuMemFree", x)
    assert gpu.fake.report()["live"] == before
    with pytest.raises(CudaError):
        gpu("cuMemFree", x)
    assert finish(gpu) == ["memory was freed that is not allocated"]


def test_memory_is_limited(gpu):
    used = gpu.fake.report()["live"]["bytes"]
    gpu.fake.set(memory_limit=used + 1024)
    x = gpu.allocate(256)
    with pytest.raises(CudaError) as error:
        gpu.allocate(1)
    assert error.value.code == cd.OUT_OF_MEMORY
    gpu("cuMemFree", x)


def test_contexts(gpu):
    gpu.fake.set(devices=2)
    stream, x, y = gpu.stream(), gpu.memory(1), gpu.memory()
    with gpu.context(1), pytest.raises(CudaError):
        gpu.launch(gpu.add, stream, x, x, y)
    assert finish(gpu) == ["cuLaunchKernel with a stream of another context"]
    with gpu.context(1):
        other = gpu.stream()
        gpu("cuMemsetD8Async", x, 0, 4, other)
    (violation,) = finish(gpu)
    assert "of another context's allocation" in violation
    popped = gpu.make("cuCtxPopCurrent")
    with pytest.raises(CudaError) as error:
        gpu("cuStreamSynchronize", stream)
    gpu("cuCtxPushCurrent", popped)
    assert error.value.code == cd.INVALID_CONTEXT
    assert finish(gpu) == ["cuStreamSynchronize without a context"]


def test_kernels_that_do_not_compile(gpu):
    code, log = gpu.compile('extern "C" __global__ void broken(float* p) { p = 1.5; }')
    assert code != 0
    assert "error" in log
