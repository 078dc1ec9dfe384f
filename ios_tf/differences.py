"""Relative differences between an array and its expected values."""

from __future__ import annotations

import numpy as np

# The smallest divisor. If all expected values are 0, any other value has a huge or
# infinite relative difference.
_LEAST = 1e-30
# A tensor counts as constant if it changes by at most this many times the rounding
# error of its largest value.
_ROUNDINGS = 16


def epsilon(dtype: np.dtype) -> float:
    """Returns the distance from 1 to the next larger number of a real type."""
    if issubclass(dtype.type, np.floating):
        return float(np.finfo(dtype).eps)
    # Only TensorFlow makes arrays of other types. Its requirement ml_dtypes may be
    # missing on a machine that measures the engine without TensorFlow.
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def relative_difference(
    found: np.ndarray, expected: np.ndarray, scale: float | None = None
) -> float:
    """Returns the largest difference divided by `scale`; infinity if shapes differ.

    By default, `scale` is the largest expected value.

    Positions at which both arrays have NaN or the same infinity are ignored, because
    equivalent computations overflow at the same positions. If only one array has NaN or
    an infinity at a position, the result is infinite.
    """
    compared = _finite(found, expected)
    if compared is None:
        return float("inf")
    difference, values = compared
    if not values.size:
        return 0.0
    scale = np.abs(values).max() if scale is None else scale
    return float(np.abs(difference).max() / max(scale, _LEAST))


def spread(one: np.ndarray, other: np.ndarray) -> float | None:
    """Returns the largest change of a tensor between two inputs.

    The result is 0 if the change is below the rounding of the tensor's values, and
    None if it is unknown, because the shape changes or no value is finite.
    """
    if one.shape != other.shape:
        return None
    finite = np.isfinite(one) & np.isfinite(other)
    if not finite.any():
        return None
    rounding = _ROUNDINGS * epsilon(one.real.dtype)
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    one, other = one[finite].astype(wide), other[finite].astype(wide)
    change = float(np.abs(one - other).max())
    return change if change > rounding * np.abs(one).max() else 0.0


def relative_norm(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the norm of the difference divided by the norm of the expected values.

    Different shapes, NaN and infinities are treated as in `relative_difference`.
    """
    compared = _finite(found, expected)
    if compared is None:
        return float("inf")
    difference, values = compared
    return float(np.linalg.norm(difference) / max(np.linalg.norm(values), _LEAST))


def _finite(
    found: np.ndarray, expected: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the differences from the finite expected values, and these values.

    The result is None if the shapes differ, if a NaN or an infinity does not equal its
    expected value, or if a difference is not finite.
    """
    if found.shape != expected.shape:
        return None
    if expected.dtype.kind != "c":
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return None
    difference = found[finite] - expected[finite]
    return (difference, expected[finite]) if np.isfinite(difference).all() else None
