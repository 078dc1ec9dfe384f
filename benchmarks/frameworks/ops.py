"""Windows and resizing, as the operators of all frameworks get them."""

from __future__ import annotations

import dataclasses
from typing import Any

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
      coordinates: "asymmetric", "half_pixel" or "align_corners"; see
        cc/core/ops/attribute_values.h.
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
