"""The engine chooses one of cuDNN's plans for a convolution, and stores it in a
file."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import struct
import threading
from pathlib import Path

import cuda_engine
import cuda_helpers
import numpy as np
import pytest

from ios_tf.native import engine

pytestmark = pytest.mark.one_core

SHAPE = [1, 9, 7, 16]
CONV = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 8}
CONV |= {"bias": True, "activation": "relu", "inputs": [-1]}

# Prints the sum of the result, and the fake GPU's counts.
RUN_ONCE = """
import json, sys
import numpy as np
import cuda_driver, cuda_helpers
fake = cuda_helpers.fake_cuda()
import cuda_engine, test_cuda_convolution as test
gpu = cuda_driver.Driver(fake.directory)
with gpu.context():
    result = test.run(gpu, test.CONV, sys.argv[1])
report = fake.report()
print(json.dumps([np.abs(result).sum().item(), report["counts"], report["violations"]]))
"""


def block_of(*operators: dict) -> dict:
    return {
        "version": 1,
        "name": "convolutions",
        "inputs": [SHAPE],
        "operators": list(operators),
        "outputs": list(range(len(operators))),
    }


def schedule_of(operators: int) -> dict:
    groups = [[i] for i in range(operators)]
    return {"version": 1, "stages": [{"strategy": "concurrent", "groups": groups}]}


def weights_of(op: dict) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=[*op["kernel"], SHAPE[-1], op["filters"]]) / 12
    return [kernel.astype(np.float32), rng.normal(size=8).astype(np.float32)]


def inputs() -> list[np.ndarray]:
    return [np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)]


def run(gpu, op: dict, dtype: str, device: str = "gpu") -> np.ndarray:
    block = {**block_of(op), "dtype": dtype}
    program = engine.Program(block, schedule_of(1), weights_of(op), device)
    run = cuda_engine.DeviceRun(gpu, program, inputs(), dtype)
    result = run()[0]
    run.close()
    return result


def engines_run(report: dict) -> dict[int, int]:
    """How often each of the fake cuDNN's engines ran."""
    prefix = "cudnn engine "
    counts = report["counts"].items()
    return {int(k.removeprefix(prefix)): n for k, n in counts if k.startswith(prefix)}


def engines_after(gpu, op: dict, dtype: str, device: str) -> tuple[set, set]:
    """Returns cuDNN's engines that were timed for a program, and those that it uses."""
    gpu.fake.reset()
    block = {**block_of(op), "dtype": dtype}
    program = engine.Program(block, schedule_of(1), weights_of(op), device)
    timed, used, _ = engines_of(gpu, program, dtype)
    return timed, used


def engines_of(gpu, program: engine.Program, dtype: str) -> tuple[set, set, list]:
    """Returns the timed engines, the engines that the program uses, and its outputs."""
    run = cuda_engine.DeviceRun(gpu, program, inputs(), dtype)
    run()
    # The first run compiles the program for its shapes, so all plans have been timed.
    timed = engines_run(gpu.fake.report())
    outputs = run()
    both = engines_run(gpu.fake.report())
    run.close()
    used = {e for e, n in both.items() if n > timed.get(e, 0)}
    return set(timed), used, outputs


def test_the_fastest_plan_is_taken(gpu):
    """The heuristics propose engine 1 first, but engine 2 is far faster."""
    timed, used = engines_after(gpu, CONV | {"kernel": [3, 1]}, "float16", "gpu")
    assert timed == {0, 1, 2, 3}  # engine 4 is proposed, but cannot be built
    assert used == {2}


def call(gpu, program: engine.Program, batch: int) -> tuple[dict[int, int], dict]:
    """Runs the program once. Returns how often engines ran, and the fake's counts."""
    gpu.fake.library.fake_cuda_reset()
    program.run([np.zeros([batch, *SHAPE[1:]], np.float16)])
    report = gpu.fake.report()
    return engines_run(report), report["counts"]


def half(op: dict, batch: int = 1) -> engine.Program:
    block = {**block_of(op), "dtype": "float16", "inputs": [[batch, *SHAPE[1:]]]}
    return engine.Program(block, schedule_of(1), weights_of(op), "gpu")


