"""Knows a graph's library: which function calls which, and renames them."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.core.framework import graph_pb2, types_pb2
from tensorflow.python.framework import op_def_registry

CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "DepthwiseConv2dNative")
# Those whose second input is a filter.
WITH_FILTERS = (*CONVOLUTIONS, "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum")
# Smaller weights cost little as constants, and optimizers fold them.
LARGE_BYTES = 1 << 16
WEIGHT_TYPES = (types_pb2.DT_FLOAT, types_pb2.DT_HALF, types_pb2.DT_BFLOAT16)
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_CONTROL_FLOW = (*_BRANCHES, "While", "StatelessWhile", "For")
# These hand on a resource; the last three are the control flow of TensorFlow 1.
_PASSES = ("Identity", "Enter", "Switch", "Merge")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Those whose inputs are their functions' arguments.
FUNCTION_CALLS = (*_BRANCHES, "While", "StatelessWhile", *CALLS)
_RESOURCE = types_pb2.DT_RESOURCE
COMPILED = "_XlaMustCompile"
_LOWER = "_lower_using_switch_merge"
_LOWERED_BEFORE = "_ios_lowered_before"
_COMPILED_BEFORE = "_ios_compiled_before"
# Say how a function is differentiated, or name others that do: a frozen graph has no
# use for them, and TensorFlow's loader cannot find what they name.
_OF_GRADIENTS = (
    "_gradient_op_type",
    "forward_function_name",
    "backward_function_name",
)
# Says beside what to place a node. Its device is the node's own by now.
_COLOCATION = "_class"


def nodes(graph_def: graph_pb2.GraphDef) -> Iterator[Any]:
    """All nodes of a graph, those of its functions included."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


# Stateful by their registration, but without an effect.
WITHOUT_EFFECTS = frozenset(
    ("Placeholder", "VarHandleOp", "ReadVariableOp", "HashTableV2")
)


def has_effects(graph_def: graph_pb2.GraphDef) -> bool:
    """Whether running the graph may do more than compute its outputs."""
    for node in nodes(graph_def):
        op = op_def_registry.get(node.op)
        if node.op in FUNCTION_CALLS or node.op in WITHOUT_EFFECTS or op is None:
            continue
        if op.is_stateful:
            return True
    return False


def node_of(tensor: str) -> str:
    """The name of the node that a tensor, or a control input, comes from."""
    return tensor.partition(":")[0].removeprefix("^")


def pruned(graph_def: graph_pb2.GraphDef, wanted: Iterable[str]) -> graph_pb2.GraphDef:
    """A copy of the graph without what these nodes and tensors do not need."""
    needed = reachable(
        map(node_of, wanted),
        {node.name: [node_of(one) for one in node.input] for node in graph_def.node},
    )
    result = graph_pb2.GraphDef(library=graph_def.library, versions=graph_def.versions)
    result.node.extend(node for node in graph_def.node if node.name in needed)
    return result


def computed_from(graph_def: graph_pb2.GraphDef, tensors: Iterable[str]) -> set[str]:
    """The nodes whose values some tensors depend on.

    A node that is only waited for is not among them.
    """
    return reachable(
        map(node_of, tensors),
        {
            node.name: [node_of(one) for one in node.input if one[0] != "^"]
            for node in graph_def.node
        },
    )


