"""Compares outputs with expected ones, and estimates the effect of rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf.conversion import timing
from ios_tf.differences import epsilon, relative_difference, spread
from ios_tf.model import function_library
from ios_tf.model.frozen_graphs import FrozenSignature

# Two computations may differ by this factor times the effect of rounding the inputs. In
# our tests, correct conversions differed by at most 0.75 times this effect if it
# exceeded 3e-6.
_AMPLE = 4.0
# If rounding the inputs changes outputs by more than this, any difference is allowed.
_CHAOS = 1e-2
# The tolerance for tensors of networks that compute in bfloat16.
_BFLOAT16 = 0.2
# A tolerance that allows any finite difference. A difference is infinite if shapes
# differ, or if NaN or infinities are at different positions.
_ANYTHING = 1e30
# The effect of rounding is assumed to be at least this many times the rounding error of
# the largest value. Adding numbers in another order, as in the mean of a large image,
# may cause a few such errors. More of them occur if values are large and depend little
# on the input. For example, MobileNetV3Small differed by 165 rounding errors, because
# it divided pixels by 255 although they were between 0 and 1 already.
_ROUNDINGS = 64

# Maps each output's name to the spreads of its float components.
Spreads = Mapping[str, Sequence[float | None]]


def tolerance(frozen: FrozenSignature, device: str) -> float:
    """Returns the difference that rounding alone can always explain.

    The difference is relative to the spread of a tensor. If the network computes in
    half precision or TF32, the difference is relative to the tensor's largest value
    (see `judged_by_value`).
    """
    if frozen.precision.dtype == "bfloat16":
        return max(_BFLOAT16, frozen.precision.max_error)
    types = {
        tf.dtypes.as_dtype(node.attr["T"].type)
        for node in frozen.graph_def.node
        if node.op in function_library.CONVOLUTIONS
    }
    if tf.bfloat16 in types:
        return _BFLOAT16
    if tf.float16 in types:
        return 0.03
    if device == "gpu" and tf.config.experimental.tensor_float_32_execution_enabled():
        return 0.01
    return 2e-5


def judged_by_value(exact: float) -> bool:
    """Returns whether a tolerance is relative to a tensor's largest value.

    This applies to large tolerances. Others are relative to the tensor's spread.
    """
    return exact >= _CHAOS


def noise_of(near: np.ndarray, truth: np.ndarray, scale: float | None) -> float:
    """Returns how much rounding changes a tensor, relative to `scale`.

    Args:
      near: the tensor computed from rounded inputs.
      truth: the tensor computed from the exact inputs.
      scale: the tensor's spread; None for its largest value.
    """
    noise = relative_difference(near, truth, scale)
    if not scale or not np.isfinite(truth).any():
        return noise
    largest = float(np.abs(truth[np.isfinite(truth)]).max())
    eps = epsilon(truth.real.dtype)
    return max(noise, _ROUNDINGS * eps * largest / scale)


def allowed_difference(exact: float, noise: float) -> float:
    """Returns how much outputs may differ if rounding changes them by `noise`."""
    return _ANYTHING if noise > _CHAOS else max(exact, noise * _AMPLE)


def spreads(expected: Mapping[str, Any], others: Mapping[str, Any]) -> Spreads:
    """Returns how much each float output changes between two inputs (see `spread`)."""
    return {
        name: [
            spread(one, other)
            for one, other in _pairs(value, others[name])
            if _is_float(one)
        ]
        for name, value in expected.items()
    }


def constant_outputs(moved: Spreads) -> list[str]:
    """Returns the names of outputs that do not depend on the input."""
    return [
        name
        for name, changes in moved.items()
        if changes and not any(change is None or change > 0 for change in changes)
    ]


def compare_outputs(
    found: Mapping[str, Any], expected: Mapping[str, Any], moved: Spreads | None = None
) -> tuple[float | None, dict[str, str]]:
    """Compares outputs with the expected ones.

    Args:
      found: the outputs to check.
      expected: the original's outputs.
      moved: how much each component of an output changes with the input.

    Returns:
      The largest absolute difference of a float output divided by its spread, or by its
      largest absolute value where it has no spread. It is None if there is no float
      output. The second result has a sentence about each unequal output of another
      type, by the output's name.
    """
    worst, unequal = None, {}
    for name, value in expected.items():
        scales = iter((moved or {}).get(name, ()))
        for one, truth in _pairs(found[name], value):
            if _is_float(truth):
                scale = next(scales, None) or None
                worst = max(worst or 0.0, relative_difference(one, truth, scale))
            elif one.shape != truth.shape:
                unequal[name] = f"output {name!r} has a different shape"
            elif (one != truth).any():
                count = int((one != truth).sum())
                unequal[name] = (
                    f"{count} of {truth.size} values of output {name!r} differ"
                )
    return worst, unequal


def differ(
    difference: float | None, unequal: Mapping[str, str], allowed: float
) -> bool:
    """Returns whether outputs differ, from the result of `compare_outputs`.

    Float outputs differ if `difference` exceeds `allowed`. If there are no float
    outputs, outputs differ if `unequal` is not empty.
    """
    return bool(unequal) if difference is None else difference > allowed


def shapes(outputs: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Returns the shapes of the components of all outputs, by name."""
    return {
        name: [array.shape for array, _ in _pairs(value, value)]
        for name, value in outputs.items()
    }


def noise_of_outputs(
    near: Mapping[str, Any], expected: Mapping[str, Any], moved: Spreads
) -> float:
    """Returns the largest noise of all float outputs (see `noise_of`)."""
    worst = 0.0
    for name, value in expected.items():
        scales = iter(moved.get(name, ()))
        for one, truth in _pairs(near[name], value):
            if _is_float(truth):
                worst = max(worst, noise_of(one, truth, next(scales, None) or None))
    return worst


def undefined(outputs: Mapping[str, Any]) -> list[float]:
    """Returns the share of NaN in each float output, in descending order."""
    arrays = (array for value in outputs.values() for array, _ in _pairs(value, value))
    shares = [np.isnan(a).sum() / max(1, a.size) for a in arrays if _is_float(a)]
    return sorted(map(float, shares), reverse=True)


def _pairs(found: Any, expected: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields pairs of components of two outputs, without handles of resources."""
    for one, truth in zip(
        tf.nest.flatten(found, expand_composites=True),
        tf.nest.flatten(expected, expand_composites=True),
        strict=True,
    ):
        if timing.is_value(truth):
            yield np.asarray(one), np.asarray(truth)


def _is_float(array: np.ndarray) -> bool:
    if array.dtype == object:
        return False
    dtype = tf.dtypes.as_dtype(array.dtype)
    return dtype.is_floating or dtype.is_complex
