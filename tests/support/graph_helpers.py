"""Frozen graphs and the native optimizer, used without ios_tf's Python modules."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from commands import run_prepared
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.eager import context, wrap_function
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.grappler import tf_optimizer

from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.weights import Weights
from ios_tf.native import graph as native_graph
from ios_tf.native import grappler, plugin
from ios_tf.native.names import OPTIMIZER


@dataclasses.dataclass(frozen=True)
class Graph:
    """A frozen graph; inputs are names of nodes, outputs names of tensors."""

    graph_def: graph_pb2.GraphDef
    inputs: Sequence[str]
    outputs: Sequence[str]

    def ops(self) -> Counter[str]:
        return Counter(node.op for node in self.graph_def.node)

    def merges(self) -> int:
        """The number of merged convolutions."""
        return count_merges(self.graph_def)

    def with_def(self, graph_def: graph_pb2.GraphDef) -> Graph:
        return dataclasses.replace(self, graph_def=graph_def)


def count_merges(graph_def: graph_pb2.GraphDef) -> int:
    """The number of merged convolutions."""
    return sum(
        node.op == "Conv2D" and "/ios_merge" in node.name for node in graph_def.node
    )


def executed_nodes(function, *arguments, **keywords) -> list[node_def_pb2.NodeDef]:
    """The nodes that TensorFlow executes in a function's first call, after optimizers.

    During the call, no other thread may call a function for the first time.
    """
    context.context().enable_graph_collection()
    try:
        function(*arguments, **keywords)
    finally:
        metadata = context.context().export_run_metadata()
        context.context().disable_graph_collection()
    return [
        node
        for graphs in metadata.function_graphs
        for graph in graphs.partition_graphs
        for node in graph.node
    ]


def executed_ops(function, *arguments, **keywords) -> Counter[str]:
    """The types of `executed_nodes` and their counts."""
    return Counter(node.op for node in executed_nodes(function, *arguments, **keywords))


def runs_on_the_engine(node: node_def_pb2.NodeDef) -> bool:
    """Whether a node is a region that does not wait for a schedule."""
    watch = node.attr["watch"].s or b"{}"
    return node.op == "IosRegion" and not json.loads(watch).get("waits")


def freeze(function: Callable[..., Any], *shapes: Sequence[int | None]) -> Graph:
    """Freezes a Keras model or any function of float32 tensors of these shapes."""

    def call(*arguments):
        if isinstance(function, keras.Model):
            arguments = [list(arguments) if len(arguments) > 1 else arguments[0]]
            return function(*arguments, training=False)
        return function(*arguments)

    concrete = tf.function(call, autograph=False).get_concrete_function(
        *(tf.TensorSpec(shape, tf.float32) for shape in shapes)
    )
    frozen = convert_to_constants.convert_variables_to_constants_v2(
        concrete, lower_control_flow=False
    )
    return Graph(
        frozen.graph.as_graph_def(),
        [tensor.op.name for tensor in frozen.inputs],
        [tensor.name for tensor in frozen.outputs],
    )


def sequential(*layers: keras.layers.Layer, shape: Sequence[int | None]) -> Graph:
    """A frozen stack of layers with random weights; `shape` as for keras.Input."""
    inputs = keras.Input(shape)
    x = inputs
    for layer in layers:
        x = layer(x)
    return freeze(randomised(keras.Model(inputs, x)), (None, *shape))


def randomised(model: keras.Model, seed: int = 0) -> keras.Model:
    """Gives all weights random values that differ from their defaults."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        low, high = (0.5, 1.5) if "variance" in weight.path else (-0.5, 0.5)
        weight.assign(random.uniform(low, high, weight.shape))
    return model


