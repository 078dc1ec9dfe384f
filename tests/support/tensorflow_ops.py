"""TensorFlow's operators for `interpreter`: an independent result for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.frameworks.activations import function_named
from benchmarks.frameworks.ops import Sampling, Window

# The activations whose name or arguments differ from TensorFlow's.
_ACTIVATIONS = {
    "swish": lambda x, a: x * tf.sigmoid(a * x),
    "hard_sigmoid": lambda x, a, b: tf.clip_by_value(a * x + b, 0, 1),
    "hard_swish": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "elu": lambda x, a: tf.where(x > 0, x, a * tf.nn.elu(x)),
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "clip": tf.clip_by_value,
    "threshold": lambda x, a: tf.where(x > a, x, tf.zeros_like(x)),
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
        """Returns the array, because only arrays become constants when traced."""
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
        reduce = {"max": tf.reduce_max, "avg": tf.reduce_mean, "sum": tf.reduce_sum}
        return reduce[kind](x, (1, 2), keepdims=keep)

    def pad(self, x: Any, padding: Sequence[int]) -> Any:
        before, after = padding[::2], padding[1::2]
        ends = [size + min(p, 0) for size, p in zip(x.shape[1:3], after, strict=True)]
        starts = [max(-p, 0) for p in before]
        x = x[:, starts[0] : ends[0], starts[1] : ends[1], :]
        around = [[max(p, 0), max(q, 0)] for p, q in zip(before, after, strict=True)]
        return tf.pad(x, [[0, 0], *around, [0, 0]])

    def pad_with(self, x: Any, padding: Sequence[int], mode: str, value: float) -> Any:
        pairs = [padding[k : k + 2] for k in (0, 2, 4)]
        return tf.pad(x, [(0, 0), *pairs], mode.upper(), tf.cast(value, x.dtype))

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

    def matmul_maps(self, x: Any, filters: Any, bias: Any) -> Any:
        matrix = tf.reshape(filters, [-1, filters.shape[-1]])
        return self.matmul(tf.reshape(x, [-1, matrix.shape[0]]), matrix, bias)

    def convolve_transposed(
        self, x: Any, filters: Any, bias: Any, window: Window
    ) -> Any:
        top, bottom, left, right = window.padding
        # TensorFlow's op does not accept negative padding. It does accept a larger
        # output, and sets the cells that no window reaches to zero.
        y = tf.raw_ops.Conv2DBackpropInput(
            input_sizes=[tf.shape(x)[0], *window.output, filters.shape[3]],
            filter=np.swapaxes(filters, 2, 3),
            out_backprop=x,
            strides=[1, *window.strides, 1],
            padding="EXPLICIT",
            explicit_paddings=[0, 0, top, max(bottom, 0), left, max(right, 0), 0, 0],
        )
        return y if bias is None else tf.nn.bias_add(y, bias)

    def depth_to_space(self, x: Any, size: int) -> Any:
        return tf.nn.depth_to_space(x, size)

    def space_to_depth(self, x: Any, size: int) -> Any:
        return tf.nn.space_to_depth(x, size)

    def lrn(self, x: Any, radius: int, bias: float, alpha: float, beta: float) -> Any:
        return tf.nn.lrn(x, radius, bias, alpha, beta)

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

    def activate(self, name: str, x: Any, *parameters: float) -> Any:
        return function_named(name, _ACTIVATIONS, tf.math, tf.nn)(x, *parameters)


def _padding(window: Window) -> Any:
    if window.name != "EXPLICIT":
        return window.name
    top, bottom, left, right = window.padding
    return [[0, 0], [top, bottom], [left, right], [0, 0]]
