"""The kinds of steps of random graphs by name, and the frequency of each kind.

Each kind is a function that appends statements to a builder, and has a name that
describes the statements. Its choices depend on genes. A statement that TensorFlow
refuses during tracing is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from random_graphs.builder import Builder, ByteChoices
from random_graphs.steps import (
    convolutions,
    elementwise,
    other,
    parts,
    pools,
    shapes,
)

Kind = Callable[[Builder, ByteChoices], None]
# Each kind with its frequency relative to the others. The first is the simplest. The
# order determines which graphs a seed gives.
_KINDS: tuple[tuple[Kind, int], ...] = (
    (convolutions.conv2d, 12),
    (convolutions.depthwise_conv2d, 4),
    (convolutions.conv2d_channels_first, 3),
    (convolutions.conv2d_transpose, 3),
    (convolutions.conv1d, 3),
    (convolutions.matmul, 3),
    (pools.batch_norm, 3),
    (elementwise.unary, 14),
    (elementwise.prelu, 2),
    (pools.pool, 7),
    (pools.reduce, 6),
    (parts.concat, 8),
    (parts.split, 4),
    (parts.stack, 2),
    (elementwise.broadcast_constant, 10),
    (elementwise.broadcast, 12),
    (elementwise.add_n, 2),
    (parts.slices, 9),
    (parts.tf_slice, 3),
    (parts.strided_slice, 3),
    (parts.sizes, 4),
    (parts.large_bounds, 12),
    (parts.pad, 5),
    (shapes.reshape, 6),
    (shapes.channel_shuffle, 2),
    (shapes.transpose, 3),
    (shapes.resize, 4),
    (shapes.depth_to_space, 2),
    (pools.normalize, 4),
    (other.other, 4),
    (other.integers, 1),
)
KINDS = {kind.__name__: kind for kind, _ in _KINDS}
FREQUENCY = {kind.__name__: frequency for kind, frequency in _KINDS}