def optimize(
    graph: Graph, optimizers: Sequence[str], parameters: Mapping[str, str | int]
) -> Graph:
    plugin.ops()  # registers this package's optimizer
    config = grappler.rewriter_config(optimizers)
    if parameters:
        custom = config.graph_options.rewrite_options.custom_optimizers.add()
        custom.name = OPTIMIZER
        for key, value in parameters.items():
            if isinstance(value, int):
                custom.parameter_map[key].i = value
            elif isinstance(value, str):
                custom.parameter_map[key].s = value.encode()
            else:
                custom.parameter_map[key].list.i.extend(value)
    meta_graph = grappler.meta_graph(graph.graph_def, specs(graph), graph.outputs)
    return graph.with_def(tf_optimizer.OptimizeGraph(config, meta_graph))


def specs(graph: Graph) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(None, tf.float32, f"{name}:0") for name in graph.inputs]


def computing_nodes(graph: Graph) -> dict[str, Any]:
    """All nodes by name except constants, which TensorFlow itself compresses."""
    return {node.name: node for node in graph.graph_def.node if node.op != "Const"}


def opened(graph: Graph) -> native_graph.Graph:
    return native_graph.Graph(graph.graph_def, specs(graph), graph.outputs)


def collect(graph: Graph, batch_size: int = 1, device: str = "cpu") -> dict[str, Any]:
    """The blocks of a graph (cc/tensorflow/convert/collect.h)."""
    return opened(graph).blocks(batch_size, device)


def left(report: Mapping[str, Any]) -> dict[str, int]:
    """Type of nodes -> the number of nodes that are left to TensorFlow."""
    return dict(Counter(one["op"] for one in report["left_to_tensorflow"]))


def reasons_left(report: Mapping[str, Any]) -> dict[str, set[str]]:
    """Type of nodes -> the codes of the reasons why they are left to TensorFlow."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for one in report["left_to_tensorflow"]:
        reasons[one["op"]].add(one["code"])
    return dict(reasons)


def operators(collected: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operators of all blocks."""
    problems = {p["signature"]: p for p in collected["problems"]}
    return [
        operator
        for block in collected["blocks"]
        for operator in problems[block["signature"]]["block"]["operators"]
    ]


def schedule_by_levels(problem: Mapping[str, Any], merge: bool) -> dict[str, Any]:
    """A schedule with a stage for each depth; with `merge`, merges what may merge."""
    depth: list[int] = []
    levels = defaultdict(list)
    for i, operator in enumerate(problem["block"]["operators"]):
        inputs = [j for j in operator["inputs"] if j >= 0]
        depth.append(1 + max((depth[j] for j in inputs), default=0))
        levels[depth[i]].append(i)
    stages = []
    for level in sorted(levels):
        members = set(levels[level])
        for merge_class in problem["merge_classes"] if merge else []:
            merged = [i for i in merge_class if i in members]
            if len(merged) > 1:
                stages.append({"strategy": "merge", "groups": [merged]})
                members -= set(merged)
        if members:
            groups = [[i] for i in sorted(members)]
            stages.append({"strategy": "concurrent", "groups": groups})
    return {"version": 1, "signature": problem["signature"], "stages": stages}


def rewrite(
    graph: Graph,
    merge: bool = True,
    batch_size: int | Sequence[int] = 1,
    device: str = "cpu",
) -> Graph:
    """The graph with `schedule_by_levels` schedules."""
    sizes = [batch_size] if isinstance(batch_size, int) else batch_size
    native = opened(graph)
    schedules = {
        problem["signature"]: json.dumps(schedule_by_levels(problem, merge))
        for size in sizes
        for problem in native.blocks(size, device)["problems"]
    }
    return graph.with_def(
        native.rewritten([(size, 1) for size in sizes], device, schedules)
    )


def lower(
    graph: Graph, optimizers: Sequence[str] = ("IosOptimizer",), **parameters: str | int
) -> Graph:
    return optimize(graph, optimizers, {"mode": "lower", **parameters})


def run(graph: Graph, *arrays: np.ndarray) -> list[np.ndarray]:
    """Runs the graph as it is, without any optimizer."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as g:
        tf.import_graph_def(graph.graph_def, name="")
        with tf.compat.v1.Session(graph=g, config=config) as session:
            feeds = {
                name + ":0": array
                for name, array in zip(graph.inputs, arrays, strict=True)
            }
            return session.run(list(graph.outputs), feeds)


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def assert_equal(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Asserts equality to within 1e-4 of the largest expected value."""
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        if b.size:
            assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max()


