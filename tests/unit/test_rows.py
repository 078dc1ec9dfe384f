"""Depthwise convolutions that process their image row by row and also compute the 1x1
convolution before them."""

import numpy as np
import pytest
from bfloat16_numbers import ACTIVATIONS
from convolution_cases import (
    DEPTHWISE_WINDOWS,
    beside_sequential,
    between_slices,
    conv_block,
    convolution,
    random_weights,
    run,
    sequential,
)
from instruction_sets import limited_to

from ios_tf.native import engine

ATOL = 1e-5  # tolerance for float32, relative to the largest value


def depthwise(channels, **attributes):
    """Operator 1 of `bottleneck`."""
    return {
        "type": "conv2d",
        "inputs": [0],
        "kernel": [3, 3],
        "padding": "SAME",
        "filters": channels,
        "groups": channels,
        "bias": True,
        **attributes,
    }


def bottleneck(shape, channels, activation="relu6", **attributes):
    """The bottleneck of MobileNets: a 1x1, a depthwise and a 1x1 convolution."""
    product = {"type": "conv2d", "kernel": [1, 1], "bias": True}
    return {
        "version": 1,
        "inputs": [list(shape)],
        "operators": [
            {
                **product,
                "inputs": [-1],
                "filters": channels,
                "activation": activation,
            },
            depthwise(channels, **{"activation": activation, **attributes}),
            {**product, "inputs": [1], "filters": 24},
        ],
        "outputs": [2],
    }


def rows(block, *operators):
    return {**sequential(block), "algorithms": {"rows": list(operators or [1])}}


def check(block, schedule, atol=ATOL):
    for found, expected in beside_sequential(block, schedule, np.random.default_rng(1)):
        np.testing.assert_allclose(found, expected, atol=atol * np.abs(expected).max())


@pytest.mark.parametrize(
    "channels", [2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 50, 96, 100]
)
def test_every_number_of_channels(channels):
    rng = np.random.default_rng(channels)
    activation = ("none", "relu", "relu6", "hard_swish")[channels % 4]
    kernel, stride = ([3, 3], [1, 1]) if channels % 2 else ([5, 3], [2, 1])
    padding = [1, 2, 0, 1]
    block = conv_block(
        (2, 9, 7, channels),
        channels,
        kernel=kernel,
        strides=stride,
        padding=padding,
        groups=channels,
        bias=True,
        activation=activation,
    )
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    (found,) = run(block, "rows", weights, [x])
    expected = ACTIVATIONS[activation](convolution(x, *weights, padding, stride))
    np.testing.assert_allclose(found, expected, atol=ATOL * np.abs(expected).max())


@pytest.mark.parametrize("channels", [8, 16, 24, 32, 40, 64, 72, 144, 150])
def test_the_product_is_computed_with_it(channels):
    block = bottleneck((1, 14, 13, 20), channels)
    check(block, rows(block))


