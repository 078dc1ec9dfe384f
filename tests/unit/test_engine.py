"""The engine through its C API: random blocks under random legal schedules, run on
lanes and compared with TensorFlow's eager kernels."""

import hashlib
import json
import os

import numpy as np
import pytest
from chaos.children import FORKS
from commands import run_python
from random_blocks import RandomBlock, random_schedule
from threads import in_threads

from ios_tf.native import engine


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=1e-5 * max(np.abs(expected).max(), 1e-3)
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_block_under_random_schedules(seed):
    rng = np.random.default_rng(seed)
    block = RandomBlock(rng, operators=int(rng.integers(3, 16)))
    problem = engine.problem(block.json)
    for _ in range(3):
        schedule = random_schedule(rng, problem)
        program = engine.Program(block.json, schedule, block.weights)
        for batch in (1, 3):
            inputs = block.random_inputs(batch)
            expected = block.expected(inputs)
            for _ in range(4):  # lanes interleave differently in each run
                for got, want in zip(program.run(inputs), expected, strict=True):
                    assert_close(got, want)


def test_many_shapes_evict_and_return():
    block = RandomBlock(np.random.default_rng(1), operators=8)
    schedule = random_schedule(np.random.default_rng(2), engine.problem(block.json))
    program = engine.Program(block.json, schedule, block.weights)
    for batch in [*range(1, 12), 1, 2]:
        inputs = block.random_inputs(batch)
        for got, want in zip(program.run(inputs), block.expected(inputs), strict=True):
            assert_close(got, want)


def test_threads_share_a_program():
    block = RandomBlock(np.random.default_rng(3), operators=12)
    schedule = random_schedule(np.random.default_rng(4), engine.problem(block.json))
    program = engine.Program(block.json, schedule, block.weights)
    cases = [(x := block.random_inputs(b), block.expected(x)) for b in (1, 2, 3, 2)]

    def call(case):
        inputs, expected = case
        for _ in range(20):
            for got, want in zip(program.run(inputs), expected, strict=True):
                assert_close(got, want)

    in_threads(call, cases)


