"""Analyses and changes the nodes and the function library of a graph."""

from __future__ import annotations

import collections
import copy
import hashlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "DepthwiseConv2dNative")
# Operations whose second input is a filter.
WITH_FILTERS = (*CONVOLUTIONS, "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum")
# Weights of fewer bytes become constants, which cost little and can be folded.
LARGE_BYTES = 1 << 16
WEIGHT_TYPES = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_CONTROL_FLOW = (*_BRANCHES, "While", "StatelessWhile", "For")
# Operations that only pass a resource on. The last three are TensorFlow 1's control
# flow.
_PASSES = ("Identity", "Enter", "Switch", "Merge")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Operations whose inputs are the arguments of their functions.
FUNCTION_CALLS = (*_BRANCHES, "While", "StatelessWhile", *CALLS)
_RESOURCE = types_pb2.DT_RESOURCE
COMPILED = "_XlaMustCompile"
_LOWER = "_lower_using_switch_merge"
_LOWERED_BEFORE = "_ios_lowered_before"
_COMPILED_BEFORE = "_ios_compiled_before"
# Attributes that a frozen graph does not need: the functions that compute gradients,
# and the nodes whose devices other nodes have.
_REFERENCES = (
    "_gradient_op_type",
    "forward_function_name",
    "backward_function_name",
    "_class",
)


def nodes(graph_def: graph_pb2.GraphDef) -> Iterator[Any]:
    """All nodes of a graph, including those of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


# Operations that are registered as stateful but have no side effects.
WITHOUT_EFFECTS = frozenset(
    ("Placeholder", "VarHandleOp", "ReadVariableOp", "HashTableV2")
)


def has_effects(graph_def: graph_pb2.GraphDef) -> bool:
    """Whether the graph may have side effects besides computing its outputs."""
    types = {node.op for node in nodes(graph_def)}.difference(
        FUNCTION_CALLS, WITHOUT_EFFECTS
    )
    return any(op.is_stateful for op in map(op_def_registry.get, types) if op)


# Operations without side effects whose calls may wait for other calls.
_WAITING = ("Batch", "BatchFunction", "PyFuncStateless", "Unbatch")


def may_wait(graph_def: graph_pb2.GraphDef) -> bool:
    """Whether a call of the graph may wait for another call of a graph."""
    return has_effects(graph_def) or any(
        node.op in _WAITING for node in nodes(graph_def)
    )


def node_of(tensor: str) -> str:
    """Returns the name of the node of a tensor or a control input."""
    return tensor.partition(":")[0].removeprefix("^")


def pruned(graph_def: graph_pb2.GraphDef, wanted: Iterable[str]) -> graph_pb2.GraphDef:
    """A copy of the graph with only the nodes that `wanted` nodes and tensors need."""
    needed = reachable(
        map(node_of, wanted),
        {node.name: [node_of(one) for one in node.input] for node in graph_def.node},
    )
    result = without_nodes(graph_def)
    result.node.extend(node for node in graph_def.node if node.name in needed)
    return result


def without_nodes(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """A copy of the graph with only its functions."""
    return graph_pb2.GraphDef(library=graph_def.library, versions=graph_def.versions)


def computed_from(
    graph_def: graph_pb2.GraphDef, tensors: Iterable[str], ends: Container[str] = ()
) -> set[str]:
    """Returns the nodes on whose values these tensors depend.

    The result does not contain nodes that are needed only as control inputs, or only by
    operations of the types `ends`.
    """
    return reachable(
        map(node_of, tensors),
        {
            node.name: [
                node_of(one)
                for one in node.input
                if one[0] != "^" and node.op not in ends
            ]
            for node in graph_def.node
        },
    )


def reachable(starts: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """The nodes that can be reached from `starts`, including these."""
    reached = set(starts)
    left = list(reached)
    while left:
        new = set(edges[left.pop()]) - reached
        reached |= new
        left += new
    return reached


def readers_of(nodes: Iterable[Any]) -> dict[str, list[tuple[Any, int]]]:
    """For each node, the nodes that read its tensors, and through which inputs."""
    readers = collections.defaultdict(list)
    for node in nodes:
        for number, tensor in enumerate(node.input):
            if tensor[0] != "^":
                readers[node_of(tensor)].append((node, number))
    return readers


def wait_as_before(before: graph_pb2.GraphDef, graph_def: graph_pb2.GraphDef) -> None:
    """Restores the control inputs that the nodes of a changed graph had before.

    Control inputs from nodes that no longer exist are left out.
    """
    names = {node.name for node in graph_def.node}
    waits = {
        node.name: [one for one in node.input if one[0] == "^" and one[1:] in names]
        for node in before.node
    }
    for node in graph_def.node:
        node.input.extend(w for w in waits.get(node.name, ()) if w not in node.input)


def drop_references(graph_def: graph_pb2.GraphDef) -> None:
    """Removes attributes that name other nodes and functions.

    The named nodes and functions may no longer exist when the graph is imported again.
    """
    del graph_def.library.gradient[:]
    for owner in (*nodes(graph_def), *graph_def.library.function):
        for attribute in _REFERENCES:
            owner.attr.pop(attribute, None)


def rename_functions(graph_def: graph_pb2.GraphDef) -> None:
    """Adds a digest of the library to the name of each of its functions.

    This is needed because TensorFlow registers functions by name for the whole process,
    and graph optimizers change functions without renaming them.
    """
    digest = hashlib.sha256(
        graph_def.library.SerializeToString(deterministic=True)
    ).hexdigest()[:16]
    names = {
        function.signature.name: f"{function.signature.name}_{digest}"
        for function in graph_def.library.function
    }
    if names:
        _rename_all(graph_def, names)


def _rename_all(graph_def: graph_pb2.GraphDef, names: Mapping[str, str]) -> None:
    for function in graph_def.library.function:
        name = function.signature.name
        function.signature.name = names.get(name, name)
    for node in nodes(graph_def):
        node.op = names.get(node.op, node.op)
    for owner in (*nodes(graph_def), *graph_def.library.function):
        for value in owner.attr.values():
            for function in functions_of(value):
                function.name = names.get(function.name, function.name)


def with_plain_names(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The graph with functions named and listed in the order of their calls.

    TensorFlow numbers functions in the order of their creation, so that their names
    differ between equal graphs.
    """
    if not graph_def.library.function:
        return graph_def
    found = copy.deepcopy(graph_def)
    library = {f.signature.name: f for f in found.library.function}
    names: dict[str, str] = {}
    waiting = list(found.node)
    while waiting:
        node = waiting.pop(0)
        values = [node.attr[key] for key in sorted(node.attr)]
        called = [node.op, *(f.name for value in values for f in functions_of(value))]
        for name in called:
            if name in library and name not in names:
                names[name] = f"function_{len(names)}"
                waiting += library[name].node_def
    _rename_all(found, names)
    found.library.function.sort(key=lambda function: function.signature.name)
    return found


