"""TensorFlow's graph optimizers: some, run once by name; those that calls run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

from ios_tf.native import malloc


def rewriter_config(optimizers: Sequence[str]) -> config_pb2.ConfigProto:
    """A configuration to run only these optimizers, once."""
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
    """The graph after the named optimizers.

    Args:
      graph_def: stays as it is.
      inputs: what is fed; their names are names of tensors.
      outputs: names of the tensors that are wanted.
      optimizers: names TensorFlow knows them by, in this order.
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
    """A copy of a graph with what is fed and wanted, as optimizers take it.

    The arguments are those of `optimize`.
    """
    result = meta_graph_pb2.MetaGraphDef()
    result.graph_def.CopyFrom(graph_def)
    # The signature keeps inputs and outputs from being optimised away.
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
    """Calls within the block are optimized with these experimental options.

    They are those of `tf.config.optimizer.set_experimental_options`, of the process.
    """
    # TensorFlow uses plugins, and lists that option only where it was said.
    before = {"use_plugin_optimizers": True}
    before |= tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(wanted)
    try:
        yield
    finally:
        back = {name: before[name] for name in wanted}
        tf.config.optimizer.set_experimental_options(back)
