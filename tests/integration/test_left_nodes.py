"""Each reason of the importer is given for a node of a small graph."""

from __future__ import annotations

from collections.abc import Callable

import graph_helpers as gh
import pytest
import tensorflow as tf
from tensorflow.compat import v1

from ios_tf.reasons import Reason

FILTERS = gh.constant(3, 3, 4, 4)
VECTOR = tf.constant([1.0, 2.0, 3.0, 4.0])


def conv(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.conv2d(x, FILTERS, 1, "SAME")


def batch_norm(training: bool) -> Callable[..., tf.Tensor]:
    def function(x):
        empty = tf.constant([], tf.float32)
        mean, variance = (empty, empty) if training else (VECTOR, VECTOR)
        y, moved, *_ = tf.raw_ops.FusedBatchNormV3(
            x=conv(x),
            scale=VECTOR,
            offset=VECTOR,
            mean=mean,
            variance=variance,
            is_training=training,
        )
        return y if training else y + moved

    return function


# Each entry has a function, the type of the node that is left to TensorFlow, and the
# reason.
CASES: dict[str, tuple[Callable[..., tf.Tensor], str, Reason]] = {
    "type": (lambda x: tf.cumsum(conv(x), 1), "Cumsum", Reason.NODE_TYPE),
    "rank": (
        lambda x: tf.nn.relu(tf.reshape(conv(x), [-1, 2, 2, 4, 4])),
        "Relu",
        Reason.UNKNOWN_SHAPE,
    ),
    "float64": (
        lambda x: tf.nn.relu(tf.cast(conv(x), tf.float64)),
        "Relu",
        Reason.DATA_TYPE,
    ),
    "data_format": (
        lambda x: tf.nn.max_pool2d(conv(x), 2, 1, "SAME", "NCHW"),
        "MaxPool",
        Reason.LAYOUT,
    ),
    "bias of the input": (
        lambda x: tf.nn.bias_add(conv(x), x[0, 0, 0]),
        "BiasAdd",
        Reason.OPERAND_NOT_CONSTANT,
    ),
    "power of five": (lambda x: tf.pow(conv(x), 5.0), "Pow", Reason.ATTRIBUTE),
    "rows": (lambda x: tf.concat([conv(x), x], 1), "ConcatV2", Reason.DIMENSION),
    "size from values": (
        lambda x: tf.raw_ops.ResizeBilinear(
            images=conv(x), size=tf.cast(x[0, 0, 0, :2], tf.int32)
        ),
        "ResizeBilinear",
        Reason.OUTPUT_SIZE,
    ),
    "statistics": (batch_norm(False), "FusedBatchNormV3", Reason.STATISTICS_ARE_READ),
    "training": (batch_norm(True), "FusedBatchNormV3", Reason.TRAINING),
    "attention": (
        lambda x: tf.einsum("nhwc,nhwd->nhcd", conv(x), x),
        "Einsum",
        Reason.EQUATION,
    ),
    "channels and columns": (
        lambda x: tf.reshape(conv(x), [-1, 4, 2, 8]),
        "Reshape",
        Reason.RESHAPE,
    ),
    "transpose": (
        lambda x: tf.transpose(conv(x), [0, 2, 1, 3]),
        "Transpose",
        Reason.TRANSPOSE,
    ),
    "strides": (lambda x: conv(x)[:, ::2], "StridedSlice", Reason.SLICE),
    "alone": (
        lambda x: conv(tf.cumsum(tf.nn.relu(x), 1)),
        "Relu",
        Reason.OUTSIDE_REGIONS,
    ),
    "rows and columns": (
        lambda x: tf.reshape(conv(x), [-1, 8, 2, 4]),
        "Reshape",
        Reason.PART_OF_OPERATOR,
    ),
    "comparison": (
        lambda x: tf.where(tf.equal(conv(x), 1.0), tf.zeros([]), x),
        "SelectV2",
        Reason.PATTERN,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_why_a_node_is_left(name):
    function, op, reason = CASES[name]
    report = gh.collect(gh.freeze(function, (None, 4, 4, 4)))["report"]
    assert reason.code in gh.reasons_left(report)[op]
    for one in report["left_to_tensorflow"]:
        assert one["node"] and one["text"]


# Entries as in `CASES`, for images of any size.
OPEN_SIZES: dict[str, tuple[Callable[..., tf.Tensor], str, Reason]] = {
    "rows as channels": (
        lambda x: tf.nn.relu(tf.transpose(conv(x), [0, 1, 3, 2])),
        "Relu",
        Reason.CHANNELS_VARY,
    ),
    "three rows": (
        lambda x: tf.slice(conv(x), [0, 0, 0, 0], [-1, 3, 3, 4]),
        "Slice",
        Reason.REJECTED_SIZES,
    ),
    "mirrored rows": (
        lambda x: tf.pad(
            conv(x)[:, :4, :4], [[0, 0], [4, 4], [0, 0], [0, 0]], "REFLECT"
        ),
        "MirrorPad",
        Reason.SHAPES_DISAGREE,
    ),
}


@pytest.mark.parametrize("name", OPEN_SIZES)
def test_why_a_node_is_left_at_open_sizes(name):
    function, op, reason = OPEN_SIZES[name]
    report = gh.collect(gh.freeze(function, (None, None, None, 4)))["report"]
    assert reason.code in gh.reasons_left(report)[op]


def test_channels_that_the_filter_does_not_divide():
    filters = gh.constant(3, 3, 3, 6)
    graph = gh.freeze(lambda x: tf.nn.conv2d(x, filters, 1, "SAME"), (1, 4, 4, None))
    reasons = gh.reasons_left(gh.collect(graph)["report"])
    assert reasons == {"Conv2D": {Reason.CHANNELS.code}}


def test_a_fused_operation():
    graph = gh.freeze(conv, (1, 4, 4, 4))
    (node,) = (node for node in graph.graph_def.node if node.op == "Conv2D")
    node.op = "_FusedConv2D"
    node.attr["fused_ops"].list.s.append(b"Nothing")
    node.attr["num_args"].i = 0
    node.attr["TArgs"].list.SetInParent()
    reasons = gh.reasons_left(gh.collect(graph)["report"])
    assert reasons == {"_FusedConv2D": {Reason.FUSED_OPERATION.code}}


def test_a_branch_and_a_fed_node():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [1, 4, 4, 4], "x")
        h = tf.nn.relu(x, "fed")
        off, on = v1.raw_ops.Switch(data=h, pred=tf.constant(True))
        convolved = tf.nn.conv2d(on, FILTERS.numpy(), 1, "SAME")
        y, _ = v1.raw_ops.Merge(inputs=[convolved, off])
        tf.identity(y, "y")
    definition = graph.as_graph_def()
    report = gh.collect(gh.Graph(definition, ["x"], ["y:0"]))["report"]
    assert gh.reasons_left(report)["Conv2D"] == {Reason.CONDITIONAL.code}
    report = gh.collect(gh.Graph(definition, ["x", "fed"], ["y:0"]))["report"]
    assert gh.reasons_left(report)["Relu"] == {Reason.FED.code}
