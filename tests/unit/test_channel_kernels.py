"""Operators with one parameter per channel, compared with numpy for many sizes."""

import numpy as np
import pytest
from instruction_sets import limited_to

from ios_tf.native import engine

SEQUENTIAL = {"version": 1, "stages": [{"strategy": "concurrent", "groups": [[0]]}]}
# Channel counts for which a kernel takes several pixels at a time, and larger ones.
CHANNELS = [1, 3, 16, 23, 64, 70, 255, 256, 257, 1030]


def run(operator, inputs, weights=()):
    block = {
        "version": 1,
        "inputs": [list(x.shape) for x in inputs],
        "operators": [{"inputs": [-1 - i for i in range(len(inputs))], **operator}],
        "outputs": [0],
    }
    (found,) = engine.Program(block, SEQUENTIAL, list(weights)).run(list(inputs))
    return found


def numbers(*shape):
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("shape", [(1, 40, 37), (3, 2, 5), (1, 1, 1), (5, 23, 30)])
def test_scale(shape, channels):
    x, scale, shift = numbers(*shape, channels), numbers(channels), numbers(channels, 1)
    found = run({"type": "scale"}, [x], [scale, shift.ravel()])
    np.testing.assert_allclose(found, x * scale + shift.ravel(), atol=1e-5)
    found = run({"type": "scale", "activation": "relu"}, [x], [scale, shift.ravel()])
    expected = np.maximum(x * scale + shift.ravel(), 0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("shape", [(1, 40, 37), (3, 2, 5), (5, 23, 30)])
@pytest.mark.parametrize("each_image", [True, False])
@pytest.mark.parametrize(
    ("function", "compute"),
    [
        ("multiply", np.multiply),
        ("subtract", np.subtract),
        ("maximum", np.maximum),
        ("prelu", lambda x, slope: np.where(x > 0, x, x * slope)),
    ],
)
def test_binary(shape, channels, each_image, function, compute):
    x = numbers(*shape, channels)
    y = numbers(shape[0] if each_image else 1, 1, 1, channels)
    operator = {"type": "binary", "function": function, "activation": "tanh"}
    found = run(operator, [x, y])
    np.testing.assert_allclose(found, np.tanh(compute(x, y)), atol=1e-5)
    found = run(operator, [y, x])
    np.testing.assert_allclose(found, np.tanh(compute(y, x)), atol=1e-5)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(
    "shape", [(1, 40, 37), (3, 2, 5), (1, 1, 1), (5, 23, 30), (1, 1, 128), (1, 13, 10)]
)
@pytest.mark.parametrize(
    ("pool", "compute"), [("max", np.max), ("avg", np.mean), ("sum", np.sum)]
)
def test_global_pool(shape, channels, pool, compute):
    x = numbers(*shape, channels)
    x[0, -1, -1, 0] = np.nan
    found = run({"type": "global_pool", "pool": pool}, [x])
    expected = compute(x.astype(np.float64), axis=(1, 2)).reshape(found.shape)
    assert np.isnan(found).sum() == np.isnan(expected).sum() == 1
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", CHANNELS)
def test_softmax(channels):
    """A softmax is NaN at pixels that have a NaN, an infinity, or only -infinity."""
    x = 30 * numbers(3, 11, 10, channels)
    x[0, 3, :, 0] = -np.inf
    for i, special in enumerate((np.nan, np.inf, -np.inf)):
        x[1, i, 0, (3 * i + 7) % channels] = special
        x[2, i, 9, -1] = special
    x[1, 5] = -np.inf
    found = run({"type": "softmax"}, [x])
    with np.errstate(invalid="ignore"):
        powers = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    expected = powers / powers.sum(axis=-1, keepdims=True)
    assert np.isnan(expected[1, 5]).all() and np.isfinite(expected[0, 0]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)  # NaN too


@limited_to("AVX2", "SSE41")
def test_other_instruction_sets():
    for n in (1, 3, 23, 64, 257):
        test_scale((3, 2, 5), n)
        test_binary((3, 2, 5), n, True, "subtract", np.subtract)
        test_binary((3, 2, 5), n, False, "maximum", np.maximum)
        test_global_pool((5, 23, 30), n, "max", np.max)
        test_global_pool((5, 23, 30), n, "avg", np.mean)
        test_softmax(n)
