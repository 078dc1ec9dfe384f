"""Every operator of the CUDA backend on the fake GPU, for every element type, on dense
tensors and on views. The results are compared with the CPU backend."""

import cuda_engine
import numpy as np
import pytest
import tensorflow as tf
from activation_cases import CASES as ACTIVATION_CASES
from activation_cases import IDS, numbers
from tensorflow_ops import TensorFlowOps

from benchmarks.frameworks import interpreter
from ios_tf.native import engine

pytestmark = pytest.mark.one_core

DTYPES = ["float32", "float16", "bfloat16"]
# The places of the operator's inputs and output: separate tensors ("dense"), or ranges
# of channels of wider tensors that begin at a multiple of 16 channels ("aligned") or
# not ("odd").
LAYOUTS = ["dense", "aligned", "odd"]
CHANNELS = {"dense": 16, "aligned": 16, "odd": 5}
HEIGHT, WIDTH = 9, 7

CONV = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 16}
SEPCONV = {"type": "sepconv", "kernel": [3, 3], "padding": "SAME", "filters": 16}
POOL = {"type": "pool", "kernel": [3, 3], "padding": "SAME"}
ACTIVATIONS = ["relu", "relu6", "sigmoid", "tanh", "swish", "hard_sigmoid"]
ACTIVATIONS += ["hard_swish", "elu", "leaky_relu", "softplus", "gelu", "gelu_tanh"]

