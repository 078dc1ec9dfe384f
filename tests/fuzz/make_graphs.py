"""Writes the corpus of the graph fuzzer: python tests/fuzz/make_graphs.py

The graphs are small. Together, they have the layouts, shapes and compositions of
operations that the importer recognizes.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import graph_helpers as gh
import numpy as np
import tensorflow as tf
from google.protobuf import text_format

CORPUS = Path(__file__).resolve().parent / "corpus" / "graph"


def filters(*shape):
    return tf.constant(np.full(shape, 0.5, np.float32))


def conv(x, kernel, channels, strides=1, padding="SAME"):
    return tf.nn.conv2d(
        x, filters(kernel, kernel, x.shape[-1], channels), strides, padding
    )


def branches(x):
    y = tf.nn.relu(tf.nn.bias_add(conv(x, 1, 2), filters(2)))
    z = tf.nn.relu6(conv(x, 3, 2) * filters(2) + filters(2))
    return tf.concat([y, z, tf.nn.max_pool2d(x, 3, 1, "SAME")], 3)


def squeeze_and_excite(x):
    y = conv(x, 1, 2)
    gate = tf.reduce_mean(y, [1, 2])
    gate = tf.nn.sigmoid(tf.linalg.matmul(gate, filters(2, 2)))
    return conv(y * gate[:, None, None], 1, 1) + conv(x, 1, 1)


def sizes(x):
    y = conv(x, 1, 2, strides=2)
    height_width = tf.shape(x)[1:3]
    y = tf.image.resize(y, height_width)
    up = tf.nn.conv2d_transpose(
        y,
        filters(2, 2, 1, 2),
        tf.concat([tf.shape(x)[:1], height_width * 2, [1]], 0),
        2,
    )
    return tf.nn.depth_to_space(conv(y, 1, 4), 2) + up


def norms(x):
    y = conv(x, 1, 4)
    mean = tf.reduce_mean(y, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(y, mean), -1, keepdims=True)
    y = (y - mean) * tf.math.rsqrt(variance + 1e-3)
    y = y * 0.5 * (1 + tf.math.erf(y * 0.70710678))
    return conv(tf.pad(y[:, 1:, :-1], [[0, 0], [1, 0], [0, 1], [0, 0]]), 1, 1)


def channels_first(x):
    y = tf.transpose(x, [0, 3, 1, 2])
    y = tf.nn.conv2d(y, filters(1, 1, 3, 2), 1, "SAME", data_format="NCHW")
    y = tf.nn.bias_add(y, filters(2), data_format="NCHW")
    left, right = tf.split(tf.nn.elu(y), 2, 1)
    return tf.transpose(left * right, [0, 2, 3, 1])


def sequences(x):
    y = tf.nn.conv1d(x[:, 0], filters(3, 3, 2), 1, "VALID")
    return tf.nn.softmax(tf.reduce_max(tf.nn.leaky_relu(y), 1))


def depthwise(x):
    y = tf.nn.depthwise_conv2d(x, filters(3, 3, 3, 1), [1, 1, 1, 1], "SAME")
    y = conv(y, 1, 4)
    y = tf.reshape(y, [-1, 6, 5, 2, 2])
    return conv(tf.reshape(tf.transpose(y, [0, 1, 2, 4, 3]), [-1, 6, 5, 4]), 1, 1)


def products(x):
    y = tf.linalg.matmul(conv(x, 1, 4), filters(2, 4), transpose_b=True)
    y = tf.where(y > 0.5, y, tf.zeros_like(y))
    y = tf.reshape(tf.einsum("bhwc,cd->bhwd", y, filters(2, 4)), [-1, 30, 2, 2])
    mean, variance = tf.nn.moments(y, [1, 3], keepdims=True)
    y = (y - mean) * tf.math.rsqrt(variance + 1e-3)
    return tf.einsum("cd,bc->bd", filters(120, 3), tf.reshape(y, [-1, 120]))


def write(name, graph_def):
    for node in graph_def.node:
        node.ClearField("experimental_debug_info")
        node.attr.pop("_output_shapes", None)
    graph_def.ClearField("library")
    text = text_format.MessageToString(graph_def)
    (CORPUS / f"{name}.pbtxt").write_text(text)
    print(name, len(graph_def.node), "nodes", len(text), "bytes")


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    shape = (None, 6, 5, 3)
    for function in (
        branches,
        squeeze_and_excite,
        sizes,
        norms,
        channels_first,
        sequences,
        depthwise,
        products,
    ):
        graph = gh.freeze(function, shape)
        write(function.__name__, graph.graph_def)
    graph = gh.freeze(branches, shape)
    write("annotated", gh.rewrite(graph).graph_def)


if __name__ == "__main__":
    main()
