"""Every operator of the engine compared with TensorFlow through the whole native path:
import, rewrite, lower, run."""

import itertools

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

pytestmark = pytest.mark.one_core

BATCHES = [1, 3]


def check(function, *shapes, batches=BATCHES) -> gh.Graph:
    """Checks a function for several batch sizes, also others than the imported one.

    `shapes` are the shapes of the inputs without the batch size.
    """
    graph = gh.freeze(function, *((None, *shape) for shape in shapes))
    for batch in batches:
        lowered = gh.assert_lowered_equals(
            graph, *((batch, *shape) for shape in shapes), batch_size=2
        )
    computing = {"Placeholder", "IosRegion", "Identity", "NoOp", "Const"}
    assert set(lowered.ops()) <= computing
    return lowered


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [2, 0], [1, 3], [0, 0]]])
@pytest.mark.parametrize(
    ("kernel", "stride"),
    itertools.product([(1, 1), (3, 3), (1, 7), (4, 2)], [1, 2, (2, 1)]),
)
def test_convolution(kernel, stride, padding):
    filters = gh.constant(*kernel, 5, 6)
    check(lambda x: tf.nn.conv2d(x, filters, stride, padding), (13, 10, 5))


@pytest.mark.parametrize("size", [(7, 7), (8, 9), (16, 16), (35, 3)])
@pytest.mark.parametrize("channels", [(1, 1), (3, 16), (17, 8), (64, 33)])
def test_convolution_sizes(size, channels):
    filters = gh.constant(3, 3, *channels)
    check(lambda x: tf.nn.conv2d(x, filters, 2, "SAME"), (*size, channels[0]))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilation", [2, 3, (1, 4)])
def test_dilated_convolution(dilation, padding):
    filters = gh.constant(3, 3, 5, 6)
    check(
        lambda x: tf.raw_ops.Conv2D(
            input=x,
            filter=filters,
            strides=[1, 1, 1, 1],
            padding=padding,
            dilations=[1, *np.broadcast_to(dilation, 2), 1],
        ),
        (15, 13, 5),
    )


@pytest.mark.parametrize(("groups", "kernel"), [(2, 3), (4, 1), (8, 5)])
def test_grouped_convolution(groups, kernel):
    filters = gh.constant(kernel, kernel, 16 // groups, 24)
    check(lambda x: tf.nn.conv2d(x, filters, 1, "SAME"), (9, 8, 16))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("channels", [3, 24])
def test_depthwise_convolution(channels, multiplier, stride, padding):
    filters = gh.constant(3, 5, channels, multiplier)
    check(
        lambda x: tf.nn.depthwise_conv2d(x, filters, [1, stride, stride, 1], padding),
        (11, 12, channels),
    )


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_separable_convolution(multiplier, kernel, stride, activation):
    depthwise = gh.constant(kernel, kernel, 11, multiplier)
    pointwise = gh.constant(1, 1, 11 * multiplier, 9)
    bias = gh.constant(9)

    def function(x):
        if activation == "relu":
            x = tf.nn.relu(x)
        x = tf.nn.separable_conv2d(
            x, depthwise, pointwise, [1, stride, stride, 1], "SAME"
        )
        return tf.nn.bias_add(x, bias)

    check(function, (13, 14, 11))


@pytest.mark.parametrize("size", [(2, 3), (31, 40)])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (5, 3), (7, 7)])
@pytest.mark.parametrize("channels", [3, 16, 37])
def test_separable_convolution_sizes(channels, kernel, stride, dilation, size):
    depthwise = gh.constant(*kernel, channels, 1)
    pointwise = gh.constant(1, 1, channels, 9)

    def function(x):
        joined = tf.concat([x, tf.nn.relu(x)[..., :2]], 3)  # x becomes a slice of it
        y = tf.nn.separable_conv2d(
            tf.nn.relu(joined[..., :channels]),
            depthwise,
            pointwise,
            [1, stride, stride, 1],
            "SAME",
            dilations=[dilation, dilation],
        )
        return y, tf.nn.relu(joined)

    check(gh.anchored(function, channels), (*size, channels))