CASES = {
    "conv 1x1": CONV | {"kernel": [1, 1]},
    "conv 3x3": CONV | {"bias": True, "activation": "relu"},
    "conv stride": CONV | {"strides": [2, 2], "bias": True},
    "conv 1x7": CONV | {"kernel": [1, 7], "filters": 24},
    "conv valid": CONV | {"kernel": [5, 2], "padding": "VALID", "bias": True},
    "conv explicit": CONV | {"padding": [2, 0, 1, 3], "activation": "relu6"},
    "conv dilated": CONV | {"dilations": [2, 2]},
    "conv odd filters": CONV | {"filters": 7, "bias": True},
    "conv residual": CONV | {"residual": True, "bias": True, "activation": "relu"},
    "conv residual only": CONV | {"residual": True},
    "sepconv 3x3": SEPCONV | {"pre_activation": "relu"},
    "sepconv 5x5": SEPCONV | {"kernel": [5, 5], "strides": [2, 2], "bias": True},
    "sepconv 7x7": SEPCONV | {"kernel": [7, 7], "activation": "relu"},
    "sepconv multiplier": SEPCONV | {"multiplier": 2, "bias": True},
    "max pool": POOL | {"pool": "max"},
    "average pool": POOL | {"pool": "avg"},
    "max pool stride": POOL | {"pool": "max", "strides": [2, 2], "padding": "VALID"},
    "average pool stride": POOL | {"pool": "avg", "strides": [2, 3], "kernel": [2, 4]},
    "max pool explicit": POOL | {"pool": "max", "padding": [0, 1, 1, 0]},
    "max pool of zeros": POOL
    | {"pool": "max", "padding": [1, 2, 0, 1], "pads_zeros": True, "strides": [2, 2]},
    "global average": {"type": "global_pool", "pool": "avg", "keep_dims": True},
    "global max": {"type": "global_pool", "pool": "max", "keep_dims": True},
    "add": {"type": "add", "operands": 2, "activation": "relu"},
    "add five": {"type": "add", "operands": 5},
    "multiply": {"type": "binary", "operands": 2, "activation": "tanh"},
    "softmax": {"type": "softmax"},
    "pad": {"type": "pad", "padding": [1, 2, 0, 3]},
    "pad reflected": {"type": "pad", "padding": [1, 3, 4, 0], "pad_mode": "reflect"},
    "pad symmetric": {"type": "pad", "padding": [1, 3, 4, 0], "pad_mode": "symmetric"},
    "pad wrapped": {"type": "pad", "padding": [13, -9, -30, 32], "pad_mode": "wrap"},
    "pad channels": {
        "type": "pad",
        "padding": [0, 1, 0, -2],
        "pad_value": 0.75,
        "channel_padding": [2, 6],
    },
    "global sum": {"type": "global_pool", "pool": "sum", "keep_dims": True},
    "scale": {"type": "scale", "activation": "relu6"},
    "reduce mean": {"type": "reduce", "pool": "avg"},
    "reduce max": {"type": "reduce", "pool": "max"},
    "reduce sum": {"type": "reduce", "pool": "sum"},
    "normalize": {"type": "normalize", "epsilon": 1e-3},
    "normalize images": {"type": "normalize", "epsilon": 1e-3, "whole_images": True},
    "slice": {"type": "slice", "offset": 2, "size": 3},
    **{
        f"resize {interpolation} {coordinates}": {
            "type": "resize",
            "interpolation": interpolation,
            "coordinates": coordinates,
            "output_size": [13, 5],
        }
        for interpolation, coordinates in [
            ("nearest", "asymmetric"),
            ("nearest", "align_corners"),
            ("nearest", "half_pixel"),
            ("bilinear", "asymmetric"),
            ("bilinear", "half_pixel"),
            ("bilinear", "align_corners"),
        ]
    },
    "resize factors": {"type": "resize", "factors": [2, 3]},
    "lrn": {"type": "lrn", "depth_radius": 2, "normalization": [1, 0.1, 0.75]},
    **{
        f"transposed {name}": {
            "type": "conv2d_transpose",
            "kernel": kernel,
            "filters": 7,
            **options,
        }
        for name, kernel, options in [
            ("2x2", [2, 2], {"strides": [2, 2], "bias": True}),
            ("3x3", [3, 3], {"strides": [2, 1], "padding": "SAME", "bias": True}),
            ("4x4", [4, 4], {"strides": [2, 2], "activation": "relu6"}),
            ("odd", [3, 2], {"strides": [3, 2], "padding": [1, -1, 0, -1]}),
            ("dilated", [2, 3], {"dilations": [2, 1], "activation": "relu"}),
        ]
    },
    **{f"alone {a}": {"type": "activation", "activation": a} for a in ("relu", "elu")},
}
# Cases that need 16 channels, so they do not exist for the layout "odd".
EVEN_CASES = {
    "conv grouped": CONV | {"groups": 4, "bias": True},
    "normalize groups": {
        "type": "normalize",
        "epsilon": 1e-3,
        "whole_images": True,
        "groups": 4,
    },
    "channel shuffle": {"type": "channel_shuffle", "groups": 4},
    "depthwise": CONV | {"groups": 16, "bias": True, "activation": "relu"},
    "depthwise multiplier": CONV | {"groups": 16, "filters": 32, "strides": [2, 2]},
    "depth to space": {"type": "depth_to_space", "block_size": 4},
    "depth to space 2": {"type": "depth_to_space", "block_size": 2},
    "depthwise residual": CONV | {"groups": 16, "residual": True, "kernel": [5, 5]},
}
VECTOR_CASES = {
    "matmul": {"type": "matmul", "filters": 10, "bias": True, "activation": "relu"},
    "matmul plain": {"type": "matmul", "filters": 33},
    "vector softmax": {"type": "softmax"},
    "vector add": {"type": "add", "operands": 2},
    "vector sigmoid": {"type": "activation", "activation": "sigmoid"},
}


def weights_of(rng: np.random.Generator, op: dict, channels: int) -> list[np.ndarray]:
    """Small random weights with the shapes of WeightShapes (cc/core/ops/operator.h)."""

    def normal(*shape: int) -> np.ndarray:
        values = rng.normal(size=shape) / np.prod(shape[:-1]) ** 0.5
        return values.astype(np.float32)

    weights = []
    if op["type"] == "conv2d":
        inputs = channels // op.get("groups", 1)
        weights = [normal(*op["kernel"], inputs, op["filters"])]
    elif op["type"] == "sepconv":
        middle = channels * op.get("multiplier", 1)
        weights = [
            normal(*op["kernel"], 1, middle),
            normal(1, 1, middle, op["filters"]),
        ]
    elif op["type"] == "conv2d_transpose":
        weights = [normal(*op["kernel"], channels, op["filters"])]
    elif op["type"] == "matmul":
        weights = [normal(channels, op["filters"])]
    elif op["type"] in ("scale", "normalize"):
        weights = [1 + normal(channels), normal(channels)]
    if op.get("bias"):
        weights.append(normal(op["filters"]))
    return weights