@pytest.mark.parametrize(
    ("slices", "concat"),
    [
        ([(1, 3)], [0, 1]),  # the concat reads a slice and the slice's source
        ([(0, 4), (4, 6)], [1, 2]),  # the slices cover all channels of the operator
        ([(0, 4), (4, 6)], [2, 1]),
        ([(0, 4), (4, 6)], [-1, 1, 2]),
        ([(0, 4), (4, 6)], [0, 1, 2]),
        ([(0, 4), (4, 2), (6, 4)], [1, 2]),
    ],
)
def test_slices_of_one_operator_in_a_concat(slices, concat):
    operators = [{"type": "activation", "inputs": [-1], "activation": "relu"}]
    for offset, size in slices:
        operators.append(
            {"type": "slice", "inputs": [0], "offset": offset, "size": size}
        )
    operators.append({"type": "concat", "inputs": concat})
    last = len(operators) - 1
    # This operator also reads the slice, whose values must not change before it runs.
    operators.append({"type": "activation", "inputs": [1], "activation": "tanh"})
    block = {
        "version": 1,
        "inputs": [[2, 3, 3, 10]],
        "operators": operators,
        "outputs": [last, last + 1],
    }
    program = engine.Program(block, _schedule([list(range(last + 2))]), [])
    x = np.random.default_rng(0).normal(size=(2, 3, 3, 10)).astype(np.float32)
    relu = np.maximum(x, 0)
    values = [relu, *(relu[..., o : o + n] for o, n in slices)]
    expected = np.concatenate([x if r < 0 else values[r] for r in concat], -1)
    found = program.run([x])
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_allclose(found[1], np.tanh(values[1]), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((2, 5, 7, 12), 1),
        ((2, 5, 7, 12), 4),
        ((3, 4, 8, 3), 3),
        ((1, 67, 31, 40), 5),
        ((1, 128, 100, 2), 1),
        ((2, 1, 1, 6), 2),
    ],
)
def test_images_are_normalised_by_groups_of_channels(shape, groups):
    channels = shape[-1]
    norm = {"type": "normalize", "inputs": [-1], "whole_images": True}
    norm |= {"groups": groups, "epsilon": 1e-3}
    block = {
        "version": 1,
        "name": "norm",
        "inputs": [list(shape), list(shape)],
        # The results of both norms are stored inside of the concat's output.
        "operators": [
            norm,
            {**norm, "inputs": [-2]},
            {"type": "concat", "inputs": [0, 1]},
        ],
        "outputs": [2],
    }
    rng = np.random.default_rng(0)
    images = [50 + rng.normal(size=shape) for _ in range(2)]
    weights = [[rng.normal(size=channels) for _ in range(2)] for _ in range(2)]
    program = engine.Program(
        block,
        _schedule([[0, 1, 2]]),
        [w.astype(np.float32) for pair in weights for w in pair],
    )
    (found,) = program.run([image.astype(np.float32) for image in images])
    expected = []
    for image, (scale, shift) in zip(images, weights, strict=True):
        x = image.astype(np.float32).astype(np.float64)
        x = x.reshape(*shape[:3], groups, channels // groups)
        x = x - x.mean((1, 2, 4), keepdims=True)
        x = x / np.sqrt((x**2).mean((1, 2, 4), keepdims=True) + 1e-3)
        expected.append(x.reshape(shape) * scale + shift)
    np.testing.assert_allclose(found, np.concatenate(expected, -1), atol=3e-5)


@pytest.mark.parametrize("channels", [2, 3, 64, 65])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_number_for_each_pixel(channels, swapped):
    """One value per pixel may come from a tensor of one channel or from a slice."""
    images, masks = [2, 31, 17, channels], [2, 31, 17, 3]
    operators = [{"type": "slice", "inputs": [-2], "offset": 1, "size": 1}]
    for mask in (0, -3):
        inputs = [mask, -1] if swapped else [-1, mask]
        operators.append(
            {"type": "binary", "function": "subtract", "inputs": inputs}
            | {"activation": "relu"}
        )
    block = {
        "version": 1,
        "inputs": [images, masks, [2, 31, 17, 1]],
        "operators": operators,
        "outputs": [1, 2],
    }
    random = np.random.default_rng(0)
    arrays = [random.normal(size=s).astype(np.float32) for s in block["inputs"]]
    found = engine.Program(block, _schedule([[0, 1], [2]]), []).run(arrays)
    x, several, one = arrays
    for result, mask in zip(found, (several[..., 1:2], one), strict=True):
        difference = mask - x if swapped else x - mask
        np.testing.assert_array_equal(result, np.maximum(difference, 0))


@pytest.mark.parametrize("channels", [1, 3, 64, 65])
def test_channels_that_are_not_side_by_side(channels):
    """Operators read slices and write parts of a concat, in several pixel blocks."""
    shape = [2, 31, 17, 2 * channels]
    one = {"type": "slice", "inputs": [-1], "size": channels}
    relu = {"activation": "relu"}
    operators = [
        one | {"offset": 0},
        one | {"offset": channels},
        {"type": "add", "inputs": [0, 1, 0]} | relu,
        {"type": "binary", "function": "subtract", "inputs": [0, 1]} | relu,
        {"type": "scale", "inputs": [1]} | relu,
        {"type": "activation", "inputs": [0]} | relu,
        {"type": "concat", "inputs": [2, 3, 4, 5]},
    ]
    block = {"version": 1, "inputs": [shape], "operators": operators, "outputs": [6]}
    random = np.random.default_rng(0)
    x = random.normal(size=shape).astype(np.float32)
    scale, shift = random.normal(size=(2, channels)).astype(np.float32)
    schedule = _schedule([[0, 1, 2, 3, 4, 5, 6]])
    program = engine.Program(block, schedule, [scale, shift])
    (found,) = program.run([x])
    a, b = np.split(x, 2, -1)
    expected = [a + b + a, a - b, b * scale + shift, a]
    expected = np.maximum(np.concatenate(expected, -1), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_signature_is_the_hash_of_the_nameless_block():
    random_block = RandomBlock(np.random.default_rng(5), operators=6)
    block = random_block.json
    problem = engine.problem(block)
    canonical = json.dumps(
        {**problem["block"], "name": ""}, sort_keys=True, separators=(",", ":")
    )
    assert problem["signature"] == hashlib.sha256(canonical.encode()).hexdigest()
    block["name"] = "another"
    block["operators"][0]["name"] = "another"
    assert engine.problem(block)["signature"] == problem["signature"]
    larger = engine.problem(random_block.json_for_batch(2))
    assert larger["signature"] != problem["signature"]


def test_profilers_of_two_types_have_their_own_weights():
    convolution = {"type": "conv2d", "bias": True, "activation": "relu"}
    operators = [
        {**convolution, "inputs": [-1], "kernel": [7, 7], "filters": 64},
        {**convolution, "inputs": [0], "kernel": [3, 3], "filters": 64},
        {**convolution, "inputs": [1], "kernel": [1, 1], "filters": 128},
    ]
    schedule = {
        "version": 1,
        "stages": [{"strategy": "concurrent", "groups": [[i]]} for i in range(3)],
    }
    profilers = []  # all exist at the same time
    for dtype in ("float32", "bfloat16", "float32"):
        block = {
            "version": 1,
            "dtype": dtype,
            "inputs": [[1, 32, 32, 3]],
            "operators": operators,
            "outputs": [2],
        }
        profilers.append(engine.Profiler(block))
        assert (profilers[-1].sample([schedule], 0, 1, 1)[0] > 0).all()


def test_profiler_measures_every_kind_of_candidate():
    rng = np.random.default_rng(6)
    block = RandomBlock(rng, operators=12)
    problem = engine.problem(block.json)
    schedules = [random_schedule(rng, problem) for _ in range(6)]
    stage = {"version": 1, "stages": [schedules[0]["stages"][-1]]}
    latencies = engine.Profiler(block.json).sample([*schedules, stage], repeat=4)[0]
    assert latencies.shape == (7, 4)
    assert np.all(latencies >= 0)
    assert np.all(latencies[:6] > 0)


def test_merges_do_not_pile_up_in_a_profiler():
    """A profiler does not keep the weights of every merge that it has measured.

    There are thousands of merges where many convolutions read one tensor.
    """
    assert int(run_python("-c", _MANY_MERGES).stdout) < 900


# Prints how many MiB the memory grows by during 60 merges; each merge needs about 40.
_MANY_MERGES = """
import itertools, resource
from ios_tf.native import engine
convolution = {"type": "conv2d", "inputs": [-1], "kernel": [1, 1], "filters": 4}
block = {
    "version": 1,
    "name": "many",
    "inputs": [[1, 512, 512, 16]],
    "operators": [convolution] * 12,
    "outputs": list(range(12)),
}
profiler = engine.Profiler(block)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for pair in itertools.islice(itertools.combinations(range(12), 2), 60):
    stage = {"strategy": "merge", "groups": [list(pair)]}
    profiler.sample([{"version": 1, "stages": [stage]}], 0, 1, 1)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024)
"""


def _two_convolutions() -> dict:
    conv = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 4}
    return {
        "version": 1,
        "name": "two",
        "inputs": [[1, 5, 5, 3]],
        "operators": [{**conv, "inputs": [-1]}, {**conv, "inputs": [0]}],
        "outputs": [1],
    }


WEIGHTS = [np.ones((3, 3, 3, 4), np.float32), np.ones((3, 3, 4, 4), np.float32)]
SEQUENTIAL = [[0], [1]]


def _schedule(*groups_of_stages, strategy="concurrent") -> dict:
    return {
        "version": 1,
        "stages": [
            {"strategy": strategy, "groups": groups} for groups in groups_of_stages
        ],
    }


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (_schedule([[0]]), "operator 1 is not scheduled"),
        (_schedule([[0]], [[1]], [[0]]), "operator 0 is scheduled twice"),
        (_schedule([[1]], [[0]]), "earlier stage than its input"),
        (_schedule([[0], [1]]), "must be in the same group"),
        (_schedule([[1, 0]]), "must come after its input"),
        (_schedule([[0]], [[1]], []), "stage 2 is empty"),
        (_schedule([[0]], [[2]]), "there is no operator 2"),
        (_schedule([[0, 1]], strategy="merge"), "cannot be merged"),
        ({"version": 2, "stages": []}, "version 2, expected 1"),
        ({"version": 1, "stages": [{}]}, '"stages" must be a list'),
    ],
)
def test_broken_schedules_are_refused(schedule, message):
    with pytest.raises(engine.EngineError, match=message):
        engine.Program(_two_convolutions(), schedule, WEIGHTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operators": []}, "no operators"),
        ({"outputs": []}, "no outputs"),
        ({"outputs": [2]}, "output 2"),
        ({"inputs": [[1, 5, 5]]}, r"is not \[N,H,W,C\]"),
        ({"dtype": "float64"}, "float64"),
        ({"operators": [{"type": "conv3d", "inputs": [-1]}]}, "the unknown type"),
        (
            {"operators": [{"type": "conv2d", "inputs": [0]}]},
            "which is neither a block input nor the output of an earlier operator",
        ),
        (
            {"operators": [{"type": "conv2d", "inputs": [-1], "kernel": "3"}]},
            "malformed 'kernel'",
        ),
    ],
)
def test_broken_blocks_are_refused(change, message):
    with pytest.raises(engine.EngineError, match=message):
        engine.problem({**_two_convolutions(), **change})


