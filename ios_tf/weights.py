"""Turns the large constants of a graph into variables.

A constant is copied wherever its graph is: by TensorFlow into every function that it
makes of it, and by every optimizer. A variable is there once, in a SavedModel's
checkpoint and in memory, and a SavedModel of variables may be larger than 2 GB.
"""

from __future__ import annotations

import collections
import hashlib

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, types_pb2

from ios_tf import functions
from ios_tf.optimizer import ANNOTATIONS, SHAPE_OF_WEIGHT

# Smaller constants cost little, and optimizers fold them.
LARGE_BYTES = 1 << 16
_TYPES = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)


class Weights:
    """The variables of one or several graphs; equal constants share one.

    Args:
      large_bytes: how large a constant is that becomes one.
    """

    def __init__(self, large_bytes: int | None = None) -> None:
        self._large_bytes = LARGE_BYTES if large_bytes is None else large_bytes
        self._variables: dict[tuple[int, bytes], tf.Variable] = {}

    @property
    def variables(self) -> list[tf.Variable]:
        return list(self._variables.values())

    def take(
        self, graph_def: graph_pb2.GraphDef
    ) -> tuple[graph_pb2.GraphDef, dict[str, tf.Tensor]]:
        """A graph that reads variables in the place of its large constants.

        Returns:
          The graph, and what its new placeholders stand for, by name.
        """
        kept = _read_by_operators(graph_def)
        result = graph_pb2.GraphDef(versions=graph_def.versions)
        result.library.CopyFrom(graph_def.library)
        names = {node.name for node in graph_def.node}
        # A function captures a variable once.
        handles: dict[int, str] = {}
        captures = {}
        for node in graph_def.node:
            content = node.attr["value"].tensor if node.op == "Const" else None
            if (
                content is None
                or content.dtype not in _TYPES
                or len(content.tensor_content) < self._large_bytes
                or node.name in kept
            ):
                result.node.add().CopyFrom(node)
                continue
            variable = self._variable(content)
            if id(variable) not in handles:
                handle = f"{node.name}/handle"
                while handle in names:
                    handle += "_"
                handles[id(variable)] = handle
                captures[handle] = variable.handle
                placeholder = result.node.add(name=handle, op="Placeholder")
                placeholder.attr["dtype"].type = types_pb2.DT_RESOURCE
                placeholder.attr["shape"].shape.SetInParent()
            read = result.node.add(
                name=node.name, op="ReadVariableOp", device=node.device
            )
            read.input.extend([handles[id(variable)], *node.input])
            read.attr["dtype"].type = content.dtype
            read.attr[SHAPE_OF_WEIGHT].shape.CopyFrom(content.tensor_shape)
        return result, captures

    def _variable(self, content: tf.compat.v1.TensorProto) -> tf.Variable:
        digest = hashlib.sha256(content.tensor_shape.SerializeToString())
        digest.update(content.tensor_content)
        key = content.dtype, digest.digest()
        if key not in self._variables:
            self._variables[key] = tf.Variable(
                tf.make_ndarray(content), trainable=False, name="weight"
            )
        return self._variables[key]


def _read_by_operators(graph_def: graph_pb2.GraphDef) -> set[str]:
    """Constants that scheduled operators read other than as filters.

    The engine takes such ones, say what is added to each image, as constants only, and
    what is computed of constants as well.
    """
    readers = collections.defaultdict(list)
    inputs: collections.Counter[str] = collections.Counter()
    for node in graph_def.node:
        for k, tensor in enumerate(node.input):
            if tensor[0] != "^":
                readers[tensor.partition(":")[0]].append((node, k))
                inputs[node.name] += 1
    # What is computed of constants, and they themselves, those that read them last.
    constants = [node.name for node in graph_def.node if node.op == "Const"]
    computed = list(constants)
    for name in computed:
        for node, _ in readers[name]:
            inputs[node.name] -= 1
            if inputs[node.name] == 0:
                computed.append(node.name)
    # Whether operators read what has a constant's value, and whether they read it, or
    # what is computed of it, other than as a filter.
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
                is_filter = k == 1 and node.op in functions.WITH_FILTERS
                as_filter[name] |= is_filter
                needed[name] |= not is_filter
    return {name for name in constants if needed[name]}
