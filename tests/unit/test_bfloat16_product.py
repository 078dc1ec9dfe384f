"""Convolutions and matrix products of bfloat16 tensors.

Expected values are computed in float64 from inputs and weights that are bfloat16
numbers.
"""

import numpy as np
import pytest
from bfloat16_numbers import ACTIVATIONS, check, from_bits, numbers, to_bits
from convolution_cases import between_slices, conv_block, convolution, sequential
from instruction_sets import limited_to

from ios_tf.native import engine


def rounded_weights(block):
    """Random bfloat16 filters, and biases that are not bfloat16 numbers."""
    shapes = engine.problem(block)["weight_shapes"]
    return [
        numbers(*shape, seed=i) / 8 if len(shape) > 1 else numbers(*shape) / 7
        for i, shape in enumerate(w for of_operator in shapes for w in of_operator)
    ]


def run(block, weights, inputs, **types):
    block = {**block, "dtype": "bfloat16", **types}
    found = engine.Program(block, sequential(block), weights).run(
        [to_bits(x) for x in inputs]
    )
    return [x if x.dtype == np.float32 else from_bits(x) for x in found]


WINDOWS = [
    {"kernel": [1, 1], "padding": [0, 0, 0, 0]},
    {"kernel": [1, 1], "padding": [0, 0, 0, 0], "strides": [2, 2]},
    {"kernel": [3, 3], "padding": [1, 1, 1, 1]},
    {"kernel": [3, 3], "padding": [0, 0, 0, 0]},
    {"kernel": [3, 3], "padding": [0, 1, 0, 1], "strides": [2, 2]},
    {"kernel": [7, 7], "padding": [3, 3, 3, 3], "strides": [2, 2]},
    {"kernel": [1, 7], "padding": [0, 0, 3, 3]},
    {"kernel": [7, 1], "padding": [3, 3, 0, 0]},
    {"kernel": [3, 2], "padding": [2, 2, 1, 2], "dilations": [2, 3]},
    {"kernel": [2, 3], "padding": [0, 0, 0, 0], "strides": [1, 2]},
    {"kernel": [3, 3], "padding": [4, 0, 0, 5], "strides": [3, 1]},
    {"kernel": [2, 2], "padding": [0, 0, 0, 0], "strides": [3, 3]},
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(
    ("channels", "filters"), [(1, 5), (3, 16), (8, 17), (20, 40), (33, 1), (64, 64)]
)
def test_windows(window, channels, filters):
    activation = list(ACTIVATIONS)[(channels + len(str(window))) % len(ACTIVATIONS)]
    shape = (2, 11, 21, channels)
    block = conv_block(shape, filters, bias=True, activation=activation, **window)
    weights = rounded_weights(block)
    x = numbers(*shape)
    rest = {key: value for key, value in window.items() if key != "kernel"}
    expected = ACTIVATIONS[activation](convolution(x, *weights, **rest))
    (found,) = run(block, weights, [x])
    check(found, expected, activation=activation)


@pytest.mark.parametrize("channels", [1, 2, 5, 16, 17, 24, 31, 62, 100])
@pytest.mark.parametrize("output", ["bfloat16", "float32"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_residuals_and_results_of_both_types(channels, output, activation):
    block = conv_block((1, 6, 7, channels), 39, residual=True, activation=activation)
    weights = rounded_weights(block)
    x, residual = numbers(1, 6, 7, channels), numbers(1, 6, 7, 39)
    total = convolution(x, *weights, 0, (1, 1, 1, 1)) + residual
    (found,) = run(block, weights, [x, residual], output_dtypes=[output])
    expected = ACTIVATIONS[activation](total)
    if output == "bfloat16":
        return check(found, expected, more=1e-5 * np.abs(total).max())
    # The activation does not enlarge the rounding errors of the sums.
    largest = np.abs(total).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * largest)


def test_float32_inputs_are_rounded():
    block = conv_block((1, 5, 5, 32), 8, kernel=[1, 1], padding="VALID")
    weights = rounded_weights(block)
    x = np.random.default_rng(1).normal(size=(1, 5, 5, 32)).astype(np.float32)
    block = {**block, "dtype": "bfloat16", "input_dtypes": ["float32"]}
    (bits,) = engine.Program(block, sequential(block), weights).run([x])
    exact = from_bits(to_bits(x))
    check(from_bits(bits), convolution(exact, *weights, 0, (0, 0, 0, 0)))


def test_float32_blocks_convert_their_bfloat16_inputs_and_outputs():
    block = conv_block((1, 5, 5, 9), 8)
    weights = rounded_weights(block)
    x = numbers(1, 5, 5, 9)
    types = {"input_dtypes": ["bfloat16"], "output_dtypes": ["bfloat16"]}
    block = {**block, **types}
    (bits,) = engine.Program(block, sequential(block), weights).run([to_bits(x)])
    check(from_bits(bits), convolution(x, *weights, 0, (1, 1, 1, 1)))


@pytest.mark.parametrize("kernel", [[1, 1], [3, 3]], ids=str)
def test_tensors_with_other_channels_between_pixels(kernel):
    block = conv_block((2, 5, 6, 20), 39, kernel=kernel, bias=True, activation="relu")
    block = between_slices(block["operators"][0], (2, 5, 6, 20))
    weights = rounded_weights(block)
    x = numbers(2, 5, 6, 20)
    cells = [kernel[0] // 2] * 4
    parts = [
        np.maximum(convolution(x, *weights[:2], cells), 0),
        convolution(x, *weights[2:4], cells),
    ]
    both, last = run(block, weights, [x])
    check(both, np.concatenate(parts, -1))
    # The part that the last convolution reads is already rounded.
    check(last, convolution(both[..., 7:28], *weights[4:], cells))


@pytest.mark.parametrize("reader", ["conv2d", "pool"])
def test_slices_are_not_copied(reader):
    block = conv_block((1, 6, 8, 20), 64)
    block["operators"] += [
        {"type": "slice", "inputs": [0], "offset": 7, "size": 21},
        {"type": reader, "inputs": [1], "kernel": [2, 2], "padding": "VALID"}
        | ({"filters": 9} if reader == "conv2d" else {"pool": "max"}),
    ]
    block = {**block, "dtype": "bfloat16", "outputs": [0, 2]}
    # The only tensor that is not an output is the slice.
    assert engine.arena_bytes(block, sequential(block)) == 0
    weights = rounded_weights(block)
    whole, found = run(block, weights, [numbers(1, 6, 8, 20)])
    part = whole[..., 7:28]
    if reader == "conv2d":
        expected = convolution(part, weights[1], 0, (0, 0, 0, 0))
    else:
        windows = np.lib.stride_tricks.sliding_window_view(part, (2, 2), (1, 2))
        expected = windows.max((-2, -1))
    check(found, expected)


@pytest.mark.parametrize("images", [1, 5, 70])
@pytest.mark.parametrize("units", [1, 10, 33])
def test_matrix_products(images, units):
    operator = {"type": "matmul", "inputs": [-1], "filters": units, "bias": True}
    block = {
        "version": 1,
        "inputs": [[images, 2, 3, 9]],
        "operators": [{**operator, "kernel": [2, 3]}],
        "outputs": [0],
    }
    weights = rounded_weights(block)
    x = numbers(images, 2, 3, 9)
    matrix = weights[0].reshape(-1, units)
    (found,) = run(block, weights, [x])
    check(found, x.reshape(images, -1) @ matrix + weights[1])


def test_nan_and_infinity_reach_only_the_windows_that_read_them():
    x = numbers(1, 9, 9, 34)
    x[0, 4, 4, 33] = np.nan
    x[0, 0, 0, 0] = np.inf
    block = conv_block((1, 9, 9, 34), 20, activation="relu")
    weights = rounded_weights(block)
    with np.errstate(invalid="ignore"):
        expected = convolution(x, *weights, 0, (1, 1, 1, 1))
        expected = np.where(expected < 0, 0, expected)
    (found,) = run(block, weights, [x])
    check(found, expected)


def test_programs_with_other_layouts_share_a_weight():
    """A second program packs the same weight in another way."""
    shape = (1, 8, 8, 50)
    plain = conv_block(shape, 16, padding="VALID")
    padded = conv_block(shape, 16)
    weights = rounded_weights(plain)
    x = numbers(*shape)
    first = {**plain, "dtype": "bfloat16"}
    kept = engine.Program(first, sequential(first), weights)
    (found,) = run(padded, weights, [x])
    check(found, convolution(x, *weights, 0, (1, 1, 1, 1)))
    (bits,) = kept.run([to_bits(x)])
    check(from_bits(bits), convolution(x, *weights, 0, (0, 0, 0, 0)))


def test_a_dilated_convolution_shares_a_weight():
    """Only without dilations, the rows of a window with few channels are one cell."""
    dilated = conv_block((1, 9, 8, 8), 8, padding="VALID", dilations=[2, 2])
    plain = conv_block((1, 9, 8, 8), 8)
    weights = rounded_weights(plain)
    x = numbers(1, 9, 8, 8)
    first = {**dilated, "dtype": "bfloat16"}
    kept = engine.Program(first, sequential(first), weights)
    (found,) = run(plain, weights, [x])
    check(found, convolution(x, *weights, 0, (1, 1, 1, 1)))
    (bits,) = kept.run([to_bits(x)])
    expected = convolution(x, *weights, 0, (0, 0, 0, 0), dilations=(2, 2))
    check(from_bits(bits), expected)


@limited_to("AVX512_CORE_BF16", "AVX512_CORE", "AVX2", "SSE41")
def test_every_way_to_multiply():
    for window in WINDOWS:
        test_windows(window, 20, 40)
    for activation in ACTIVATIONS:
        test_residuals_and_results_of_both_types(31, "bfloat16", activation)
    test_windows(WINDOWS[5], 3, 16)
    test_matrix_products(70, 33)
    test_nan_and_infinity_reach_only_the_windows_that_read_them()
