"""Relative differences between an array and its expected values."""

from __future__ import annotations

import numpy as np

# The smallest divisor. If only zeros are expected, the relative difference of any other
# value is infinite, or nearly so.
_LEAST = 1e-30
# A tensor is constant if it changes by at most this many roundings of its largest
# value.
_ROUNDINGS = 16


def relative_difference(
    found: np.ndarray, expected: np.ndarray, scale: float | None = None
) -> float:
    """The largest difference divided by `scale`; infinite if the shapes differ.

    The scale is the largest expected value by default.

    NaN and infinities equal themselves and are infinitely far from all other values.
    Equivalent computations overflow at the same positions, so these positions do not
    count.
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
    """The largest change of a tensor between two inputs.

    The result is 0 if the change is below the rounding of the tensor's values, and
    None if it is unknown, because the shape changes or no value is finite.
    """
    if one.shape != other.shape:
        return None
    finite = np.isfinite(one) & np.isfinite(other)
    if not finite.any():
        return None
    rounding = _ROUNDINGS * float(np.finfo(one.real.dtype).eps)
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    one, other = one[finite].astype(wide), other[finite].astype(wide)
    change = float(np.abs(one - other).max())
    return change if change > rounding * np.abs(one).max() else 0.0


def relative_norm(found: np.ndarray, expected: np.ndarray) -> float:
    """The norm of the difference divided by the norm of the expected values.

    Shapes, NaN and infinities count as in `relative_difference`.
    """
    compared = _finite(found, expected)
    if compared is None:
        return float("inf")
    difference, values = compared
    return float(np.linalg.norm(difference) / max(np.linalg.norm(values), _LEAST))


def _finite(
    found: np.ndarray, expected: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The differences from the finite expected values, and these values.

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