def test_later_shapes_take_the_first_plan(gpu):
    """Only the shapes of the block and of the first call are timed.

    The heuristics propose engine 1 first, but engine 2 is the fastest. A plan runs once
    when it is built, and once in the call.
    """
    op = CONV | {"kernel": [2, 5]}
    program = half(op)
    engines, counts = call(gpu, program, 5)  # the first call
    assert set(engines) == {0, 1, 2, 3}
    assert counts["kernel Spin"] > 0
    for batch in (3, 4):
        engines, counts = call(gpu, program, batch)
        assert engines == {1: 2}
        assert counts["cudnn plans"] == 1
        assert "kernel Spin" not in counts  # each timed sample begins with it
    assert call(gpu, program, 3)[0] == {1: 1}
    assert call(gpu, program, 1)[0] == {2: 1}

    # A search for the shape is not misled by the first plan, which still exists.
    searched = half(op, 3)
    assert call(gpu, searched, 3)[0] == {2: 1}
    later = half(op)
    call(gpu, later, 1)
    engines, counts = call(gpu, later, 3)
    assert engines == {2: 1}
    assert "kernel Spin" not in counts


def test_a_call_that_fails_is_not_the_first_call(gpu):
    """The plans are timed for the first call that cuDNN has plans for."""
    program = half(CONV | {"kernel": [2, 4]})
    gpu.fake.set(max_operations=0)
    with pytest.raises(engine.EngineError, match="cuDNN has no plan"):
        call(gpu, program, 5)
    gpu.fake.reset()
    assert call(gpu, program, 4)[1]["kernel Spin"] > 0
    assert "kernel Spin" not in call(gpu, program, 3)[1]


def test_the_first_plan_is_precompiled(gpu):
    """Engine 1 is compiled, so the second engine of the heuristics is used."""
    program = half(CONV | {"kernel": [5, 2]})
    call(gpu, program, 1)
    gpu.fake.set(compiled_engine=1)
    assert call(gpu, program, 3)[0] == {2: 2}


def test_no_form_is_measured_for_later_shapes(gpu):
    """cuDNN has few kernels with relu6, so it computes only the sum with the bias."""
    program = half(CONV | {"kernel": [2, 6], "activation": "relu6"})
    call(gpu, program, 1)
    engines, counts = call(gpu, program, 3)
    assert engines == {1: 2}
    assert counts["kernel Sum"] == 1
    assert "kernel Spin" not in counts


def test_engines_less_precise_than_asked_for_never_run(gpu):
    """Engine 1 rounds to TF32, and engine 2 rounds to bfloat16."""
    timed, used = engines_after(
        gpu, CONV | {"kernel": [1, 3]}, "float32", "gpu,tf32=off"
    )
    assert timed == {0, 3}
    assert used < {0, 3}
    timed, _ = engines_after(gpu, CONV | {"kernel": [1, 3]}, "float32", "gpu")
    assert timed == {0, 1, 3}


# CUDNN_NUMERICAL_NOTE_FFT, WINOGRAD, WINOGRAD_TILE_4x4, _6x6 and _13x13.
@pytest.mark.parametrize("note", [3, 5, 6, 7, 8])
def test_engines_that_share_rounding_between_outputs_never_run(gpu, note):
    """Such engines are not used even if they need no compilation and are the
    fastest."""
    gpu.fake.set(tiles=2, ready_tiles=1, tile_note=note)
    op = CONV | {"kernel": [1, note], "activation": "relu6"}
    block = {**block_of(op), "dtype": "float16"}
    program = engine.Program(block, schedule_of(1), weights_of(op), "gpu")
    timed, _, _ = engines_of(gpu, program, "float16")
    assert timed == {0, 1, 2, 3}


def test_plans_that_are_far_slower_are_not_sampled(gpu):
    """Slow plans are run only once or twice, not as often as the fast ones.

    In float16, engine 2 takes at most half of the time of each of the other three, so
    these are not sampled. In float32, the two engines without TF32 are about equally
    fast, so both are sampled.
    """

    def launches(dtype: str, device: str) -> int:
        gpu.fake.reset()
        gpu.fake.set(time_scale=10_000)  # a single run is long enough for a sample
        op = CONV | {"kernel": [3, 5]}
        block = {**block_of(op), "dtype": dtype}
        engine.Program(block, schedule_of(1), weights_of(op), device)
        return gpu.fake.report()["counts"]["cuGraphLaunch"]

    of_a_plan = launches("float32", "gpu,tf32=off") / 2
    assert of_a_plan > 20
    assert 2 * of_a_plan < launches("float16", "gpu") < 2.5 * of_a_plan