def keep_control_flow(graph_def: graph_pb2.GraphDef) -> None:
    """Prevents TensorFlow from lowering If and While to TensorFlow 1's control flow.

    Lowered control flow does not show whether a variable is only read.
    """
    for node in nodes(graph_def):
        if node.op in _CONTROL_FLOW:
            if node.attr[_LOWER].b:
                node.attr[_LOWERED_BEFORE].b = True
            node.attr[_LOWER].b = False


def lower_control_flow(graph_def: graph_pb2.GraphDef) -> None:
    """Undoes `keep_control_flow`.

    If TensorFlow does not lower a loop, it runs the loop's functions without its
    optimizers and without oneDNN.
    """
    for node in nodes(graph_def):
        if _LOWERED_BEFORE in node.attr:
            del node.attr[_LOWERED_BEFORE]
            node.attr[_LOWER].b = True


def inline_where_convolutions_are(graph_def: graph_pb2.GraphDef) -> None:
    """Makes TensorFlow inline functions that it would compile with XLA or not inline.

    Only functions with convolutions are changed, because the engine, and not XLA, is
    to compute the convolutions.
    """
    library = {f.signature.name: f for f in graph_def.library.function}
    calls = {
        name: {called for node in one.node_def for called in _called_by(node, library)}
        for name, one in library.items()
    }

    def with_operations(wanted: Callable[[str], bool]) -> set[str]:
        """The functions that contain such an operation or call one that does."""
        having = {
            name
            for name, one in library.items()
            if any(wanted(node.op) for node in one.node_def)
        }
        return {n for n in library if not having.isdisjoint(reachable([n], calls))}

    convolve = with_operations(CONVOLUTIONS.__contains__)
    # Functions with XLA's own operators are left alone, because only XLA has kernels
    # for these operators.
    convolve -= with_operations(lambda op: op[:3] == "Xla")
    compiled = set()
    for name in convolve:
        if COMPILED in library[name].attr:
            compiled.add(name)
        for attribute in (COMPILED, "_noinline"):
            library[name].attr.pop(attribute, None)
    for node in nodes(graph_def):
        called = convolve.intersection(_called_by(node, library))
        if called:
            if COMPILED in node.attr:
                compiled |= called
            for attribute in (COMPILED, "_noinline"):
                node.attr.pop(attribute, None)
    for name in compiled:
        for node in library[name].node_def:
            if node.op == "Conv2D":
                node.attr[_COMPILED_BEFORE].b = True


