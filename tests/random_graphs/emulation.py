"""Computes a graph in float64, and estimates how much bfloat16 changes its outputs.

The estimate is independent of the engine: TensorFlow computes each node, and numpy
rounds the inputs and outputs of the nodes that the engine computes in bfloat16.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import node_def_pb2, op_def_pb2
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry

# Operations without a kernel for float64, which are computed in float32.
_ONLY_FLOAT32: set[str] = set()

# Attributes that give the type of a result, but not of an argument.
_TYPES = ("DstT", "dtype", "out_type", "Tout")

Rounding = Callable[[np.ndarray], np.ndarray]


def random_neighbour(random: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Replaces each number by the bfloat16 number above or below it, at random.

    Numbers that bfloat16 can hold stay as they are. The errors are up to twice as large
    as those of rounding to the nearest number.
    """
    floats = np.atleast_1d(_to_float32(values)).astype(np.float32)
    away_from_zero = random.integers(0, 2, floats.shape, np.uint32) * np.uint32(0xFFFF)
    bits = (floats.view(np.uint32) + away_from_zero) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isfinite(floats), bits.view(np.float32), floats)
    return rounded.reshape(values.shape).astype(np.float64)


class Emulation:
    """A graph whose float32 nodes are computed in float64.

    Args:
      graph_def: a graph without functions.
      inputs: maps argument names to the names of their placeholders' tensors.
      outputs: names of tensors.
      rounded: the names of the nodes that the engine computes in bfloat16.
    """

    def __init__(
        self,
        graph_def: Any,
        inputs: Mapping[str, str],
        outputs: Sequence[str],
        rounded: Collection[str] = (),
    ) -> None:
        self._nodes = {node.name: node for node in graph_def.node}
        self._inputs = {_node_of(tensor): name for name, tensor in inputs.items()}
        self._outputs = outputs
        self._rounded = rounded
        self._order = self._topological_order()
        self._calls = {
            name: _Call(self._nodes[name])
            for name in self._order
            if name not in self._inputs and self._nodes[name].op != "Const"
        }

    def run(
        self, feed: Mapping[str, np.ndarray], rounding: Rounding | None = None
    ) -> list[np.ndarray]:
        """Computes the outputs.

        Args:
          feed: the arguments by name.
          rounding: rounds the inputs and outputs of nodes that the engine computes in
            bfloat16. Other nodes are then rounded to float32. None: nothing is rounded.

        Raises:
          tf.errors.OpError: TensorFlow cannot compute a node.
        """
        values: dict[str, list[np.ndarray]] = {}
        for name in self._order:
            node = self._nodes[name]
            if name in self._inputs:
                values[name] = [_widened(feed[self._inputs[name]])]
                continue
            if node.op == "Const":
                values[name] = [_widened(tf.make_ndarray(node.attr["value"].tensor))]
                continue
            arguments = [
                values[_node_of(tensor)][_index_of(tensor)]
                for tensor in node.input
                if not tensor.startswith("^")
            ]
            is_rounded = rounding is not None and name in self._rounded
            if is_rounded:
                arguments = [_rounded(rounding, x) for x in arguments]
            results = self._calls[name](arguments)
            if rounding is not None:
                one_rounding = rounding if is_rounded else _to_float32
                results = [_rounded(one_rounding, y) for y in results]
            values[name] = results
        return [values[_node_of(t)][_index_of(t)] for t in self._outputs]

    def _topological_order(self) -> list[str]:
        order: dict[str, None] = {}
        stack = [(_node_of(tensor), False) for tensor in self._outputs]
        while stack:
            name, are_inputs_done = stack.pop()
            if name in order:
                continue
            if are_inputs_done:
                order[name] = None
                continue
            stack.append((name, True))
            if name not in self._inputs:
                stack += [(_node_of(t), False) for t in self._nodes[name].input]
        return list(order)


class _Call:
    """Computes a node eagerly."""

    def __init__(self, node: node_def_pb2.NodeDef) -> None:
        definition = op_def_registry.get(node.op)
        assert definition is not None, node.op
        self._node = node
        # The number of tensors of each input of the operation; None for a single one.
        self._counts = [self._count(one) for one in definition.input_arg]
        self._inputs = definition.input_arg
        self._outputs = sum(self._count(x) or 1 for x in definition.output_arg)
        types = {one.type_attr for one in definition.input_arg if one.type_attr}
        self._type_attributes = types
        self._attributes = {
            one.name: _attribute(node.attr[one.name], one)
            for one in definition.attr
            if one.name in node.attr and one.name not in types
        }

    def __call__(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self._node.op not in _ONLY_FLOAT32:
            try:
                return self._run(arguments, tf.float64)
            except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError):
                result = self._run([_narrowed(x) for x in arguments], tf.float32)
                _ONLY_FLOAT32.add(self._node.op)
                return result
        return self._run([_narrowed(x) for x in arguments], tf.float32)

    def _run(
        self, arguments: Sequence[np.ndarray], dtype: tf.DType
    ) -> list[np.ndarray]:
        """Runs the operation with this type instead of float32."""
        tensors = [tf.constant(x) for x in arguments]
        attributes: list[Any] = []
        for name, value in self._attributes.items():
            is_float = value == tf.float32.as_datatype_enum and name in _TYPES
            attributes += [name, dtype.as_datatype_enum if is_float else value]
        first = 0
        types = {}
        for argument, count in zip(self._inputs, self._counts, strict=True):
            if argument.type_attr:
                types[argument.type_attr] = tensors[first].dtype.as_datatype_enum
            first += 1 if count is None else count
        for item in types.items():
            attributes += item
        found = execute.execute(
            self._node.op.encode(),
            self._outputs,
            tensors,
            tuple(attributes),
            context.context(),
        )
        return [_widened(tensor.numpy()) for tensor in found]

    def _count(self, argument: op_def_pb2.OpDef.ArgDef) -> int | None:
        if argument.number_attr:
            return self._node.attr[argument.number_attr].i
        if argument.type_list_attr:
            return len(self._node.attr[argument.type_list_attr].list.type)
        return None


def _attribute(value: Any, definition: op_def_pb2.OpDef.AttrDef) -> Any:
    """An attribute as TensorFlow's function `execute` takes it."""
    kind = value.WhichOneof("value")
    if kind == "shape":
        return [-1 if d.size < 0 else d.size for d in value.shape.dim]
    if kind == "list":
        fields = {"list(float)": "f", "list(string)": "s", "list(type)": "type"}
        return list(getattr(value.list, fields.get(definition.type, "i")))
    return getattr(value, kind)


def _widened(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _narrowed(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _rounded(rounding: Rounding, array: np.ndarray) -> np.ndarray:
    return rounding(array) if array.dtype == np.float64 else array


def _to_float32(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)


@functools.cache
def _node_of(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]


@functools.cache
def _index_of(tensor: str) -> int:
    return int(tensor.partition(":")[2] or 0)