def test_wrong_calls_are_refused():
    block = _two_convolutions()
    schedule = _schedule([[0]], [[1]])
    with pytest.raises(engine.EngineError, match="'float16' are not supported on"):
        engine.Program({**block, "dtype": "float16"}, schedule, WEIGHTS)
    with pytest.raises(engine.EngineError, match="weight 1"):
        engine.Program(block, schedule, WEIGHTS[:1])
    with pytest.raises(engine.EngineError, match="no device 'tpu'"):
        engine.Program(block, schedule, WEIGHTS, device="tpu")
    program = engine.Program(block, schedule, WEIGHTS)
    with pytest.raises(engine.EngineError, match="ranks"):
        program.run([np.zeros((5, 5, 3), np.float32)])
    with pytest.raises(engine.EngineError, match=r"must match .\?,\?,\?,3"):
        program.run([np.zeros((1, 5, 5, 4), np.float32)])
    with pytest.raises(engine.EngineError, match="repeat must be at least 1"):
        engine.Profiler(block).sample([schedule], repeat=0)


_FORKING = """
import os
import sys
import numpy as np
from ios_tf.native import engine

assert "tensorflow" not in sys.modules
conv = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 64}
block = {"version": 1, "name": "", "inputs": [[1, 40, 40, 64]], "outputs": [0, 1],
         "operators": [{**conv, "inputs": [-1]}, {**conv, "inputs": [-1]}]}
schedule = {"version": 1,
            "stages": [{"strategy": "concurrent", "groups": [[0], [1]]}]}
rng = np.random.default_rng(0)
weights = [rng.normal(size=(3, 3, 64, 64)).astype(np.float32) for _ in range(2)]
program = engine.Program(block, schedule, weights)
x = rng.normal(size=(1, 40, 40, 64)).astype(np.float32)
expected = program.run([x])
child = os.fork()
equal = all(np.array_equal(*pair) for pair in zip(program.run([x]), expected))
if child == 0:
    os._exit(0 if equal else 1)
assert equal
assert os.waitpid(child, 0)[1] == 0
print("both ran")
"""


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_forked_processes_and_other_numbers_of_threads(threads):
    done = run_python("-c", _FORKING, IOS_TF_NUM_THREADS=threads)
    assert done.stdout == "both ran\n"