def block_of(op: dict, shape: list[int], layout: str) -> dict:
    """A block with this operator, whose tensors have the places of `layout`."""
    op = dict(op)
    channels = shape[-1]
    operands = op.pop("operands", 2 if op.get("residual") else 1)
    if layout == "dense":
        operators = [op | {"inputs": [-1 - k for k in range(operands)]}]
        inputs = [shape] * operands
    else:
        # The operands are slices of a wide tensor, and the result is part of a concat.
        gap = 16 if layout == "aligned" else 3
        wide = gap + operands * (channels + gap)
        inputs = [[*shape[:-1], wide]]
        operators = [{"type": "activation", "activation": "relu6", "inputs": [-1]}]
        for k in range(operands):
            offset = gap + k * (channels + gap)
            operators.append(
                {"type": "slice", "offset": offset, "size": channels, "inputs": [0]}
            )
        parts = list(range(1, operands + 1))
        operators.append(op | {"inputs": parts})
        last = len(operators) - 1
        operators.append({"type": "activation", "activation": "tanh", "inputs": [last]})
        operators.append({"type": "concat", "inputs": [last + 1, last, last + 1]})
        operators.append(
            {"type": "activation", "activation": "tanh", "inputs": [last + 2]}
        )
    return {
        "version": 1,
        "name": "operator",
        "inputs": inputs,
        "operators": operators,
        "outputs": [len(operators) - 1],
    }


def sequential(block: dict) -> dict:
    stages = [
        {"strategy": "concurrent", "groups": [[i]]}
        for i in range(len(block["operators"]))
    ]
    return {"version": 1, "stages": stages}


