"""Blocks on JAX's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.frameworks.ops import Sampling, Window, resized

_ACTIVATIONS = {
    "relu": lambda x, a, b: jax.nn.relu(x),
    "relu6": lambda x, a, b: jax.nn.relu6(x),
    "sigmoid": lambda x, a, b: jax.nn.sigmoid(x),
    "tanh": lambda x, a, b: jnp.tanh(x),
    "swish": lambda x, a, b: x * jax.nn.sigmoid(a * x),
    "hard_sigmoid": lambda x, a, b: jnp.clip(a * x + b, 0, 1),
    "hard_swish": lambda x, a, b: jax.nn.hard_swish(x),
    "elu": lambda x, a, b: jax.nn.elu(x, a),
    "leaky_relu": lambda x, a, b: jax.nn.leaky_relu(x, a),
    "selu": lambda x, a, b: jax.nn.selu(x),
    "softplus": lambda x, a, b: jax.nn.softplus(x),
    "softsign": lambda x, a, b: jax.nn.soft_sign(x),
    "gelu": lambda x, a, b: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x, a, b: jax.nn.gelu(x),
    "mish": lambda x, a, b: x * jnp.tanh(jax.nn.softplus(x)),
    "maximum": lambda x, a, b: jnp.maximum(x, a),
    "minimum": lambda x, a, b: jnp.minimum(x, a),
    "clip": lambda x, a, b: jnp.clip(x, a, b),
    "threshold": lambda x, a, b: jnp.where(x > a, x, 0),
    "exp": lambda x, a, b: jnp.exp(x),
    "expm1": lambda x, a, b: jnp.expm1(x),
    "log": lambda x, a, b: jnp.log(x),
    "log1p": lambda x, a, b: jnp.log1p(x),
    "sqrt": lambda x, a, b: jnp.sqrt(x),
    "rsqrt": lambda x, a, b: jax.lax.rsqrt(x),
    "square": lambda x, a, b: jnp.square(x),
    "pow": lambda x, a, b: jnp.power(x, a),
    "abs": lambda x, a, b: jnp.abs(x),
    "erf": lambda x, a, b: jax.lax.erf(x),
    "erfc": lambda x, a, b: jax.lax.erfc(x),
    "sin": lambda x, a, b: jax.lax.sin(x),
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
        reduce = {"max": jnp.max, "avg": jnp.mean, "sum": jnp.sum}
        return reduce[kind](x, axis=(1, 2), keepdims=keep)

    def pad(self, x: Any, padding: Sequence[int]) -> Any:
        top, bottom, left, right = padding
        around = ((0, 0, 0), (top, bottom, 0), (left, right, 0), (0, 0, 0))
        return lax.pad(x, jnp.zeros((), x.dtype), around)

    def pad_with(self, x: Any, padding: Sequence[int], mode: str, value: float) -> Any:
        pairs = [(0, 0), *(tuple(padding[k : k + 2]) for k in (0, 2, 4))]
        if mode == "constant":
            return jnp.pad(x, pairs, constant_values=value)
        return jnp.pad(x, pairs, mode)

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

    def matmul_maps(self, x: Any, filters: Any, bias: Any) -> Any:
        rows, matrix = x.reshape(len(x), -1), filters.reshape(-1, filters.shape[-1])
        return self.matmul(rows, matrix, bias)

    def convolve_transposed(
        self, x: Any, filters: Any, bias: Any, window: Window
    ) -> Any:
        top, bottom, left, right = window.padding
        reach = [
            (k - 1) * d for k, d in zip(window.kernel, window.dilations, strict=True)
        ]
        y = lax.conv_general_dilated(
            x,
            filters[::-1, ::-1],
            (1, 1),
            [
                (reach[0] - top, reach[0] - bottom),
                (reach[1] - left, reach[1] - right),
            ],
            lhs_dilation=window.strides,
            rhs_dilation=window.dilations,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return y if bias is None else y + bias

    def depth_to_space(self, x: Any, size: int) -> Any:
        n, h, w, c = x.shape
        x = x.reshape(n, h, w, size, size, c // size**2).transpose(0, 1, 3, 2, 4, 5)
        return x.reshape(n, h * size, w * size, c // size**2)

    def space_to_depth(self, x: Any, size: int) -> Any:
        n, h, w, c = x.shape
        x = x.reshape(n, h // size, size, w // size, size, c)
        x = x.transpose(0, 1, 3, 2, 4, 5)
        return x.reshape(n, h // size, w // size, c * size**2)

    def normalize(
        self, x: Any, radius: int, bias: float, alpha: float, beta: float
    ) -> Any:
        window = (1, 1, 1, 2 * radius + 1)
        sums = lax.reduce_window(x * x, 0.0, lax.add, window, (1, 1, 1, 1), "SAME")
        return x / (bias + alpha * sums) ** beta

    def resize(self, x: Any, sampling: Sampling) -> Any:
        return resized(x, sampling, jnp.take, self.tensor, 1)

    def softmax(self, x: Any) -> Any:
        return jax.nn.softmax(x, -1)

    def activate(self, name: str, x: Any, alpha: float, beta: float) -> Any:
        return _ACTIVATIONS[name](x, alpha, beta)
