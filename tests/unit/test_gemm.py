"""1x1 convolutions as matrix products, compared with the definition in float64."""

import numpy as np
import pytest
from bfloat16_numbers import ACTIVATIONS
from convolution_cases import (
    beside_sequential,
    between_slices,
    by_definition,
    conv_block,
    merged_pair,
    random_weights,
    run,
    sequential,
)
from instruction_sets import limited_to

from ios_tf.native import engine

ATOL = 3e-6  # tolerance for float32, relative to the largest value


def one(shape, filters, **attributes):
    return conv_block(shape, filters, kernel=[1, 1], **attributes)


def check(block, rng):
    weights = random_weights(block, rng)
    inputs = [rng.normal(size=s).astype(np.float32) for s in block["inputs"]]
    (found,) = run(block, "gemm", weights, inputs)
    (op,) = block["operators"]
    down, right = op.get("strides", (1, 1))
    expected = by_definition(
        inputs[0][:, ::down, ::right],
        weights[0],
        weights[1] if op.get("bias") else None,
        ((0, 0), (0, 0)),
        inputs[1] if op.get("residual") else None,
    )
    largest = np.abs(expected).max()
    expected = ACTIVATIONS[op.get("activation", "none")](expected)
    np.testing.assert_allclose(found, expected, atol=ATOL * largest)


@pytest.mark.parametrize("pixels", [*range(1, 31), 113, 361, 1000])
def test_every_number_of_pixels(pixels):
    rng = np.random.default_rng(pixels)
    filters = 1 + 7 * pixels % 70
    check(one((1, 1, pixels, 1 + pixels * 5 % 37), filters, bias=True), rng)


@pytest.mark.parametrize("filters", [*range(1, 35), 47, 63, 64, 65, 130])
def test_every_number_of_filters(filters):
    rng = np.random.default_rng(filters)
    attributes = {"residual": filters % 2 == 0, "bias": filters % 3 == 0}
    activation = ("none", "relu", "relu6", "hard_swish")[filters % 4]
    check(one((2, 5, 7, 19), filters, activation=activation, **attributes), rng)


@pytest.mark.parametrize("channels", [1, 385, 767, 768, 769, 1100, 1537])
def test_every_depth(channels):
    """Products of all depths are right; deep ones are computed in several steps."""
    rng = np.random.default_rng(channels)
    attributes = {"residual": True, "bias": True, "activation": "relu"}
    check(one((1, 9, 15, channels), 50, **attributes), rng)


def test_large_outputs_of_few_channels():
    """Products write outputs that exceed the L2 cache in the order of addresses."""
    rng = np.random.default_rng(4)
    attributes = {"residual": True, "bias": True, "activation": "relu6"}
    check(one((1, 120, 121, 5), 99, **attributes), rng)


@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (1, 1, 7, 40), (9, 1, 1, 40)])
def test_products_are_measured_for_any_number_of_pixels(shape):
    """oneDNN takes longer for each call than a squeeze-and-excite convolution."""
    assert engine.problem(one(shape, 24))["algorithms"] == [["gemm"]]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [[2, 2], [1, 3], [4, 1], [40, 40]])
def test_every_stride(strides, padding):
    rng = np.random.default_rng(sum(strides))
    attributes = {"residual": strides[0] == 2, "bias": True, "activation": "relu"}
    shape = (3, 14, 11, 21)
    check(one(shape, 23, strides=strides, padding=padding, **attributes), rng)


@pytest.mark.parametrize("activation", ["none", "relu", "swish"])
@pytest.mark.parametrize(
    "shape", [(1, 33), (1, 1600), (7, 20), (1, 3, 5, 9), (3, 2, 2, 8)]
)
def test_matrices(shape, activation):
    """A MatMul flattens images."""
    rng = np.random.default_rng(shape[-1])
    op = {"type": "matmul", "inputs": [-1], "filters": 45, "bias": True}
    op["activation"] = activation
    if len(shape) == 4:
        op["kernel"] = shape[1:3]
    block = {"version": 1, "inputs": [shape], "operators": [op], "outputs": [0]}
    assert engine.problem(block)["algorithms"] == [["gemm"]]
    weights = random_weights(block, rng)
    x = rng.normal(size=shape).astype(np.float32)
    (found,) = run(block, "gemm", weights, [x])
    matrix = weights[0].reshape(-1, 45).astype(np.float64)
    expected = x.reshape(shape[0], -1) @ matrix + weights[1]
    largest = np.abs(expected).max()
    if activation == "relu":
        expected = np.maximum(expected, 0)
    if activation == "swish":
        expected = expected / (1 + np.exp(-expected))
    np.testing.assert_allclose(found, expected, atol=ATOL * largest)


def test_matrix_of_a_part_of_a_tensor():
    rng = np.random.default_rng(8)
    matmul = {"type": "matmul", "inputs": [0], "filters": 10, "kernel": [3, 3]}
    block = {
        "version": 1,
        "inputs": [[2, 3, 3, 12]],
        "operators": [
            {"type": "slice", "inputs": [-1], "offset": 4, "size": 7},
            matmul,
        ],
        "outputs": [1],
    }
    schedule = {**sequential(block), "algorithms": {"gemm": [1]}}
    for a, b in beside_sequential(block, schedule, rng):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())


