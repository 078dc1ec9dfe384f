"""Replaces unfed placeholders by their defaults, and conditionals by their branches.

In TensorFlow 1, a model is trained and served with the same graph. A placeholder with a
default, such as `is_training`, decides whether variables are updated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

from ios_tf.model import function_library
from ios_tf.native import grappler

_OP = "PlaceholderWithDefault"


def settled(
    graph_def: graph_pb2.GraphDef,
    inputs: Sequence[tf.TensorSpec],
    outputs: Sequence[str],
) -> graph_pb2.GraphDef:
    """Returns the graph with only the branches that the default values select.

    The arguments are those of `grappler.optimize`. `graph_def` may be changed.
    """
    fed = {function_library.node_of(spec.name) for spec in inputs}
    if _become_constants(graph_def, fed):
        # Folds values that depend on the defaults, and removes TensorFlow 1's switches.
        graph_def = grappler.optimize(graph_def, inputs, outputs, ["constfold", "loop"])
        _call_branches(graph_def)
    return graph_def


def _become_constants(graph_def: graph_pb2.GraphDef, fed: Collection[str]) -> bool:
    """Replaces unfed placeholders by their defaults. Returns whether it found one."""
    unfed = [n for n in graph_def.node if n.op == _OP and n.name not in fed]
    # Placeholders inside of functions are never fed.
    unfed += [n for f in graph_def.library.function for n in f.node_def if n.op == _OP]
    for node in unfed:
        node.op = "Identity"
        dtype = node.attr["dtype"].type
        node.attr.clear()
        node.attr["T"].type = dtype
    return bool(unfed)


def _call_branches(graph_def: graph_pb2.GraphDef) -> None:
    """Replaces each `If` with a constant condition by a call of the taken branch."""
    constants = {node.name: node for node in graph_def.node if node.op == "Const"}
    for node in graph_def.node:
        if node.op not in ("If", "StatelessIf"):
            continue
        condition = constants.get(function_library.node_of(node.input[0]))
        if condition is None:
            continue
        taken = bool(tensor_util.MakeNdarray(condition.attr["value"].tensor))
        stateful = node.op == "If"
        node.op = "StatefulPartitionedCall" if stateful else "PartitionedCall"
        node.attr["f"].CopyFrom(node.attr["then_branch" if taken else "else_branch"])
        for name in list(node.attr):
            if name not in ("f", "Tin", "Tout"):
                del node.attr[name]
        del node.input[0]
