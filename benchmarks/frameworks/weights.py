"""Random weights for which the outputs of a deep block still reveal errors.

If the values grew or shrank from operator to operator, a softmax at the end would hide
all errors: it would return a single 1 among zeros, or the same number everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import gpu_data
from benchmarks.operator_samples import block_of
from ios_tf.native import engine

# The bias's share of an output's second moment. It is small because each convolution
# reduces the contribution of earlier operators by this share.
_BIAS = 0.01
# The attributes of the steps that follow an operator's products.
_LATER = ("residual", "activation", "alpha", "beta")


def random_weights(
    block: Mapping[str, Any], random: np.random.Generator
) -> list[list[np.ndarray]]:
    """Returns weights for which values keep their magnitude in blocks of any depth.

    The engine computes a single image, operator by operator. Each operator's weights
    are scaled so that its outputs, before residual and activation, have a mean square
    of 1.

    Args:
      block: the block's JSON object; its inputs are assumed to be uniform(-1, 1).
      random: the generator; equal states produce equal weights.

    Returns:
      The weights of each operator, float32, as for `engine.Program`.
    """
    weights = [
        [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
        for shapes in engine.problem(block)["weight_shapes"]
    ]
    numbers = np.random.default_rng(0)
    values = {
        -1 - i: numbers.uniform(-1, 1, (1, *shape[1:])).astype(np.float32)
        for i, shape in enumerate(block["inputs"])
    }
    operators = block["operators"]
    last_use = {ref: i for i, op in enumerate(operators) for ref in op["inputs"]}
    for index, operator in enumerate(operators):
        read = [values[ref] for ref in operator["inputs"]]
        values[index] = _scaled(operator, read, weights[index])
        for ref in set(operator["inputs"]):
            if last_use[ref] == index:  # a large network's values would fill memory
                del values[ref]
    return weights


def _scaled(
    operator: Mapping[str, Any], read: list[np.ndarray], weights: list[np.ndarray]
) -> np.ndarray:
    """Scales an operator's weights in place; returns its output."""
    if not weights:
        return _compute(operator, read, weights)
    has_bias = operator.get("bias", False) or operator["type"] == "scale"
    *_, factor, bias = weights if has_bias else [*weights, np.zeros(1, np.float32)]
    bias *= np.float32((3 * _BIAS) ** 0.5)  # uniform(-1, 1) has a mean square of 1/3
    without = [*weights[:-1], np.zeros_like(bias)] if has_bias else weights
    bare = {name: value for name, value in operator.items() if name not in _LATER}
    residual = [read[-1]] if operator.get("residual") else []
    y = _compute(bare, read[: len(read) - len(residual)], without)
    finite = y[np.isfinite(y)].astype(np.float64)
    mean_square = np.square(finite).mean() if finite.any() else 1.0
    scale = np.float32(((1 - _BIAS * has_bias) / mean_square) ** 0.5)
    factor *= scale
    y = y * scale + bias
    later = {name: operator[name] for name in _LATER[1:] if name in operator}
    if not residual and not later:
        return y
    kind = "add" if residual else "activation"
    return _compute({"type": kind, **later}, [y, *residual], [])


def _compute(
    operator: Mapping[str, Any], read: Sequence[np.ndarray], weights: list[np.ndarray]
) -> np.ndarray:
    """Runs one operator on the engine's CPU."""
    block = block_of(operator, [x.shape for x in read])
    return engine.Program(block, gpu_data.schedule(block), weights).run(read)[0]
