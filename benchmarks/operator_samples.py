"""Blocks of one operator, for every type, with shapes that match no block size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.frameworks.activations import ACTIVATIONS

# These activations are NaN for some of the negative inputs.
_OF_POSITIVE_NUMBERS = ("log", "log1p", "sqrt", "rsqrt")
_ACTIVATIONS = ("none", *(a for a in ACTIVATIONS if a not in _OF_POSITIVE_NUMBERS))


def block_of(
    operator: Mapping[str, Any], inputs: Sequence[Sequence[int]], dtype: str = "float32"
) -> dict[str, Any]:
    """Returns a block of one operator, which reads inputs of these shapes."""
    references = {"inputs": [-1 - i for i in range(len(inputs))]}
    first = {"type": operator["type"], **references}
    return {
        "version": 1,
        "dtype": dtype,
        "inputs": [list(shape) for shape in inputs],
        "operators": [{**first, **operator, **references}],
        "outputs": [0],
    }


def sample_blocks() -> list[dict[str, Any]]:
    """Returns blocks of one operator, for every type."""
    alone = [*_convolutions(), *_of_images()]
    return [
        *(block_of(operator, [_IMAGE]) for operator in alone),
        *(block_of(operator, inputs) for inputs, operator in _of_other_inputs()),
    ]


_IMAGE = [2, 13, 10, 12]
_CONVOLUTION = {"type": "conv2d", "filters": 24, "bias": True, "activation": "relu"}


def _convolution(kernel: list[int], **attributes: Any) -> dict[str, Any]:
    return {**_CONVOLUTION, "kernel": kernel, **attributes}


def _convolutions() -> list[dict[str, Any]]:
    separable = {"type": "sepconv", "filters": 20, "bias": True, "padding": "SAME"}
    separable["pre_activation"] = "relu"
    transposed = {"type": "conv2d_transpose", "filters": 7, "strides": [2, 2]}
    return [
        _convolution([1, 1]),
        _convolution([3, 3], padding="SAME"),
        _convolution([1, 7], padding="SAME"),
        _convolution([3, 3], padding="SAME", strides=[2, 2]),
        _convolution([3, 3], padding="SAME", dilations=[2, 2]),
        _convolution([3, 3], groups=4),
        _convolution([3, 3], padding=[0, 1, 2, 0]),
        *(_convolution([3, 3], activation=a) for a in _ACTIVATIONS),
        *(
            _convolution([k, k], groups=12, padding="SAME", strides=s)
            for k in (3, 5, 7)
            for s in ([1, 1], [2, 2])
        ),
        *({**separable, "kernel": [k, k]} for k in (3, 5, 7)),
        {**separable, "kernel": [5, 5], "strides": [2, 2], "multiplier": 2},
        {**transposed, "kernel": [3, 3], "padding": "SAME", "bias": True},
        {**transposed, "kernel": [2, 4], "activation": "relu"},
        {**transposed, "kernel": [3, 2], "padding": [1, -1, 0, -1], "bias": True},
    ]


def _of_images() -> list[dict[str, Any]]:
    """Returns other operators that read only one image."""
    mirrored = {"type": "pad", "padding": [2, 1, 3, 1]}
    channels = {"type": "pad", "padding": [1, 0, 2, 0], "channel_padding": [3, 5]}
    return [
        *(
            {
                "type": "pool",
                "pool": kind,
                "kernel": [3, 3],
                "strides": strides,
                "padding": "SAME",
            }
            for kind in ("max", "avg")
            for strides in ([1, 1], [2, 2])
        ),
        {"type": "global_pool", "pool": "avg"},
        {"type": "global_pool", "pool": "max", "keep_dims": True},
        {"type": "global_pool", "pool": "sum"},
        *(
            {
                "type": "resize",
                "interpolation": interpolation,
                "coordinates": coordinates,
                "output_size": size,
            }
            for interpolation in ("nearest", "bilinear")
            for coordinates in ("asymmetric", "half_pixel", "align_corners")
            for size in ([17, 25], [5, 10])
        ),
        {"type": "resize", "factors": [2, 3]},
        {"type": "depth_to_space", "block_size": 2},
        {"type": "lrn", "depth_radius": 2, "normalization": [1, 0.1, 0.75]},
        {"type": "lrn", "depth_radius": 5, "normalization": [2, 0.1, 0.6]},
        {"type": "pad", "padding": [1, 2, 0, 3]},
        {"type": "pad", "padding": [-1, 0, 2, -2]},
        {**mirrored, "pad_mode": "reflect"},
        {**mirrored, "pad_mode": "symmetric"},
        {**channels, "pad_value": -0.5},
        *({"type": "activation", "activation": a} for a in _ACTIVATIONS),
        {"type": "scale", "activation": "relu"},
        {"type": "slice", "offset": 3, "size": 5},
    ]


def _of_other_inputs() -> list[tuple[list[list[int]], dict[str, Any]]]:
    """Returns operators with several inputs, or without an image of the usual size."""
    return [
        ([_IMAGE, [2, 11, 8, 24]], _convolution([3, 3], residual=True)),
        ([_IMAGE] * 3, {"type": "add", "activation": "relu"}),
        ([_IMAGE, [2, 13, 10, 7]], {"type": "concat"}),
        ([_IMAGE] * 2, {"type": "binary"}),
        ([_IMAGE, [2, 1, 1, 12]], {"type": "binary"}),
        ([[2, 37]], {"type": "matmul", "filters": 10, "bias": True}),
        ([[2, 5, 3, 7]], {"type": "matmul", "kernel": [5, 3], "filters": 10}),
        ([[2, 1001]], {"type": "softmax"}),
        ([[2, 6, 8, 3]], {"type": "space_to_depth", "block_size": 2}),
    ]
