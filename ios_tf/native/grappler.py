"""Runs graph optimizers, TensorFlow's and ours, by name, each of them once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

from ios_tf.native import malloc, plugin
from ios_tf.native.names import OPTIMIZER

Parameters = Mapping[str, str | int | Sequence[int]]


def rewriter_config(
    optimizers: Sequence[str], parameters: Parameters
) -> config_pb2.ConfigProto:
    """A configuration to run only these optimizers, once; ours with `parameters`."""
    config = config_pb2.ConfigProto()
    rewriter = config.graph_options.rewrite_options
    rewriter.min_graph_nodes = -1
    rewriter.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriter.use_plugin_optimizers = rewriter_config_pb2.RewriterConfig.OFF
    rewriter.fail_on_optimizer_errors = True
    rewriter.optimizers.extend(optimizers)
    if "function" in optimizers:
        rewriter.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
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


def optimize(
    graph_def: graph_pb2.GraphDef,
    inputs: Iterable[tf.TensorSpec],
    outputs: Iterable[str],
    optimizers: Sequence[str],
    parameters: Parameters | None = None,
) -> graph_pb2.GraphDef:
    """The graph after the named optimizers.

    Args:
      graph_def: stays as it is.
      inputs: what is fed; their names are names of tensors.
      outputs: names of the tensors that are wanted.
      optimizers: names TensorFlow knows them by, in this order.
      parameters: of `OPTIMIZER`.
    """
    plugin.ops()  # registers the optimizer
    meta_graph = meta_graph_pb2.MetaGraphDef()
    meta_graph.graph_def.CopyFrom(graph_def)
    # The signature keeps inputs and outputs from being optimised away.
    signature = meta_graph.signature_def["serving_default"]
    for i, spec in enumerate(inputs):
        info = signature.inputs[str(i)]
        info.name = spec.name
        info.dtype = spec.dtype.as_datatype_enum
        info.tensor_shape.CopyFrom(spec.shape.as_proto())
    for i, name in enumerate(outputs):
        signature.outputs[str(i)].name = name
    config = rewriter_config(optimizers, parameters or {})
    try:
        return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False)
    finally:
        del meta_graph
        malloc.release_unused(graph_def.ByteSize())
