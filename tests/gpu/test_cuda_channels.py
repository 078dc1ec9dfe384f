"""When a program is compiled, it pads numbers of channels that tensor cores do not
support. Its results equal those of the CPU, infinities and NaN do not spread, and the
real cuDNN copies no tensors."""

import cuda_engine
import numpy as np
import pytest
import real_cudnn

from ios_tf.native import engine

pytestmark = pytest.mark.one_core

# float32 is computed in TF32, whose significand has as many bits as that of float16.
TOLERANCE = {"float32": 1e-2, "float16": 1e-2, "bfloat16": 5e-2}
INPUT = [9, 7, 3]


def conv(x: int, filters: int, kernel: int = 1, **options) -> dict:
    return {
        "type": "conv2d",
        "kernel": [kernel, kernel],
        "padding": "SAME",
        "filters": filters,
        "inputs": [x, *options.pop("more", [])],
        **options,
    }


def op(kind: str, *inputs: int, **options) -> dict:
    return {"type": kind, "inputs": list(inputs), **options}


RELU = {"bias": True, "activation": "relu"}
GATE = {"pool": "avg", "keep_dims": True}
WINDOW = {"kernel": [3, 3], "padding": "SAME"}
# Each case lists the operators that follow a convolution to 13 channels.
CASES = {
    "convolutions": [conv(0, 21, 3, **RELU), conv(1, 42, 3), conv(2, 6)],
    "residual": [
        conv(0, 13, 3, more=[0], residual=True, **RELU),
        conv(1, 13, more=[0], residual=True),
        conv(2, 5),
    ],
    "sum": [conv(0, 13), op("add", 0, 1, 0, activation="relu"), conv(2, 8)],
    "sum with the input": [conv(-1, 13), op("add", 0, 1), op("add", 2, 0), conv(3, 9)],
    "concat": [
        conv(0, 10, 3),
        op("concat", 0, 1, -1, 0),
        op("activation", 2, activation="sigmoid"),
        conv(3, 7, 3, **RELU),
        op("pool", 2, pool="avg", **WINDOW),
        conv(5, 8),
    ],
    "concats of concats": [
        op("concat", 0, 0),
        op("concat", 1, 0),
        conv(2, 11),
        op("sepconv", 2, filters=6, **WINDOW),
    ],
    "concat in an output": [conv(0, 10), op("concat", 0, 1), conv(1, 5)],
    "concat in a softmax": [conv(0, 10), op("concat", 0, 1), op("softmax", 2)],
    "slices": [
        op("slice", 0, offset=0, size=6),
        op("slice", 0, offset=6, size=7),
        conv(1, 9),
        op("pool", 2, pool="max", **WINDOW),
        conv(4, 9),
        op("add", 3, 5),
    ],
    "slices that overlap": [
        op("slice", 0, offset=2, size=9),
        op("slice", 0, offset=4, size=9),
        op("add", 1, 2),
        conv(3, 9),
    ],
    "depthwise": [
        conv(0, 13, 3, groups=13, **RELU),
        conv(1, 26, 3, groups=13),
        conv(2, 26, 5, groups=26, more=[2], residual=True),
        conv(3, 6),
    ],
    "sepconv": [
        op("sepconv", 0, filters=11, pre_activation="relu", **WINDOW, bias=True),
        op("sepconv", 1, filters=11, multiplier=3, **WINDOW),
        op("add", 1, 2),
        op("sepconv", 3, filters=5, **WINDOW, activation="swish"),
    ],
    "gate": [
        op("global_pool", 0, **GATE),
        conv(1, 5, activation="relu", bias=True),
        conv(2, 13, activation="sigmoid", bias=True),
        op("binary", 0, 3),
        op("scale", 4, activation="relu6"),
        conv(5, 6),
    ],
    "constants": [
        op("binary", 0, function="add", operand=[1, 1, 1, 13]),
        op("binary", 1, operand=[1, 1, 1, 1], swapped=True),
        op("activation", 2, activation="softplus"),
        conv(3, 6),
    ],
    "images": [
        op("resize", 0, factors=[2, 1], interpolation="bilinear"),
        op("pad", 1, padding=[1, 0, 0, 2], pad_value=0.5),
        op("conv2d_transpose", 2, kernel=[2, 2], strides=[2, 2], filters=9, bias=True),
        conv(3, 6),
    ],
    "head": [
        op("global_pool", 0, pool="avg"),
        op("matmul", 1, filters=11, bias=True, activation="relu"),
        op("matmul", 2, filters=10),
        op("softmax", 3),
    ],
    **{
        f"true channels: {one['type']}": [conv(0, 12), one, conv(2, 6)]
        for one in (
            op("normalize", 1, epsilon=1e-3),
            op("normalize", 1, epsilon=1e-3, whole_images=True, groups=12),
            op("channel_shuffle", 1, groups=3),
            op("lrn", 1, depth_radius=2, normalization=[1, 0.1, 0.75]),
            op("reduce", 1, pool="avg"),
            op("depth_to_space", 1, block_size=2),
            op("pad", 1, padding=[0, 0, 0, 0], channel_padding=[1, 2]),
            conv(1, 6, 3, groups=3),
        )
    },
}


