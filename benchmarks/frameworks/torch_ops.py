"""Runs blocks on PyTorch's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.frameworks.activations import function_named
from benchmarks.frameworks.ops import Sampling, Window, mirrored, resized

# The activations whose name or arguments differ from PyTorch's.
_ACTIVATIONS = {
    "swish": lambda x, a: functional.silu(x) if a == 1 else x * (a * x).sigmoid(),
    "hard_sigmoid": lambda x, a, b: torch.clamp(a * x + b, 0, 1),
    "hard_swish": functional.hardswish,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "maximum": lambda x, a: torch.clamp(x, min=a),
    "minimum": lambda x, a: torch.clamp(x, max=a),
    "threshold": lambda x, a: functional.threshold(x, a, 0.0),
}
# The kinds of resizing that PyTorch supports natively.
_RESIZES = {
    ("bilinear", "half_pixel"): {"mode": "bilinear", "align_corners": False},
    ("bilinear", "align_corners"): {"mode": "bilinear", "align_corners": True},
    ("nearest", "half_pixel"): {"mode": "nearest-exact"},
}


class TorchOps:
    """Ops on tensors [N,C,H,W] whose memory has the channels first or last."""

    def __init__(
        self,
        device: str = "cpu",
        dtype: str = "float32",
        channels_last: bool = False,
    ) -> None:
        self._device = torch.device(device)
        self._dtype = getattr(torch, dtype)
        self._format = torch.channels_last if channels_last else torch.contiguous_format

    def _on_device(self, array: np.ndarray, axes: Sequence[int] | None) -> Any:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        tensor = tensor.to(self._device, self._dtype)
        if axes is None:
            return tensor
        return tensor.permute(*axes).contiguous(memory_format=self._format)

    def tensor(self, array: np.ndarray) -> Any:
        return self._on_device(array, (0, 3, 1, 2) if array.ndim == 4 else None)

    def array(self, tensor: Any) -> np.ndarray:
        if tensor.ndim == 4:
            tensor = tensor.permute(0, 2, 3, 1)
        if tensor.dtype is not torch.float64:
            tensor = tensor.float()
        return tensor.cpu().numpy()

    def weight(self, array: np.ndarray) -> Any:
        return self._on_device(array, (3, 2, 0, 1) if array.ndim == 4 else None)

    def convolve(
        self, x: Any, filters: Any, bias: Any, window: Window, groups: int
    ) -> Any:
        padding = (0, 0)
        if window.symmetric:
            padding = (window.padding[0], window.padding[2])
        else:
            x = self.pad(x, window.padding)
        return functional.conv2d(
            x, filters, bias, window.strides, padding, window.dilations, groups
        )

    def pool(self, x: Any, kind: str, window: Window) -> Any:
        padding = (window.padding[0], window.padding[2])
        # PyTorch supports padding of at most half a window.
        native = window.symmetric and all(
            2 * cells <= kernel
            for cells, kernel in zip(padding, window.kernel, strict=True)
        )
        if kind == "max":
            if native:
                return functional.max_pool2d(x, window.kernel, window.strides, padding)
            x = self.pad(x, window.padding, float("-inf"))
            return functional.max_pool2d(x, window.kernel, window.strides)
        if native:
            return functional.avg_pool2d(
                x, window.kernel, window.strides, padding, count_include_pad=False
            )
        x = self.pad(x, window.padding)
        sums = functional.avg_pool2d(
            x, window.kernel, window.strides, divisor_override=1
        )
        cells = torch.from_numpy(window.cells()).to(self._device, self._dtype)
        return sums / cells

    def global_pool(self, x: Any, kind: str, keep: bool) -> Any:
        if kind == "max":
            return torch.amax(x, (2, 3), keepdim=keep)
        if kind == "sum":
            return torch.sum(x, (2, 3), keepdim=keep)
        return torch.mean(x, (2, 3), keepdim=keep)

    def pad(self, x: Any, padding: Sequence[int], value: float = 0.0) -> Any:
        top, bottom, left, right = padding
        return functional.pad(x, (left, right, top, bottom), value=value)

    def pad_with(self, x: Any, padding: Sequence[int], mode: str, value: float) -> Any:
        top, bottom, left, right, before, after = padding
        if mode == "constant":
            around = (left, right, top, bottom, before, after)
            return functional.pad(x, around, value=value)
        for axis, (first, last) in ((2, (top, bottom)), (3, (left, right))):
            cells = mirrored(x.shape[axis], first, last, mode)
            x = x.index_select(axis, torch.from_numpy(cells).to(self._device))
        return x

    def concat(self, xs: Sequence[Any]) -> Any:
        return torch.cat(list(xs), 1)

    def slice(self, x: Any, offset: int, size: int) -> Any:
        return torch.narrow(x, 1, offset, size)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        return x * y

    def scale(self, x: Any, scale: Any, shift: Any, rank: int) -> Any:
        shape = (-1, *[1] * (rank - 2))
        return x * scale.reshape(shape) + shift.reshape(shape)

    def matmul(self, x: Any, matrix: Any, bias: Any) -> Any:
        return functional.linear(x, matrix.t(), bias)

    def matmul_maps(self, x: Any, filters: Any, bias: Any) -> Any:
        return functional.linear(x.flatten(1), filters.flatten(1), bias)

    def convolve_transposed(
        self, x: Any, filters: Any, bias: Any, window: Window
    ) -> Any:
        # PyTorch supports only symmetric padding, so the output is cropped instead.
        y = functional.conv_transpose2d(
            x, filters.transpose(0, 1), bias, window.strides, dilation=window.dilations
        )
        top, bottom, left, right = window.padding
        if bias is not None and min(bottom, right) < 0:
            y = y - bias.reshape(-1, 1, 1)
            y = self.pad(y, (-top, -bottom, -left, -right))
            return y + bias.reshape(-1, 1, 1)
        return self.pad(y, (-top, -bottom, -left, -right))

    def depth_to_space(self, x: Any, size: int) -> Any:
        n, c, h, w = x.shape
        x = x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // size**2, h * size, w * size)

    def space_to_depth(self, x: Any, size: int) -> Any:
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // size, size, w // size, size).permute(0, 3, 5, 1, 2, 4)
        return x.reshape(n, c * size**2, h // size, w // size)

    def lrn(self, x: Any, radius: int, bias: float, alpha: float, beta: float) -> Any:
        size = 2 * radius + 1
        return functional.local_response_norm(x, size, alpha * size, beta, bias)

    def resize(self, x: Any, sampling: Sampling) -> Any:
        mode = _RESIZES.get((sampling.interpolation, sampling.coordinates))
        if mode is not None:
            return functional.interpolate(x, sampling.output, **mode)

        def take(y: Any, cells: np.ndarray, axis: int) -> Any:
            return y.index_select(axis, torch.from_numpy(cells).to(self._device))

        return resized(x, sampling, take, lambda part: self._on_device(part, None), 2)

    def softmax(self, x: Any) -> Any:
        return functional.softmax(x, -1)

    def activate(self, name: str, x: Any, *parameters: float) -> Any:
        return function_named(name, _ACTIVATIONS, functional, torch)(x, *parameters)
