"""Depthwise and separable convolutions of bfloat16 tensors.

Sums are float32, and results are rounded once.
"""

import numpy as np
import pytest
from bfloat16_numbers import ACTIVATIONS, check, from_bits, to_bits
from convolution_cases import (
    DEPTHWISE_WINDOWS,
    between_slices,
    conv_block,
    convolution,
    random_weights,
    run,
    sequential,
)
from instruction_sets import limited_to

from ios_tf.native import engine


def rounded(values):
    """These values as bfloat16, and the bits that the engine gets for them."""
    bits = to_bits(values)
    return from_bits(bits), bits


def depthwise_block(shape, **attributes):
    return {
        **conv_block(shape, shape[-1], groups=shape[-1], bias=True, **attributes),
        "dtype": "bfloat16",
    }


@pytest.mark.parametrize("algorithm", ["rows", "direct"])
@pytest.mark.parametrize("channels", [2, 3, 15, 16, 17, 31, 32, 33, 50, 96])
def test_every_number_of_channels(channels, algorithm):
    rng = np.random.default_rng(channels)
    activation = list(ACTIVATIONS)[channels % len(ACTIVATIONS)]
    kernel, strides = ([3, 3], [1, 1]) if channels % 2 else ([5, 3], [2, 1])
    block = depthwise_block(
        (2, 9, 7, channels),
        kernel=kernel,
        strides=strides,
        padding=[1, 2, 0, 1],
        activation=activation,
    )
    weights = random_weights(block, rng)
    x, bits = rounded(rng.normal(size=block["inputs"][0]))
    (found,) = run(block, algorithm, weights, [bits])
    expected = convolution(x, *weights, (1, 2, 0, 1), strides)
    check(from_bits(found), ACTIVATIONS[activation](expected), activation=activation)