@pytest.mark.parametrize("loaded", ["alone", "tensorflow"])
def test_forks_while_threads_run_and_compile(loaded):
    assert run_python("-c", FORKS, "20", loaded).stdout == "all ran\n"


@pytest.mark.parametrize("size", [8, 1500])
def test_callers_at_the_same_time(size):
    """The larger size needs tensors of 138 MB, which two callers must not have at
    once."""
    rng = np.random.default_rng(12)
    conv = {"type": "conv2d", "kernel": [1, 1], "filters": 16, "padding": "SAME"}
    block = {
        "version": 1,
        "inputs": [[1, size, size, 3]],
        "operators": [
            {**conv, "inputs": [-1]},
            {"type": "activation", "activation": "tanh", "inputs": [0]},
            {"type": "global_pool", "pool": "max", "inputs": [1]},
        ],
        "outputs": [2],
    }
    filters = rng.normal(size=(1, 1, 3, 16)).astype(np.float32)
    schedule = {
        "version": 1,
        "stages": [{"strategy": "concurrent", "groups": [[i]]} for i in range(3)],
    }
    program = engine.Program(block, schedule, [filters])
    images = [rng.normal(size=(1, size, size, 3)).astype(np.float32) for _ in range(2)]
    expected = [np.tanh(x.reshape(-1, 3) @ filters[0, 0]).max(0) for x in images]

    def call(k):
        for i in range(6):
            (y,) = program.run([images[(k + i) % 2]])
            assert np.allclose(y.reshape(-1), expected[(k + i) % 2], atol=1e-5)

    in_threads(call, range(6))


