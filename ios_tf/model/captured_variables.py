"""The variables that a function captures.

Most of these variables are only read. They become constants of the function's graph,
except large filters and tables.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.ops import resource_variable_ops

from ios_tf.model import function_library
from ios_tf.model.constants import computed_of_constants
from ios_tf.native.names import SHAPE_OF_VARIABLE, SHAPE_OF_WEIGHT, TYPE_OF_VARIABLE

# Operations that read some elements of a variable, or its shape.
_LOOKUPS = frozenset(
    ("Gather", "GatherV2", "GatherNd", "ResourceGather", "ResourceGatherNd")
    + ("Shape", "VariableShape")
)
# Operations that read a variable, or pass it to functions.
_READS = _LOOKUPS.union(("ReadVariableOp", "Identity"), function_library.FUNCTION_CALLS)
# Operations that become operators, whose operands must be constants.
_WITH_CONSTANTS = frozenset(
    (*function_library.WITH_FILTERS, "_FusedConv2D", "_FusedDepthwiseConv2dNative")
    + ("_FusedMatMul", "BiasAdd", "FusedBatchNorm", "FusedBatchNormV2")
    + ("FusedBatchNormV3", "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Maximum")
    + ("Minimum", "SquaredDifference", "Pow", "Select", "SelectV2", "ConcatV2")
)
# Variables of at least this many bytes stay variables, even if TensorFlow could use
# them as constants in its constant folding.
_HUGE_BYTES = 1 << 24


class Converter(convert_to_constants._ConverterData):
    """The values of a function's variables, for a graph that inlines the function."""

    def __init__(
        self,
        graph_def: graph_pb2.GraphDef,
        captures: Mapping[str, tf.Tensor],
        function: Any,
        variables: Mapping[str, Variable],
        left: Iterable[str],
    ) -> None:
        """Reads the values of the captured `variables`, except those in `left`.

        Captures, variables and `left` are named by placeholders.
        """
        super().__init__(graph_def, variable_names_denylist=frozenset(left))
        for index, (placeholder, tensor) in enumerate(captures.items()):
            if not self._should_convert(placeholder):
                continue
            if placeholder in variables:
                self._add(placeholder, variables[placeholder].read(), index)
            elif tensor.dtype != tf.resource:
                self._add(placeholder, np.array(tensor.numpy()), index)
        for node in self.node_defs.values():
            if node.op == "VariableV2":
                self._add(node.name, _read_reference(function, node.name), None)

    def _add(self, name: str, value: np.ndarray, index: int | None) -> None:
        dtype = tf.dtypes.as_dtype(value.dtype).as_datatype_enum
        self._tensor_data[name] = convert_to_constants._TensorData(value, dtype, index)


def _read_reference(function: Any, name: str) -> np.ndarray:
    """Returns the value of a TensorFlow 1 reference variable, a node of the graph."""
    with function.graph.as_default():
        value = tf.identity(function.graph.as_graph_element(f"{name}:0"))
    return function.prune([], [value.name])()[0].numpy()


@dataclasses.dataclass(frozen=True)
class Variable:
    """A captured variable.

    Attributes:
      name: the variable's name, or its placeholder's name if the variable's is unknown.
      read: returns its value.
    """

    name: str
    read: Callable[[], np.ndarray]


def variables_of(function: Any) -> dict[str, Variable]:
    """The variables that a function captures, by placeholder."""
    references = (reference() for reference in function.graph._weak_variables)
    alive = {id(one.handle): one for one in references if one is not None}
    found = {}
    for external, inside in function.graph.captures:
        placeholder = inside.op.name
        variable = alive.get(id(external))
        if variable is not None:
            name = variable.name.partition(":")[0]
            found[placeholder] = Variable(name, variable.numpy)
            continue
        # Only the handle may exist, because the variable's Python object was freed, as
        # after `tf.saved_model.load(...).signatures[...]`.
        dtype = _dtype_of_variable(external)
        if dtype:
            read = functools.partial(read_variable, external, dtype)
            found[placeholder] = Variable(placeholder, read)
    return found


def _dtype_of_variable(handle: tf.Tensor) -> tf.DType | None:
    """Returns the type of a handle's variable; None for handles of other resources."""
    if handle.dtype != tf.resource:
        return None
    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    # The handles of tables have data, too, but with two entries: for keys and values.
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.dtypes.as_dtype(data.shape_and_type[0].dtype)


def read_variable(handle: tf.Tensor, dtype: tf.DType) -> np.ndarray:
    """Returns the value of the variable with this handle."""
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()


def large_filters(
    graph_def: graph_pb2.GraphDef,
    captures: Mapping[str, tf.Tensor],
    outputs: Iterable[str],
) -> dict[str, tf.TensorShape]:
    """The shapes of large variables that are only used as filters, by placeholder.

    Args:
      graph_def: a graph whose functions are inlined.
      captures: the tensors that it captures, by placeholder.
      outputs: the names of the fetched tensors.
    """
    readers = function_library.readers_of(graph_def.node)
    fetched = {tensor.partition(":")[0] for tensor in outputs}

    def is_filter(name: str) -> bool:
        """Whether a variable, or its value, is only used as a filter."""
        return name not in fetched and all(
            is_filter(node.name)
            if node.op in ("Identity", "ReadVariableOp")
            else k == 1 and node.op in function_library.WITH_FILTERS
            for node, k in readers[name]
        )

    return {
        placeholder: shape
        for placeholder, dtype, shape in _large_variables(captures)
        if dtype.as_datatype_enum in function_library.WEIGHT_TYPES
        and readers[placeholder]
        and is_filter(placeholder)
    }


