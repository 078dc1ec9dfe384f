"""The operators that a framework must have to run blocks.

Each framework has one module here, `*_ops`, that implements `Ops`.
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
      name: "SAME" or "VALID", as TensorFlow means it, or "EXPLICIT".
      image, output: [height, width] of what is read and of what it gives.
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
        """Whether there are as many cells before the image as after it."""
        top, bottom, left, right = self.padding
        return top == bottom and left == right

    def cells(self) -> np.ndarray:
        """How many cells of the image each window covers, float32 [height, width]."""
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
    """How an image is resized.

    Attributes:
      interpolation: "nearest" or "bilinear".
      coordinates: "asymmetric", "half_pixel" or "align_corners" (cc/core/ir/block.h).
      image, output: [height, width] of what is read and of what it gives.
    """

    interpolation: str
    coordinates: str
    image: tuple[int, int]
    output: tuple[int, int]

    def cells(self, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gives the lower and upper cell of each row or column of the output, and the
        upper one's part.

        The arithmetic is TensorFlow's, in float32.
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
    """`x` resized by indexing.

    Args:
      x: a tensor.
      sampling: what to do.
      take: gives cells of a tensor along an axis.
      weight: makes a tensor of an array.
      axis: of the height; the width's is the next.
    """
    for i in (0, 1):
        lower, upper, part = sampling.cells(i)
        low, high = take(x, lower, axis + i), take(x, upper, axis + i)
        shape = [1] * 4
        shape[axis + i] = -1
        x = low + (high - low) * weight(part.reshape(shape))
    return x


def mirrored(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """The cells of a row of `size` that is "reflect"ed or made "symmetric"."""
    return np.pad(np.arange(size), (before, after), mode)


class Ops(Protocol):
    """The operators of a framework, on tensors of that framework.

    Images are in the layout it likes best, channels first or last; it makes its tensors
    from arrays with channels last, and arrays of them.
    """

    def tensor(self, array: np.ndarray) -> Any:
        """[N,H,W,C] or [N,C] as a tensor of the device."""

    def array(self, tensor: Any) -> np.ndarray:
        """The way back, float32 or float64."""

    def weight(self, array: np.ndarray) -> Any:
        """Filters [kh,kw,C/groups,F], a matrix [I,units] or a vector [C]."""

    def convolve(
        self, x: Any, filters: Any, bias: Any, window: Window, groups: int
    ) -> Any:
        """Convolution; `bias` may be None."""

    def pool(self, x: Any, kind: str, window: Window) -> Any:
        """`kind` is "max" or "avg"; cells around the image never count."""

    def global_pool(self, x: Any, kind: str, keep: bool) -> Any:
        """Over height and width, which are kept as 1 or dropped; or the "sum"."""

    def pad(self, x: Any, padding: Sequence[int]) -> Any:
        """Zeros at top, bottom, left and right; negative numbers crop."""

    def pad_with(self, x: Any, padding: Sequence[int], mode: str, value: float) -> Any:
        """Cells at top, bottom, left, right, and before and after the channels.

        `mode` is "constant", "reflect" or "symmetric".
        """

    def concat(self, xs: Sequence[Any]) -> Any:
        """Along channels."""

    def slice(self, x: Any, offset: int, size: int) -> Any:
        """Some channels."""

    def add(self, x: Any, y: Any) -> Any:
        """The sum."""

    def multiply(self, x: Any, y: Any) -> Any:
        """The product; `y` may be [N,1,1,C]."""

    def scale(self, x: Any, scale: Any, shift: Any, rank: int) -> Any:
        """By channel; `rank` is x's."""

    def matmul(self, x: Any, matrix: Any, bias: Any) -> Any:
        """[N,I] by [I,units]; `bias` may be None."""

    def matmul_maps(self, x: Any, filters: Any, bias: Any) -> Any:
        """Flattened maps by flattened filters of their size: [N,units]."""

    def convolve_transposed(
        self, x: Any, filters: Any, bias: Any, window: Window
    ) -> Any:
        """The way back of a convolution from `window.output` to `window.image`.

        `filters` are [kh,kw,C,F]; `window.padding` is cut off, what is negative of it
        added as zeros.
        """

    def depth_to_space(self, x: Any, size: int) -> Any:
        """Groups of channels become blocks of size x size cells."""

    def space_to_depth(self, x: Any, size: int) -> Any:
        """The way back."""

    def normalize(
        self, x: Any, radius: int, bias: float, alpha: float, beta: float
    ) -> Any:
        """x / (bias + alpha * sum of squares of 2 * radius + 1 channels) ** beta."""

    def resize(self, x: Any, sampling: Sampling) -> Any:
        """To another height and width."""

    def softmax(self, x: Any) -> Any:
        """Over the last dimension of [N,C]."""

    def activate(self, name: str, x: Any, alpha: float, beta: float) -> Any:
        """One of block.h's activations other than "none"."""
