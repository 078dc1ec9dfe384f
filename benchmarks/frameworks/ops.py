"""The operators that a framework must have to run blocks.

For each framework, one module `*_ops` in this package implements `Ops`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


@dataclasses.dataclass(frozen=True)
class Window:
    """A window that slides over an image.

    Attributes:
      kernel, strides, dilations: [height, width].
      padding: cells around the image: top, bottom, left, right.
      name: "SAME" or "VALID", as in TensorFlow, or "EXPLICIT".
      image, output: [height, width] of the input and of the output.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    name: str = "VALID"
    image: tuple[int, int] = (1, 1)
    output: tuple[int, int] = (1, 1)

    @property
    def symmetric(self) -> bool:
        """True if the padding before the image equals the padding after it."""
        top, bottom, left, right = self.padding
        return top == bottom and left == right

    def cells(self) -> np.ndarray:
        """Returns the number of image cells in each window, float32 [height, width]."""
        axes = []
        before = (self.padding[0], self.padding[2])
        for axis in (0, 1):
            start = np.arange(self.output[axis]) * self.strides[axis] - before[axis]
            reach = np.arange(self.kernel[axis]) * self.dilations[axis]
            at = start[:, None] + reach
            axes.append(((at >= 0) & (at < self.image[axis])).sum(1))
        return np.outer(*axes).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """The parameters of resizing an image.

    Attributes:
      interpolation: "nearest" or "bilinear".
      coordinates: "asymmetric", "half_pixel" or "align_corners" (cc/core/ir/block.h).
      image, output: [height, width] of the input and of the output.
    """

    interpolation: str
    coordinates: str
    image: tuple[int, int]
    output: tuple[int, int]

    def cells(self, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the lower and upper input cells, and the upper cells' weights.

        Each has one element per row or column of the output. The arithmetic is
        TensorFlow's, in float32.
        """
        size, count = self.image[axis], self.output[axis]
        scale = np.float32(size) / np.float32(count)
        if self.coordinates == "align_corners" and count > 1:
            scale = np.float32(size - 1) / np.float32(count - 1)
        half = np.float32(0.5 if self.coordinates == "half_pixel" else 0)
        at = (np.arange(count, dtype=np.float32) + half) * scale
        if self.interpolation == "nearest":
            round_up = np.float32(0.5 if self.coordinates == "align_corners" else 0)
            nearest = np.minimum(np.floor(at + round_up).astype(int), size - 1)
            return nearest, nearest, np.zeros(count, np.float32)
        at -= half
        lower, upper = np.floor(at), np.ceil(at)
        return (
            np.maximum(lower, 0).astype(int),
            np.minimum(upper, size - 1).astype(int),
            at - lower,
        )


def resized(x: Any, sampling: Sampling, take: Any, weight: Any, axis: int) -> Any:
    """Resizes `x` by indexing.

    Args:
      x: a tensor.
      sampling: the parameters of resizing.
      take: returns cells of a tensor along an axis.
      weight: makes a tensor from an array.
      axis: the axis of the height; the axis of the width is the next.
    """
    for i in (0, 1):
        lower, upper, part = sampling.cells(i)
        low, high = take(x, lower, axis + i), take(x, upper, axis + i)
        shape = [1] * 4
        shape[axis + i] = -1
        x = low + (high - low) * weight(part.reshape(shape))
    return x


def mirrored(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """Returns cell indices of a row of `size` padded by "reflect" or "symmetric"."""
    return np.pad(np.arange(size), (before, after), mode)


class Ops(Protocol):
    """The operators of a framework, on tensors of that framework.

    Images have the framework's preferred layout, with channels first or last. Arrays
    have channels last; `tensor` and `array` convert.
    """

    def tensor(self, array: np.ndarray) -> Any:
        """Returns an array [N,H,W,C] or [N,C] as a tensor on the device."""

    def array(self, tensor: Any) -> np.ndarray:
        """Converts a tensor to an array, float32 or float64."""

    def weight(self, array: np.ndarray) -> Any:
        """Converts filters [kh,kw,C/groups,F], a matrix [I,units] or a vector [C]."""

    def convolve(
        self, x: Any, filters: Any, bias: Any, window: Window, groups: int
    ) -> Any:
        """Convolves; `bias` may be None."""

    def pool(self, x: Any, kind: str, window: Window) -> Any:
        """Pools by `kind`, "max" or "avg"; padding cells never count."""

    def global_pool(self, x: Any, kind: str, keep: bool) -> Any:
        """Reduces height and width by `kind`: "max", "avg" or "sum".

        Keeps the dimensions as 1 if `keep`, and drops them otherwise.
        """

    def pad(self, x: Any, padding: Sequence[int]) -> Any:
        """Adds zeros at top, bottom, left and right; negative numbers crop."""

    def pad_with(self, x: Any, padding: Sequence[int], mode: str, value: float) -> Any:
        """Adds cells at top, bottom, left, right, and before and after the channels.

        `mode` is "constant", "reflect" or "symmetric".
        """

    def concat(self, xs: Sequence[Any]) -> Any:
        """Concatenates along channels."""

    def slice(self, x: Any, offset: int, size: int) -> Any:
        """Returns `size` channels from `offset`."""

    def add(self, x: Any, y: Any) -> Any:
        """Returns the sum."""

    def multiply(self, x: Any, y: Any) -> Any:
        """Returns the elementwise product; `y` may be [N,1,1,C]."""

    def scale(self, x: Any, scale: Any, shift: Any, rank: int) -> Any:
        """Scales and shifts by channel; `rank` is the rank of `x`."""

    def matmul(self, x: Any, matrix: Any, bias: Any) -> Any:
        """Multiplies [N,I] by [I,units]; `bias` may be None."""

    def matmul_maps(self, x: Any, filters: Any, bias: Any) -> Any:
        """Multiplies flattened maps by flattened filters of their size: [N,units]."""

    def convolve_transposed(
        self, x: Any, filters: Any, bias: Any, window: Window
    ) -> Any:
        """Computes a transposed convolution from `window.image` to `window.output`.

        `filters` are [kh,kw,C,F]. `window.padding` is cut off the result; negative
        padding adds zeros.
        """

    def depth_to_space(self, x: Any, size: int) -> Any:
        """Moves groups of channels into blocks of size x size cells."""

    def space_to_depth(self, x: Any, size: int) -> Any:
        """Moves blocks of size x size cells into channels."""

    def normalize(
        self, x: Any, radius: int, bias: float, alpha: float, beta: float
    ) -> Any:
        """x / (bias + alpha * sum of squares of 2 * radius + 1 channels) ** beta."""

    def resize(self, x: Any, sampling: Sampling) -> Any:
        """Resizes to another height and width."""

    def softmax(self, x: Any) -> Any:
        """Computes softmax over the last dimension of [N,C]."""

    def activate(self, name: str, x: Any, alpha: float, beta: float) -> Any:
        """Applies an activation of block.h other than "none"."""
