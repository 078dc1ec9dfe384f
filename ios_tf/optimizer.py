"""Calls the C++ graph optimizer on a frozen signature: collect and rewrite."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

from ios_tf import _native, memory
from ios_tf.graphs import FrozenSignature
from ios_tf.scheduler import Problem

OPTIMIZER = "IosOptimizer"
# Attributes of nodes that carry schedules (cc/tensorflow/annotations.h).
ANNOTATIONS = ("_ios_batch", "_ios_stage", "_ios_stream", "_ios_merge")


@dataclasses.dataclass(frozen=True)
class Collected:
    """What the optimizer found in a graph.

    Attributes:
      problems: signature -> the block to schedule; equal blocks share one.
      blocks: {"signature", "names", "region"} of every block, in graph order.
      report: the optimizer's counts: operators, regions, nodes left to TensorFlow.
    """

    problems: Mapping[str, Problem]
    blocks: Sequence[Mapping[str, Any]]
    report: Mapping[str, Any]


def is_converted(frozen: FrozenSignature) -> bool:
    """Whether the graph carries schedules."""
    return any(ANNOTATIONS[0] in node.attr for node in frozen.graph_def.node)


def fold_constants(frozen: FrozenSignature) -> FrozenSignature:
    """The signature with its constant subgraphs evaluated.

    Keras writes a batch norm as arithmetic on the variables; folded, it is one
    multiplication and one addition, which the importer knows.
    """
    graph_def = _optimize(frozen, ["constfold"], {})
    return dataclasses.replace(frozen, graph_def=graph_def)


def collect(frozen: FrozenSignature, batch_size: int, device: str = "cpu") -> Collected:
    """Finds the blocks of a graph.

    Args:
      frozen: the signature.
      batch_size: takes the place of an unknown leading dimension of the inputs.
      device: "cpu" or "gpu": what cannot run there is left to TensorFlow.
    """
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        path = os.path.join(directory, "problems.json")
        parameters = {"mode": "collect", "output": path, "batch_size": batch_size}
        parameters["device"] = device
        _optimize(frozen, [OPTIMIZER], parameters)
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    problems = [Problem.from_json(problem) for problem in data["problems"]]
    return Collected(
        {problem.signature: problem for problem in problems},
        data["blocks"],
        data.get("report", {}),
    )


def rewrite(
    frozen: FrozenSignature,
    batch_sizes: Sequence[int],
    schedules: str,
    device: str = "cpu",
) -> graph_pb2.GraphDef:
    """The signature's graph with schedules in node attributes and merges made.

    Args:
      frozen: what `collect` was called with.
      batch_sizes: one or more that it was called with.
      schedules: a directory of <block signature>.json files.
      device: what it was called with.
    """
    parameters = {"mode": "rewrite", "schedules": schedules, "device": device}
    parameters["batch_size"] = list(batch_sizes)
    return _optimize(frozen, [OPTIMIZER], parameters)


def lowered_programs(
    frozen: FrozenSignature, batch_size: int = 1, device: str = "cpu"
) -> list[dict[str, Any]]:
    """What the engine would run there: {"block", "schedules"} of every region.

    The schedules are {"batch_size", "schedule"} objects (cc/tensorflow/program_json.h).
    """
    parameters = {"mode": "lower", "batch_size": batch_size, "device": device}
    graph_def = _optimize(frozen, [OPTIMIZER], parameters)
    return [
        json.loads(node.attr["program"].s)
        for node in graph_def.node
        if node.op == "IosRegion"
    ]


Parameters = Mapping[str, str | int | Sequence[int]]


def rewriter_config(
    optimizers: Sequence[str], parameters: Parameters
) -> config_pb2.ConfigProto:
    """What runs only the named graph optimizers, once; ours with `parameters`."""
    config = config_pb2.ConfigProto()
    rewriter = config.graph_options.rewrite_options
    rewriter.min_graph_nodes = -1
    rewriter.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriter.use_plugin_optimizers = rewriter_config_pb2.RewriterConfig.OFF
    rewriter.fail_on_optimizer_errors = True
    rewriter.optimizers.extend(optimizers)
    if parameters:
        custom = rewriter.custom_optimizers.add()
        custom.name = OPTIMIZER
        for key, value in parameters.items():
            if isinstance(value, int):
                custom.parameter_map[key].i = value
            elif isinstance(value, str):
                custom.parameter_map[key].s = value.encode()
            else:
                custom.parameter_map[key].list.i.extend(value)
    return config


def _optimize(
    frozen: FrozenSignature,
    optimizers: Sequence[str],
    parameters: Parameters,
) -> graph_pb2.GraphDef:
    _native.ops()  # registers the optimizer
    meta_graph = meta_graph_pb2.MetaGraphDef()
    meta_graph.graph_def.CopyFrom(frozen.graph_def)
    # What may not be optimised away.
    signature = meta_graph.signature_def["serving_default"]
    for i, spec in enumerate(frozen.inputs.values()):
        info = signature.inputs[str(i)]
        info.name = spec.name
        info.dtype = spec.dtype.as_datatype_enum
        info.tensor_shape.CopyFrom(spec.shape.as_proto())
    for name, tensor in frozen.captures.items():
        info = signature.inputs[name]
        info.name = name + ":0"
        info.dtype = tensor.dtype.as_datatype_enum
        info.tensor_shape.CopyFrom(tf.TensorShape([]).as_proto())
    for name, (tensor_name, _) in frozen.outputs.items():
        signature.outputs[name].name = tensor_name

    config = rewriter_config(optimizers, parameters)
    try:
        return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False)
    finally:
        del meta_graph
        memory.release_unused()