def test_plans_that_wait_for_cold_weights_are_equally_fast(gpu):
    """Engine 2 computes at least twice as fast as the others, but needs as much memory.

    For a plan that is sampled, 35 graphs are launched: 2 for its first run, and 3 for
    each of one warmup, 3 baselines and 7 samples. For a plan that is far slower, 4
    graphs are launched.
    """

    def launches(kernel: list[int], **options: int) -> int:
        gpu.fake.reset()
        gpu.fake.set(**options)
        half(CONV | {"kernel": kernel})
        return gpu.fake.report()["counts"]["cuGraphLaunch"]

    # Memory needs 640 us for the weights. Each engine computes for less than 10 us.
    assert launches([1, 2], time_scale=1, dram_bytes_per_us=1) == 4 * 35
    # Engines 1 and 2 are tried first.
    assert launches([2, 1], time_scale=10_000) == 2 * 35 + 2 * 4


@pytest.mark.parametrize("pitched", [True, False])
def test_all_that_takes_a_pitch_is_timed_where_there_is_one(gpu, pitched):
    """Engines that cuDNN compiles write into a concat (with a pitch) without a copy.

    They take long to compile, so they are not timed for dense tensors.
    """
    op = CONV | {"kernel": [3, 3 if pitched else 2]}
    concat = {"type": "concat", "inputs": [0, 1]}
    block = {**block_of(*[op] * 2, *[concat] * pitched), "dtype": "float16"}
    schedule = schedule_of(2)
    if pitched:  # the convolutions write into the concat
        block["outputs"] = [2]
        schedule["stages"] += [{"strategy": "concurrent", "groups": [[2]]}]
    tiles = set(range(5, 12))
    gpu.fake.set(tiles=len(tiles))
    weights = weights_of(op) * 2
    program = engine.Program(block, schedule, weights, "gpu")
    timed, used, outputs = engines_of(gpu, program, "float16")
    expected = cuda_engine.on_cpu(block, schedule, weights, inputs(), "float16")
    cuda_engine.assert_close(outputs, expected, 1e-2)
    assert "kernel Copy" not in gpu.fake.report()["counts"]
    if pitched:
        assert tiles < timed
        assert used == {max(tiles)}  # the fastest
    else:
        assert timed.isdisjoint(tiles)
        assert used == {2}


def test_all_that_is_ready_is_timed(gpu):
    """All engines that need no compilation are timed, even if there are very many."""
    gpu.fake.set(tiles=36, ready_tiles=1)
    op = CONV | {"kernel": [2, 3], "activation": "relu6"}
    block = {**block_of(op), "dtype": "float16"}
    program = engine.Program(block, schedule_of(1), weights_of(op), "gpu")
    timed, used, _ = engines_of(gpu, program, "float16")
    assert timed == {0, 1, 2, 3, *range(5, 41)}
    assert min(used) > 20  # the engines above 20 are the fastest


def test_equal_convolutions_share_a_plan(gpu):
    op = CONV | {"kernel": [5, 1]}
    weights = weights_of(op)

    def plans(operators: int) -> int:
        gpu.fake.reset()
        block = {**block_of(*[op] * operators), "dtype": "bfloat16"}
        program = engine.Program(
            block, schedule_of(operators), weights * operators, "gpu"
        )
        run = cuda_engine.DeviceRun(gpu, program, inputs(), "bfloat16")
        first, *others = run()
        for other in others:
            np.testing.assert_array_equal(other, first)
        run.close()
        return gpu.fake.report()["counts"]["cudnn plans"]

    timed = plans(3)
    assert timed == 4  # one of each engine that can be built
    # A later program builds only the fastest plan, whose name is remembered.
    assert plans(1) == 1


def test_plans_may_copy_all_of_large_tensors(gpu):
    """If channels are not a multiple of 16 bytes, plans with tensor cores copy
    tensors."""
    gpu.fake.set(inert=1)  # the tensors of 80 MB are not allocated
    op = {"type": "conv2d", "kernel": [1, 1], "filters": 154, "inputs": [-1]}
    block = {
        "version": 1,
        "inputs": [[40, 56, 56, 154]],
        "operators": [op],
        "outputs": [0],
    }
    weights = [np.zeros((1, 1, 154, 154), np.float32)]
    gpu.fake.library.fake_cuda_reset()
    engine.Program(block, schedule_of(1), weights, "gpu")
    counts = gpu.fake.report()["counts"]
    assert counts["cudnn engine 1"] > 1  # the engine with TF32 was timed


