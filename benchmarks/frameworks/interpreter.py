"""One interpreter from a block's JSON to a framework's operators.

A set of operators, such as `TorchOps`, is a class with a method for each operator. Its
images have the channels first or last. Arrays have the channels last; `tensor`,
`weight` and `array` convert. Operators that are missing in `_OPERATORS` call the method
of their type with the `Call` itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks.activations import parameters_of
from benchmarks.frameworks.ops import Sampling, Window
from ios_tf.errors import UserError
from ios_tf.native import engine


def run(
    ops: Any,
    block: Mapping[str, Any],
    weights: Sequence[Sequence[Any]],
    inputs: Sequence[Any],
) -> list[Any]:
    """Computes a block, or traces it if the framework's operators trace.

    Args:
      ops: the framework's operators.
      block: the block's JSON object.
      weights: weights of each operator, made by `ops.weight`.
      inputs: the block's inputs, made by `ops.tensor`.

    Returns:
      The block's outputs.

    Raises:
      UserError: the framework has no such operator.
    """
    shapes = engine.problem(block)["shapes"]
    results: list[Any] = []
    for index, (operator, of_operator) in enumerate(
        zip(block["operators"], weights, strict=True)
    ):
        refs = operator["inputs"]
        call = Call(
            ops,
            operator,
            [results[ref] if ref >= 0 else inputs[-1 - ref] for ref in refs],
            shapes[refs[0]] if refs[0] >= 0 else block["inputs"][-1 - refs[0]],
            shapes[index],
            list(of_operator),
        )
        kind = operator["type"]
        compute_operator = _OPERATORS.get(kind) or getattr(ops, kind, None)
        if compute_operator is None:
            raise UserError(f"the peer does not support operators of type {kind!r}")
        results.append(compute_operator(call))
    return [results[i] for i in block["outputs"]]


def activate(ops: Any, operator: Mapping[str, Any], x: Any) -> Any:
    """Applies the activation of an operator, which is a JSON object."""
    name = operator.get("activation", "none")
    if name == "none":
        return x
    return ops.activate(name, x, *parameters_of(operator))


def compute(
    ops: Any,
    block: Mapping[str, Any],
    weights: Sequence[Sequence[np.ndarray]],
    inputs: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """Calls `run` on arrays and returns arrays, with channels last."""
    loaded = [[ops.weight(array) for array in arrays] for arrays in weights]
    tensors = [ops.tensor(array) for array in inputs]
    return [ops.array(output) for output in run(ops, block, loaded, tensors)]


@dataclasses.dataclass(frozen=True)
class Call:
    """One operator and its inputs; `input_shape` is that of the first input."""

    ops: Any
    operator: Mapping[str, Any]
    read: list[Any]
    input_shape: Sequence[int]
    output_shape: Sequence[int]
    weights: list[Any]

    def get(self, name: str, default: Any) -> Any:
        return self.operator.get(name, default)

    def activated(self, x: Any) -> Any:
        return activate(self.ops, self.operator, x)

    def finished(self, x: Any) -> Any:
        """Returns `x` with residual and activation applied."""
        if self.get("residual", False):
            x = self.ops.add(x, self.read[-1])
        return self.activated(x)

    def window(self) -> Window:
        kernel = tuple(self.get("kernel", (1, 1)))
        strides = tuple(self.get("strides", (1, 1)))
        dilations = tuple(self.get("dilations", (1, 1)))
        padding = self.get("padding", "VALID")
        image = tuple(self.input_shape[1:3])
        if isinstance(padding, str):
            name = padding
            around = [0, 0, 0, 0]
            if name == "SAME":
                around = []
                for axis in (0, 1):
                    size, stride = image[axis], strides[axis]
                    reach = (kernel[axis] - 1) * dilations[axis] + 1
                    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
                    around += [total // 2, total - total // 2]
        else:
            name, around = "EXPLICIT", padding
        output = tuple(self.output_shape[1:3])
        return Window(kernel, strides, dilations, tuple(around), name, image, output)


def _conv2d(call: Call) -> Any:
    filters, *bias = call.weights
    return call.finished(
        call.ops.convolve(
            call.read[0],
            filters,
            bias[0] if bias else None,
            call.window(),
            call.get("groups", 1),
        )
    )


def _sepconv(call: Call) -> Any:
    depthwise, pointwise, *bias = call.weights
    x = call.read[0]
    if call.get("pre_activation", "none") != "none":
        x = activate(call.ops, {"activation": call.operator["pre_activation"]}, x)
    x = call.ops.convolve(x, depthwise, None, call.window(), call.input_shape[3])
    size = tuple(call.output_shape[1:3])
    one = Window((1, 1), image=size, output=size)
    return call.finished(
        call.ops.convolve(x, pointwise, bias[0] if bias else None, one, 1)
    )


def _matmul(call: Call) -> Any:
    matrix, *bias = call.weights
    maps = len(call.input_shape) == 4
    multiply = call.ops.matmul_maps if maps else call.ops.matmul
    return call.finished(multiply(call.read[0], matrix, bias[0] if bias else None))


def _add(call: Call) -> Any:
    total = call.read[0]
    for x in call.read[1:]:
        total = call.ops.add(total, x)
    return call.activated(total)


def _binary(call: Call) -> Any:
    function = call.get("function", "multiply")
    combine = {"multiply": call.ops.multiply, "add": call.ops.add}.get(function)
    if combine is None or "operand" in call.operator:
        raise UserError(f"peers do not support binary operators with {function!r}")
    return call.activated(combine(call.read[0], call.read[1]))


def _pad(call: Call) -> Any:
    padding = call.window().padding
    mode, value = call.get("pad_mode", "constant"), call.get("pad_value", 0.0)
    channels = call.get("channel_padding", (0, 0))
    if mode == "constant" and value == 0 and not any(channels):
        return call.ops.pad(call.read[0], padding)
    return call.ops.pad_with(call.read[0], (*padding, *channels), mode, value)


def _resize(call: Call) -> Any:
    sampling = Sampling(
        call.get("interpolation", "nearest"),
        call.get("coordinates", "asymmetric"),
        tuple(call.input_shape[1:3]),
        tuple(call.output_shape[1:3]),
    )
    return call.ops.resize(call.read[0], sampling)


def _conv2d_transpose(call: Call) -> Any:
    filters, *bias = call.weights
    window = call.window()
    around = []
    for axis in (0, 1):
        reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
        full = (window.image[axis] - 1) * window.strides[axis] + reach
        cut = full - window.output[axis]
        before = max(cut, 0) // 2 if window.name == "SAME" else 0
        if window.name == "EXPLICIT":
            before = window.padding[2 * axis]
        around += [before, cut - before]
    window = dataclasses.replace(window, padding=tuple(around))
    return call.finished(
        call.ops.convolve_transposed(
            call.read[0], filters, bias[0] if bias else None, window
        )
    )


_OPERATORS: Mapping[str, Callable[[Call], Any]] = {
    "conv2d": _conv2d,
    "sepconv": _sepconv,
    "matmul": _matmul,
    "add": _add,
    "pad": _pad,
    "resize": _resize,
    "conv2d_transpose": _conv2d_transpose,
    "depth_to_space": lambda c: c.ops.depth_to_space(c.read[0], c.get("block_size", 1)),
    "space_to_depth": lambda c: c.ops.space_to_depth(c.read[0], c.get("block_size", 1)),
    "lrn": lambda c: c.ops.lrn(
        c.read[0], c.get("depth_radius", 0), *c.operator["normalization"]
    ),
    "pool": lambda c: c.ops.pool(c.read[0], c.get("pool", "max"), c.window()),
    "global_pool": lambda c: c.ops.global_pool(
        c.read[0], c.get("pool", "max"), c.get("keep_dims", False)
    ),
    "concat": lambda c: c.ops.concat(c.read),
    "binary": _binary,
    "softmax": lambda c: c.ops.softmax(c.read[0]),
    "activation": lambda c: c.activated(c.read[0]),
    "scale": lambda c: c.activated(
        c.ops.scale(c.read[0], *c.weights, len(c.input_shape))
    ),
    "slice": lambda c: c.ops.slice(c.read[0], c.get("offset", 0), c.operator["size"]),
}