def check(gpu, block: dict, weights: list[np.ndarray], dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gpu.fake.set(seed=seed)
    inputs = [rng.normal(size=s).astype(np.float32) for s in block["inputs"]]
    schedule = sequential(block)
    expected = cuda_engine.on_cpu(block, schedule, weights, inputs, dtype)
    program = engine.Program(
        {**block, "dtype": dtype}, schedule, weights, cuda_engine.DEVICE
    )
    run = cuda_engine.DeviceRun(gpu, program, inputs, dtype)
    for _ in range(3):  # the runs are eager, captured and replayed
        cuda_engine.assert_close(run(), expected, cuda_engine.TOLERANCE[dtype])
    run.close()


def check_operator(gpu, op: dict, channels: int, rank: int, layout: str, dtype: str):
    shape = [2, HEIGHT, WIDTH, channels] if rank == 4 else [2, channels]
    weights = weights_of(np.random.default_rng(1), op, channels)
    check(gpu, block_of(op, shape, layout), weights, dtype, seed=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_operator(gpu, name, layout, dtype):
    op = dict(CASES[name])
    channels = CHANNELS[layout]
    if op.get("residual"):
        op["filters"] = channels
    check_operator(gpu, op, channels, 4, layout, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["dense", "aligned"])
@pytest.mark.parametrize("name", EVEN_CASES)
def test_operator_of_groups(gpu, name, layout, dtype):
    check_operator(gpu, EVEN_CASES[name], 16, 4, layout, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("block_size", [2, 3])
def test_space_to_depth(gpu, block_size, dtype):
    op = {"type": "space_to_depth", "inputs": [-1], "block_size": block_size}
    inputs = [[2, 6, 12, 5]]
    block = {"version": 1, "inputs": inputs, "operators": [op], "outputs": [0]}
    check(gpu, block, [], dtype, seed=5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", VECTOR_CASES)
def test_operator_on_vectors(gpu, name, layout, dtype):
    check_operator(gpu, VECTOR_CASES[name], CHANNELS[layout], 2, layout, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_folded_activation(gpu, activation, dtype):
    op = CONV | {"kernel": [1, 1], "bias": True, "activation": activation}
    check_operator(gpu, op, 8, 4, "dense", dtype)


@pytest.mark.parametrize("case", ACTIVATION_CASES, ids=IDS)
def test_activation_of_all_kinds_of_numbers(gpu, case):
    x = numbers(2, 3, 5, 16)
    block = block_of({"type": "activation"} | case, list(x.shape), "dense")
    (found,) = engine.Program(block, sequential(block), [], cuda_engine.DEVICE).run([x])
    expected = interpreter.activate(TensorFlowOps(), case, tf.constant(x))
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)


def test_what_keeps_nan(gpu):
    """As in TensorFlow, a Relu and a global maximum keep NaN, but a max pool does
    not."""
    x = numbers(2, 6, 5, 16)
    x[np.abs(x) > 1e30] = 2.0  # whether large sums overflow depends on their order
    x[0, :3, :3] = np.nan
    weights = [np.random.default_rng(0).normal(size=(3, 3, 1, 16)).astype(np.float32)]
    depthwise = CONV | {"groups": 16, "activation": "relu", "inputs": [-1]}
    pool = {"pool": "max", "inputs": [-1]}
    operators = [depthwise, POOL | pool, {"type": "global_pool"} | pool]
    block = {
        "version": 1,
        "inputs": [list(x.shape)],
        "operators": operators,
        "outputs": [0, 1, 2],
    }
    found = engine.Program(block, sequential(block), weights, cuda_engine.DEVICE).run(
        [x]
    )
    expected = interpreter.compute(TensorFlowOps(), block, [weights, [], []], [x])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert np.isnan(found[0]).any() and np.isnan(found[2]).any()
    assert found[1].min() < -3e38


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "op",
    [
        CONV | {"bias": True},
        CONV | {"activation": "sigmoid"},
        CONV | {"bias": True, "activation": "relu", "groups": 16},
        CONV | {"bias": True, "residual": True, "filters": 16},
        SEPCONV | {"bias": True, "activation": "tanh"},
        {"type": "conv2d_transpose", "kernel": [3, 3], "filters": 5, "bias": True},
    ],
)
@pytest.mark.parametrize("size", [(2, 0, 5), (1, 3, 0), (3, 0, 0)])
def test_convolutions_of_images_without_cells(gpu, size, op, dtype):
    """If padding adds cells to an empty image, the result is the bias, as in
    TensorFlow."""
    op = {**op, "inputs": [-1]}
    inputs = [[*size, 16]]
    if op["type"] != "conv2d_transpose":
        op["padding"] = [2, 3, 2, 2]
    if op.get("residual"):
        op["inputs"].append(-2)
        inputs.append([size[0], size[1] + 3, size[2] + 2, 16])
    block = {"version": 1, "inputs": inputs, "operators": [op], "outputs": [0]}
    weights = weights_of(np.random.default_rng(1), op, 16)
    check(gpu, block, weights, dtype, seed=4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("channels", [5, 16])
def test_gate(gpu, channels, keep_dims, dtype):
    """A product with a tensor of one pixel, and a global pool with or without its
    size."""
    pooled = {"type": "global_pool", "pool": "avg", "inputs": [-1]}
    operators = [
        {**pooled, "keep_dims": True},
        {"type": "binary", "inputs": [-1, 0], "activation": "relu"},
        {**pooled, "inputs": [1], "keep_dims": keep_dims},
    ]
    block = {
        "version": 1,
        "name": "gate",
        "inputs": [[2, HEIGHT, WIDTH, channels]],
        "operators": operators,
        "outputs": [1, 2],
    }
    check(gpu, block, [], dtype, seed=3)


BROADCASTS = {
    "cells": ([2, HEIGHT, WIDTH, 16], [1, HEIGHT, WIDTH, 16]),
    "one channel": ([2, HEIGHT, WIDTH, 16], [2, HEIGHT, WIDTH, 1]),
    "row and column": ([2, HEIGHT, 1, 5], [1, 1, WIDTH, 5]),
    "images": ([1, HEIGHT, WIDTH, 3], [2, 1, 1, 3]),
    "vectors": ([3, 16], [1, 16]),
    "numbers": ([3, 1], [1, 16]),
    "equal": ([2, HEIGHT, WIDTH, 5], [2, HEIGHT, WIDTH, 5]),
}
FUNCTIONS = ["multiply", "add", "subtract", "divide", "maximum", "minimum"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcast(gpu, name, constant, dtype):
    """Binary functions of two tensors, or of a tensor and a constant on either side."""
    x, y = BROADCASTS[name]
    weights = []
    operators = []
    for k, function in enumerate([*FUNCTIONS, "squared_difference", "prelu"]):
        op = {"type": "binary", "function": function, "inputs": [-1, -2]}
        if constant:
            swapped = bool(k % 2)
            op |= {"inputs": [-1], "operand": y} | (
                {"swapped": True} if swapped else {}
            )
            weights.append(
                np.random.default_rng(k).uniform(0.5, 2, size=y).astype(np.float32)
            )
        operators.append(op)
    operators[0]["activation"] = "sigmoid"
    # Quotients may be huge, so their tanh is compared.
    operators.append({"type": "activation", "activation": "tanh", "inputs": [3]})
    block = {
        "version": 1,
        "name": "broadcast",
        "inputs": [x] if constant else [x, y],
        "operators": operators,
        "outputs": [0, 1, 2, 4, 5, 6, 7, 8],
    }
    check(gpu, block, weights, dtype, seed=6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matmul_of_maps(gpu, dtype):
    shape = [2, 3, 4, 16]
    block = block_of({"type": "matmul", "kernel": [3, 4], "filters": 8}, shape, "dense")
    weights = [np.random.default_rng(1).normal(size=(3, 4, 16, 8)).astype(np.float32)]
    check(gpu, block, [weights[0] / 14], dtype, seed=7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [(8, 16), (3, 5, 7), (32, 1)])
def test_concat_of_inputs(gpu, channels, dtype):
    """A concat copies inputs of the block, also if it reads an input twice."""
    block = {
        "version": 1,
        "name": "concat",
        "inputs": [[2, HEIGHT, WIDTH, c] for c in channels],
        "operators": [
            {"type": "concat", "inputs": [*[-1 - k for k in range(len(channels))], -1]}
        ],
        "outputs": [0],
    }
    check(gpu, block, [], dtype, seed=4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "options",
    [{"max_operations": 1}, {"max_operations": 2}, {"max_operations": 3}]
    + [{"no_asymmetric_padding": 1}, {"no_pitch": 1}]
    + [{"max_operations": 1, "no_asymmetric_padding": 1, "no_pitch": 1}],
)
@pytest.mark.parametrize("layout", ["dense", "aligned", "odd"])
@pytest.mark.parametrize("name", ["conv explicit", "conv residual"])
def test_what_cudnn_cannot_do_is_done_by_own_kernels(gpu, name, layout, options, dtype):
    gpu.fake.set(**options)
    # Each case has another shape, because the engine remembers plans.
    height = 5 + sum(options.values()) + 3 * len(options)
    op = dict(CASES[name])
    op["filters"] = channels = CHANNELS[layout]
    block = block_of(op, [1, height, 6, channels], layout)
    weights = weights_of(np.random.default_rng(1), op, channels)
    check(gpu, block, weights, dtype, seed=5)


def test_exact_float32_is_not_computed_in_tf32(gpu):
    """The operands are not representable in TF32, to which the fake GPU rounds them."""
    shape = [1, 8, 8, 64]
    block = block_of(CONV | {"kernel": [1, 1]}, shape, "dense")
    weights = [np.full((1, 1, 64, 16), 1 + 2**-12, np.float32)]
    inputs = [np.full(shape, 1 + 2**-12, np.float32)]
    results = {}
    for device in ("gpu,tf32=off", "gpu"):
        program = engine.Program(block, sequential(block), weights, device)
        results[device] = program.run(inputs)[0]
    exact = 64 * (1 + 2**-12) ** 2
    np.testing.assert_allclose(results["gpu,tf32=off"], exact, rtol=1e-6)
    np.testing.assert_allclose(results["gpu"], exact, rtol=1e-3)
