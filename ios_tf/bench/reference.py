"""Blocks computed by PyTorch: the independent reference of the engine's operators.

Works on the blocks' JSON (cc/core/block.h); PyTorch is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def run(
    block: Mapping[str, Any],
    weights: Sequence[Sequence[np.ndarray]],
    inputs: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """The outputs of a block, computed in float64.

    Args:
      block: the block's JSON object.
      weights: of each operator, in TensorFlow's layouts (WeightShapes).
      inputs: the block's inputs, [N,H,W,C] or [N,C].
    """
    import torch

    def tensor(array: np.ndarray) -> Any:
        return torch.from_numpy(np.asarray(array, np.float64))

    given = [tensor(x) for x in inputs]
    results: list[Any] = []
    for operator, arrays in zip(block["operators"], weights, strict=True):
        read = [
            results[ref] if ref >= 0 else given[-1 - ref] for ref in operator["inputs"]
        ]
        compute = _OPERATORS[operator["type"]]
        results.append(compute(operator, read, [tensor(w) for w in arrays]))
    return [results[i].numpy() for i in block["outputs"]]


def _activate(name: str, x: Any) -> Any:
    from torch.nn import functional

    return {
        "none": lambda: x,
        "relu": lambda: functional.relu(x),
        "relu6": lambda: functional.relu6(x),
        "sigmoid": lambda: x.sigmoid(),
        "tanh": lambda: x.tanh(),
        "swish": lambda: functional.silu(x),
        "hard_sigmoid": lambda: functional.hardsigmoid(x),
        "hard_swish": lambda: functional.hardswish(x),
        "elu": lambda: functional.elu(x),
    }[name]()


def _activated(operator: Mapping[str, Any], x: Any) -> Any:
    return _activate(operator.get("activation", "none"), x)


def _padded(operator: Mapping[str, Any], x: Any, value: float = 0.0) -> Any:
    """`x`, [N,C,H,W], with the cells around it that SAME or explicit padding adds."""
    from torch.nn import functional

    padding = operator.get("padding", "VALID")
    if padding == "VALID":
        return x
    if padding == "SAME":
        around = []
        for size, kernel, stride, dilation in zip(
            x.shape[2:],
            operator.get("kernel", [1, 1]),
            operator.get("strides", [1, 1]),
            operator.get("dilations", [1, 1]),
            strict=True,
        ):
            window = (kernel - 1) * dilation + 1
            total = max((-(-size // stride) - 1) * stride + window - size, 0)
            around.append((total // 2, total - total // 2))
        (top, bottom), (left, right) = around
    else:
        top, bottom, left, right = padding
    return functional.pad(x, (left, right, top, bottom), value=value)


def _channels_first(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def _channels_last(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def _convolve(
    operator: Mapping[str, Any], x: Any, filters: Any, groups: int, strides: Any
) -> Any:
    from torch.nn import functional

    return functional.conv2d(
        x,
        filters.permute(3, 2, 0, 1),
        stride=tuple(strides),
        dilation=tuple(operator.get("dilations", [1, 1])),
        groups=groups,
    )


def _conv2d(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    y = _convolve(
        operator,
        _padded(operator, _channels_first(read[0])),
        weights[0],
        operator.get("groups", 1),
        operator.get("strides", [1, 1]),
    )
    return _finished(operator, _channels_last(y), read, weights[1:])


def _sepconv(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    x = _channels_first(_activate(operator.get("pre_activation", "none"), read[0]))
    y = _convolve(
        operator,
        _padded(operator, x),
        weights[0],
        x.shape[1],
        operator.get("strides", [1, 1]),
    )
    y = _convolve({}, y, weights[1], 1, (1, 1))
    return _finished(operator, _channels_last(y), read, weights[2:])


def _matmul(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    return _finished(operator, read[0] @ weights[0], read, weights[1:])


def _finished(
    operator: Mapping[str, Any], y: Any, read: Sequence[Any], bias: Sequence[Any]
) -> Any:
    """`y` with bias, residual and activation."""
    if bias:
        y = y + bias[0]
    if operator.get("residual"):
        y = y + read[-1]
    return _activated(operator, y)


def _pool(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    from torch.nn import functional

    x = _channels_first(read[0])
    size = {
        "kernel_size": tuple(operator.get("kernel", [1, 1])),
        "stride": tuple(operator.get("strides", [1, 1])),
    }
    if operator.get("pool", "max") == "max":
        lowest = float("-inf")
        y = functional.max_pool2d(_padded(operator, x, lowest), **size)
    else:
        # Sums over sums: padded cells do not count.
        cells = functional.avg_pool2d(_padded(operator, x.new_ones(x.shape)), **size)
        y = functional.avg_pool2d(_padded(operator, x), **size) / cells
    return _channels_last(y)


def _global_pool(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    keep = operator.get("keep_dims", False)
    if operator.get("pool", "max") == "max":
        return read[0].amax((1, 2), keepdim=keep)
    return read[0].mean((1, 2), keepdim=keep)


def _concat(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    import torch

    return torch.cat(read, -1)


def _multiply(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    return _activated(operator, read[0] * read[1])


def _pad(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    return _channels_last(_padded(operator, _channels_first(read[0])))


def _scale(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    return _activated(operator, read[0] * weights[0] + weights[1])


def _slice(operator: Mapping[str, Any], read: list, weights: list) -> Any:
    offset = operator.get("offset", 0)
    return read[0][..., offset : offset + operator["size"]]


_OPERATORS: Mapping[str, Callable[[Mapping[str, Any], list, list], Any]] = {
    "conv2d": _conv2d,
    "sepconv": _sepconv,
    "matmul": _matmul,
    "pool": _pool,
    "global_pool": _global_pool,
    "concat": _concat,
    "add": lambda operator, read, weights: _activated(operator, sum(read)),
    "multiply": _multiply,
    "softmax": lambda operator, read, weights: read[0].softmax(-1),
    "pad": _pad,
    "activation": lambda operator, read, weights: _activated(operator, read[0]),
    "scale": _scale,
    "slice": _slice,
}
