"""`enable` leaves small regions of plain convolutions to TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

import ios_tf
from ios_tf.native.names import REGION


@pytest.mark.parametrize(
    ("kind", "count", "size", "batch", "is_left"),
    [
        ("1x1", 1, 4, 1, True),
        ("3x3", 2, 4, 1, True),
        ("3x3", 2, 14, 1, False),  # 2 * 2 * 196 * 9 * 64 operations
        ("1x1", 1, 4, 8, True),
        ("depthwise", 1, 4, 1, False),
    ],
)
def test_a_region_and_what_the_plugin_does_with_it(
    kind, count, size, batch, is_left, tmp_path
):
    window = 1 if kind == "1x1" else 3
    filters = np.ones((window, window, 8, 1 if kind == "depthwise" else 8), np.float32)
    config = ios_tf.session_config(cache_dir=str(tmp_path), on_miss="greedy")
    metadata = tf.compat.v1.RunMetadata()
    with tf.Graph().as_default() as graph:
        x = image = tf.compat.v1.placeholder(tf.float32, (batch, size, size, 8))
        for _ in range(count):
            convolve = tf.nn.depthwise_conv2d if kind == "depthwise" else tf.nn.conv2d
            x = tf.nn.relu(convolve(x, filters, [1, 1, 1, 1], "SAME"))
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            session.run(
                x,
                {image: np.zeros(image.shape)},
                options=tf.compat.v1.RunOptions(output_partition_graphs=True),
                run_metadata=metadata,
            )
    nodes = [node.op for part in metadata.partition_graphs for node in part.node]
    assert (REGION not in nodes) == is_left