@pytest.mark.parametrize("after", [tf.identity, tf.nn.relu, tf.tanh])
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("channels", [5, 37])
@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_separable_convolution_of_a_sum(count, channels, multiplier, after):
    filters = [gh.constant(3, 3, 6, channels, seed=k) for k in range(count)]
    depthwise = gh.constant(3, 3, channels, multiplier)
    pointwise = gh.constant(1, 1, channels * multiplier, 9)

    def function(x):
        terms = [tf.nn.conv2d(x, f, 1, "SAME") for f in filters]
        terms[0] = tf.nn.relu(terms[0]) + terms[0]  # stored as a slice of the concat
        joined = tf.concat([terms[1], terms[0]], 3)
        read_twice = terms[0] + terms[1]
        return [
            *(
                tf.nn.separable_conv2d(y, depthwise, pointwise, [1] * 4, "SAME")
                for y in (after(tf.add_n(terms)), read_twice)
            ),
            tf.nn.relu(joined),
            read_twice,
        ]

    check(function, (8, 9, 6))


ACTIVATIONS = {
    "relu": tf.nn.relu,
    "relu6": lambda x: tf.nn.relu6(4 * x),
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "elu": tf.nn.elu,
    "swish": tf.nn.silu,
    "hard_sigmoid": keras.activations.hard_sigmoid,
    "hard_swish": keras.activations.hard_swish,
}


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
@pytest.mark.parametrize("where", ["folded", "alone", "vectors"])
def test_activation(activation, where):
    filters, bias = gh.constant(3, 3, 6, 7), gh.constant(7)
    weight = gh.constant(6, 4)

    def function(x):
        if where == "folded":
            x = tf.nn.conv2d(x, filters, 1, "SAME")
            return activation(tf.nn.bias_add(x, bias))
        if where == "vectors":
            return activation(tf.matmul(tf.reduce_mean(x, [1, 2]), weight))
        y = tf.nn.max_pool2d(x, 3, 1, "SAME")
        return activation(y)

    check(gh.anchored(function, 6), (9, 8, 6))


@pytest.mark.parametrize("activation", [tf.identity, tf.nn.relu, tf.tanh])
@pytest.mark.parametrize("stride", [1, 2])
def test_residual(activation, stride):
    filters, bias = gh.constant(3, 3, 6, 6), gh.constant(6)

    def function(x):
        short = tf.nn.max_pool2d(x, 1, stride, "SAME") if stride > 1 else x
        y = tf.nn.bias_add(tf.nn.conv2d(short, filters, 1, "SAME"), bias)
        return activation(short + y)

    check(gh.anchored(function, 6), (9, 8, 6))


@pytest.mark.parametrize(
    ("pool", "padding"),
    [
        *itertools.product([tf.nn.max_pool2d, tf.nn.avg_pool2d], ["SAME", "VALID"]),
        # avg_pool2d has no explicit padding.
        (tf.nn.max_pool2d, [[0, 0], [0, 1], [1, 0], [0, 0]]),
    ],
)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3, (2, 4)])
def test_pool(pool, kernel, stride, padding):
    check(
        gh.anchored(lambda x: pool(x, kernel, stride, padding), 5),
        (13, 10, 5),
    )


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("reduce", [tf.reduce_mean, tf.reduce_max])
def test_global_pool(reduce, keepdims):
    check(
        gh.anchored(lambda x: reduce(x, [1, 2], keepdims=keepdims), 17),
        (7, 6, 17),
    )


@pytest.mark.parametrize("channels", [(8, 16), (3, 5, 7), (32, 1)])
def test_concat(channels):
    filters = [gh.constant(1, 1, 6, c, seed=c) for c in channels]
    last = gh.constant(3, 3, sum(channels), 4)

    def function(x):
        parts = [tf.nn.conv2d(x, f, 1, "SAME") for f in filters]
        return tf.nn.conv2d(tf.concat([x, *parts], 3)[..., 6:], last, 1, "SAME")

    check(function, (8, 9, 6))


def test_concat_of_a_tensor_with_itself():
    check(gh.anchored(lambda x: tf.concat([x, x], 3), 5), (6, 7, 5))


