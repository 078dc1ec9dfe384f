"""Inputs and outputs of type float16 of blocks that compute in float32 or bfloat16.

The expected values are numpy's conversions, and results computed in float64.
"""

import ml_dtypes
import numpy as np
import pytest
from instruction_sets import limited_to

from ios_tf.native import engine

CHANNELS = [1, 3, 15, 16, 17, 33]


def run(block, inputs, weights=()):
    """The only output of a block whose operators run one after the other."""
    groups = [list(range(len(block["operators"])))]
    program = engine.Program(
        {"version": 1, "outputs": [groups[0][-1]], **block},
        {"version": 1, "stages": [{"strategy": "concurrent", "groups": groups}]},
        [np.asarray(w, np.float32) for w in weights],
    )
    return program.run(inputs)[0]


def copied(x, dtype, to):
    """A tensor after a pass through a block of type `dtype`: x * 1 + 0."""
    block = {
        "dtype": dtype,
        "inputs": [list(x.shape)],
        "operators": [{"type": "scale", "inputs": [-1]}],
        "input_dtypes": [str(x.dtype)],
        "output_dtypes": [to],
    }
    ones, zeros = np.ones(x.shape[-1]), np.zeros(x.shape[-1])
    return run(block, [x], [ones, zeros])


def every_float16():
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(4, 64, 8, 32)


def floats_between_float16():
    """float16 numbers, numbers halfway between two, and the floats next to these."""
    exact = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    half = (exact[1:] + exact[:-1]) / 2
    near = [np.nextafter(half, end, dtype=np.float32) for end in (0, np.inf)]
    ends = np.float32([0, 65519.99, 65520, 7e4, 3e38, np.inf, np.nan, 1e-40])
    values = np.concatenate([exact, half, *near, ends])
    values = np.concatenate([values, -values])
    return np.resize(values, (3, 89, 29, 33))


def test_every_number():
    halves, floats = every_float16(), floats_between_float16()
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(
            copied(halves, "float32", "float32"), halves.astype(np.float32)
        )
        np.testing.assert_array_equal(copied(halves, "float32", "float16"), halves)
        np.testing.assert_array_equal(
            copied(floats, "float32", "float16"), floats.astype(np.float16)
        )
        rounded = halves.astype(np.float32).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(
            copied(halves, "bfloat16", "float16"), rounded.astype(np.float16)
        )


@pytest.mark.parametrize("channels", CHANNELS)
def test_views(channels):
    """Reads a range of the channels of an input, and writes into a part of a concat."""
    rng = np.random.default_rng(channels)
    x = rng.normal(size=(2, 5, 4, channels + 3)).astype(np.float16)
    x[1, 2, 3] = np.nan
    x[0, 1, 2], x[0, 1, 3] = np.inf, -np.inf
    block = {
        "dtype": "float32",
        "inputs": [list(x.shape)],
        "operators": [
            {"type": "slice", "inputs": [-1], "offset": 2, "size": channels},
            {"type": "activation", "inputs": [0], "activation": "relu"},
            {"type": "concat", "inputs": [1, -1, 0]},
        ],
        "input_dtypes": ["float16"],
        "output_dtypes": ["float16"],
    }
    part = x[..., 2 : 2 + channels]
    expected = np.concatenate([np.maximum(part, 0), x, part], -1)
    np.testing.assert_array_equal(run(block, [x]), expected)


def check_convolution(dtype, channels, groups):
    """The result is rounded to float16 only once."""
    rng = np.random.default_rng([channels, groups])
    x = rng.integers(-8, 8, size=(2, 6, 5, channels)).astype(np.float16)
    x[1, 2, 3, 0], x[1, 5, 4, -1] = np.inf, np.nan
    filters = 2 * groups
    kernel = rng.integers(-8, 8, size=(1, 1, channels // groups, filters)) / 8
    operator = {"type": "conv2d", "inputs": [-1], "filters": filters}
    operator |= {"kernel": [1, 1], "groups": groups}
    block = {
        "dtype": dtype,
        "inputs": [list(x.shape)],
        "operators": [operator],
        "input_dtypes": ["float16"],
        "output_dtypes": ["float16"],
    }
    found = run(block, [x], [kernel])
    pairs = x.astype(np.float64).reshape(*x.shape[:3], groups, channels // groups)
    with np.errstate(invalid="ignore"):  # infinity * 0
        expected = np.stack(
            [
                (pairs[:, :, :, f // 2] * kernel[0, 0, :, f]).sum(-1)
                for f in range(filters)
            ],
            -1,
        )
    np.testing.assert_array_equal(found, expected.astype(np.float16))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("channels", CHANNELS)
def test_convolutions(dtype, channels):
    check_convolution(dtype, channels, 1)
    check_convolution(dtype, 2 * channels, 2)


@limited_to("AVX2", "SSE41")
def test_other_instruction_sets():
    test_every_number()
    for channels in CHANNELS:
        test_views(channels)
        for dtype in ("float32", "bfloat16"):
            test_convolutions(dtype, channels)
