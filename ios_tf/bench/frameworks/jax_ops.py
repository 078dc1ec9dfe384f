"""Blocks on JAX's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ios_tf.bench.frameworks.interpreter import Sampling, Window, resized

_ACTIVATIONS = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "swish": jax.nn.silu,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_swish": jax.nn.hard_swish,
    "elu": jax.nn.elu,
}


class JaxOps:
    """Ops on arrays [N,H,W,C] of JAX's default device."""

    def __init__(self, dtype: str = "float32") -> None:
        self._dtype = jnp.dtype(dtype)

    def tensor(self, array: np.ndarray) -> Any:
        return jnp.asarray(array, self._dtype)

    def array(self, tensor: Any) -> np.ndarray:
        return np.asarray(tensor, np.float32)

    def weight(self, array: np.ndarray) -> Any:
        return self.tensor(array)

    def convolve(
        self, x: Any, filters: Any, bias: Any, window: Window, groups: int
    ) -> Any:
        top, bottom, left, right = window.padding
        y = lax.conv_general_dilated(
            x,
            filters,
            window.strides,
            [(top, bottom), (left, right)],
            rhs_dilation=window.dilations,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=groups,
        )
        return y if bias is None else y + bias

    def pool(self, x: Any, kind: str, window: Window) -> Any:
        top, bottom, left, right = window.padding
        over = (
            (1, *window.kernel, 1),
            (1, *window.strides, 1),
            ((0, 0), (top, bottom), (left, right), (0, 0)),
        )
        if kind == "max":
            return lax.reduce_window(x, -jnp.inf, lax.max, *over)
        sums = lax.reduce_window(x, 0.0, lax.add, *over)
        return sums / self.tensor(window.cells()[:, :, None])

    def global_pool(self, x: Any, kind: str, keep: bool) -> Any:
        reduce = jnp.max if kind == "max" else jnp.mean
        return reduce(x, axis=(1, 2), keepdims=keep)

    def pad(self, x: Any, padding: Sequence[int]) -> Any:
        top, bottom, left, right = padding
        around = ((0, 0, 0), (top, bottom, 0), (left, right, 0), (0, 0, 0))
        return lax.pad(x, jnp.zeros((), x.dtype), around)

    def concat(self, xs: Sequence[Any]) -> Any:
        return jnp.concatenate(list(xs), -1)

    def slice(self, x: Any, offset: int, size: int) -> Any:
        return x[..., offset : offset + size]

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def scale(self, x: Any, scale: Any, shift: Any, rank: int) -> Any:
        return x * scale + shift

    def matmul(self, x: Any, matrix: Any, bias: Any) -> Any:
        y = x @ matrix
        return y if bias is None else y + bias

    def resize(self, x: Any, sampling: Sampling) -> Any:
        return resized(x, sampling, jnp.take, self.tensor, 1)

    def softmax(self, x: Any) -> Any:
        return jax.nn.softmax(x, -1)

    def activate(self, name: str, x: Any) -> Any:
        return _ACTIVATIONS[name](x)
