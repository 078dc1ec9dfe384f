"""Makes functions from parts of a graph, and finds tensors that two graphs share."""

from __future__ import annotations

import collections
import copy
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.eager import wrap_function

from ios_tf.model import function_library
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.function_library import node_of
from ios_tf.native.names import REGION


class GraphFunction:
    """A function of positional tensors that returns a list of tensors.

    TensorFlow's own function is not used, because a positional call takes milliseconds:
    it raises and catches an error whose message contains the values.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self.outputs: Sequence[tf.Tensor] = function.outputs

    def __call__(self, *arguments: tf.Tensor) -> list[tf.Tensor]:
        function = self._function
        results: list[tf.Tensor] = function._call_flat(
            list(arguments), function.captured_inputs
        )
        return results


def tensors(
    frozen: FrozenSignature, graph_def: graph_pb2.GraphDef, names: Sequence[str]
) -> GraphFunction:
    """A function of a signature's inputs that returns tensors of a graph."""
    return _import(
        graph_def,
        [spec.name for spec in frozen.inputs.values()],
        names,
        dict(frozen.captures),
    )


def between(
    frozen: FrozenSignature,
    graph_def: graph_pb2.GraphDef,
    inputs: Mapping[str, tf.TensorSpec],
    outputs: Sequence[str],
) -> GraphFunction:
    """Makes a function of some tensors of a graph that returns other tensors of it.

    Args:
      frozen: the signature with the captures of the graph.
      graph_def: the graph. The function runs only the nodes that the outputs need, and
        no assertions.
      inputs: specs of the arguments by tensor name, in the order of the arguments.
      outputs: names of the tensors to return.
    """
    argument = {name: f"ios_tf_input_{i}" for i, name in enumerate(inputs)}
    cut = function_library.without_nodes(graph_def)
    for name, spec in inputs.items():
        placeholder = cut.node.add(name=argument[name], op="Placeholder")
        placeholder.attr["dtype"].type = spec.dtype.as_datatype_enum
        placeholder.attr["shape"].shape.CopyFrom(spec.shape.as_proto())
    reads = {
        name: [argument.get(tensor, tensor) for tensor in read]
        for name, read in _reads(graph_def).items()
    }
    needed = function_library.reachable(
        map(node_of, outputs),
        {name: map(node_of, read) for name, read in reads.items()}
        | dict.fromkeys(argument.values(), ()),
    )
    for original in graph_def.node:
        if original.name in needed:
            cut.node.append(original)
            cut.node[-1].input[:] = reads[original.name]
    arguments = [f"{argument[name]}:0" for name in inputs]
    captures = {name: t for name, t in frozen.captures.items() if name in needed}
    return _import(cut, arguments, outputs, captures)


def sources(
    graph_def: graph_pb2.GraphDef, output: str, known: Container[str]
) -> list[str]:
    """The nearest known tensors from which a tensor (perhaps known) is computed."""
    reads = _reads(graph_def)
    before = {
        name: [node_of(one) for one in read if one not in known]
        for name, read in reads.items()
    }
    reached = function_library.reachable([node_of(output)], before)
    found = (one for name in reads if name in reached for one in reads[name])
    return list(dict.fromkeys(one for one in found if one in known))


def other_inputs(
    frozen: FrozenSignature, inputs: set[str], outputs: Iterable[str]
) -> set[str]:
    """Finds the tensors that a part of a graph reads in addition to `inputs`.

    An example is the shape of another tensor, if a lowered graph does not have that
    tensor. The part begins with the tensors `inputs` and computes the `outputs`.
    """
    reads = _reads(frozen.graph_def)
    readers = collections.defaultdict(list)
    for name, read in reads.items():
        for tensor in read:
            readers[node_of(tensor)].append(name)
    given = [node_of(spec.name) for spec in frozen.inputs.values()]
    first = [name for name, read in reads.items() if not inputs.isdisjoint(read)]
    inside = function_library.reachable(first, readers)
    outside = function_library.reachable(given, readers) - inside
    others = {
        name: [one for one in read if name in inside and one not in inputs]
        for name, read in reads.items()
    }
    before = {name: map(node_of, read) for name, read in others.items()}
    reached = function_library.reachable(map(node_of, outputs), before)
    return {one for n in reached for one in others[n] if node_of(one) in outside}


def _reads(graph_def: graph_pb2.GraphDef) -> dict[str, list[str]]:
    """The tensors that each node reads."""
    return {
        node.name: [full_name(tensor) for tensor in node.input if tensor[0] != "^"]
        for node in graph_def.node
    }


def _import(
    graph_def: graph_pb2.GraphDef,
    inputs: Sequence[str],
    outputs: Sequence[str],
    captures: Mapping[str, tf.Tensor],
) -> GraphFunction:
    renamed = copy.deepcopy(graph_def)
    function_library.rename_functions(renamed)
    return GraphFunction(
        wrap_function.function_from_graph_def(
            renamed, list(inputs), list(outputs), captures=captures
        )
    )


def results_of_regions(
    frozen: FrozenSignature, lowered: graph_pb2.GraphDef
) -> list[tuple[str, str, str]]:
    """Finds the tensors of the original that regions of the lowered graph compute.

    A node that is in both graphs reads the same values in both. If these values come
    from a region in the lowered graph (perhaps through a Transpose), the corresponding
    tensor of the original is found. The same is done for the outputs of the signature.

    Returns:
      (region, tensor of the lowered graph, tensor of the original), in the order of
      the regions.
    """
    nodes = {node.name: node for node in lowered.node}
    originals = {node.name: node for node in frozen.graph_def.node}
    order = [node.name for node in lowered.node if node.op == REGION]

    def region(tensor: str) -> str | None:
        node = nodes[node_of(tensor)]
        while node.op != REGION:
            if is_common(node, originals) or not node.input:
                return None
            node = nodes[node_of(node.input[0])]
        return node.name

    pairs = [(name, name) for name, _ in frozen.outputs.values()]
    for name, before in originals.items():
        if name in nodes and is_common(nodes[name], originals):
            pairs += zip(nodes[name].input, before.input, strict=False)
    results = {
        one: (region(one), full_name(one), full_name(truth))
        for one, truth in pairs
        if one[0] != "^" and truth[0] != "^" and region(one)
    }
    return sorted(results.values(), key=lambda result: order.index(result[0]))


def is_common(node: Any, originals: Mapping[str, Any]) -> bool:
    """Whether a node of a lowered graph is also in the original graph."""
    return node.name in originals and originals[node.name].op == node.op


def full_name(tensor: str) -> str:
    """The name of a tensor with its port."""
    return tensor if ":" in tensor else f"{tensor}:0"