def test_an_activation_that_cudnn_lacks_is_added_by_a_kernel(gpu):
    op = CONV | {"kernel": [1, 5], "activation": "hard_swish"}
    actual = run(gpu, op, "float32", "gpu,tf32=off")
    expected = cuda_engine.on_cpu(
        block_of(op), schedule_of(1), weights_of(op), inputs(), "float32"
    )
    cuda_engine.assert_close([actual], expected, 1e-5)
    counts = gpu.fake.report()["counts"]
    assert counts["kernel Sum"] >= 1
    assert "cudnn operations 3" not in counts  # cuDNN gets the convolution and bias


def test_no_plan_is_a_clear_error(gpu):
    gpu.fake.set(max_operations=0)
    with pytest.raises(
        engine.EngineError,
        match=r"cuDNN has no plan for a float16 convolution of 1x9x7x16 to 1x9x7x8, "
        r"kernel 7x1, .*, bias, relu",
    ) as error:
        run(gpu, CONV | {"kernel": [7, 1]}, "float16")
    assert "\n" not in str(error.value)
    gpu.fake.reset()
    run(gpu, CONV | {"kernel": [7, 1]}, "float16")  # the engine still works


def run_in_process(
    cache: Path | None,
    dtype: str = "float32",
    options: str = "",
    code: Path | None = None,
) -> tuple[float, dict, str]:
    return cuda_helpers.run_apart(
        RUN_ONCE,
        dtype,
        IOS_TF_PLAN_CACHE=str(cache or ""),
        IOS_TF_CODE_CACHE=str(code or ""),
        FAKE_CUDA_OPTIONS=options,
    )


@pytest.fixture(scope="module")
def right_sum() -> float:
    """The sum of the result, computed without a cache."""
    cuda_helpers.build_fakes()
    total, counts, _ = run_in_process(None)
    assert counts["cudnn plans"] > 1
    return total


@pytest.fixture(scope="module")
def timed(tmp_path_factory, right_sum) -> Path:
    """The plan cache of a process that has timed plans. Tests use copies."""
    cache = tmp_path_factory.mktemp("plans")
    total, counts, _ = run_in_process(cache)
    assert total == pytest.approx(right_sum)
    assert counts["cudnn plans"] > 1
    return cache


@pytest.fixture
def plans(timed, tmp_path) -> Path:
    """The file of a plan cache."""
    return only_file(shutil.copytree(timed, tmp_path / "plans"))


def only_file(cache: Path) -> Path:
    (file,) = cache.iterdir()  # no temporary file is left
    return file


def test_plan_is_timed_once(tmp_path, right_sum):
    cache = tmp_path / "new" / "plans"
    total, counts, _ = run_in_process(cache)
    assert total == pytest.approx(right_sum)
    assert counts["cudnn plans"] > 1
    document = json.loads(only_file(cache).read_text())
    assert document["format"] == 1
    ((convolution, plan),) = document["plans"].items()
    assert "1x9x7x16 to 1x9x7x8" in convolution
    assert plan.startswith("eng")

    assert counts["cudnn heuristics"] == 3
    total, counts, errors = run_in_process(cache)
    assert total == pytest.approx(right_sum)
    assert counts["cudnn plans"] == 1
    # The engine asks the modes of the heuristics only until one proposes the plan.
    assert counts["cudnn heuristics"] == (2 if "eng3" in plan else 1)
    assert errors == ""
    # A convolution in another precision is a separate entry of the same file.
    run_in_process(cache, "float16")
    plans = json.loads(only_file(cache).read_text())["plans"]
    assert len(plans) == 2
    assert plans[convolution] == plan


