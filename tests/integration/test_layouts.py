"""Graphs with channels first, or with both orders: imported, rewritten and lowered.

TensorFlow cannot run convolutions of [N,C,H,W] on a CPU. Each network is therefore
written for both orders, and the network with channels last gives the expected result.
"""

from collections import Counter

import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf
from commands import run_prepared

FIRST, LAST = "NCHW", "NHWC"


def to_first(x):
    return tf.transpose(x, [0, 3, 1, 2])


def to_last(x):
    return tf.transpose(x, [0, 2, 3, 1])


def values(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(gh.random_array(*shape, seed=seed) / 2)


class Layout:
    """TensorFlow's functions for images with one order of dimensions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.channels = 1 if name == FIRST else 3
        self.space = [2, 3] if name == FIRST else [1, 2]

    def shape(self, n, h, w, c) -> list:
        return [n, c, h, w] if self.name == FIRST else [n, h, w, c]

    def list(self, h, w) -> list:
        return self.shape(1, h, w, 1)

    def pairs(self, h, w) -> list:
        return self.shape([0, 0], h, w, [0, 0])

    def conv(self, x, filters, strides=(1, 1), padding="SAME", dilations=(1, 1)):
        # Uses the op itself: tf.nn.conv2d has another order of explicit padding.
        explicit = []
        if not isinstance(padding, str):
            explicit = np.ravel(self.pairs(*padding)).tolist()
            padding = "EXPLICIT"
        return tf.raw_ops.Conv2D(
            input=x,
            filter=filters,
            strides=self.list(*strides),
            padding=padding,
            explicit_paddings=explicit,
            dilations=self.list(*dilations),
            data_format=self.name,
        )

    def depthwise(self, x, filters, strides=(1, 1)):
        return tf.raw_ops.DepthwiseConv2dNative(
            input=x,
            filter=filters,
            strides=self.list(*strides),
            padding="SAME",
            data_format=self.name,
        )

    def pool(self, op, x, kernel, strides, padding="SAME"):
        keywords = {"input" if op is tf.raw_ops.MaxPool else "value": x}
        return op(
            **keywords,
            ksize=self.list(*kernel),
            strides=self.list(*strides),
            padding=padding,
            data_format=self.name,
        )

    def bias(self, x, bias):
        return tf.nn.bias_add(x, bias, data_format=self.name)

    def norm(self, x, seed):
        gamma, beta, mean = tf.unstack(values(3, x.shape[self.channels], seed=seed))
        y, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=gamma,
            offset=beta,
            mean=mean,
            variance=mean * mean + 0.5,
            epsilon=0.01,
            is_training=False,
            data_format=self.name,
        )
        return y

    def per_channel(self, vector):
        return tf.reshape(vector, self.shape(1, 1, 1, -1))


def everything(x, layout: Layout):
    """All kinds of operators; most change height and width differently."""
    x = tf.pad(x, layout.pairs([1, 2], [0, 1])) * 0.5
    x = layout.conv(x, values(3, 5, 3, 8), strides=(2, 1), padding="VALID")
    x = tf.nn.relu(layout.norm(x, 1))
    a = layout.bias(layout.conv(x, values(1, 1, 8, 4, seed=2)), values(4, seed=3))
    b = layout.conv(x, values(3, 3, 8, 8, seed=4), padding=([1, 0], [2, 1]))
    b = layout.bias(tf.nn.relu6(tf.pad(b, layout.pairs([1, 1], [0, 0]))), values(8))
    b = b[:, :, 1:, :-1] if layout.name == FIRST else b[:, 1:, :-1]
    c = layout.conv(x, values(3, 3, 8, 4, seed=5), dilations=(2, 1))
    d = layout.depthwise(tf.nn.relu(c), values(3, 3, 4, 2, seed=6))
    d = layout.conv(d, values(1, 1, 8, 5, seed=7)) * layout.per_channel(values(5))
    p = layout.pool(tf.raw_ops.MaxPool, x, (3, 2), (1, 1))
    q = layout.pool(tf.raw_ops.AvgPool, x, (2, 3), (1, 1))
    y = tf.concat([a, b, c, d, p, q], layout.channels)
    left, middle, right = tf.split(y, [10, 10, 17], layout.channels)
    parts = [left + middle, right, tf.add_n([left, left, middle])]
    y = tf.concat(parts, layout.channels - 4)
    gate = tf.reduce_mean(y, layout.space, keepdims=True)
    gate = tf.sigmoid(layout.conv(gate, values(1, 1, 37, 37, seed=8)))
    y = y * gate + layout.per_channel(values(37, seed=9))
    y = layout.pool(tf.raw_ops.MaxPool, y, (2, 2), (2, 2), "VALID")
    return tf.nn.softmax(
        tf.linalg.matmul(tf.reduce_mean(y, layout.space), values(37, 6, seed=9))
    )


def both(network, *shapes, border=LAST):
    """The graphs of a network in either order; inputs and outputs are in `border`."""

    def function(layout: Layout, *images):
        if layout.name != border:
            images = [(to_first if border == LAST else to_last)(x) for x in images]
        outputs = tf.nest.flatten(network(*images, layout))
        if layout.name != border:
            change = to_last if border == LAST else to_first
            outputs = [change(y) if len(y.shape) == 4 else y for y in outputs]
        return outputs

    shapes = [Layout(border).shape(*shape) for shape in shapes]
    return [
        gh.freeze(lambda *x, name=name: function(Layout(name), *x), *shapes)
        for name in (FIRST, LAST)
    ]


def types(collected) -> Counter:
    return Counter(operator["type"] for operator in gh.operators(collected))


def test_all_operators_equal_those_with_channels_last():
    first, last = both(everything, (None, 12, 13, 3))
    assert first.ops()["Transpose"] == 1
    collected = gh.collect(first, batch_size=2)
    assert gh.left(collected["report"]) == {}
    # The blocks are identical: their signatures cover all attributes and shapes.
    expected = gh.collect(last, batch_size=2)
    assert [b["signature"] for b in collected["blocks"]] == [
        b["signature"] for b in expected["blocks"]
    ]
    images = gh.random_array(2, 12, 13, 3)
    lowered = gh.lower(gh.rewrite(first, batch_size=2))
    assert lowered.ops()["IosRegion"] == 1
    assert lowered.ops()["Transpose"] == 0
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


# All elementwise operations that the engine computes on one tensor, or on a tensor
# and numbers.
OF_X = [
    "Abs",
    "Erf",
    "Erfc",
    "Exp",
    "Expm1",
    "Inv",
    "Log",
    "Log1p",
    "Neg",
    "Reciprocal",
]
OF_X += ["Rsqrt", "Sigmoid", "Sin", "Sqrt", "Square", "Tanh"]
OF_FEATURES = ["Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"]
ELEMENTWISE = {
    **{op: lambda x, op=op: getattr(tf.raw_ops, op)(x=x) for op in OF_X},
    **{op: lambda x, op=op: getattr(tf.raw_ops, op)(features=x) for op in OF_FEATURES},
    "Pow": lambda x: x**3.0,
    "ClipByValue": lambda x: tf.raw_ops.ClipByValue(
        t=x, clip_value_min=0.25, clip_value_max=1.0
    ),
    "SelectV2": lambda x: tf.where(x > 0.7, x, 0.0),
    "Select": lambda x: tf.raw_ops.Select(condition=x > 0.7, x=x, y=tf.zeros_like(x)),
    "a leaky ReLU": lambda x: tf.where(x >= 0, x, x * 0.3),
}


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise_operators_keep_the_layout(op):
    def network(x, layout: Layout):
        # Each operation is applied twice. No convolution determines the layout of the
        # tensor between the two. All arguments are positive, because logarithms and
        # roots need positive arguments.
        y = layout.conv(x, values(3, 3, 3, 8))
        y = ELEMENTWISE[op](tf.tanh(y) + 1.5)
        y = ELEMENTWISE[op](tf.abs(y) * 0.5 + 0.5)
        return layout.conv(y, values(1, 1, 8, 4, seed=1))

    first, last = both(network, (None, 6, 7, 3))
    collected = gh.collect(first, batch_size=2)
    expected = gh.collect(last, batch_size=2)
    assert collected["report"]["regions"] == 1
    assert [b["signature"] for b in collected["blocks"]] == [
        b["signature"] for b in expected["blocks"]
    ]
    images = gh.random_array(2, 6, 7, 3)
    lowered = gh.lower(gh.rewrite(first, batch_size=2))
    assert lowered.ops()["Transpose"] == 0
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def two_branches(x, layout: Layout):
    x = tf.nn.relu(layout.conv(x, values(3, 3, 3, 8)))
    a = tf.nn.relu(layout.conv(x, values(3, 3, 8, 4, seed=1)))
    b = tf.nn.relu(layout.bias(layout.conv(x, values(1, 1, 8, 6, seed=2)), values(6)))
    return tf.concat([a, b], layout.channels)


@pytest.mark.parametrize("border", [FIRST, LAST])
def test_borders_are_transposed_where_the_graph_is_not(border):
    first, last = both(two_branches, (None, 8, 9, 3), border=border)
    images = gh.random_array(*Layout(border).shape(2, 8, 9, 3))
    for graph in (first, last):
        lowered = gh.lower(gh.rewrite(graph, batch_size=2))
        assert lowered.ops()["IosRegion"] == 1
        # Transposes at input and output, because the region is [N,H,W,C] inside.
        assert lowered.ops()["Transpose"] == (2 if border == FIRST else 0)
        if border == LAST:
            expected = gh.run(last, images)
        else:
            expected = gh.run(*both_last(two_branches, images))
        gh.assert_equal(gh.run(lowered, images), expected)


def both_last(network, images):
    """A graph with channels first only at its borders, and its inputs."""
    shape = [None, *images.shape[1:]]
    graph = gh.freeze(lambda x: to_first(network(to_last(x), Layout(LAST))), shape)
    return graph, images


@pytest.mark.parametrize("border", [FIRST, LAST])
def test_merged_convolutions_stay_in_their_layout(border):
    first, last = both(two_branches, (None, 8, 9, 3), border=border)
    for graph, name in ((first, FIRST), (last, LAST)):
        rewritten = gh.rewrite(graph, batch_size=2)
        assert rewritten.merges() == 1
        assert rewritten.ops()["Conv2D"] == 2
        assert rewritten.ops()["Transpose"] == graph.ops()["Transpose"]
        formats = {
            node.attr["data_format"].s.decode()
            for node in rewritten.graph_def.node
            if "data_format" in node.attr
        }
        assert formats == {name}


def mixed(x, layout: Layout):
    """Channels first in one branch and last in the other, for either layout."""
    first, last = Layout(FIRST), Layout(LAST)
    if layout.name == FIRST:
        x = to_last(x)
    x = tf.nn.relu(last.conv(x, values(3, 3, 3, 8)))
    a = tf.nn.relu(last.conv(x, values(3, 3, 8, 4, seed=1)))
    if layout.name == FIRST:
        b = to_last(tf.nn.relu(first.conv(to_first(x), values(1, 1, 8, 4, seed=2))))
    else:
        b = tf.nn.relu(last.conv(x, values(1, 1, 8, 4, seed=2)))
    y = tf.concat([a, b], 3)
    if layout.name == FIRST:
        y = to_first(y)
    return layout.conv(y, values(1, 1, 8, 4, seed=3))


def test_mixed_layouts_are_one_region():
    graph, last = both(mixed, (None, 8, 9, 3))
    collected = gh.collect(graph, batch_size=2)
    assert collected["report"]["regions"] == 1
    # The Transpose at the end is left because its result is fetched.
    assert gh.left(collected["report"]) == {"Transpose": 1}
    images = gh.random_array(2, 8, 9, 3)
    for merge in (False, True):
        rewritten = gh.rewrite(graph, merge, batch_size=2)
        lowered = gh.lower(rewritten)
        assert lowered.ops()["IosRegion"] == 1
        assert lowered.ops()["Transpose"] == 0
        gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


# Without oneDNN, TensorFlow convolves only [N,H,W,C] on a CPU.
RUN_WITHOUT_ONEDNN = """
import sys
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
*paths, images = sys.argv[1:]
for path in paths:
    graph_def = graph_pb2.GraphDef.FromString(open(path, "rb").read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            names = open(path + ".names").read().split()
            outputs = session.run(names[1:], {names[0] + ":0": np.load(images)})
            np.savez(path + ".npz", *outputs)
"""


def test_merges_across_layouts_run_in_stock_tensorflow(tmp_path):
    def network(x, layouts):
        names = iter(layouts)
        a_layout, b_layout = Layout(next(names)), Layout(next(names))
        inputs = {FIRST: to_first(x), LAST: x}
        a = a_layout.conv(inputs[a_layout.name], values(3, 3, 3, 4))
        b = b_layout.conv(inputs[b_layout.name], values(1, 1, 3, 5, seed=1))
        return [a, tf.nn.relu(b + 1), b * 2]

    images = gh.random_array(2, 8, 9, 3)
    np.save(tmp_path / "images.npy", images)
    last = gh.run(
        gh.freeze(lambda x: network(x, (LAST, LAST)), (None, 8, 9, 3)), images
    )
    paths, truths = [], []
    for layouts in ((FIRST, LAST), (LAST, FIRST)):
        graph = gh.freeze(lambda x, _=layouts: network(x, _), (None, 8, 9, 3))
        directory = tmp_path / "_".join(layouts)
        directory.mkdir()
        rewritten = gh.rewrite(graph, batch_size=2)
        (merged,) = (n for n in rewritten.graph_def.node if n.op == "Conv2D")
        assert merged.attr["data_format"].s == LAST.encode()
        truth = [
            y.transpose(0, 3, 1, 2) if name == FIRST else y
            for y, name in zip(last, (*layouts, layouts[1]), strict=True)
        ]
        gh.assert_equal(gh.run(rewritten, images), truth)
        gh.assert_equal(gh.run(gh.lower(rewritten), images), truth)
        path = directory / "graph.pb"
        path.write_bytes(rewritten.graph_def.SerializeToString())
        names = [*rewritten.inputs, *rewritten.outputs]
        path.with_name("graph.pb.names").write_text(" ".join(names))
        paths.append(str(path))
        truths.append(truth)
    arguments = [RUN_WITHOUT_ONEDNN, *paths, tmp_path / "images.npy"]
    run_prepared("-c", *arguments, TF_ENABLE_ONEDNN_OPTS="0")
    for path, truth in zip(paths, truths, strict=True):
        with np.load(path + ".npz") as outputs:
            gh.assert_equal([outputs[name] for name in outputs.files], truth)


def test_a_merge_of_channels_first_stays_so():
    def network(x):
        layout = Layout(FIRST)
        parts = [layout.conv(x, values(k, k, 3, 4, seed=k)) for k in (1, 3)]
        return tf.concat(parts, 1)

    graph = gh.freeze(network, (None, 3, 8, 9))
    rewritten = gh.rewrite(graph, batch_size=2)
    (merged,) = (n for n in rewritten.graph_def.node if n.op == "Conv2D")
    assert merged.attr["data_format"].s == FIRST.encode()
    assert rewritten.ops()["Transpose"] == 0


def test_nodes_that_are_left_read_the_layout_they_know():
    # The tensor is read inside the region, by TensorFlow's nodes in both orders, and
    # from outside of the graph.
    def network(x, layout: Layout):
        images = to_first(x) if layout.name == FIRST else x
        y = layout.conv(images, values(3, 3, 3, 8))
        z = layout.conv(tf.nn.relu(y), values(3, 3, 8, 8, seed=1))
        first, last = (y, to_last(y)) if layout.name == FIRST else (to_first(y), y)
        return [
            tf.linalg.band_part(first, 1, 1),
            tf.nn.log_softmax(last),
            first,
            z if layout.name == FIRST else to_first(z),
        ]

    first, last = (
        gh.freeze(lambda x, name=name: network(x, Layout(name)), (None, 8, 9, 3))
        for name in (FIRST, LAST)
    )
    images = gh.random_array(2, 8, 9, 3)
    lowered = gh.lower(gh.rewrite(first, batch_size=2))
    assert lowered.ops()["Conv2D"] == 0
    # Two nodes and the caller read channels first; log_softmax does not.
    assert lowered.ops()["Transpose"] == 2
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_two_regions_pass_on_what_they_have():
    def network(x, layout: Layout):
        x = layout.conv(x, values(3, 3, 3, 8))
        y = tf.floor(x)  # not supported by the engine
        return layout.conv(x, values(1, 1, 8, 8)) + layout.conv(y, values(1, 1, 8, 8))

    first, last = both(network, (None, 8, 9, 3))
    images = gh.random_array(2, 8, 9, 3)
    lowered = gh.lower(gh.rewrite(first, batch_size=2))
    assert lowered.ops()["IosRegion"] == 2
    # Only TensorFlow's input and output are transposed.
    assert lowered.ops()["Transpose"] == 2
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_layout_optimizer_s_transposes_vanish():
    """TensorFlow's layout optimizer puts Transposes at the ends of a graph."""

    def network(x, layout: Layout):
        x = two_branches(x, layout)
        # It also puts Transposes around operations that it does not know.
        unknown = tf.floor(to_last(x) if layout.name == FIRST else x)
        x = to_first(unknown) if layout.name == FIRST else unknown
        return tf.reduce_mean(layout.conv(x, values(3, 3, 10, 4)), layout.space)

    first, last = both(network, (None, 8, 9, 3))
    images = gh.random_array(2, 8, 9, 3)
    lowered = gh.lower(gh.rewrite(first, batch_size=2))
    assert lowered.ops()["IosRegion"] == 2
    assert lowered.ops()["Transpose"] == 0
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_squeeze_and_excite_of_vectors():
    def network(x, layout: Layout):
        x = layout.conv(x, values(3, 3, 3, 8))
        y = tf.nn.relu(tf.linalg.matmul(tf.reduce_mean(x, layout.space), values(8, 2)))
        y = tf.sigmoid(tf.linalg.matmul(y, values(2, 8)))
        y = tf.reshape(y, layout.shape(-1, 1, 1, 8))
        return layout.conv(x * y, values(1, 1, 8, 4))

    first, last = both(network, (None, 8, 9, 3))
    collected = gh.collect(first, batch_size=2)
    assert gh.left(collected["report"]) == {"Transpose": 1}
    assert types(collected) == types(gh.collect(last, batch_size=2))
    images = gh.random_array(2, 8, 9, 3)
    lowered = gh.lower(gh.rewrite(first, batch_size=2))
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_flatten_of_cells_is_no_change_of_channels():
    # Reshaping [2,5,2,2] to [8,5] mixes cells with channels, though the sizes fit.
    def network(x, layout: Layout):
        x = layout.conv(x, values(3, 3, 3, 5))
        x = x if layout.name == FIRST else to_first(x)
        return tf.linalg.matmul(tf.reshape(x, [8, 5]), values(5, 4))

    first, last = both(network, (2, 2, 2, 3))
    images = gh.random_array(2, 2, 2, 3)
    lowered = gh.lower(gh.rewrite(first))
    assert lowered.ops()["Reshape"] == 1
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_constants_that_vary_along_the_width_are_added():
    # A vector of 8 is added to the columns of [N,8,6,8], not to its channels.
    def network(x, layout: Layout):
        x = layout.conv(x, values(3, 3, 3, 8))
        row = values(8, seed=4)
        x = x + (row if layout.name == FIRST else tf.reshape(row, [1, 1, 8, 1]))
        return layout.conv(x, values(1, 1, 8, 4))

    first, last = both(network, (None, 6, 8, 3))
    images = gh.random_array(2, 6, 8, 3)
    lowered = gh.lower(gh.rewrite(first))
    assert lowered.ops()["IosRegion"] == 1
    assert lowered.ops()["AddV2"] == 0
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_softmax_and_concatenation_over_other_dimensions_are_left():
    def network(x, layout: Layout):
        x = layout.conv(x, values(3, 3, 3, 9))
        width, height = (3, 2) if layout.name == FIRST else (2, 1)
        x = tf.nn.softmax(x, width)
        x = tf.concat([x, 2 * x], height)
        return layout.conv(x, values(1, 1, 9, 4))

    first, last = both(network, (None, 9, 9, 3))
    images = gh.random_array(2, 9, 9, 3)
    lowered = gh.lower(gh.rewrite(first))
    assert lowered.ops()["ConcatV2"] == 1
    assert lowered.ops()["Softmax"] == 1
    gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_unknown_height_and_width():
    first, last = both(two_branches, (None, None, None, 3))
    rewritten = gh.rewrite(first, batch_size=2)
    lowered = gh.lower(rewritten)
    assert lowered.ops()["IosRegion"] == 1
    for size in (7, 20):
        images = gh.random_array(2, size, size + 3, 3)
        gh.assert_equal(gh.run(lowered, images), gh.run(last, images))


def test_plugin_runs_channels_first_on_a_cpu():
    # Stock TensorFlow fails: "the CPU implementation only supports NHWC".
    from tensorflow.python.eager import wrap_function

    first, _ = both(two_branches, (None, 8, 9, 3), border=FIRST)
    rewritten = gh.rewrite(first, batch_size=2)
    function = wrap_function.function_from_graph_def(
        rewritten.graph_def,
        [name + ":0" for name in rewritten.inputs],
        list(rewritten.outputs),
    )
    images = gh.random_array(2, 3, 8, 9)
    (found,) = function(tf.constant(images))
    gh.assert_equal([found.numpy()], gh.run(*both_last(two_branches, images)))