def test_separable_convolution_of_images_too_wide_for_the_kernel_of_small_ones():
    rng = np.random.default_rng(11)
    op = {"type": "sepconv", "kernel": [3, 3], "dilations": [40, 40], "filters": 4}
    block = {
        "version": 1,
        "dtype": "float32",
        "inputs": [[1, 4, 32, 16]],
        "operators": [{**op, "padding": "SAME", "inputs": [-1]}],
        "outputs": [0],
    }
    depthwise, pointwise = (
        rng.normal(size=shape).astype(np.float32)
        for shape in engine.problem(block)["weight_shapes"][0]
    )
    for widths in [(32, 1200, 32), (1200, 32)]:
        program = engine.Program(
            {**block, "inputs": [[1, 4, widths[0], 16]]},
            {"version": 1, "stages": [{"strategy": "concurrent", "groups": [[0]]}]},
            [depthwise, pointwise],
        )
        for width in widths:
            x = rng.normal(size=(1, 4, width, 16)).astype(np.float32)
            # The first and last rows of the window are always outside of the image.
            padded = np.pad(x, [(0, 0), (0, 0), (40, 40), (0, 0)])
            rows = depthwise.reshape(3, 3, 16)[1]
            sums = sum(padded[:, :, 40 * j :][:, :, :width] * rows[j] for j in range(3))
            expected = sums @ pointwise.reshape(16, 4)
            assert_close(program.run([x])[0], expected)


@pytest.mark.parametrize(
    ("fingerprint", "directory"),
    [
        ("Xeon(R) @ 2.1GHz, oneDNN 3.2", "Xeon_R_2.1GHz_oneDNN_3.2"),
        ("a__b _ c\t-d", "a_b_c_d"),
        ("../..//é π, GPU.é..", "GPU"),
        ("GPUé8", "GPU_8"),
        ("_._", "device"),
        ("", "device"),
    ],
)
def test_a_fingerprint_names_one_directory(fingerprint, directory):
    assert engine.device_directory(fingerprint) == directory


def test_threads_stay_free_to_move():
    block = RandomBlock(np.random.default_rng(7), operators=6)
    schedule = random_schedule(np.random.default_rng(7), engine.problem(block.json))
    program = engine.Program(block.json, schedule, block.weights)
    inputs = block.random_inputs(1)
    allowed = os.sched_getaffinity(0)
    for _ in range(100):
        program.run(inputs)
    # A thread that has just been woken may still be moving to another core.
    for _ in range(10_000):
        threads = [int(name) for name in os.listdir("/proc/self/task")]
        if all(os.sched_getaffinity(thread) == allowed for thread in threads):
            return
    pytest.fail("a thread was left on some of the cores")


_WIDENED = """
import os, sys
import numpy as np
from ios_tf.native import engine
from random_blocks import RandomBlock, random_schedule

allowed = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(allowed)})
programs = []
for seed in range(6):
    random = np.random.default_rng(seed)
    block = RandomBlock(random, operators=8)
    schedule = random_schedule(random, engine.problem(block.json))
    program = engine.Program(block.json, schedule, block.weights)
    programs.append((program, block.random_inputs(2)))
before = [program.run(inputs) for program, inputs in programs]
name = engine.device_fingerprint()
assert engine.lane_count() == 1 and ", 1 cores," in name, name
os.sched_setaffinity(0, allowed)
for _ in range(100_000):  # during calls, the engine checks its cores every 0.1 s
    programs[0][0].run(programs[0][1])
    if engine.lane_count() > 1:
        break
assert engine.lane_count() == len(allowed), engine.lane_count()
assert f", {len(allowed)} cores," in engine.device_fingerprint()
# The engine has one thread for each core, including this thread.
threads = os.listdir("/proc/self/task")
assert len(threads) >= len(allowed), threads
os.sched_setaffinity(0, {min(allowed)})
for _ in range(2):
    for (program, inputs), outputs in zip(programs, before):
        for one, truth in zip(program.run(inputs), outputs, strict=True):
            np.testing.assert_allclose(one, truth, rtol=1e-4, atol=1e-4)
pid = os.fork()
if not pid:  # has programs for all cores, and may use one
    for program, inputs in programs:
        program.run(inputs)
    os._exit(0 if engine.lane_count() == len(allowed) else 1)
assert os.waitpid(pid, 0)[1] == 0
print("done")
"""