@pytest.mark.parametrize(
    "attributes",
    [
        *DEPTHWISE_WINDOWS,
        {"bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("activation", ["none", "relu", "swish", "elu", "hard_swish"])
@pytest.mark.parametrize("shape", [(1, 14, 14, 24), (3, 31, 20, 5), (2, 7, 40, 16)])
def test_windows_and_activations(attributes, activation, shape):
    block = bottleneck(shape, 56, activation, **attributes)
    check(block, rows(block))


@limited_to("AVX2", "SSE41")
def test_other_instruction_sets():
    for n in (2, 15, 17, 33, 96):
        test_every_number_of_channels(n)
    for n in (8, 24, 40, 150):
        test_the_product_is_computed_with_it(n)
    test_windows_and_activations({"strides": [2, 2]}, "swish", (3, 31, 20, 5))


def test_a_product_by_gemm_is_stored():
    """It is computed before the depthwise convolution, as if both were direct."""
    block = bottleneck((1, 14, 13, 20), 72)
    algorithms = {"gemm": [0], "rows": [1]}
    separate = {**sequential(block), "algorithms": algorithms}
    check(block, separate)
    stored = 14 * 13 * 72 * 4  # bytes
    for schedule, tensors in ((separate, 2), (rows(block), 1)):
        bytes_of_tensors = engine.arena_bytes(block, schedule, "cpu")
        assert tensors * stored <= bytes_of_tensors < (tensors + 0.1) * stored


def test_a_product_that_others_read_is_stored():
    block = bottleneck((1, 12, 12, 16), 40)
    block["outputs"] = [0, 2]
    check(block, rows(block))
    block = bottleneck((1, 12, 12, 16), 40)
    block["operators"][2]["inputs"] = [0]
    block["outputs"] = [1, 2]
    check(block, rows(block))


def test_a_product_with_a_residual_is_stored():
    block = bottleneck((1, 12, 12, 40), 40)
    block["operators"][0].update(residual=True, inputs=[-1, -1])
    check(block, rows(block))


def test_groups_of_several_channels_are_computed_directly():
    block = bottleneck((1, 12, 12, 16), 40)
    block["operators"][1].update(groups=20, filters=20)
    check(block, rows(block))


def test_tensors_that_are_slices_of_others():
    """A convolution may write into a part of a concat, or read a part of it."""
    conv = conv_block((1, 15, 12, 21), 21, groups=21, bias=True)["operators"][0]
    block = between_slices({**conv, "activation": "swish"}, (1, 15, 12, 21))
    block["operators"][1].update(groups=1)
    block["operators"][4].update(filters=21)
    check(block, rows(block, 0, 4))


def test_what_the_product_reads_is_kept_until_it_is_computed():
    """The input of a product is not overwritten before the product is computed.

    In this chain the tensors share memory. Rounding errors add up to little, but values
    that overlap would give large errors.
    """
    block = bottleneck((2, 16, 16, 24), 96)
    operators = block["operators"]
    for first in (3, 6, 9):
        for k, op in enumerate(bottleneck((2, 16, 16, 24), 96)["operators"]):
            operators.append({**op, "inputs": [first + k - 1]})
        operators[-1].update(residual=True, inputs=[first + 1, first - 1])
    block["outputs"] = [len(operators) - 1]
    check(block, rows(block, *range(1, len(operators), 3)), atol=1e-3)


@pytest.mark.parametrize(
    "attributes",
    [
        {"groups": 1},
        {"residual": True},
        {"groups": 20},
        {"kernel": [17, 3]},
        {"type": "sepconv", "groups": 1},
    ],
    ids=str,
)
def test_what_does_not_go_by_rows(attributes):
    block = conv_block((1, 40, 12, 40), 40, **{"groups": 40, **attributes})
    block["operators"][0]["algorithm"] = "rows"
    with pytest.raises(
        engine.EngineError, match="cannot be computed with the algorithm rows"
    ):
        engine.problem(block)


@pytest.mark.parametrize("activation", ["none", "relu6", "hard_swish", "swish"])
def test_what_is_not_finite_stays_where_it_is(activation):
    rng = np.random.default_rng(3)
    block = bottleneck((2, 13, 10, 20), 35, activation)
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    x[0, 4, 4, 3], x[1, 12, 9, 17] = np.nan, np.inf
    found, expected = (
        engine.Program(block, schedule, weights).run([x])[0]
        for schedule in (rows(block), sequential(block))
    )
    np.testing.assert_allclose(found, expected, atol=1e-3)  # NaN in the same places


@pytest.mark.parametrize("shape", [(0, 8, 8, 8), (1, 0, 8, 8), (1, 8, 0, 8)])
def test_images_without_cells(shape):
    block = bottleneck((1, 8, 8, 8), 40)
    weights = random_weights(block, np.random.default_rng(9))
    x = np.zeros(shape, np.float32)
    found, expected = (
        engine.Program(block, schedule, weights).run([x])[0]
        for schedule in (rows(block), sequential(block))
    )
    assert found.shape == expected.shape == (*shape[:3], 24)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_split_batches(batch):
    block = bottleneck((batch, 14, 14, 24), 72)
    schedule = {
        **rows(block),
        "stages": [{"strategy": "split", "groups": [[0, 1, 2]], "micro_batches": 2}],
    }
    check(block, schedule)