@pytest.mark.parametrize(
    "attributes",
    [
        *DEPTHWISE_WINDOWS,
        # More rows than the kernel for rows supports:
        {"kernel": [17, 3], "padding": [8, 8, 1, 1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1, 20, 14, 24), (3, 31, 20, 5), (2, 7, 40, 16)])
def test_windows_and_activations(attributes, activation, shape):
    rng = np.random.default_rng(1)
    attributes = {"kernel": [3, 3], "padding": [1, 1, 1, 1], **attributes}
    block = depthwise_block(shape, activation=activation, **attributes)
    weights = random_weights(block, rng)
    x, bits = rounded(rng.normal(size=shape))
    (found,) = run(block, "direct", weights, [bits])
    del attributes["kernel"]
    expected = convolution(x, *weights, **attributes)
    check(from_bits(found), ACTIVATIONS[activation](expected), activation=activation)


@limited_to("AVX2", "SSE41")
def test_other_instruction_sets():
    for n in (2, 15, 17, 33, 96):
        test_every_number_of_channels(n, "rows")
    for activation in ACTIVATIONS:
        strides = {"strides": [2, 2]}
        test_windows_and_activations(strides, activation, (3, 31, 20, 5))
        test_special_numbers(activation)
    test_ties_are_rounded_to_even()
    for n in (3, 16, 17, 96):
        test_separable_convolutions(n, "gemm")
    test_separable_convolutions_of_sums((3, 31, 20, 5), [2, 2], 3)
    for n in (8, 24, 33, 150):
        test_the_product_is_computed_with_it(n, (1, 14, 13, 20), "rows")


def test_ties_are_rounded_to_even():
    unit = 2.0**-7  # of bfloat16 numbers in [1, 2)
    block = depthwise_block((1, 1, 4, 20), kernel=[1, 1])
    weights = [np.ones((1, 1, 1, 20)), np.full(20, unit / 2)]
    x = np.empty(block["inputs"][0])
    x[0, 0] = np.array([[1, 1 + unit, 1 + 2 * unit, -1 - 2 * unit]]).T
    (found,) = run(block, "rows", weights, [rounded(x)[1]])
    expected = [1, 1 + 2 * unit, 1 + 2 * unit, -1 - unit * 2]
    np.testing.assert_array_equal(from_bits(found)[0, 0, :, 0], expected)
    assert (found == found[..., :1]).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_special_numbers(activation):
    """NaN and infinity affect the same results as in float32."""
    shape = (1, 13, 10, 35)
    block = depthwise_block(shape, activation=activation)
    rng = np.random.default_rng(3)
    weights = random_weights(block, rng)
    weights[1][7] = np.array(0x7FFFFFFF, np.uint32).view(np.float32)  # a NaN
    x, bits = rounded(rng.normal(size=shape))
    x[0, 4, 4, 3], bits[0, 4, 4, 3] = np.nan, 0x7FFF
    x[0, 12, 9, 17] = np.inf
    bits[0, 12, 9, 17] = rounded(np.inf)[1]
    (found,) = run(block, "rows", weights, [bits])
    plain = {**block, "dtype": "float32"}
    (expected,) = run(plain, "rows", weights, [x.astype(np.float32)])
    assert np.isnan(expected[..., 7]).all()
    assert np.isnan(expected[0, 3:6, 3:6, 3]).all()
    np.testing.assert_allclose(from_bits(found), expected, rtol=2**-8)


def test_tensors_that_are_slices_of_others():
    """Channels beside a view are neither read nor overwritten."""
    shape = (2, 15, 12, 21)
    conv = depthwise_block(shape, activation="swish")["operators"][0]
    block = {**between_slices(conv, shape), "dtype": "bfloat16"}
    block["operators"][1].update(groups=1)
    block["operators"][4].update(filters=21)
    weights = random_weights(block, np.random.default_rng(4))
    _, bits = rounded(np.random.default_rng(5).normal(size=shape))
    schedule = {**sequential(block), "algorithms": {"rows": [0, 4]}}
    found = engine.Program(block, schedule, weights).run([bits])
    for operator, of_concat in ((0, slice(21)), (1, slice(21, 30))):
        alone = {**block, "operators": [block["operators"][operator]], "outputs": [0]}
        own = weights[:2] if operator == 0 else weights[2:4]
        (expected,) = run(alone, "direct", own, [bits])
        np.testing.assert_array_equal(found[0][..., of_concat], expected)
    alone = {
        **block,
        "operators": [{**block["operators"][4], "inputs": [-1]}],
        "outputs": [0],
    }
    (expected,) = run(alone, "rows", weights[4:], [found[0][..., 7:28].copy()])
    np.testing.assert_array_equal(found[1], expected)


def test_groups_of_several_channels():
    rng = np.random.default_rng(6)
    block = depthwise_block((1, 12, 12, 40))
    block["operators"][0].update(groups=20)
    weights = random_weights(block, rng)
    x, bits = rounded(rng.normal(size=block["inputs"][0]))
    (found,) = run(block, "direct", weights, [bits])
    check(from_bits(found), convolution(x, *weights, (1, 1, 1, 1)))


def test_a_residual():
    rng = np.random.default_rng(7)
    block = depthwise_block((1, 12, 12, 40), residual=True)
    weights = random_weights(block, rng)
    x, bits = rounded(rng.normal(size=block["inputs"][0]))
    residual, residual_bits = rounded(rng.normal(size=block["inputs"][0]))
    (found,) = run(block, "direct", weights, [bits, residual_bits])
    check(from_bits(found), convolution(x, *weights, (1, 1, 1, 1)) + residual)


@pytest.mark.parametrize("shape", [(0, 8, 8, 8), (1, 0, 8, 8), (1, 8, 0, 8)])
def test_images_without_cells(shape):
    block = depthwise_block((1, 8, 8, 8))
    weights = random_weights(block, np.random.default_rng(9))
    (found,) = run(block, "rows", weights, [np.zeros(shape, np.uint16)])
    assert found.shape == shape


ROUNDING = 2.0**-8  # the largest relative error of a rounding to bfloat16
SLOPES = {"hard_swish": 1.5}  # the largest slope of an activation
SWISH_SLOPE = 1.1  # the largest slope of all others here


def separable_block(shape, filters, terms=1, **attributes):
    """A separable convolution of the sum of `terms` inputs, with a residual."""
    operators = [
        {"type": "add", "inputs": [-1 - i for i in range(terms)]},
        {
            "type": "sepconv",
            "inputs": [0, -1 - terms],
            "kernel": [3, 3],
            "padding": [1, 1, 1, 1],
            "filters": filters,
            "bias": True,
            "residual": True,
            **attributes,
        },
    ]
    if terms == 1:
        del operators[0]
        operators[0]["inputs"] = [-1, -2]
    block = {
        "version": 1,
        "dtype": "bfloat16",
        "inputs": [list(shape)] * terms,
        "operators": operators,
        "outputs": [len(operators) - 1],
    }
    height, width = (
        (size - 1) // stride + 1
        for size, stride in zip(
            shape[1:3], attributes.get("strides", [1, 1]), strict=True
        )
    )
    block["inputs"].append([shape[0], height, width, filters])
    return block


def check_separable(block, algorithm, *more_shapes):
    """Checks a block, and then its program with further shapes of its inputs."""
    rng = np.random.default_rng(10)
    op = block["operators"][-1]
    depthwise, pointwise, bias = random_weights(block, rng)
    pointwise = rounded(pointwise)[0].astype(np.float32)
    schedule = sequential(block)
    if algorithm != "direct":
        schedule["algorithms"] = {algorithm: [len(block["operators"]) - 1]}
    program = engine.Program(block, schedule, [depthwise, pointwise, bias])
    factors = pointwise[0, 0].astype(np.float64)
    for shapes in (block["inputs"], *more_shapes):
        inputs = [rounded(rng.normal(size=shape)) for shape in shapes]
        (found,) = program.run([bits for _, bits in inputs])
        x = sum(values for values, _ in inputs[:-1])
        x = ACTIVATIONS[op.get("pre_activation", "none")](x)
        padding = (1, 1, 1, 1)
        middle = convolution(x, depthwise, 0, padding, op.get("strides", [1, 1]))
        product = middle @ factors + bias + inputs[-1][0]
        activation = op.get("activation", "none")
        expected = ACTIVATIONS[activation](product)
        more = ROUNDING * (np.abs(middle) @ np.abs(factors))
        more *= SLOPES.get(activation, SWISH_SLOPE)
        check(from_bits(found), expected, more=more)


@pytest.mark.parametrize("algorithm", ["direct", "gemm"])
@pytest.mark.parametrize("channels", [3, 16, 17, 32, 40, 96])
def test_separable_convolutions(channels, algorithm):
    activation = list(ACTIVATIONS)[channels % len(ACTIVATIONS)]
    block = separable_block(
        (2, 9, 7, channels), 21, activation=activation, pre_activation="relu"
    )
    check_separable(block, algorithm)


@pytest.mark.parametrize("shape", [(1, 16, 14, 24), (3, 31, 20, 5), (1, 1, 300, 16)])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2]])
@pytest.mark.parametrize("terms", [2, 3])
def test_separable_convolutions_of_sums(shape, strides, terms):
    block = separable_block(shape, 33, terms, strides=strides, activation="swish")
    check_separable(block, "gemm")


