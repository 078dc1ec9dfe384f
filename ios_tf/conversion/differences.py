"""How far outputs are from those expected, and how far rounding may take them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf.conversion import timing
from ios_tf.differences import relative_difference
from ios_tf.model import function_library
from ios_tf.model.frozen_graphs import FrozenSignature

# How many times what rounded inputs change two computations may differ, and where
# rounding alone decides (relative).
_AMPLE = 2.0
_CHAOS = 1e-2
# More than any difference but one of shapes, or of what is a number and what is not.
_ANYTHING = 1e30


def tolerance(frozen: FrozenSignature, device: str) -> float:
    """The relative difference that rounding may make of a network's outputs."""
    types = {
        tf.dtypes.as_dtype(node.attr["T"].type)
        for node in frozen.graph_def.node
        if node.op in function_library.CONVOLUTIONS
    }
    if tf.bfloat16 in types:
        return 0.2
    if tf.float16 in types:
        return 0.03
    if device == "gpu" and tf.config.experimental.tensor_float_32_execution_enabled():
        return 0.01
    return 1e-3


def allowed_difference(exact: float, noise: float) -> float:
    """The difference allowed of outputs that rounding the inputs changes by `noise`."""
    return _ANYTHING if noise > _CHAOS else max(exact, noise * _AMPLE)


def compare_outputs(
    found: Mapping[str, Any], expected: Mapping[str, Any]
) -> tuple[float | None, dict[str, str]]:
    """How far outputs are from those expected.

    Returns:
      The largest absolute difference of a float output over its largest absolute value,
      None if there is no float output; and for every output of another type that is not
      equal what to say about it.
    """
    worst, unequal = None, {}
    for name, value in expected.items():
        for one, truth in _pairs(found[name], value):
            if _is_float(truth):
                worst = max(worst or 0.0, relative_difference(one, truth))
            elif one.shape != truth.shape:
                unequal[name] = f"output {name!r} has another shape"
            elif (one != truth).any():
                count = int((one != truth).sum())
                unequal[name] = (
                    f"{count} of {truth.size} values of output {name!r} differ"
                )
    return worst, unequal


def undefined(outputs: Mapping[str, Any]) -> list[float]:
    """The shares of NaN in float outputs, the largest first."""
    arrays = (array for value in outputs.values() for array, _ in _pairs(value, value))
    shares = [np.isnan(a).sum() / max(1, a.size) for a in arrays if _is_float(a)]
    return sorted(map(float, shares), reverse=True)


def _pairs(found: Any, expected: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The components of an output, but for handles of variables and the like."""
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
