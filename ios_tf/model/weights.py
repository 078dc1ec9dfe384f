"""Turns the large weights of a graph into variables.

A constant is copied with its graph: by TensorFlow into every function of the graph, and
by every optimizer. A variable exists once in a SavedModel's checkpoint and once in
memory, and a SavedModel with variables may be larger than 2 GB.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2, types_pb2

from ios_tf.model import function_library, subgraphs
from ios_tf.model.captured_variables import large_tables, read_variable
from ios_tf.model.constants import computed_of_constants
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.function_library import node_of
from ios_tf.native.names import ANNOTATIONS, SHAPE_OF_WEIGHT


class Weights:
    """The variables of one or several graphs. Equal values share a variable.

    Args:
      large_bytes: constants of at least this many bytes become variables.
    """

    def __init__(self, large_bytes: int | None = None) -> None:
        self._large_bytes = (
            function_library.LARGE_BYTES if large_bytes is None else large_bytes
        )
        self._variables: dict[bytes, tf.Variable] = {}

    @property
    def variables(self) -> list[tf.Variable]:
        return list(self._variables.values())

    @property
    def nbytes(self) -> int:
        """The size of all variables in bytes."""
        return sum(v.dtype.size * v.shape.num_elements() for v in self.variables)

    def copied(self, frozen: FrozenSignature) -> FrozenSignature:
        """A signature with copies of the variables that are filters or tables."""
        captures = dict(frozen.captures)
        # The first placeholder of each copy, by the identity of the copy's handle.
        placeholders: dict[int, str] = {}
        # Variables with equal values share a copy, and a function can capture the copy
        # only once. So the copy's first placeholder replaces all placeholders of these
        # variables.
        same: dict[str, str] = {}
        filters = {
            node.input[0]: tf.dtypes.as_dtype(node.attr["dtype"].type)
            for node in frozen.graph_def.node
            if SHAPE_OF_WEIGHT in node.attr
        }
        tables = large_tables(frozen.graph_def, frozen.captures)
        for name, dtype in (filters | tables).items():
            handle = self._variable(read_variable(frozen.captures[name], dtype)).handle
            first = placeholders.setdefault(id(handle), name)
            if first == name:
                captures[name] = handle
            else:
                same[name] = first
                del captures[name]
        if not same:
            return dataclasses.replace(frozen, captures=captures)
        graph_def = function_library.without_nodes(frozen.graph_def)
        for node in frozen.graph_def.node:
            if node.name not in same:
                graph_def.node.append(node)
                graph_def.node[-1].input[:] = [
                    same.get(node_of(t), t) for t in node.input
                ]
        return dataclasses.replace(frozen, graph_def=graph_def, captures=captures)

    def with_scaled_filters(self, frozen: FrozenSignature) -> FrozenSignature:
        """Folds multiplications of a convolution's output into its filter.

        The filter must be a variable, and the factors must be constants: one per
        channel, or a scalar. (TensorFlow's constant folding does the same for filters
        that are constants.) The new nodes get the names that TensorFlow would give.
        """
        nodes = {node.name: node for node in frozen.graph_def.node}
        uses = collections.Counter(
            node_of(tensor) for node in frozen.graph_def.node for tensor in node.input
        )
        uses.update(map(node_of, frozen.fetches()))
        editor = _Editor(self, frozen)
        for node in frozen.graph_def.node:
            found = _scaled_convolution(node, nodes) if node.op == "Mul" else None
            if not found or uses[found[0].name] > 1:
                continue
            convolution, filters, factors = found
            dtype = tf.dtypes.as_dtype(filters.attr["dtype"].type)
            value = read_variable(frozen.captures[filters.input[0]], dtype)
            name = f"{convolution.name}/merged_input"
            read = editor.read(name, value * factors, node.device)
            editor.replace(convolution.name, None)
            scaled = copy.deepcopy(convolution)
            scaled.name = node.name
            scaled.input[1] = read
            scaled.input.extend(one for one in node.input if one[0] == "^")
            editor.replace(node.name, scaled)
        graph_def, captures = editor.finish()
        return dataclasses.replace(frozen, graph_def=graph_def, captures=captures)

    def take(
        self, frozen: FrozenSignature, graph_def: graph_pb2.GraphDef
    ) -> tuple[graph_pb2.GraphDef, dict[str, tf.Tensor]]:
        """A graph that reads variables instead of its large constants.

        Filters of merged convolutions, which the graph computes from variables, also
        become variables. The graph was made from the signature `frozen`.

        Returns:
          The graph, and the variables and resources by placeholder.
        """
        editor = _Editor(self, dataclasses.replace(frozen, graph_def=graph_def))
        kept = _read_by_operators(graph_def)
        computed = []
        for node in graph_def.node:
            if SHAPE_OF_WEIGHT in node.attr:
                if node.op == "ConcatV2":
                    computed.append(node)
            elif node.op == "Const" and node.name not in kept:
                content = node.attr["value"].tensor
                if (
                    content.dtype in function_library.WEIGHT_TYPES
                    and len(content.tensor_content) >= self._large_bytes
                ):
                    value = tf.make_ndarray(content)
                    editor.read(node.name, value, node.device, node.input)
        if computed:
            names = [f"{node.name}:0" for node in computed]
            values = subgraphs.between(frozen, graph_def, {}, names)()
            for node, value in zip(computed, values, strict=True):
                editor.read(node.name, value.numpy(), node.device)
        return editor.finish()

    def _variable(self, value: np.ndarray) -> tf.Variable:
        digest = hashlib.sha256(f"{value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).view(np.uint8))
        key = digest.digest()
        if key not in self._variables:
            self._variables[key] = tf.Variable(value, trainable=False, name="weight")
        return self._variables[key]


class _Editor:
    """Replaces nodes of a graph by reads of variables."""

    def __init__(self, weights: Weights, frozen: FrozenSignature) -> None:
        self._weights = weights
        self._frozen = frozen
        self._names = {node.name for node in frozen.graph_def.node}
        self._replaced: dict[str, list[node_def_pb2.NodeDef]] = {}
        self._added: list[node_def_pb2.NodeDef] = []
        self._captures: dict[str, tf.Tensor] = {}
        # Maps the ids of captured tensors to placeholders, because a function captures
        # a variable only once.
        self._handles = {id(t): name for name, t in frozen.captures.items()}

    def replace(self, name: str, node: node_def_pb2.NodeDef | None) -> None:
        """Replaces the node with this name by another one, or removes it."""
        self._replaced[name] = [node] if node else []

    def read(
        self, name: str, value: np.ndarray, device: str, waits: Sequence[str] = ()
    ) -> str:
        """Adds a node that reads a variable with this value; returns the node's name.

        The node replaces an existing node with the same name. `waits` are its control
        inputs.
        """
        variable = self._weights._variable(value)
        key = id(variable.handle)
        if key not in self._handles:
            handle = f"{name}/handle"
            while handle in self._names:
                handle += "_"
            self._names.add(handle)
            self._handles[key] = handle
            self._captures[handle] = variable.handle
            placeholder = node_def_pb2.NodeDef(name=handle, op="Placeholder")
            placeholder.attr["dtype"].type = types_pb2.DT_RESOURCE
            placeholder.attr["shape"].shape.SetInParent()
            self._added.append(placeholder)
        read = node_def_pb2.NodeDef(name=name, op="ReadVariableOp", device=device)
        read.input.extend([self._handles[key], *waits])
        read.attr["dtype"].type = variable.dtype.as_datatype_enum
        shape = read.attr[SHAPE_OF_WEIGHT].shape
        shape.CopyFrom(variable.shape.as_proto())
        if name in self._names:
            self.replace(name, read)
        else:
            self._names.add(name)
            self._added.append(read)
        return name

    def finish(self) -> tuple[graph_pb2.GraphDef, dict[str, tf.Tensor]]:
        """The graph without unused nodes, and its captures."""
        before = self._frozen.graph_def
        graph_def = function_library.without_nodes(before)
        for node in before.node:
            graph_def.node.extend(self._replaced.get(node.name, [node]))
        graph_def.node.extend(self._added)
        captures = {**self._frozen.captures, **self._captures}
        # Pruning removes reads of unused variables, which would otherwise be saved,
        # too.
        tensors = [one.name for one in self._frozen.inputs.values()]
        tensors += self._frozen.fetches()
        graph_def = function_library.pruned(graph_def, tensors)
        names = {node.name for node in graph_def.node}
        return graph_def, {n: t for n, t in captures.items() if n in names}


def _read_by_operators(graph_def: graph_pb2.GraphDef) -> set[str]:
    """The constants that scheduled operators read, except those that are only filters.

    The engine needs these operands as constants. An example is a tensor that is added
    to each image. The result includes constants from which such an operand is computed.
    """
    readers = function_library.readers_of(graph_def.node)
    computed = computed_of_constants(graph_def.node)
    # Both map a node's name to a bool. `as_filter` says whether operators read the
    # node's value as a filter. `needed` says whether operators read the value as
    # another operand, or read a value that is computed from it.
    as_filter: dict[str, bool] = {}
    needed: dict[str, bool] = {}
    for name in reversed(computed):
        as_filter[name] = needed[name] = False
        for node, k in readers[name]:
            if node.name in needed:
                passes_on = node.op == "Identity"
                needed[name] |= needed[node.name]
                needed[name] |= as_filter[node.name] and not passes_on
                as_filter[name] |= as_filter[node.name] and passes_on
            elif ANNOTATIONS[0] in node.attr:
                is_filter = k == 1 and node.op in function_library.WITH_FILTERS
                as_filter[name] |= is_filter
                needed[name] |= not is_filter
    return {name for name in computed if needed[name]}


def _scaled_convolution(
    product: node_def_pb2.NodeDef, nodes: Mapping[str, node_def_pb2.NodeDef]
) -> tuple[node_def_pb2.NodeDef, node_def_pb2.NodeDef, np.ndarray] | None:
    """Finds the convolution whose output `product` multiplies channel by channel.

    Returns:
      The convolution, the node that reads its filter, and the factors of the filter's
      values; None if `product` is not such a multiplication.
    """
    operands = [nodes[node_of(t)] for t in product.input if t[0] != "^"]
    for convolution, constant in (operands, operands[::-1]):
        if (
            convolution.op not in ("Conv2D", "DepthwiseConv2dNative")
            or constant.op != "Const"
        ):
            continue
        filters = nodes[node_of(convolution.input[1])]
        waits = [*constant.input, *filters.input[1:]]
        while filters.op == "Identity":
            filters = nodes[node_of(filters.input[0])]
            waits += filters.input[1:]
        if waits:  # a new filter would not have these control inputs
            continue
        if filters.op != "ReadVariableOp" or (SHAPE_OF_WEIGHT not in filters.attr):
            continue
        shape = [d.size for d in filters.attr[SHAPE_OF_WEIGHT].shape.dim]
        if convolution.op == "Conv2D":
            channels, last = shape[3], [shape[3]]
        else:
            channels, last = shape[2] * shape[3], shape[2:]
        factors = tf.make_ndarray(constant.attr["value"].tensor)
        first = convolution.attr["data_format"].s == b"NCHW"
        wanted = [channels, 1, 1] if first else [channels]
        while len(wanted) < factors.ndim:
            wanted.insert(0, 1)
        if factors.size == 1 and factors.ndim <= 4:
            return convolution, filters, factors.reshape([])
        if list(factors.shape) == wanted and factors.ndim <= 4:
            return convolution, filters, factors.reshape(last)
    return None