def test_a_plan_that_is_kept_is_loaded(tmp_path, right_sum):
    """A stored plan is loaded without heuristics.

    If cuDNN refuses it, the plan is built and stored again.
    """
    plans, code = tmp_path / "plans", tmp_path / "code"
    run_in_process(plans, code=code)
    (file,) = (f for f in code.iterdir() if b"FAKE PLAN" in f.read_bytes())
    right = file.read_bytes()
    begin = right.index(b"\n") + 1
    digest = hashlib.sha256(b"{}").hexdigest().encode()
    for refused in (False, True, False):
        if refused:
            file.write_bytes(right[:begin] + digest + b"\n{}")
        total, counts, errors = run_in_process(plans, code=code)
        assert total == pytest.approx(right_sum)
        assert errors == ""
        assert counts.get("cudnn plans loaded", 0) == (not refused)
        assert counts.get("cudnn plans", 0) == refused
        assert ("cudnn heuristics" in counts) == refused
        assert file.read_bytes() == right


@pytest.mark.parametrize(
    "options",
    [
        "load=3000",  # another process delays launches by up to 3 ms
        "slow_baseline=100000",  # no plan takes longer than its baseline
        # Other work delays the first runs of the second plan, but not later runs.
        "time_scale=10000,burst_begin=15,burst_end=17",
    ],
)
def test_uncertain_plans_are_not_stored(tmp_path, right_sum, options):
    total, counts, errors = run_in_process(tmp_path, options=options)
    assert total == pytest.approx(right_sum, rel=1e-4)
    assert counts["cudnn plans"] > 1
    assert "plans that may not be the fastest are used, but not stored" in errors
    assert list(tmp_path.iterdir()) == []
    _, _, errors = run_in_process(tmp_path)
    assert errors == ""
    assert only_file(tmp_path)


def test_without_clear_times_the_first_plan_is_used(gpu):
    """The heuristics propose engine 1 first, although engine 2 is the fastest."""
    gpu.fake.set(slow_baseline=100_000)
    op = CONV | {"kernel": [5, 3]}
    block = {**block_of(op), "dtype": "float16"}

    def timed_and_used() -> tuple[set, set]:
        program = engine.Program(block, schedule_of(1), weights_of(op), "gpu")
        return engines_of(gpu, program, "float16")[:2]

    assert timed_and_used() == ({0, 1, 2, 3}, {1})
    # The process does not time the plans again.
    gpu.fake.library.fake_cuda_reset()
    assert timed_and_used() == ({1}, {1})


# Prints the fake GPU's counts.
RUN_MANY = """
import json, sys
import cuda_helpers
fake = cuda_helpers.fake_cuda()
import test_cuda_convolution as test
test.compile_many(int(sys.argv[1]))
report = fake.report()
print(json.dumps([None, report["counts"], report["violations"]]))
"""


def compile_many(count: int) -> None:
    """Compiles a program of `count` different convolutions."""
    operators = [
        CONV | {"kernel": [1, 1], "filters": 8 * (i + 1), "bias": False}
        for i in range(count)
    ]
    weights = [
        np.zeros((1, 1, SHAPE[-1], op["filters"]), np.float32) for op in operators
    ]
    engine.Program(block_of(*operators), schedule_of(count), weights, "gpu")


class Renames:
    """Counts the files that are renamed into a directory, by inotify."""

    # inotify merges successive equal events. The creation of files separates them.
    _MOVED_TO, _CREATE = 0x80, 0x100
    _EVENT = struct.Struct("iIII")  # the last number is the length of the name after it

    def __init__(self, directory: Path):
        libc = ctypes.CDLL(None)
        self._file = libc.inotify_init1(os.O_NONBLOCK)
        assert (
            libc.inotify_add_watch(
                self._file, os.fsencode(directory), self._MOVED_TO | self._CREATE
            )
            >= 0
        )

    def count(self) -> int:
        events, count = os.read(self._file, 1 << 16), 0
        while events:
            _, event, _, length = self._EVENT.unpack_from(events)
            events = events[self._EVENT.size + length :]
            count += event == self._MOVED_TO
        os.close(self._file)
        return count


def test_plans_are_written_together(tmp_path):
    """A file of plans may be on a network, so it is not written for each plan."""
    cuda_helpers.build_fakes()
    renames = Renames(tmp_path)
    cuda_helpers.run_apart(
        RUN_MANY, "20", IOS_TF_PLAN_CACHE=str(tmp_path), FAKE_CUDA_OPTIONS="inert=1"
    )
    plans = json.loads(only_file(tmp_path).read_text())["plans"]
    assert len(plans) == 20
    assert renames.count() == 2  # after 16 plans, and at the end