def reachable(starts: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """The nodes of a graph that are reached from some, which are among them."""
    reached = set(starts)
    left = list(reached)
    while left:
        new = set(edges[left.pop()]) - reached
        reached |= new
        left += new
    return reached


def wait_as_before(before: graph_pb2.GraphDef, graph_def: graph_pb2.GraphDef) -> None:
    """Gives nodes of a changed graph the control inputs that they had before.

    As far as those are of nodes that are still there.
    """
    names = {node.name for node in graph_def.node}
    waits = {
        node.name: [one for one in node.input if one[0] == "^" and one[1:] in names]
        for node in before.node
    }
    for node in graph_def.node:
        node.input.extend(w for w in waits.get(node.name, ()) if w not in node.input)


def drop_references(graph_def: graph_pb2.GraphDef) -> None:
    """Removes what names other nodes and functions from a graph and its functions.

    Those may be gone by the time that the graph is imported again.
    """
    del graph_def.library.gradient[:]
    for owner in (*nodes(graph_def), *graph_def.library.function):
        for attribute in (*_OF_GRADIENTS, _COLOCATION):
            owner.attr.pop(attribute, None)


def rename_functions(graph_def: graph_pb2.GraphDef) -> None:
    """Gives every function of the library a name that follows from the library.

    TensorFlow knows functions by name in a whole process, and a graph optimizer leaves
    them their names when it changes them.
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
        for value in function.attr.values():
            _rename(value, names)
    for node in nodes(graph_def):
        node.op = names.get(node.op, node.op)
        for value in node.attr.values():
            _rename(value, names)


def with_plain_names(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The graph with functions that are named, and listed, in the order of their calls.

    TensorFlow numbers them as it makes them: of equal graphs they are called otherwise.
    """
    if not graph_def.library.function:
        return graph_def
    found = graph_pb2.GraphDef()
    found.CopyFrom(graph_def)
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
    functions = sorted(
        found.library.function, key=lambda function: function.signature.name
    )
    del found.library.function[:]
    found.library.function.extend(functions)
    return found


def keep_control_flow(graph_def: graph_pb2.GraphDef) -> None:
    """Keeps TensorFlow from writing functional control flow as that of TensorFlow 1.

    Through which no variable is seen to be only read.
    """
    for node in nodes(graph_def):
        if node.op in _CONTROL_FLOW:
            if node.attr[_LOWER].b:
                node.attr[_LOWERED_BEFORE].b = True
            node.attr[_LOWER].b = False


def lower_control_flow(graph_def: graph_pb2.GraphDef) -> None:
    """Undoes `keep_control_flow`.

    TensorFlow runs the functions of loops that it does not write so without its
    optimizers and without oneDNN.
    """
    for node in nodes(graph_def):
        if _LOWERED_BEFORE in node.attr:
            del node.attr[_LOWERED_BEFORE]
            node.attr[_LOWER].b = True


def inline_where_convolutions_are(graph_def: graph_pb2.GraphDef) -> None:
    """Lets TensorFlow inline functions that it would compile with XLA, or keep apart.

    Only those that convolve: in them the engine takes XLA's place.
    """
    library = {f.signature.name: f for f in graph_def.library.function}
    convolve = {
        name for name in library if _all_nodes(name, library, CONVOLUTIONS.__contains__)
    }
    # Only XLA has kernels for its own operators.
    convolve -= {
        name
        for name in library
        if _all_nodes(name, library, lambda op: op[:3] == "Xla")
    }
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
    """Adds biases to what XLA would have convolved so that TensorFlow fuses none.

    Keras has XLA compile grouped convolutions, since TensorFlow, without oneDNN, has no
    kernel for those that its optimizers fuse with a BiasAdd.
    """
    convolutions = set()  # their results, handed on or not
    for node in graph_def.node:
        if node.attr.pop(_COMPILED_BEFORE, None):
            convolutions.add(node.name)
    readers = collections.defaultdict(list)
    for node in graph_def.node if convolutions else ():
        for name in node.input[:1]:
            readers[name.partition(":")[0]].append(node)
    waiting = list(convolutions)
    while waiting:
        for node in readers[waiting.pop()]:
            if node.op == "Identity":
                waiting.append(node.name)
            elif node.op == "BiasAdd" and node.attr["data_format"].s != b"NCHW":
                node.op = "AddV2"
                node.attr.pop("data_format", None)


def hidden_convolutions(graph_def: graph_pb2.GraphDef) -> collections.Counter[str]:
    """How many convolutions are in functions, and in which kind of function."""
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
    """Types of convolutions that are none of `CONVOLUTIONS`."""
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


def _all_nodes(name: str, library: dict[str, Any], wanted: Any) -> bool:
    """Whether a function, or one it calls, has an operator that is wanted."""
    waiting, seen = [name], {name}
    while waiting:
        for node in library[waiting.pop()].node_def:
            if wanted(node.op):
                return True
            more = _called_by(node, library) - seen
            seen |= more
            waiting += more
    return False


def _called_by(node: Any, library: dict[str, Any]) -> set[str]:
    """The functions of the library that a node names."""
    names = {node.op}
    for value in node.attr.values():
        names.update(function.name for function in functions_of(value))
    return names & library.keys()


def functions_of(value: Any) -> Iterator[Any]:
    """The functions in the value of an attribute, with those in their attributes."""
    kind = value.WhichOneof("value")
    direct: Sequence[Any] = ()
    if kind == "func":
        direct = [value.func]
    elif kind == "list":
        direct = value.list.func
    for function in direct:
        yield function
        for inner in function.attr.values():
            yield from functions_of(inner)


def _rename(value: Any, names: Mapping[str, str]) -> None:
    for function in functions_of(value):
        function.name = names.get(function.name, function.name)


def uses(
    graph_def: graph_pb2.GraphDef, resources: Mapping[str, str]
) -> Iterator[tuple[str, str, bool]]:
    """Users of resources: (resource, type of an operator, whether it calls functions).

    Operators in the functions are users, too.

    Args:
      graph_def: only what its outputs need.
      resources: name of a placeholder -> what to call it.
    """
    library = {f.signature.name: f for f in graph_def.library.function}

    def visit(nodes: Iterable[Any], known: Mapping[str, str]) -> Iterator[Any]:
        by_name = {node.name: node for node in nodes}

        def resource(name: str) -> str | None:
            """The resource that an input stands for, if it is one."""
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
                    # A branch's condition, or index, is no argument of the function.
                    passed = zip(arguments, inputs[node.op in _BRANCHES :], strict=True)
                else:  # all of them may be any of its arguments
                    some = next(filter(None, inputs))
                    passed = ((a, some) for a in arguments if a.type == _RESOURCE)
                inner = {a.name: of_input for a, of_input in passed if of_input}
                yield from visit(library[name].node_def, inner)

    return visit(graph_def.node, resources)