@limited_to("AVX2", "SSE41")
def test_other_instruction_sets():
    for n in (1, 5, 6, 7, 113):
        test_every_number_of_pixels(n)
    for n in (1, 9, 16, 17, 33, 64):
        test_every_number_of_filters(n)
    test_every_depth(769)
    test_large_outputs_of_few_channels()
    test_every_stride([2, 2], "SAME")
    test_separable_convolutions({"residual": True}, (2, 9, 13, 20))


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel": [3, 3]},
        {"kernel": [1, 1], "padding": [1, 0, 0, 0]},
        {"kernel": [1, 1], "groups": 2},
    ],
)
def test_what_is_no_product(attributes):
    block = conv_block((1, 12, 12, 4), 4, **attributes, algorithm="gemm")
    with pytest.raises(
        engine.EngineError, match="cannot be computed with the algorithm gemm"
    ):
        engine.problem(block)


@pytest.mark.parametrize("activation", ["swish", "elu", "gelu_tanh", "sigmoid"])
def test_other_activations_are_those_of_direct_convolutions(activation):
    rng = np.random.default_rng(2)
    block = one((1, 11, 11, 24), 40, bias=True, activation=activation)
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    (expected,) = run(block, "direct", weights, [x])
    (found,) = run(block, "gemm", weights, [x])
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("activation", ["none", "relu", "relu6", "hard_swish", "swish"])
def test_what_is_not_finite_stays_where_it_is(activation):
    rng = np.random.default_rng(3)
    block = one((2, 13, 10, 400), 35, bias=True, activation=activation)
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    x[0, 4, 4, 3], x[1, 12, 9, 17], x[1, 0, 0, 399] = np.nan, np.inf, -np.inf
    (expected,) = run(block, "direct", weights, [x])
    (found,) = run(block, "gemm", weights, [x])
    np.testing.assert_allclose(found, expected, atol=5e-4)  # NaN in the same places


def test_tensors_that_are_slices_of_others():
    """A convolution may write into a part of a concat and read a part of it."""
    rng = np.random.default_rng(5)
    conv = one((1, 15, 12, 20), 24, bias=True)["operators"][0]
    block = between_slices({**conv, "activation": "swish"}, (1, 15, 12, 20))
    schedule = {**sequential(block), "algorithms": {"gemm": [0, 1, 4]}}
    for a, b in beside_sequential(block, schedule, rng):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())


def test_merged_convolutions_keep_what_their_parts_have():
    rng = np.random.default_rng(6)
    conv = one((2, 10, 10, 16), 24, bias=True)["operators"][0]
    block, schedule = merged_pair(conv, (2, 10, 10, 16), "gemm")
    for a, b in beside_sequential(block, schedule, rng):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())


@pytest.mark.parametrize(
    "shape",
    [(1, 19, 19, 40), (1, 40, 19, 8), (2, 9, 13, 20), (1, 3, 150, 8), (1, 1, 1, 16)],
)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"residual": True},
        {"pre_activation": "relu", "bias": True, "activation": "swish"},
        {"strides": [2, 2], "kernel": [5, 5], "activation": "relu6"},
        {"multiplier": 2},
    ],
)
def test_separable_convolutions(attributes, shape):
    rng = np.random.default_rng(7)
    block = conv_block(shape, 45, **{"bias": True, **attributes}, type="sepconv")
    schedule = {**sequential(block), "algorithms": {"gemm": [0]}}
    weights = random_weights(block, rng)
    inputs = [rng.normal(size=s).astype(np.float32) for s in block["inputs"]]
    found, expected = (
        engine.Program(block, each, weights).run(inputs)[0]
        for each in (schedule, sequential(block))
    )
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("shape", [(0, 8, 8, 8), (1, 0, 8, 8), (1, 8, 0, 8)])
@pytest.mark.parametrize("kind", ["conv2d", "sepconv"])
def test_images_without_cells(shape, kind):
    block = one((1, 8, 8, 8), 12, bias=True, type=kind)
    weights = random_weights(block, np.random.default_rng(9))
    x = np.zeros(shape, np.float32)
    (expected,) = run(block, "direct", weights, [x])
    (found,) = run(block, "gemm", weights, [x])
    assert found.shape == expected.shape == (*shape[:3], 12)


def test_a_matrix_of_several_forms():
    """The matrix is repacked when a schedule needs another form of it."""
    op = {"type": "matmul", "inputs": [-1], "filters": 45, "bias": True}
    block = {"version": 1, "inputs": [[3, 80]], "operators": [op], "outputs": [0]}
    direct = sequential(block)
    product = {**direct, "algorithms": {"gemm": [0]}}
    for schedules in ([direct, product], [product, direct]):
        latencies = engine.Profiler(block, "cpu").sample(schedules, 0, 1, 1)[0]
        assert (latencies > 0).all()
