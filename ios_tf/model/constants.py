"""Finds nodes that depend only on constants, and combines constant factors."""

from __future__ import annotations

import collections
import copy
from collections.abc import Collection, Iterable, MutableSequence, Sequence

from tensorflow.core.framework import graph_pb2, node_def_pb2, types_pb2

from ios_tf.model import function_library
from ios_tf.model.function_library import node_of

_DIVISIONS = ("RealDiv", "Div")
_FLOATS = (
    types_pb2.DT_HALF,
    types_pb2.DT_BFLOAT16,
    types_pb2.DT_FLOAT,
    types_pb2.DT_DOUBLE,
)


def computed_of_constants(
    nodes: Sequence[node_def_pb2.NodeDef], variables: Collection[str] = ()
) -> list[str]:
    """Returns the names of constants and of nodes that depend on them only, in order.

    Args:
      nodes: the nodes of a graph or of a function.
      variables: the names of nodes that count as constants, too.
    """
    readers = function_library.readers_of(nodes)
    inputs = collections.Counter(
        node.name for of_node in readers.values() for node, _ in of_node
    )
    computed = [n.name for n in nodes if n.op == "Const" or n.name in variables]
    for name in computed:
        for reader, _ in readers[name]:
            inputs[reader.name] -= 1
            if inputs[reader.name] == 0:
                computed.append(reader.name)
    return computed


def with_single_factors(
    graph_def: graph_pb2.GraphDef, fetched: Iterable[str]
) -> graph_pb2.GraphDef:
    """Joins consecutive multiplications and divisions by constants into one product.

    This avoids an error of TensorFlow 2.21 (ConstantFolding::MulConvPushDown).
    TensorFlow's constant folding joins these operations one by one, and for a product
    that became a constant it still uses the old shape. After a convolution with a
    dynamic batch size, this aborts the process. The bodies of functions are changed,
    too.
    """
    if not any(
        node.op in ("Mul", *_DIVISIONS) and node.attr["T"].type in _FLOATS
        for node in function_library.nodes(graph_def)
    ):
        return graph_def
    result = copy.deepcopy(graph_def)
    _Factors(result.node, fetched, "").join()
    for function in result.library.function:
        wanted = [*function.ret.values(), *function.control_ret.values()]
        _Factors(function.node_def, wanted, ":z:0").join()
    return result


class _Factors:
    """The constant factors of a graph, or of a function."""

    def __init__(
        self,
        nodes: MutableSequence[node_def_pb2.NodeDef],
        fetched: Iterable[str],
        product: str,
    ) -> None:
        """`product`: the suffix of a tensor name for the output of a multiplication."""
        self._nodes = nodes
        self._product = product
        self._constant = set(computed_of_constants(nodes))
        self._by_name = {node.name: node for node in nodes}
        self._uses = collections.Counter(
            node_of(tensor) for node in nodes for tensor in node.input
        )
        self._uses.update(map(node_of, fetched))
        self._added: list[node_def_pb2.NodeDef] = []
        self._dropped: set[str] = set()

    def join(self) -> None:
        """Joins consecutive factors."""
        for node in self._nodes:
            self._multiply(node)
        for node in self._nodes:
            while self._join_with_operand(node):
                pass
        for i in reversed(range(len(self._nodes))):
            if self._nodes[i].name in self._dropped:
                del self._nodes[i]
        self._nodes.extend(self._added)

    def _multiply(self, node: node_def_pb2.NodeDef) -> None:
        """Turns a division by a constant into a multiplication."""
        if (
            node.op in _DIVISIONS
            and node.attr["T"].type in _FLOATS
            and node_of(node.input[1]) in self._constant
            and node_of(node.input[0]) not in self._constant
        ):
            reciprocal = self._add("Reciprocal", node, [node.input[1]])
            node.op = "Mul"
            node.input[1] = reciprocal + self._product.replace("z", "y")

    def _join_with_operand(self, node: node_def_pb2.NodeDef) -> bool:
        """Joins a multiplication with the one before it.

        Returns whether this was possible.
        """
        outer = self._factor(node)
        if outer is None or node.name in self._dropped:
            return False
        operand = self._by_name.get(node_of(node.input[1 - outer]))
        inner = self._factor(operand) if operand else None
        if operand is None or inner is None or self._uses[operand.name] > 1:
            return False
        factors = [operand.input[inner], node.input[outer]]
        node.input[outer] = self._add("Mul", node, factors) + self._product
        node.input[1 - outer] = operand.input[1 - inner]
        node.input.extend(tensor for tensor in operand.input if tensor[0] == "^")
        self._dropped.add(operand.name)
        return True

    def _factor(self, node: node_def_pb2.NodeDef) -> int | None:
        """The index of the only constant input of a multiplication, or None."""
        if node.op != "Mul" or node.attr["T"].type not in _FLOATS:
            return None
        constant = [node_of(tensor) in self._constant for tensor in node.input[:2]]
        return constant.index(True) if constant.count(True) == 1 else None

    def _add(self, op: str, like: node_def_pb2.NodeDef, inputs: Sequence[str]) -> str:
        """Adds a node that computes a constant for `like`; returns its name."""
        name = f"{like.name}/{op.lower()}"
        while name in self._by_name:
            name += "_"
        added = node_def_pb2.NodeDef(name=name, op=op, device=like.device)
        added.input.extend(inputs)
        added.attr["T"].CopyFrom(like.attr["T"])
        self._added.append(added)
        self._by_name[name] = added
        self._constant.add(name)
        return name