@pytest.mark.parametrize("pool", [tf.nn.avg_pool2d, tf.nn.max_pool2d])
@pytest.mark.parametrize(
    ("stride", "padding"), [(1, "SAME"), (2, "SAME"), (1, "VALID")]
)
@pytest.mark.parametrize("filters", [5, 40])
def test_convolution_of_a_pool(filters, stride, padding, pool):
    before = gh.constant(3, 3, 6, 11)
    kernel, bias = gh.constant(1, 1, 11, filters), gh.constant(filters)
    last = gh.constant(1, 1, filters, 3)

    def function(x):
        x = tf.nn.conv2d(x, before, 1, "SAME")
        once, twice = (pool(y, 3, stride, padding) for y in (x, tf.nn.relu(x)))
        results = [
            tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, kernel, 1, "SAME"), bias))
            for y in (once, twice)
        ]
        return *results, twice, tf.nn.conv2d(results[0], last, 1, "SAME")

    check(function, (8, 9, 6))


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activated_convolution_of_a_pool(activation):
    before, kernel = gh.constant(3, 3, 6, 21), gh.constant(1, 1, 21, 19)

    def function(x):
        x = tf.nn.conv2d(x, before, 1, "SAME")
        x = tf.nn.avg_pool2d(x, 3, 1, "SAME")
        return tf.concat([x, activation(tf.nn.conv2d(x, kernel, 1, "SAME"))], 3), (
            activation(
                tf.nn.conv2d(tf.nn.avg_pool2d(x, 3, 1, "SAME"), kernel, 1, "SAME")
            )
        )

    check(function, (8, 9, 6))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_add(count):
    filters = [gh.constant(3, 3, 6, 6, seed=k) for k in range(count)]

    def function(x):
        parts = [tf.nn.conv2d(x, f, 1, "SAME") for f in filters]
        return tf.nn.relu(tf.add_n(parts))

    check(function, (8, 9, 6))


@pytest.mark.parametrize("splits", [((4, 6), (10,)), ((4, 6), (7, 3), (2, 2, 6))])
@pytest.mark.parametrize("activation", [tf.nn.relu, tf.tanh])
def test_add_concats(splits, activation):
    terms = [
        [gh.constant(3, 3, 6, size, seed=10 * i + k) for k, size in enumerate(sizes)]
        for i, sizes in enumerate(splits)
    ]

    def function(x):
        sums = [
            tf.concat([tf.nn.conv2d(x, f, 1, "SAME") for f in filters], 3)
            for filters in terms
        ]
        return activation(tf.add_n(sums))

    check(function, (8, 9, 6))


@pytest.mark.parametrize("activation", [tf.nn.relu6, tf.sigmoid])
def test_activate_a_concat(activation):
    filters = [gh.constant(3, 3, 6, size, seed=size) for size in (4, 7)]
    last = gh.constant(1, 1, 17, 5)

    def function(x):
        parts = [tf.nn.conv2d(x, f, 1, "SAME") for f in filters]
        summed = x + tf.nn.relu(x)
        read_twice = parts[1] + parts[1]
        y = activation(tf.concat([parts[0], summed, read_twice], 3))
        return [*(tf.nn.conv2d(y, last, s, "SAME") for s in (1, 2)), read_twice]

    check(function, (8, 9, 6))


def test_add_a_tensor_to_itself():
    check(gh.anchored(lambda x: tf.nn.relu(x + x), 5), (6, 7, 5))


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_multiply(swapped, broadcast):
    filters = gh.constant(1, 1, 9, 9, seed=3)

    def function(x):
        y = tf.reduce_mean(x, [1, 2], keepdims=True) if broadcast else x
        y = tf.nn.conv2d(y, filters, 1, "SAME")
        return tf.tanh(y * x if swapped else x * y)

    check(gh.anchored(function, 9), (6, 7, 9))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("units", [1, 10, 33])
def test_matmul(units, transposed):
    weight, bias = gh.constant(9, units), gh.constant(units)
    if transposed:
        weight = tf.transpose(weight)

    def function(x):
        x = tf.reduce_max(x, [1, 2])
        return tf.nn.relu(tf.matmul(x, weight, transpose_b=transposed) + bias)

    check(gh.anchored(function, 9), (6, 7, 9))


@pytest.mark.parametrize(
    ("product", "shape", "height"),
    [
        (tf.linalg.matmul, (9, 5), 6),
        (lambda x, m: tf.linalg.matmul(x, m, transpose_b=True), (5, 9), 6),
        (lambda x, m: tf.einsum("bhwc,cd->bhwd", x, m), (9, 5), 6),
        (lambda x, m: tf.einsum("...c,dc->...d", x, m), (5, 9), 6),
        (lambda x, m: tf.einsum("cd,bhwc->bhwd", m, x), (9, 5), 6),
        (lambda x, m: tf.einsum("bc,cd->bd", tf.reduce_max(x, [1, 2]), m), (9, 5), 6),
        (lambda x, m: tf.einsum("bwc,cd->bwd", x[:, 0], m)[:, None], (9, 5), 1),
    ],
)
def test_products_of_channels(product, shape, height):
    matrix = gh.constant(*shape)
    # TensorFlow 2.21's BatchMatMulV2 of images one pixel high corrupts memory.
    check(
        gh.anchored(lambda x: tf.nn.relu(product(x, matrix)), 9),
        (height, 7, 9),
    )