# Calls a function of this module with the fake GPU and the argument, and prints the
# result.
RUN_FUNCTION = """
import json, sys
import cuda_driver, cuda_helpers
fake = cuda_helpers.fake_cuda()
import test_cuda_convolution as test
gpu = cuda_driver.Driver(fake.directory)
gpu.fake = fake
print(json.dumps([test.{function}(gpu, sys.argv[1]), None, []]))
"""


def search_for_batch_3(gpu, _: str) -> list[int]:
    return sorted(call(gpu, half(CONV, 3), 3)[0])


def use_plans_of_another_process(gpu, plans: str) -> list[list[int]]:
    """Returns the engines for batch 3 before and after a search in another process."""
    first = half(CONV)
    call(gpu, first, 1)
    return _before_and_after_a_search(gpu, first, plans)


def replace_an_uncertain_plan(gpu, plans: str) -> list[list[int]]:
    """The same if the first process times the plans, but no time is clear."""
    gpu.fake.set(slow_baseline=100_000)
    return _before_and_after_a_search(gpu, half(CONV, 3), plans)


def _before_and_after_a_search(gpu, first, plans: str) -> list[list[int]]:
    before, _ = call(gpu, first, 3)
    program = RUN_FUNCTION.format(function="search_for_batch_3")
    cuda_helpers.run_apart(program, "", IOS_TF_PLAN_CACHE=plans)
    after, counts = call(gpu, half(CONV), 3)
    assert "kernel Spin" not in counts
    return [sorted(before), sorted(after)]


@pytest.mark.parametrize(
    "function", ["use_plans_of_another_process", "replace_an_uncertain_plan"]
)
def test_plans_that_another_process_has_timed_are_used(tmp_path, function):
    """A process reads the file again, even if it uses another plan.

    The heuristics propose engine 1 first, but engine 2 is the fastest.
    """
    cuda_helpers.build_fakes()
    program = RUN_FUNCTION.format(function=function)
    plans = str(tmp_path)
    engines, _, _ = cuda_helpers.run_apart(program, plans, IOS_TF_PLAN_CACHE=plans)
    assert engines == [[1], [2]]


def compile_in_threads(gpu, _: str) -> list[int]:
    """Returns the numbers of cores and of plans that are compiled at the same time.

    Both numbers are at most 6, because the convolution has 6 such plans.
    """
    os.sched_setaffinity(0, range(os.cpu_count()))
    cores = min(len(os.sched_getaffinity(0)), 6)
    gpu.fake.set(tiles=6, hold_plans=2)
    # The convolution writes into a concat.
    block = block_of(CONV, {"type": "concat", "inputs": [0, -1]}) | {"outputs": [1]}
    stages = [{"strategy": "concurrent", "groups": [[i]]} for i in range(2)]
    arguments = block, {"version": 1, "stages": stages}, weights_of(CONV), "gpu"
    thread = threading.Thread(target=lambda: engine.Program(*arguments))
    thread.start()
    plans = polls = 0
    while plans < cores and polls < 4000:  # a thread polls 2,000 times in a second
        report = gpu.fake.report()
        plans = report["live"].get("held plan", 0)
        polls = report["counts"].get("polls of held plans", 0)
    gpu.fake.set(hold_plans=0)
    thread.join()
    return [cores, plans]


def test_each_core_compiles_a_plan():
    cuda_helpers.build_fakes()
    program = RUN_FUNCTION.format(function="compile_in_threads")
    (cores, plans), _, _ = cuda_helpers.run_apart(program, "")
    assert plans == cores


def create_handles_in_threads(gpu, _: str) -> int:
    """Returns the number of threads that create a handle at the same time."""
    gpu.fake.set(hold_handles=1)
    threads = []
    for size in range(1, 4):
        op = CONV | {"kernel": [size, size]}
        arguments = block_of(op), schedule_of(1), weights_of(op), "gpu"
        threads.append(threading.Thread(target=engine.Program, args=arguments))
    for thread in threads:
        thread.start()
    # A thread that creates a handle polls 2,000 times in a second. If only one thread
    # does this, the loop takes 0.3 s, and the other threads also reach this point.
    while gpu.fake.report()["counts"].get("polls of held handles", 0) < 600:
        pass
    creating = gpu.fake.report()["live"]["held handle"]
    gpu.fake.set(hold_handles=0)
    for thread in threads:
        thread.join()
    return creating