def large_tables(
    graph_def: graph_pb2.GraphDef, captures: Mapping[str, tf.Tensor]
) -> dict[str, tf.DType]:
    """Returns the types of large variables that no operator needs as a constant.

    Such a variable is a lookup table, for example an embedding, or it is read only by
    operations that are left to TensorFlow. As a constant, it would be copied with every
    copy of the graph.

    The arguments are as for `large_filters`; the types are by placeholder.
    """
    large = list(_large_variables(captures))
    if not large:
        return {}
    nodes = {node.name: node for node in graph_def.node}
    readers = function_library.readers_of(graph_def.node)
    # A value that is computed only from variables and constants counts as a constant.
    variables = {name for name in captures if name in nodes}
    computed = set(computed_of_constants(graph_def.node, variables))

    def is_table(placeholder: str, size: int) -> bool:
        # The variable is not a table if an operation may write to it.
        if not all(node.op in _READS for node, _ in readers[placeholder]):
            return False
        names, seen = [placeholder], {placeholder}
        while names:
            for node, _ in readers[names.pop()]:
                if node.op in _LOOKUPS:
                    continue
                if node.name in computed:
                    if node.name not in seen:
                        seen.add(node.name)
                        names.append(node.name)
                elif size < _HUGE_BYTES or node.op in _WITH_CONSTANTS:
                    return False
        return True

    return {
        placeholder: dtype
        for placeholder, dtype, shape in large
        if is_table(placeholder, dtype.size * shape.num_elements())
    }


def large_bytes(captures: Mapping[str, tf.Tensor]) -> int:
    """The total size in bytes of the large variables among the captures."""
    return sum(
        dtype.size * shape.num_elements()
        for _, dtype, shape in _large_variables(captures)
    )


def _large_variables(
    captures: Mapping[str, tf.Tensor],
) -> Iterator[tuple[str, tf.DType, tf.TensorShape]]:
    """The placeholder, type and shape of every large variable."""
    for placeholder, dtype, shape in _variables_of_known_shape(captures):
        if shape.num_elements() * dtype.size >= function_library.LARGE_BYTES:
            yield placeholder, dtype, shape


def _variables_of_known_shape(
    captures: Mapping[str, tf.Tensor],
) -> Iterator[tuple[str, tf.DType, tf.TensorShape]]:
    for placeholder, handle in captures.items():
        dtype = _dtype_of_variable(handle)
        if not dtype:
            continue
        data = resource_variable_ops.get_eager_safe_handle_data(handle)
        shape = tf.TensorShape(data.shape_and_type[0].shape)
        if shape.is_fully_defined():
            yield placeholder, dtype, shape


def mark_variables(
    graph_def: graph_pb2.GraphDef, captures: Mapping[str, tf.Tensor]
) -> None:
    """Writes the types and shapes of captured variables to their placeholders.

    This is needed because the placeholder of a resource has neither the type nor the
    shape of the tensors that are read from the resource.
    """
    nodes = {node.name: node for node in graph_def.node}
    for placeholder, dtype, shape in _variables_of_known_shape(captures):
        attributes = nodes[placeholder].attr
        attributes[TYPE_OF_VARIABLE].type = dtype.as_datatype_enum
        attributes[SHAPE_OF_VARIABLE].shape.CopyFrom(shape.as_proto())


def mark_filters(
    graph_def: graph_pb2.GraphDef, filters: Mapping[str, tf.TensorShape]
) -> None:
    """Marks the nodes that read filters as weights, with their shapes.

    `filters`: the shapes of the filters, by the variables' placeholders.
    """
    nodes = {node.name: node for node in graph_def.node}
    waits: dict[str, list[str]] = {}  # the control inputs of reads of filters
    for node in graph_def.node:
        # Removes an attribute that differs between functions that compute the same.
        node.attr.pop("_user_specified_name", None)
        if node.op != "ReadVariableOp":
            continue
        handle = nodes[node.input[0]]
        while handle.op == "Identity":
            handle = nodes[handle.input[0]]
        if handle.name in filters:
            node.input[0] = handle.name
            shape = filters[handle.name].as_proto()
            node.attr[SHAPE_OF_WEIGHT].shape.CopyFrom(shape)
            waits[f"^{node.name}"] = [one for one in node.input if one[0] == "^"]

    def without_reads(tensor: str) -> list[str]:
        if tensor not in waits:
            return [tensor]
        return [one for wait in waits[tensor] for one in without_reads(wait)]

    # No operation writes to filters. So a node that has the read of a filter as a
    # control input can have the control inputs of that read instead.
    for node in graph_def.node:
        if not waits.keys().isdisjoint(node.input):
            left = [one for tensor in node.input for one in without_reads(tensor)]
            del node.input[:]
            node.input.extend(dict.fromkeys(left))