def test_a_wide_image_before_a_narrow_one():
    """Rows of the wide image do not fit into caches, so it needs another kernel."""
    block = separable_block((1, 1, 22000, 16), 8)
    check_separable(block, "gemm", [(1, 1, 50, 16), (1, 1, 50, 8)])


def test_separable_convolutions_with_high_windows():
    """The kernel for rows does not support high windows."""
    block = separable_block((1, 20, 6, 8), 12, kernel=[17, 3], padding=[8, 8, 1, 1])
    rng = np.random.default_rng(11)
    weights = random_weights(block, rng)
    bits = [rounded(rng.normal(size=shape))[1] for shape in block["inputs"]]
    (found,) = run(block, "direct", weights, bits)
    plain = {**block, "dtype": "float32"}
    inputs = [from_bits(b).astype(np.float32) for b in bits]
    (expected,) = run(plain, "direct", weights, inputs)
    check(from_bits(found), expected.astype(np.float64))


@pytest.mark.parametrize("channels", [8, 16, 24, 33, 40, 150])
@pytest.mark.parametrize("shape", [(1, 14, 13, 20), (3, 9, 40, 33)])
@pytest.mark.parametrize("algorithm", ["rows", "direct"])
def test_the_product_is_computed_with_it(channels, shape, algorithm):
    """A depthwise convolution by rows computes the 1x1 convolution before it."""
    activation = list(ACTIVATIONS)[channels % len(ACTIVATIONS)]
    conv = {"type": "conv2d", "filters": channels, "bias": True}
    conv["activation"] = activation
    window = {"kernel": [3, 3], "padding": [1, 1, 1, 1], "groups": channels}
    block = {
        "version": 1,
        "dtype": "bfloat16",
        "inputs": [list(shape)],
        "operators": [
            {**conv, "inputs": [-1], "kernel": [1, 1]},
            {**conv, "inputs": [0], **window},
        ],
        "outputs": [1],
    }
    schedule = sequential(block)
    assert engine.arena_bytes(block, schedule) > 0
    if algorithm == "rows":
        schedule["algorithms"] = {"rows": [1]}
        assert engine.arena_bytes(block, schedule) == 0
    rng = np.random.default_rng(12)
    weights = random_weights(block, rng)
    weights[0] = rounded(weights[0])[0].astype(np.float32)
    x, bits = rounded(rng.normal(size=shape))
    (found,) = engine.Program(block, schedule, weights).run([bits])
    activate = ACTIVATIONS[activation]
    padding = (1, 1, 1, 1)
    middle = activate(x @ weights[0][0, 0].astype(np.float64) + weights[1])
    expected = activate(convolution(middle, *weights[2:], padding))
    errors = convolution(ROUNDING * np.abs(middle), np.abs(weights[2]), 0, padding)
    errors *= SLOPES.get(activation, SWISH_SLOPE)
    check(from_bits(found), expected, more=errors)
