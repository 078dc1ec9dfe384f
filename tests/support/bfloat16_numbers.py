"""bfloat16 numbers, and checks of results that are computed in float32 and rounded."""

import ml_dtypes
import numpy as np

SLACK = 1e-5  # error of float32, relative to the largest value

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "tanh": np.tanh,
    "swish": lambda x: x / (1 + np.exp(-x)),
}
# Relative errors that kernels/activations.h allows before the rounding.
ACTIVATION_ERRORS = {"swish": 2**-12, "sigmoid": 2**-12}


def to_bits(values):
    """Rounds values to bfloat16, and returns the bits, which the engine takes."""
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)


def from_bits(bits):
    return bits.view(ml_dtypes.bfloat16).astype(np.float64)


def numbers(*shape, seed=0):
    """Random bfloat16 numbers, as float64."""
    rng = np.random.default_rng([seed, *shape])
    return from_bits(to_bits(3 * rng.normal(size=shape)))


def check(found, expected, slack=SLACK, more=0.0, activation="none"):
    """Checks results that were computed in float32 and then rounded to bfloat16.

    Args:
      slack: allowed error of the float32 computation, relative to the largest result.
      more: allowed error before the rounding, in addition to that of the activation.
    """
    assert found.shape == expected.shape
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected)
    infinite = ~finite & ~np.isnan(expected)
    np.testing.assert_array_equal(found[infinite], expected[infinite])
    expected = expected[finite]
    slack = slack * np.abs(expected).max(initial=0)
    slack = slack + ACTIVATION_ERRORS.get(activation, 0) * np.abs(expected)
    more = np.broadcast_to(more, finite.shape)[finite]
    half_unit = np.ldexp(1.0, np.frexp(np.abs(expected) + more)[1] - 9)
    error = np.abs(found[finite] - expected)
    assert (error <= half_unit + slack + more).all()
