"""Blocks as ONNX models, for runtimes that read ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.frameworks import interpreter
from benchmarks.frameworks.ops import Sampling, Window
from ios_tf.errors import UserError

OPSET = 17
_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float16": onnx.TensorProto.FLOAT16,
}


def model_of(
    block: Mapping[str, Any], weights: Sequence[Sequence[np.ndarray]], dtype: str
) -> onnx.ModelProto:
    """Returns the ONNX model of a block.

    Args:
      block: the block's JSON object.
      weights: weights of each operator, in TensorFlow's layouts (WeightShapes).
      dtype: type of all tensors: "float32" or "float16".

    Returns:
      A model with inputs "input0", … and outputs "output0", …, [N,C,H,W] or [N,C].
    """
    ops = OnnxOps(dtype)
    inputs = [f"input{i}" for i in range(len(block["inputs"]))]
    loaded = [[ops.weight(array) for array in arrays] for arrays in weights]
    results = interpreter.run(ops, block, loaded, inputs)
    outputs = [f"output{i}" for i in range(len(results))]
    for result, output in zip(results, outputs, strict=True):
        ops.nodes.append(helper.make_node("Identity", [result], [output]))
    graph = helper.make_graph(
        ops.nodes,
        "block",
        [
            helper.make_tensor_value_info(name, _TYPES[dtype], channels_first(shape))
            for name, shape in zip(inputs, block["inputs"], strict=True)
        ],
        [helper.make_tensor_value_info(name, _TYPES[dtype], None) for name in outputs],
        ops.constants,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
    )


def channels_first(shape: Sequence[int]) -> list[int]:
    """Returns [N,C,H,W] for [N,H,W,C]; other shapes stay unchanged."""
    return [shape[i] for i in (0, 3, 1, 2)] if len(shape) == 4 else list(shape)


class OnnxOps:
    """Ops that add nodes to a graph; tensors are represented by their names.

    Attributes:
      nodes, constants: nodes and constants added to the graph so far.
    """

    def __init__(self, dtype: str = "float32") -> None:
        self._dtype = np.dtype(dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def tensor(self, array: np.ndarray) -> np.ndarray:
        """Returns an array [N,C,H,W] or [N,C] to feed."""
        if array.ndim == 4:
            array = array.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(array, self._dtype)

    def array(self, tensor: np.ndarray) -> np.ndarray:
        if tensor.ndim == 4:
            tensor = tensor.transpose(0, 2, 3, 1)
        return tensor.astype(np.float32)

    def weight(self, array: np.ndarray) -> str:
        if array.ndim == 4:
            array = array.transpose(3, 2, 0, 1)
        return self._constant(array.astype(self._dtype))

    def _constant(self, array: np.ndarray) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(
            numpy_helper.from_array(np.ascontiguousarray(array), name)
        )
        return name

    def _node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"node{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def convolve(
        self, x: str, filters: str, bias: str | None, window: Window, groups: int
    ) -> str:
        return self._node(
            "Conv",
            [x, filters] + ([bias] if bias else []),
            kernel_shape=window.kernel,
            strides=window.strides,
            dilations=window.dilations,
            pads=_pads(window.padding),
            group=groups,
        )

    def pool(self, x: str, kind: str, window: Window) -> str:
        return self._node(
            "MaxPool" if kind == "max" else "AveragePool",
            [x],
            kernel_shape=window.kernel,
            strides=window.strides,
            pads=_pads(window.padding),
        )

    def global_pool(self, x: str, kind: str, keep: bool) -> str:
        if kind == "sum":
            axes = self._constant(np.array([2, 3], np.int64))
            return self._node("ReduceSum", [x, axes], keepdims=int(keep))
        pooled = self._node(
            "GlobalMaxPool" if kind == "max" else "GlobalAveragePool", [x]
        )
        return pooled if keep else self._node("Flatten", [pooled], axis=1)

    def pad(self, x: str, padding: Sequence[int]) -> str:
        top, bottom, left, right = padding
        pads = np.array([0, 0, top, left, 0, 0, bottom, right], np.int64)
        return self._node("Pad", [x, self._constant(pads)])

    def pad_with(self, x: str, padding: Sequence[int], mode: str, value: float) -> str:
        top, bottom, left, right, before, after = padding
        if mode == "constant":
            pads = np.array([0, before, top, left, 0, after, bottom, right], np.int64)
            fill = self._constant(np.array(value, self._dtype))
            return self._node("Pad", [x, self._constant(pads), fill])
        for axis, (first, last) in ((2, (top, bottom)), (3, (left, right))):
            pads = np.zeros(8, np.int64)
            pads[[axis, axis + 4]] = first, last
            if mode == "reflect":
                x = self._node("Pad", [x, self._constant(pads)], mode=mode)
            else:  # opset 17 lacks this mode
                parts = [x]
                if first:
                    parts.insert(0, self._flipped(x, axis, first - 1, -(2**31)))
                if last:
                    parts.append(self._flipped(x, axis, -1, -1 - last))
                x = self._node("Concat", parts, axis=axis)
        return x

    def _flipped(self, x: str, axis: int, start: int, end: int) -> str:
        """Returns the cells from `start` down to `end` (exclusive), reversed."""
        bounds = [
            self._constant(np.array([value], np.int64))
            for value in (start, end, axis, -1)
        ]
        return self._node("Slice", [x, *bounds])

    def concat(self, xs: Sequence[str]) -> str:
        return self._node("Concat", xs, axis=1)

    def slice(self, x: str, offset: int, size: int) -> str:
        bounds = [
            self._constant(np.array([value], np.int64))
            for value in (offset, offset + size, 1)
        ]
        return self._node("Slice", [x, *bounds])

    def add(self, x: str, y: str) -> str:
        return self._node("Add", [x, y])

    def multiply(self, x: str, y: str) -> str:
        return self._node("Mul", [x, y])

    def scale(self, x: str, scale: str, shift: str, rank: int) -> str:
        shape = np.array([-1, *[1] * (rank - 2)], np.int64)
        scale, shift = (
            self._node("Reshape", [vector, self._constant(shape)])
            for vector in (scale, shift)
        )
        return self.add(self.multiply(x, scale), shift)

    def matmul(self, x: str, matrix: str, bias: str | None) -> str:
        return self._node("Gemm", [x, matrix] + ([bias] if bias else []))

    def matmul_maps(self, x: str, filters: str, bias: str | None) -> str:
        rows = self._node("Flatten", [x], axis=1)
        columns = self._node("Flatten", [filters], axis=1)
        inputs = [rows, columns] + ([bias] if bias else [])
        return self._node("Gemm", inputs, transB=1)

    def convolve_transposed(
        self, x: str, filters: str, bias: str | None, window: Window
    ) -> str:
        top, bottom, left, right = window.padding
        return self._node(
            "ConvTranspose",
            [x, self._node("Transpose", [filters], perm=(1, 0, 2, 3))]
            + ([bias] if bias else []),
            kernel_shape=window.kernel,
            strides=window.strides,
            dilations=window.dilations,
            pads=_pads((top, max(bottom, 0), left, max(right, 0))),
            output_padding=(max(-bottom, 0), max(-right, 0)),
        )

    def depth_to_space(self, x: str, size: int) -> str:
        return self._node("DepthToSpace", [x], blocksize=size, mode="DCR")

    def space_to_depth(self, x: str, size: int) -> str:
        return self._node("SpaceToDepth", [x], blocksize=size)

    def lrn(self, x: str, radius: int, bias: float, alpha: float, beta: float) -> str:
        size = 2 * radius + 1
        floats = {"alpha": alpha * size, "beta": beta, "bias": bias}
        floats = {name: float(value) for name, value in floats.items()}
        return self._node("LRN", [x], size=size, **floats)

    def resize(self, x: str, sampling: Sampling) -> str:
        nearest = sampling.interpolation == "nearest"
        floor = sampling.coordinates == "asymmetric"
        sizes = self._constant(np.array(sampling.output, np.int64))
        images = self._node("Shape", [x], end=2)
        sizes = self._node("Concat", [images, sizes], axis=0)
        return self._node(
            "Resize",
            [x, "", "", sizes],
            mode="nearest" if nearest else "linear",
            coordinate_transformation_mode=sampling.coordinates,
            nearest_mode="floor" if floor else "round_prefer_ceil",
        )

    def softmax(self, x: str) -> str:
        return self._node("Softmax", [x], axis=-1)

    def activate(self, name: str, x: str, *parameters: float) -> str:
        if name in _ACTIVATIONS:
            return _ACTIVATIONS[name](self, x, *parameters)
        kind = "".join(word.capitalize() for word in name.split("_"))
        if not onnx.defs.has(kind, OPSET, ""):
            raise UserError(f"ONNX {OPSET} has no operator for {name!r}")
        return self._node(
            kind, [x], **dict(zip(("alpha", "beta"), parameters, strict=False))
        )

    def compose(self, kind: str, *inputs: str | float) -> str:
        """Adds a node whose inputs are tensors or numbers."""
        names = [x if isinstance(x, str) else self._scalar(x) for x in inputs]
        return self._node(kind, names)

    def _scalar(self, number: float) -> str:
        return self._constant(np.array(number, self._dtype))


def _gelu(ops: OnnxOps, x: str) -> str:
    scaled = ops.compose("Mul", x, 0.5**0.5)
    gate = ops.compose("Add", ops.compose("Erf", scaled), 1)
    return ops.compose("Mul", ops.compose("Mul", x, 0.5), gate)


def _gelu_tanh(ops: OnnxOps, x: str) -> str:
    cube = ops.compose("Mul", ops.compose("Pow", x, 3), 0.044715)
    inner = ops.compose("Mul", ops.compose("Add", x, cube), (2 / np.pi) ** 0.5)
    gate = ops.compose("Add", ops.compose("Tanh", inner), 1)
    return ops.compose("Mul", ops.compose("Mul", x, 0.5), gate)


def _swish(ops: OnnxOps, x: str, alpha: float) -> str:
    return ops.compose("Mul", x, ops.compose("Sigmoid", ops.compose("Mul", x, alpha)))


def _mish(ops: OnnxOps, x: str) -> str:
    return ops.compose("Mul", x, ops.compose("Tanh", ops.compose("Softplus", x)))


def _erfc(ops: OnnxOps, x: str) -> str:
    return ops.compose("Sub", 1, ops.compose("Erf", x))


# The activations that are not the ONNX operator of the same name.
_ACTIVATIONS: Mapping[str, Callable[..., str]] = {
    "relu6": lambda ops, x: ops.compose("Clip", x, 0, 6),
    "clip": lambda ops, x, a, b: ops.compose("Clip", x, a, b),
    "maximum": lambda ops, x, a: ops.compose("Clip", x, a, np.inf),
    "minimum": lambda ops, x, a: ops.compose("Clip", x, -np.inf, a),
    "threshold": lambda ops, x, a: ops.compose(
        "Where", ops.compose("Greater", x, a), x, 0
    ),
    "swish": _swish,
    "mish": _mish,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "expm1": lambda ops, x: ops.compose("Sub", ops.compose("Exp", x), 1),
    "log1p": lambda ops, x: ops.compose("Log", ops.compose("Add", x, 1)),
    "rsqrt": lambda ops, x: ops.compose("Reciprocal", ops.compose("Sqrt", x)),
    "square": lambda ops, x: ops.compose("Mul", x, x),
    "pow": lambda ops, x, a: ops.compose("Pow", x, a),
    "erfc": _erfc,
}


def _pads(padding: Sequence[int]) -> list[int]:
    top, bottom, left, right = padding
    return [top, left, bottom, right]