def block_of(operators: list[dict], batch: int, dtype: str) -> dict:
    """A block of these operators. Its outputs are the tensors that no operator
    reads."""
    operators = [conv(-1, 13, 3, bias=True), *operators]
    read = {ref for one in operators for ref in one["inputs"]}
    return {
        "version": 1,
        "dtype": dtype,
        "inputs": [[batch, *INPUT]],
        "operators": operators,
        "outputs": [i for i in range(len(operators)) if i not in read],
    }


def weights_of(block: dict) -> list[np.ndarray]:
    """Small random weights with the shapes of WeightShapes (cc/core/ops/operator.h)."""
    rng = np.random.default_rng(1)
    shapes = engine.problem(block)["shapes"]
    weights = []

    def normal(*shape: int) -> None:
        values = rng.normal(size=shape) / np.prod(shape[:-1]) ** 0.5
        weights.append(values.astype(np.float32))

    for one in block["operators"]:
        ref = one["inputs"][0]
        channels = (block["inputs"][0] if ref < 0 else shapes[ref])[-1]
        kernel, filters = one.get("kernel", [1, 1]), one.get("filters")
        if one["type"] in ("conv2d", "conv2d_transpose"):
            normal(*kernel, channels // one.get("groups", 1), filters)
        elif one["type"] == "sepconv":
            middle = channels * one.get("multiplier", 1)
            normal(*kernel, 1, middle)
            normal(1, 1, middle, filters)
        elif one["type"] == "matmul":
            normal(channels, filters)
        elif one["type"] in ("scale", "normalize"):
            normal(channels), normal(channels)
        elif "operand" in one:
            normal(*one["operand"])
        if one.get("bias"):
            normal(filters)
    return weights


def sequential(block: dict) -> dict:
    stages = [[[i]] for i in range(len(block["operators"]))]
    return {
        "version": 1,
        "stages": [{"strategy": "concurrent", "groups": g} for g in stages],
    }


def run(
    gpu, block: dict, schedule: dict, x: np.ndarray, device: str = "gpu", weights=None
):
    """The outputs of the CPU for `x`, and those of the GPU's first run and of a
    graph."""
    weights, dtype = weights or weights_of(block), block["dtype"]
    expected = cuda_engine.on_cpu(block, schedule, weights, [x], dtype)
    program = engine.Program(block, schedule, weights, device)
    on_gpu = cuda_engine.DeviceRun(gpu, program, [x], dtype)
    found = [on_gpu() for _ in range(2)]
    on_gpu.close()
    return expected, found


def images(batch: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(batch, *INPUT)).astype(np.float32)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_what_follows_an_odd_convolution(gpu, name, dtype):
    for batch in (1, 3):
        block = block_of(CASES[name], batch, dtype)
        expected, found = run(gpu, block, sequential(block), images(batch))
        for results in found:
            cuda_engine.assert_close(results, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_merged_and_split(gpu, dtype):
    """A merged convolution has slices, and a split stage runs in micro-batches."""
    operators = [conv(0, 11), conv(0, 9, 3), op("softmax", 1), op("add", 2, 2)]
    block = block_of([*operators, conv(4, 7), op("softmax", 5)], 4, dtype)
    schedule = {
        "version": 1,
        "stages": [
            {"strategy": "concurrent", "groups": [[0]]},
            {"strategy": "merge", "groups": [[1, 2]]},
            {"strategy": "split", "micro_batches": 3, "groups": [[3, 4, 5]]},
            {"strategy": "concurrent", "groups": [[6]]},
        ],
    }
    expected, found = run(gpu, block, schedule, images(4))
    for results in found:
        cuda_engine.assert_close(results, expected, TOLERANCE[dtype])
    # The search measures whole schedules and single stages.
    profiler = engine.Profiler(block, "gpu")
    whole = profiler.sample([schedule], warmup=0, number=1, repeat=1)[0]
    stages = [{**schedule, "stages": [schedule["stages"][k]]} for k in (0, 1, 3)]
    assert np.min(whole) > 0
    assert np.min(profiler.sample(stages, warmup=0, number=1, repeat=1)[0]) > 0


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_infinities_and_nan_stay_where_they_were(gpu, value, dtype):
    """Added channels must not have weights of zero: zero times infinity is NaN."""
    operators = [
        op("activation", 0, activation="relu"),
        conv(1, 13),
        op("activation", 2, activation="relu6"),
        conv(3, 11),
    ]
    block = block_of(operators, 1, dtype)
    x = images(1)
    x[0, 4, 3, 1] = value
    expected, found = run(gpu, block, sequential(block), x)
    assert any(np.isnan(y).any() for y in expected)
    for results in found:
        for y, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
            np.testing.assert_allclose(y, wanted, rtol=0, atol=TOLERANCE[dtype] * 20)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_infinities_of_one_sign_add_up(gpu, dtype):
    """Without weights of zero, infinities do not become NaN, also with added
    channels."""
    operators = [conv(0, 13), op("activation", 1, activation="relu6"), conv(2, 11)]
    block = block_of(operators, 1, dtype)
    weights = [np.abs(values) + 0.01 for values in weights_of(block)]
    x = images(1)
    x[0, 4, 3, 1] = np.inf
    expected, found = run(gpu, block, sequential(block), x, weights=weights)
    assert all(np.isfinite(y).all() for y in expected)
    for results in found:
        for y, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=0, atol=TOLERANCE[dtype] * 20)


@pytest.mark.parametrize(
    ("dtype", "device", "copies"),
    [
        ("float16", "gpu", 0),
        ("bfloat16", "gpu", 0),
        ("float16", "gpu,tf32=off", 0),
        ("float32", "gpu", 0),
        ("float32", "gpu,tf32=off", 2),  # one copy in each of two runs
    ],
)
def test_sums_of_odd_channels_are_joined_in_place(gpu, dtype, device, copies):
    operators = [conv(0, 13), op("add", 0, 1), op("add", 1, 0, 0)]
    block = block_of([*operators, op("concat", 2, 3), conv(4, 8)], 1, dtype)
    gpu.fake.library.fake_cuda_reset()
    run(gpu, block, sequential(block), images(1), device)
    assert gpu.fake.report()["counts"].get("kernel Copy", 0) == copies


def chain(channels: int, size: int, batch: int, dtype: str) -> dict:
    """A chain of three convolutions, as in RandWire's stages."""
    operators = [conv(i - 1, n, 3) for i, n in enumerate((channels, channels, 16))]
    return {
        "version": 1,
        "dtype": dtype,
        "inputs": [[batch, size, size, 16]],
        "operators": operators,
        "outputs": [2],
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_real_cudnn_copies_nothing(dtype):
    library = real_cudnn.find()
    if library is None:
        pytest.skip(real_cudnn.MISSING)
    blocks = [
        chain(channels, size, batch, dtype)
        for channels, size in ((154, 28), (77, 56))
        for batch in (1, 32)
    ]
    _, answers = real_cudnn.answers(library, blocks)
    for block, answer in zip(blocks, answers, strict=True):
        assert answer.error == ""
        assert len(answer.graphs) == 3
        for graph in answer.graphs:
            least = min(plan.workspace for plan in graph.plans if plan.tensor_cores)
            assert least < 1024, block