@pytest.mark.parametrize(
    "product",
    [
        lambda x: tf.einsum("bhwc,wd->bhdc", x, gh.constant(7, 7)),
        lambda x: tf.einsum("bhwc,cc->bhwc", x, gh.constant(9, 9)),
        lambda x: tf.einsum("bhwc,cd->bhw", x, gh.constant(9, 5)),
        lambda x: tf.raw_ops.Einsum(
            inputs=[x[:, :, :6], gh.constant(9, 9)], equation="bhhc,cd->bhhd"
        ),
        lambda x: tf.einsum("bhwc->bwhc", x),
        lambda x: tf.einsum("bhwc,bhwd->bhcd", x, x),
        lambda x: tf.linalg.matmul(x, gh.constant(7, 5), transpose_a=True),
    ],
)
def test_products_of_other_dimensions_are_left_to_tensorflow(product):
    graph = gh.freeze(gh.anchored(product, 9), (None, 6, 7, 9))
    lowered = gh.assert_lowered_equals(graph, (2, 6, 7, 9))
    assert lowered.ops()["Einsum"] + lowered.ops()["BatchMatMulV2"] == 1


@pytest.mark.parametrize("rank", [2, 4])
def test_softmax(rank):
    check(
        gh.anchored(
            lambda x: tf.nn.softmax(tf.reduce_mean(x, [1, 2]) if rank == 2 else x), 9
        ),
        (6, 7, 9),
    )


@pytest.mark.parametrize("pads", [((1, 2), (0, 3)), ((0, 0), (4, 0))])
def test_pad(pads):
    paddings = [[0, 0], *pads, [0, 0]]
    # An average counts zeros, so the padding is not folded into the pool.
    check(
        gh.anchored(lambda x: tf.nn.avg_pool2d(tf.pad(x, paddings), 2, 1, "VALID"), 9),
        (6, 7, 9),
    )


def test_scale():
    scale, shift = gh.constant(9), gh.constant(9, seed=1)

    def function(x):
        return tf.nn.relu6(tf.nn.max_pool2d(x, 2, 1, "SAME") * scale + shift)

    check(gh.anchored(function, 9), (6, 7, 9))


@pytest.mark.parametrize("arithmetic", ["x - c", "c - x", "x / c", "c * x", "x + s"])
def test_constant_arithmetic(arithmetic):
    values = {"c": gh.constant(9) + 1, "s": tf.constant(0.7)}
    check(
        gh.anchored(lambda x: eval(arithmetic, {"x": tf.nn.relu(x), **values}), 9),
        (6, 7, 9),
    )


@pytest.mark.parametrize("sizes", [[4, 4, 4], [1, 8, 3], [10, 2]])
def test_slice(sizes):
    filters = [gh.constant(3, 3, s, 5, seed=s) for s in sizes]

    def function(x):
        parts = tf.split(x, sizes, 3)
        return tf.concat(
            [
                tf.nn.conv2d(p, f, 1, "SAME")
                for p, f in zip(parts, filters, strict=True)
            ],
            3,
        )

    check(gh.anchored(function, 12), (6, 7, 12))


def test_several_inputs():
    filters = gh.constant(3, 3, 4, 5)
    check(
        lambda x, y: tf.nn.conv2d(x, filters, 2, "SAME") + y,
        (8, 8, 4),
        (4, 4, 5),
    )


def test_no_images():
    filters = gh.constant(3, 3, 4, 5)
    graph = gh.freeze(lambda x: tf.nn.conv2d(x, filters, 1, "SAME"), (None, 8, 8, 4))
    lowered = gh.lower(gh.rewrite(graph))
    (result,) = gh.run(lowered, np.zeros([0, 8, 8, 4], np.float32))
    assert result.shape == (0, 8, 8, 5)


def test_other_height_and_width_than_imported():
    graph = gh.sequential(
        layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
        layers.AveragePooling2D(3, strides=1, padding="same"),
        layers.SeparableConv2D(5, 3, padding="same"),
        shape=(None, None, 3),
    )
    lowered = gh.lower(gh.rewrite(graph))
    for size in [(32, 32), (9, 31), (1, 1)]:
        images = gh.random_array(2, *size, 3)
        gh.assert_equal(gh.run(lowered, images), gh.run(graph, images))


def test_bad_inputs_are_errors():
    filters = gh.constant(3, 3, 4, 5)
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(x, filters, 1, "VALID"), (None, None, None, 4)
    )
    lowered = gh.lower(gh.rewrite(graph))
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than the padded"):
        gh.run(lowered, np.zeros([1, 1, 2, 4], np.float32))