def keep_biases_apart(graph_def: graph_pb2.GraphDef) -> None:
    """Replaces each BiasAdd after a convolution that XLA would compile by an addition.

    TensorFlow's optimizers fuse a convolution with a BiasAdd, but not with an addition.
    Without oneDNN, TensorFlow has no kernel for a grouped convolution that is fused
    with a BiasAdd. (Keras lets XLA compile grouped convolutions.)
    """
    convolutions = set()  # names of convolutions that XLA would compile
    for node in graph_def.node:
        if node.attr.pop(_COMPILED_BEFORE, None):
            convolutions.add(node.name)
    readers = readers_of(graph_def.node if convolutions else ())
    waiting = list(convolutions)
    while waiting:
        for node, number in readers[waiting.pop()]:
            if number > 0:
                continue
            if node.op == "Identity":
                waiting.append(node.name)
            elif node.op == "BiasAdd" and node.attr["data_format"].s != b"NCHW":
                node.op = "AddV2"
                node.attr.pop("data_format", None)


def hidden_convolutions(graph_def: graph_pb2.GraphDef) -> collections.Counter[str]:
    """The number of convolutions in functions, by kind of function."""
    library = {f.signature.name: f for f in graph_def.library.function}
    found: collections.Counter[str] = collections.Counter()
    seen = set()

    def visit(nodes: Iterable[Any], where: str) -> None:
        for node in nodes:
            kind = where or _kind(node, library)
            for name in _called_by(node, library):
                if name not in seen:
                    seen.add(name)
                    body = library[name].node_def
                    found[kind] += count_convolutions(body)
                    visit(body, kind)

    visit(graph_def.node, "")
    return +found


def other_convolutions(graph_def: graph_pb2.GraphDef) -> set[str]:
    """Returns the graph's types of convolutions that are not in `CONVOLUTIONS`."""
    types = {node.op for node in nodes(graph_def) if "Conv" in node.op}
    return types - {*CONVOLUTIONS}


def count_convolutions(nodes: Iterable[Any]) -> int:
    return sum(node.op in CONVOLUTIONS for node in nodes)


def _kind(node: Any, library: dict[str, Any]) -> str:
    if node.op in _CONTROL_FLOW:
        return "loops and branches"
    if node.attr[COMPILED].b if COMPILED in node.attr else False:
        return "functions that XLA compiles"
    if node.op in CALLS or node.op in library:
        return "functions that are not inlined"
    return f"functions of {node.op}"


def _called_by(node: Any, library: dict[str, Any]) -> set[str]:
    """Returns the functions of the library that a node's attributes name."""
    names = {node.op}
    for value in node.attr.values():
        names.update(function.name for function in functions_of(value))
    return names & library.keys()


def functions_of(value: Any) -> Iterator[Any]:
    """The functions in an attribute's value, including those in their attributes."""
    for function in [value.func] if value.HasField("func") else value.list.func:
        yield function
        for inner in function.attr.values():
            yield from functions_of(inner)


def uses(
    graph_def: graph_pb2.GraphDef, resources: Mapping[str, str]
) -> Iterator[tuple[str, str, bool]]:
    """Yields the users of resources: (resource, operation, whether it calls functions).

    Operators inside the called functions are users, too. `resources` maps names of
    placeholders to the resources' names in the result.
    """
    library = {f.signature.name: f for f in graph_def.library.function}

    def visit(nodes: Iterable[Any], known: Mapping[str, str]) -> Iterator[Any]:
        by_name = {node.name: node for node in nodes}

        def resource(name: str) -> str | None:
            """Returns the name of an input's resource; None if it is not a resource."""
            name = name.partition(":")[0]
            while name in by_name and by_name[name].op in _PASSES:
                name = by_name[name].input[0].partition(":")[0]
            return known.get(name)

        for node in by_name.values():
            inputs = [resource(name) for name in node.input if name[0] != "^"]
            if not any(inputs) or node.op in _PASSES:
                continue
            called = _called_by(node, library)
            for of_input in filter(None, inputs):
                yield of_input, node.op, bool(called)
            for name in called:
                arguments = library[name].signature.input_arg
                if node.op in FUNCTION_CALLS:
                    # The first input of a branch is its condition or index, not an
                    # argument.
                    passed = zip(arguments, inputs[node.op in _BRANCHES :], strict=True)
                else:  # for other operations, any input may be any argument
                    some = next(filter(None, inputs))
                    passed = ((a, some) for a in arguments if a.type == _RESOURCE)
                inner = {a.name: of_input for a, of_input in passed if of_input}
                yield from visit(library[name].node_def, inner)

    return visit(graph_def.node, resources)