def test_one_thread_creates_the_first_handle():
    """NVIDIA recommends this for the first call of cudnnCreate() in a process."""
    cuda_helpers.build_fakes()
    program = RUN_FUNCTION.format(function="create_handles_in_threads")
    creating, _, _ = cuda_helpers.run_apart(program, "")
    assert creating == 1


def test_updates_of_the_driver_keep_plans(tmp_path, right_sum):
    """Stored plans are used as long as the major version of CUDA stays the same."""
    run_in_process(tmp_path, options="driver_version=13000")
    total, counts, _ = run_in_process(tmp_path, options="driver_version=13020")
    assert total == pytest.approx(right_sum)
    assert counts["cudnn plans"] == 1
    assert only_file(tmp_path)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_fused_relu_keeps_nan_only_with_cudnn_s_note(gpu, keeps):
    """The fastest engine without TF32 (3) has the note STRICT_NAN_PROP or not.

    Without an activation, NaN stays NaN in any case.
    """
    gpu.fake.set(nan_engine=3 if keeps else 0)
    images = inputs()
    images[0][0, 4, 3, 5] = np.nan
    relu = CONV | {"kernel": [4 + keeps, 4]}
    plain = {**relu, "activation": "none"}
    block, schedule = block_of(relu, plain), schedule_of(2)
    weights = weights_of(relu) + weights_of(plain)
    program = engine.Program(block, schedule, weights, cuda_engine.DEVICE)
    program.run(images)
    gpu.fake.library.fake_cuda_reset()
    found = program.run(images)
    assert set(engines_run(gpu.fake.report())) == {3}
    expected = cuda_engine.on_cpu(block, schedule, weights, images, "float32")
    assert all(np.isnan(y).any() for y in expected)
    if not keeps:
        expected[0] = np.nan_to_num(expected[0])
    for y, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)


def test_other_versions_of_cudnn_are_timed_anew(plans):
    _, counts, _ = run_in_process(plans.parent, options="cudnn_version=90400")
    assert counts["cudnn plans"] > 1
    assert len(list(plans.parent.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "{",
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: text.replace('"format": 1', '"format": 99'),
        lambda text: text.replace('"plans": {', '"plans": {"other": 3, '),
        lambda text: text.replace("eng", "engine"),
        lambda text: text.replace("eng", "eng9"),
        # Replaces the first engine in the file by one whose plans cannot be built.
        lambda text: text[: text.index("eng")] + 'eng4_k13=4"}}',
    ],
)
def test_damaged_file_costs_time_only(plans, right_sum, damage):
    text = plans.read_text()
    plans.write_text(damage(text))
    total, _, _ = run_in_process(plans.parent)
    assert total == pytest.approx(right_sum)
    # The repaired file has the same plans as before.
    repaired = json.loads(plans.read_text())["plans"]
    for convolution, plan in json.loads(text)["plans"].items():
        assert repaired[convolution] == plan


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _aside(path: Path) -> Path:
    """The path to which the valid file is moved during a test."""
    return path.parent.with_suffix(".json")


def _link_to_plans(path: Path) -> None:
    path.symlink_to(_aside(path))


def _nested(path: Path) -> None:
    path.write_text('{"format": 1, "plans": ' + "[" * 100_000)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a sparse file


@pytest.mark.parametrize("put", [_pipe, _link, _link_to_plans, _nested, _large])
def test_what_others_put_in_place_of_a_file_is_ignored(plans, right_sum, put):
    """The engine does not wait for a pipe, follow a link or read a huge file.

    It replaces the pipe, the link or the huge file by a valid file.
    """
    text = plans.read_text()
    plans.rename(_aside(plans))
    put(plans)
    total, counts, errors = run_in_process(plans.parent)
    assert total == pytest.approx(right_sum)
    assert counts["cudnn plans"] > 1
    assert f"{plans} is ignored" in errors
    assert not plans.is_symlink() and only_file(plans.parent).read_text() == text


def test_a_file_that_is_no_cache_is_named(plans):
    plans.write_text("not JSON")
    _, _, errors = run_in_process(plans.parent)
    assert f"{plans} is ignored" in errors


def test_unwritable_directory_is_named(tmp_path, right_sum):
    blocked = tmp_path / "file"
    blocked.write_text("")
    total, _, errors = run_in_process(blocked / "plans")
    assert total == pytest.approx(right_sum)
    assert errors.count(str(blocked)) == 1