def assert_same(found, expected) -> None:
    """Asserts equal structures, and equal values, types and static shapes."""
    tf.nest.assert_same_structure(found, expected, expand_composites=True)
    pairs = zip(
        tf.nest.flatten(found, expand_composites=True),
        tf.nest.flatten(expected, expand_composites=True),
        strict=True,
    )
    for one, truth in pairs:
        if not tf.is_tensor(truth):
            assert one == truth
            continue
        assert one.dtype == truth.dtype
        if truth.dtype.is_floating:
            assert_equal([one.numpy()], [truth.numpy()])
        else:
            np.testing.assert_array_equal(one, truth)


def assert_lowered_equals(
    graph: Graph, *shapes: Sequence[int], **parameters: int
) -> Graph:
    """Asserts that rewriting and lowering keep the results; gives the lowered graph."""
    arrays = [random_array(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = run(graph, *arrays)
    assert all(np.abs(e).max() > 0 for e in expected)
    rewritten = rewrite(graph, **parameters)
    assert_equal(run(rewritten, *arrays), expected)
    lowered = lower(rewritten)
    assert lowered.ops()["IosRegion"] >= 1
    assert_equal(run(lowered, *arrays), expected)
    assert_equal(run_with_variables(rewritten, lowered, *arrays), expected)
    return lowered


def signature(graph: Graph) -> FrozenSignature:
    """The graph as a FrozenSignature without captures."""
    nodes = {node.name: node for node in graph.graph_def.node}
    inputs = {
        name: tf.TensorSpec(
            tf.TensorShape(nodes[name].attr["shape"].shape), tf.float32, f"{name}:0"
        )
        for name in graph.inputs
    }
    outputs = {name: (name, tf.TensorShape(None)) for name in graph.outputs}
    return FrozenSignature(graph.graph_def, inputs, outputs, {}, {})


def run_with_variables(
    rewritten: Graph, lowered: Graph, *arrays: np.ndarray
) -> list[np.ndarray]:
    """Rewrites constants to variables where possible, lowers the graph and runs it.
    `lowered`: the same graph with constants; it must have equally many regions.
    """
    weights = Weights(large_bytes=1)
    graph_def, captures = weights.take(signature(rewritten), rewritten.graph_def)
    with_variables = lower(rewritten.with_def(graph_def))
    assert with_variables.ops()["IosRegion"] == lowered.ops()["IosRegion"]
    function = wrap_function.function_from_graph_def(
        with_variables.graph_def,
        [f"{name}:0" for name in rewritten.inputs],
        [name if ":" in name else f"{name}:0" for name in rewritten.outputs],
        captures=captures,
    )
    return [one.numpy() for one in function(*map(tf.constant, arrays))]


def as_function(graph: Graph):
    return wrap_function.function_from_graph_def(
        graph.graph_def, [name + ":0" for name in graph.inputs], list(graph.outputs)
    )


def constant(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(random_array(*shape, seed=seed) / 4)


def anchored(function, channels: int):
    """`function` after a convolution, so that its operators belong to a region."""
    before = constant(1, 1, channels, channels, seed=10)
    return lambda x: function(tf.nn.conv2d(x, before, 1, "SAME"))


def convolutions(ops: Counter[str]) -> list[str]:
    """The types of executed convolutions, oneDNN's or TensorFlow's own."""
    return [op for op in ops if "Conv2" in op]


def warnings_of(code: str, run=run_prepared, **environment: str) -> list[str]:
    """Runs Python code in a process of its own, and returns the plugin's warnings."""
    done = run("-c", code, TF_CPP_MIN_LOG_LEVEL="1", **environment)
    return [line for line in done.stderr.splitlines() if "ios_tf" in line]