def test_more_cores_are_used_once_there_are(monkeypatch):
    """The process starts on one core and gets the others later."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core")
    monkeypatch.delenv("IOS_TF_NUM_THREADS", raising=False)
    assert run_python("-c", _WIDENED).stdout == "done\n"


@pytest.mark.parametrize(
    ("operator", "shapes", "weights", "expected"),
    [
        ({"type": "global_pool", "pool": "avg"}, [[1, 0, 4, 2]], [], [[np.nan] * 2]),
        ({"type": "global_pool", "pool": "max"}, [[1, 0, 4, 2]], [], [[-np.inf] * 2]),
        ({"type": "concat"}, [[1, 0], [1, 2]], [], [[1, 1]]),
        ({"type": "softmax"}, [[2, 0]], [], [[], []]),
        ({"type": "matmul", "filters": 2}, [[0, 3]], [[3, 2]], np.ones([0, 2])),
    ],
)
def test_what_is_made_of_nothing(operator, shapes, weights, expected):
    block = {
        "version": 1,
        "inputs": shapes,
        "operators": [operator | {"inputs": [-1 - i for i in range(len(shapes))]}],
        "outputs": [0],
    }
    schedule = {"version": 1, "stages": [{"strategy": "concurrent", "groups": [[0]]}]}
    arrays = [np.ones(shape, np.float32) for shape in weights]
    program = engine.Program(block, schedule, arrays)
    (found,) = program.run([np.ones(shape, np.float32) for shape in shapes])
    np.testing.assert_array_equal(found, expected)


def test_a_matrix_without_rows_is_an_error():
    block = {
        "version": 1,
        "inputs": [[2, 0]],
        "operators": [{"type": "matmul", "filters": 2, "inputs": [-1]}],
        "outputs": [0],
    }
    schedule = {"version": 1, "stages": [{"strategy": "concurrent", "groups": [[0]]}]}
    with pytest.raises(engine.EngineError):
        program = engine.Program(block, schedule, [np.ones([0, 2], np.float32)])
        program.run([np.ones([2, 0], np.float32)])


def chain(operators: int, batch: int = 1) -> dict:
    """Convolutions of 3 x 3, one after another. Each reads and writes 16 x 16 x 8."""
    return {
        "version": 1,
        "inputs": [[batch, 16, 16, 8]],
        "operators": [
            {
                "type": "conv2d",
                "inputs": [i - 1],
                "filters": 8,
                "kernel": [3, 3],
                "padding": [1, 1, 1, 1],
            }
            for i in range(operators)
        ],
        "outputs": [operators - 1],
    }


def stages(*groups: list[list[int]], **others) -> dict:
    every = [{"strategy": "concurrent", "groups": one, **others} for one in groups]
    return {"version": 1, "stages": every}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("operators", [1, 2, 3, 10])
def test_memory_of_a_chain(operators, batch):
    """Two tensors are needed at the same time, unless one of them is the output."""
    tensor = batch * 16 * 16 * 8 * 4
    schedule = stages(*([[op]] for op in range(operators)))
    found = engine.arena_bytes(chain(operators, batch), schedule)
    assert found == tensor * min(operators - 1, 2)


def test_memory_of_branches():
    """All three branches are needed until the sum, whatever their schedule is."""
    block = chain(3)
    for operator in block["operators"]:
        operator["inputs"] = [-1]
    block["operators"].append({"type": "add", "inputs": [0, 1, 2]})
    block["outputs"] = [3]
    tensor = 16 * 16 * 8 * 4
    for schedule in (
        stages([[0]], [[1]], [[2]], [[3]]),
        stages([[0], [1], [2]], [[3]]),
    ):
        # The sum may be made in place of a branch, so this branch is the output.
        assert 2 * tensor <= engine.arena_bytes(block, schedule) <= 3 * tensor


def test_memory_of_wrong_documents():
    with pytest.raises(engine.EngineError):
        engine.arena_bytes(chain(2), stages([[0]]))
    with pytest.raises(engine.EngineError):
        engine.arena_bytes({}, stages([[0]]))
