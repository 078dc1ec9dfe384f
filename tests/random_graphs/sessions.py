"""Sessions that run a graph with or without an optimizer, and their feeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

from ios_tf.model.frozen_graphs import FrozenSignature
from random_graphs.program import Settings

BATCH_SIZES = (0, 1, 2, 3, 5)
# Pairs of batch sizes for functions with several arguments of unknown batch size.
_MIXED_BATCHES = ((3, 1), (1, 3), (2, 3))
ON = rewriter_config_pb2.RewriterConfig.ON
OFF = rewriter_config_pb2.RewriterConfig.OFF
# Seeds that differ by a multiple of this number give inputs of the same kind: with or
# without black parts.
KINDS_OF_FEEDS = 3

Feed = Mapping[str, np.ndarray]  # by the argument's name
Outcome = Sequence[np.ndarray] | Exception


def feeds_of(frozen: FrozenSignature, settings: Settings) -> Iterator[Feed]:
    """Arguments of all the sizes that the signature admits."""
    dynamic = [name for name, spec in frozen.inputs.items() if is_dynamic(spec)]
    batches = [dict.fromkeys(dynamic, size) for size in BATCH_SIZES]
    if len(dynamic) > 1:
        for first, second in _MIXED_BATCHES:
            batches.append({n: second if n == dynamic[0] else first for n in dynamic})
    seen = set()
    for image_size in settings.image_sizes:
        for batch in batches:
            shapes = tuple(
                _shape_of(spec.shape.as_list(), batch.get(name), image_size)
                for name, spec in frozen.inputs.items()
            )
            if shapes not in seen:
                yield feed_of(frozen, shapes, settings.seed)
            seen.add(shapes)


def feed_of(
    frozen: FrozenSignature, shapes: Sequence[Sequence[int]], seed: int
) -> Feed:
    """Random inputs of these shapes; every third seed's images have black parts."""
    random = np.random.default_rng(seed)
    feed = {}
    for (name, spec), shape in zip(frozen.inputs.items(), shapes, strict=True):
        feed[name] = random.uniform(-1, 1, shape).astype(spec.dtype.as_numpy_dtype)
        if seed % KINDS_OF_FEEDS == 0 and len(shape) == 4:
            feed[name][:, : shape[1] // 2] = 0
    return feed


def _shape_of(
    shape: Sequence[int | None], batch: int | None, image_size: Sequence[int]
) -> tuple[int, ...]:
    rest = iter([*image_size, *image_size])
    return tuple(
        size if size is not None else batch if axis == 0 else next(rest)
        for axis, size in enumerate(shape)
    )


def is_dynamic(spec: tf.TensorSpec) -> bool:
    """True if an argument accepts any batch size."""
    return bool(spec.shape.rank) and spec.shape[0] is None


def config_of(
    plugins: int | None, config: config_pb2.ConfigProto | None = None
) -> config_pb2.ConfigProto:
    """A session's configuration; `plugins` of None disables all optimizers."""
    config = config or config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    if plugins is None:
        rewrite.disable_meta_optimizer = True
    else:
        rewrite.use_plugin_optimizers = plugins
    rewrite.min_graph_nodes = -1  # also optimises small graphs
    return config


class Session:
    """A graph and a configuration for running it."""

    def __init__(
        self,
        frozen: FrozenSignature,
        graph_def: Any,
        config: config_pb2.ConfigProto,
    ):
        self._inputs = {name: spec.name for name, spec in frozen.inputs.items()}
        self._outputs = [tensor for tensor, _ in frozen.outputs.values()]
        self._refused: Exception | None = None
        with tf.Graph().as_default() as graph:
            try:
                tf.import_graph_def(graph_def, name="")
            except ValueError as error:  # constant folding also makes such graphs
                self._refused = error
        self._session = tf.compat.v1.Session(graph=graph, config=config)

    def run(self, feed: Feed, tensors: Sequence[str] = ()) -> Outcome:
        """Gives the outputs, or the named tensors."""
        if self._refused is not None:
            return self._refused
        try:
            return self._session.run(
                list(tensors) or self._outputs,
                {self._inputs[name]: array for name, array in feed.items()},
            )
        except tf.errors.OpError as error:
            return error

    def close(self) -> None:
        self._session.close()


def stock_sessions(frozen: FrozenSignature) -> Iterator[Session]:
    """Sessions of the original with TensorFlow's optimizers.

    The second session lacks remapping, whose fused convolutions do not support groups.
    """
    unfused = config_of(OFF)
    unfused.graph_options.rewrite_options.remapping = OFF
    for config in (config_of(OFF), unfused):
        yield Session(frozen, frozen.graph_def, config)


def ran(outcome: Outcome) -> bool:
    return not isinstance(outcome, Exception)
