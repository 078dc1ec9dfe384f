"""Runs TensorFlow's graph optimizers, and sets their options for the process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

from ios_tf.native import malloc


def rewriter_config(optimizers: Sequence[str]) -> config_pb2.ConfigProto:
    """Returns a configuration that runs only these optimizers, once."""
    config = config_pb2.ConfigProto()
    rewriter = config.graph_options.rewrite_options
    rewriter.min_graph_nodes = -1
    rewriter.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriter.use_plugin_optimizers = rewriter_config_pb2.RewriterConfig.OFF
    rewriter.fail_on_optimizer_errors = True
    rewriter.optimizers.extend(optimizers)
    if "function" in optimizers:
        rewriter.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    return config


def optimize(
    graph_def: graph_pb2.GraphDef,
    inputs: Iterable[tf.TensorSpec],
    outputs: Iterable[str],
    optimizers: Sequence[str],
) -> graph_pb2.GraphDef:
    """Returns the graph after the named optimizers.

    Args:
      graph_def: the graph, which is not changed.
      inputs: the tensors that are fed; the specs' names are names of tensors.
      outputs: names of the tensors to compute.
      optimizers: TensorFlow's names of the optimizers, in the order to run them.
    """
    content = meta_graph(graph_def, inputs, outputs)
    config = rewriter_config(optimizers)
    try:
        return tf_optimizer.OptimizeGraph(config, content, verbose=False)
    finally:
        del content
        malloc.release_unused(graph_def.ByteSize())


def meta_graph(
    graph_def: graph_pb2.GraphDef,
    inputs: Iterable[tf.TensorSpec],
    outputs: Iterable[str],
) -> meta_graph_pb2.MetaGraphDef:
    """A copy of a graph with its inputs and outputs, in the form for optimizers.

    The arguments are those of `optimize`.
    """
    result = meta_graph_pb2.MetaGraphDef()
    result.graph_def.CopyFrom(graph_def)
    # The graph gets a signature, so that its inputs and outputs are not optimised away.
    signature = result.signature_def["serving_default"]
    for i, spec in enumerate(inputs):
        info = signature.inputs[str(i)]
        info.name = spec.name
        info.dtype = spec.dtype.as_datatype_enum
        info.tensor_shape.CopyFrom(spec.shape.as_proto())
    for i, name in enumerate(outputs):
        signature.outputs[str(i)].name = name
    return result


@contextlib.contextmanager
def options(**wanted: bool) -> Iterator[None]:
    """Sets these experimental options of the optimizer within the `with` block.

    The options are those of `tf.config.optimizer.set_experimental_options`. They apply
    to the whole process.
    """
    # The default of this option is added, because TensorFlow returns only options that
    # were set.
    before = {"use_plugin_optimizers": True}
    before |= tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(wanted)
    try:
        yield
    finally:
        back = {name: before[name] for name in wanted}
        tf.config.optimizer.set_experimental_options(back)
