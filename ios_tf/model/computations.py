"""Compares the computations of two functions independently of node names."""

from __future__ import annotations

import dataclasses
import graphlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

from ios_tf.model import function_library
from ios_tf.model.function_library import node_of


@dataclasses.dataclass(frozen=True)
class Computation:
    """Digests of what a function computes from its arguments and captures.

    Attributes:
      outputs: a digest for each output tensor. Equal digests mean equal computations.
      effects: sorted digests of the nodes that may have side effects.
    """

    outputs: Sequence[bytes]
    effects: Sequence[bytes]

    @classmethod
    def of(cls, function: Any) -> Computation | None:
        """Digests a ConcreteFunction of a loaded SavedModel.

        Two arguments are the same if they have the same name (`_arg_keywords`); two
        captured tensors are the same if they are the same object.

        Returns:
          The digests, or None if the graph has loops of TensorFlow 1.
        """
        names = iter(function._arg_keywords)
        captured = {inner.op.name: outer for outer, inner in function.graph.captures}
        leaves = {}
        for tensor in function.inputs:
            if tensor.op.name in captured:
                leaf = f"captured {id(captured[tensor.op.name])}"
            else:
                leaf = f"argument {next(names)}"
            leaves[tensor.op.name] = [leaf.encode()]
        graph_def = function.graph.as_graph_def()
        digests = _Digests(graph_def.library.function)
        try:
            values = digests.nodes(graph_def.node, leaves)
        except graphlib.CycleError:
            return None
        return cls(
            [_tensor(values, tensor.name) for tensor in function.outputs],
            sorted(digests.effects),
        )


class _Digests:
    """Digests the nodes of a graph and of the functions that it calls.

    Attributes:
      effects: the digests of all nodes so far that may have side effects.
    """

    def __init__(self, library: Iterable[Any]) -> None:
        self.effects: list[bytes] = []
        self._library = {function.signature.name: function for function in library}
        self._digests_of_functions: dict[str, str] = {}
        self._bodies: dict[str, tuple[graph_pb2.GraphDef, list[str]]] = {}

    def nodes(
        self, nodes: Iterable[Any], leaves: Mapping[str, list[bytes]]
    ) -> dict[str, bytes | list[bytes]]:
        """Maps each node's name to its digests. `leaves` has digests of some nodes."""
        by_name = {node.name: node for node in nodes}
        order = graphlib.TopologicalSorter(
            {name: map(node_of, node.input) for name, node in by_name.items()}
        ).static_order()
        values: dict[str, bytes | list[bytes]] = dict(leaves)
        for name in order:
            if name not in values:
                values[name] = self._node(by_name[name], values)
        return values

    def _node(
        self, node: Any, values: Mapping[str, bytes | list[bytes]]
    ) -> bytes | list[bytes]:
        inputs = [_tensor(values, name) for name in node.input if name[0] != "^"]
        if node.op in function_library.CALLS:
            return self._call(node.attr["f"].func.name, inputs)
        if node.op == "Identity":
            return inputs
        digest = _digest(self._operation(node), *inputs)
        op = op_def_registry.get(node.op)
        if (op is None or op.is_stateful) and (
            node.op not in function_library.WITHOUT_EFFECTS
        ):
            self.effects.append(digest)
        return digest

    def _operation(self, node: Any) -> bytes:
        """Digests a node's op and attributes, with digests for function names."""
        operation = node_def_pb2.NodeDef(op=node.op)
        for key, value in node.attr.items():
            if key[0] != "_":
                operation.attr[key].CopyFrom(value)
        for value in operation.attr.values():
            for function in function_library.functions_of(value):
                if function.name in self._library:
                    function.name = self._function(function.name)
        return operation.SerializeToString(deterministic=True)

    def _function(self, name: str) -> str:
        """Returns the digest of a function that is named in an attribute of a node."""
        if name not in self._digests_of_functions:
            own = _Digests(self._library.values())
            count = len(self._library[name].signature.input_arg)
            outputs = own._call(name, [b"%d" % i for i in range(count)])
            digest = _digest(*outputs, *sorted(own.effects))
            self._digests_of_functions[name] = digest.hex()
        return self._digests_of_functions[name]

    def _call(self, name: str, arguments: Sequence[bytes]) -> list[bytes]:
        """Computes the digests of a function's outputs from those of its arguments."""
        graph_def, outputs = self._body(name)
        inputs = self._library[name].signature.input_arg
        leaves = {
            argument.name: [value]
            for argument, value in zip(inputs, arguments, strict=True)
        }
        values = self.nodes(graph_def.node, leaves)
        return [_tensor(values, output) for output in outputs]

    def _body(self, name: str) -> tuple[graph_pb2.GraphDef, list[str]]:
        """The graph of a function, and its output tensors."""
        if name not in self._bodies:
            function = self._library[name]
            graph_def, flat_names = function_def_to_graph_def(function)
            outputs = (function.ret[one.name] for one in function.signature.output_arg)
            self._bodies[name] = graph_def, [flat_names[one] for one in outputs]
        return self._bodies[name]


def _tensor(values: Mapping[str, bytes | list[bytes]], name: str) -> bytes:
    """The digest of a tensor.

    `values`: for each node, the digest of the node or a list of its outputs' digests.
    """
    node, _, index = name.partition(":")
    value = values[node]
    if isinstance(value, list):
        return value[int(index or 0)]
    return _digest(value, index.encode() or b"0")


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d " % len(part))
        digest.update(part)
    return digest.digest()
