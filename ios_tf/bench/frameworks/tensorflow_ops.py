"""Blocks on TensorFlow's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf.bench.frameworks.interpreter import Sampling, Window

_ACTIVATIONS = {
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "swish": lambda x: x * tf.sigmoid(x),
    "hard_sigmoid": lambda x: tf.nn.relu6(x + 3) / 6,
    "hard_swish": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "elu": tf.nn.elu,
}


class TensorFlowOps:
    """Ops on tensors [N,H,W,C]."""

    def __init__(self, dtype: str = "float32") -> None:
        self._dtype = tf.as_dtype(dtype)

    def tensor(self, array: np.ndarray) -> Any:
        return tf.cast(tf.constant(array), self._dtype)

    def array(self, tensor: Any) -> np.ndarray:
        return tf.cast(tensor, tf.float32).numpy()

    def weight(self, array: np.ndarray) -> np.ndarray:
        """An array, for only those become constants of the function that is traced."""
        return array.astype(self._dtype.as_numpy_dtype)

    def convolve(
        self, x: Any, filters: Any, bias: Any, window: Window, groups: int
    ) -> Any:
        padding = _padding(window)
        channels = x.shape[3]
        if groups == channels > 1 and window.strides[0] == window.strides[1]:
            kh, kw, _, outputs = filters.shape
            y = tf.nn.depthwise_conv2d(
                x,
                tf.reshape(filters, (kh, kw, channels, outputs // channels)),
                (1, *window.strides, 1),
                padding,
                dilations=window.dilations,
            )
        else:
            y = tf.nn.conv2d(
                x, filters, window.strides, padding, dilations=window.dilations
            )
        return y if bias is None else tf.nn.bias_add(y, bias)

    def pool(self, x: Any, kind: str, window: Window) -> Any:
        if kind == "max":
            return tf.nn.max_pool2d(x, window.kernel, window.strides, _padding(window))
        if window.name != "EXPLICIT":
            return tf.nn.avg_pool2d(x, window.kernel, window.strides, window.name)
        x = self.pad(x, window.padding)
        means = tf.nn.avg_pool2d(x, window.kernel, window.strides, "VALID")
        share = window.cells()[:, :, None] / np.prod(window.kernel)
        return means / tf.cast(tf.constant(share), x.dtype)

    def global_pool(self, x: Any, kind: str, keep: bool) -> Any:
        reduce = tf.reduce_max if kind == "max" else tf.reduce_mean
        return reduce(x, (1, 2), keepdims=keep)

    def pad(self, x: Any, padding: Sequence[int]) -> Any:
        before, after = padding[::2], padding[1::2]
        ends = [size + min(p, 0) for size, p in zip(x.shape[1:3], after, strict=True)]
        starts = [max(-p, 0) for p in before]
        x = x[:, starts[0] : ends[0], starts[1] : ends[1], :]
        around = [[max(p, 0), max(q, 0)] for p, q in zip(before, after, strict=True)]
        return tf.pad(x, [[0, 0], *around, [0, 0]])

    def concat(self, xs: Sequence[Any]) -> Any:
        return tf.concat(xs, -1)

    def slice(self, x: Any, offset: int, size: int) -> Any:
        return x[..., offset : offset + size]

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def scale(self, x: Any, scale: Any, shift: Any, rank: int) -> Any:
        return x * scale + shift

    def matmul(self, x: Any, matrix: Any, bias: Any) -> Any:
        y = tf.matmul(x, matrix)
        return y if bias is None else tf.nn.bias_add(y, bias)

    def resize(self, x: Any, sampling: Sampling) -> Any:
        nearest = sampling.interpolation == "nearest"
        operator = "ResizeNearestNeighbor" if nearest else "ResizeBilinear"
        y = getattr(tf.raw_ops, operator)(
            images=x,
            size=sampling.output,
            align_corners=sampling.coordinates == "align_corners",
            half_pixel_centers=sampling.coordinates == "half_pixel",
        )
        return tf.cast(y, x.dtype)

    def softmax(self, x: Any) -> Any:
        return tf.nn.softmax(x)

    def activate(self, name: str, x: Any) -> Any:
        return _ACTIVATIONS[name](x)


def _padding(window: Window) -> Any:
    if window.name != "EXPLICIT":
        return window.name
    top, bottom, left, right = window.padding
    return [[0, 0], [top, bottom], [left, right], [0, 0]]
