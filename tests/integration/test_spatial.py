"""Operators that change images' height and width, compared with TensorFlow through the
whole native path, for every size that the graph allows."""

from __future__ import annotations

import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

pytestmark = pytest.mark.one_core

COMPUTING = {"Placeholder", "IosRegion", "Identity", "NoOp", "Const", "Transpose"}


def check(function, channels, sizes, batches=(1, 3)) -> gh.Graph:
    """Checks a function of images [N,H,W,channels] at sizes other than the imported
    one."""
    graph = gh.freeze(function, *((None, None, None, c) for c in channels))
    lowered = gh.lower(gh.rewrite(graph, batch_size=2))
    assert set(lowered.ops()) <= COMPUTING
    assert lowered.ops()["IosRegion"] == 1
    for batch in batches:
        for size in sizes:
            arrays = [
                gh.random_array(batch, *s, c, seed=i)
                for i, (s, c) in enumerate(zip(size, channels, strict=True))
            ]
            gh.assert_equal(gh.run(lowered, *arrays), gh.run(graph, *arrays))
    return lowered


def check_twin(network, data_format, size, types) -> None:
    """Asserts that a network of either data format computes the same as channels last.

    TensorFlow does not support convolutions with channels first on every CPU.
    """
    graph, twin = network(data_format), network("channels_last")
    operators = gh.operators(gh.collect(graph))
    assert [operator["type"] for operator in operators] == types
    lowered = gh.lower(gh.rewrite(graph))
    assert set(lowered.ops()) <= COMPUTING
    for batch, height, width in [(1, 6, 9), (3, 6, 9), (2, 1, 14)]:
        if size[0] in (None, height):
            images = gh.random_array(batch, height, width, 3)
            expected = gh.run(twin, images)
            if data_format == "channels_first":
                images = images.transpose(0, 3, 1, 2)
            found = gh.run(lowered, images)
            if data_format == "channels_first":
                found = [array.transpose(0, 2, 3, 1) for array in found]
            gh.assert_equal(found, expected)


def resize(x, size, kind: str, how: str):
    operator = getattr(tf.raw_ops, kind)
    return operator(
        images=x,
        size=size,
        align_corners=how == "align_corners",
        half_pixel_centers=how == "half_pixel_centers",
    )


KINDS = ["ResizeBilinear", "ResizeNearestNeighbor"]
HOW = ["align_corners", "half_pixel_centers", "neither"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_resize_to_a_size(kind, how):
    def function(x):
        parts = [resize(x, size, kind, how) for size in ([12, 5], [7, 1], [1, 16])]
        return [tf.nn.relu(part) for part in parts]

    check(gh.anchored(function, 5), [5], [[(6, 5)], [(7, 16)], [(1, 2)]])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [[6, 5], [6, 10]])
def test_resize_beside_infinity(kind, how, size):
    """TensorFlow copies an image that already has the size, and interpolates others."""

    def function(x):
        return [tf.nn.relu(x), resize(x, size, kind, how)]

    graph = gh.freeze(gh.anchored(function, 2), (None, 6, 5, 2))
    lowered = gh.lower(gh.rewrite(graph))
    assert set(lowered.ops()) <= COMPUTING
    image = gh.random_array(1, 6, 5, 2)
    image[0, 3, 2, 0], image[0, 5, 4, 1] = np.inf, -np.inf
    for found, expected in zip(
        gh.run(lowered, image), gh.run(graph, image), strict=True
    ):
        assert not np.isfinite(expected).all()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_resize_by_factors(kind, how):
    filters = gh.constant(3, 3, 5, 17)

    def function(x):
        x = tf.nn.conv2d(x, filters, 2, "SAME")
        shape = tf.shape(x)
        a = resize(x, shape[1:3] * 2, kind, how)
        scaled = tf.cast(tf.cast(shape[1:2], tf.float32) * 3.0, tf.int32)
        b = resize(x, tf.concat([scaled, shape[2:3]], 0), kind, how)
        return a, tf.nn.relu(b)

    check(function, [5], [[(13, 9)], [(20, 33)], [(1, 1)]])


@pytest.mark.parametrize("kind", KINDS)
def test_resize_like_another_tensor(kind):
    """FPN's top-down path: reading a tensor's size does not prevent fusing its bias."""
    small, lateral = gh.constant(3, 3, 8, 8), gh.constant(1, 1, 8, 8, seed=1)
    bias = gh.constant(8, seed=2)

    def function(x):
        x = tf.nn.relu(tf.nn.conv2d(x, small, 1, "SAME"))
        y = tf.nn.conv2d(x, small, 2, "SAME")
        z = tf.nn.bias_add(tf.nn.conv2d(x, lateral, 1, "SAME"), bias)
        return z + resize(y, tf.shape(z)[1:3], kind, "half_pixel_centers")

    graph = gh.freeze(function, (None, None, None, 8))
    operators = gh.operators(gh.collect(graph))
    assert sorted(o["type"] for o in operators) == ["add"] + ["conv2d"] * 3 + ["resize"]
    assert [o.get("like") for o in operators if o["type"] == "resize"] == [True]
    check(function, [8], [[(13, 9)], [(20, 33)]])


def test_resize_like_an_input():
    filters = gh.constant(3, 3, 4, 4)

    def function(x, y):
        x = tf.nn.conv2d(x, filters, 1, "SAME")
        return resize(x, tf.shape(y)[1:3] * 2, "ResizeBilinear", "align_corners")

    check(function, [4, 3], [[(5, 6), (9, 7)], [(9, 3), (2, 2)]])


@pytest.mark.parametrize("size", [(None, None), (6, 9)])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_upsampling_of_keras(data_format, size):
    """Upsampling repeats cells by ExpandDims, Tile and Reshape in both dimensions."""

    def network(data_format):
        first = data_format == "channels_first"
        return gh.sequential(
            layers.Conv2D(6, 3, padding="same", data_format=data_format),
            layers.UpSampling2D((2, 3), data_format=data_format),
            layers.Conv2D(4, 3, padding="same", data_format=data_format),
            shape=(3, *size) if first else (*size, 3),
        )

    check_twin(network, data_format, size, ["conv2d", "resize", "conv2d"])


def test_sizes_of_other_arithmetic_are_left_alone():
    """A resize to half of a tensor's size is left to TensorFlow.

    The engine supports only multiples of a tensor's size.
    """
    filters = gh.constant(3, 3, 4, 4)

    def function(x):
        x = tf.nn.conv2d(x, filters, 1, "SAME")
        size = tf.shape(x)[1:3] // 2
        x = resize(x, size, "ResizeBilinear", "half_pixel_centers")
        return tf.nn.conv2d(x, filters, 1, "SAME")

    graph = gh.freeze(function, (None, None, None, 4))
    lowered = gh.lower(gh.rewrite(graph))
    assert (lowered.ops()["IosRegion"], lowered.ops()["ResizeBilinear"]) == (2, 1)
    for size in [(8, 8), (9, 7)]:
        images = gh.random_array(2, *size, 4)
        gh.assert_equal(gh.run(lowered, images), gh.run(graph, images))


def transposed(x, filters, shape, strides, padding="SAME"):
    return tf.raw_ops.Conv2DBackpropInput(
        input_sizes=shape,
        filter=filters,
        out_backprop=x,
        strides=[1, *strides, 1],
        padding=padding,
    )


@pytest.mark.parametrize("size", [(None, None), (6, 9)])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize(
    ("kernel", "strides", "options"),
    [
        (2, 2, {"padding": "same"}),
        (3, (2, 1), {"padding": "same", "output_padding": (1, 0)}),
        ((4, 3), (2, 3), {"padding": "valid"}),
        ((2, 5), 4, {"padding": "same", "use_bias": False}),
        (3, 2, {"padding": "valid", "output_padding": 1}),
    ],
)
def test_transposed_convolution_of_keras(kernel, strides, options, data_format, size):
    """The bias, batch norm and activation become part of the convolution."""

    def network(data_format):
        first = data_format == "channels_first"
        return gh.sequential(
            layers.Conv2DTranspose(
                7, kernel, strides, data_format=data_format, **options
            ),
            layers.BatchNormalization(axis=1 if first else 3),
            layers.ReLU(),
            shape=(3, *size) if first else (*size, 3),
        )

    check_twin(network, data_format, size, ["conv2d_transpose"])


def test_transposed_convolution_to_the_size_of_a_tensor():
    """The stride loses an odd size, and the transposed convolution restores it."""
    down, up = gh.constant(3, 3, 5, 8), gh.constant(4, 4, 5, 8, seed=1)

    def function(x):
        y = tf.nn.relu(tf.nn.conv2d(x, down, (2, 3), "SAME"))
        return x - 1, transposed(y, up, tf.shape(x), (2, 3))

    check(function, [5], [[(13, 9)], [(12, 10)], [(2, 1)]])


@pytest.mark.parametrize("dims", [2, 4])
@pytest.mark.parametrize(("padding", "size"), [("SAME", (11, 12)), ("VALID", (14, 15))])
def test_transposed_convolution_to_a_size(padding, size, dims):
    filters = gh.constant(3, 4, 6, 5)

    def function(x):
        sizes = [tf.shape(x)[0], *size, 6] if dims == 4 else list(size)
        return transposed(x, filters, sizes, (2, 2), padding)

    graph = gh.freeze(function, (None, 6, 6, 5))
    lowered = gh.lower(gh.rewrite(graph))
    assert set(lowered.ops()) <= COMPUTING
    for batch in [1, 3]:
        images = gh.random_array(batch, 6, 6, 5)
        gh.assert_equal(gh.run(lowered, images), gh.run(graph, images))


@pytest.mark.parametrize(
    ("padding", "size"), [("SAME", (10, 12)), ("SAME", (13, 12)), ("VALID", (16, 15))]
)
def test_transposed_convolution_to_another_size_is_left(padding, size):
    """No convolution maps an image of this size to one of the input's size."""
    filters = gh.constant(3, 4, 6, 5)
    graph = gh.freeze(
        lambda x: transposed(x, filters, size, (2, 2), padding), (None, 6, 6, 5)
    )
    with pytest.raises(tf.errors.OpError):
        gh.run(graph, gh.random_array(1, 6, 6, 5))
    assert gh.operators(gh.collect(graph)) == []


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("block", [2, 3])
def test_depth_to_space_and_back(block, data_format):
    """Sub-pixel convolution: both data formats number the channels of a block alike."""
    before = gh.constant(3, 3, 4, 5 * block**2)
    after = gh.constant(1, 1, 5 * block**2, 6, seed=1)

    def function(x, data_format=data_format):
        first = data_format == "NCHW"
        to, back = ([0, 3, 1, 2], [0, 2, 3, 1]) if first else ([0, 1, 2, 3],) * 2
        x = tf.transpose(tf.nn.conv2d(x, before, 1, "SAME"), to)
        x = tf.nn.relu(tf.nn.depth_to_space(x, block, data_format))
        x = tf.nn.space_to_depth(x, block, data_format)
        return tf.nn.conv2d(tf.transpose(x, back), after, 1, "SAME")

    graph = gh.freeze(function, (None, None, None, 4))
    expected = gh.freeze(lambda x: function(x, "NHWC"), (None, None, None, 4))
    lowered = gh.lower(gh.rewrite(graph))
    assert set(lowered.ops()) <= COMPUTING and lowered.ops()["IosRegion"] == 1
    for size in [(1, 6, 9), (3, 5, 2)]:
        images = gh.random_array(*size, 4)
        gh.assert_equal(gh.run(lowered, images), gh.run(expected, images))


@pytest.mark.parametrize(
    "parameters",
    [
        {"depth_radius": 2, "bias": 1.0, "alpha": 0.2, "beta": 0.75},
        {"depth_radius": 5, "bias": 2.0, "alpha": 0.1, "beta": 0.5},
        {"depth_radius": 1, "bias": 0.5, "alpha": 0.3, "beta": 1.0},
        {"depth_radius": 9, "bias": 1.0, "alpha": 0.1, "beta": 0.6},
    ],
)
def test_local_response_normalization(parameters):
    def function(x):
        return tf.nn.relu(tf.nn.lrn(x, **parameters))

    check(gh.anchored(function, 19), [19], [[(6, 7)], [(1, 3)]])


@pytest.mark.parametrize("size", [(None, None), (13, 12)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_dilated_depthwise_convolution_of_keras(padding, size):
    """TensorFlow writes the convolution with SpaceToBatchND, which pads the image."""
    graph = gh.sequential(
        layers.DepthwiseConv2D(3, dilation_rate=2, padding=padding),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.SeparableConv2D(5, 3, dilation_rate=3, padding=padding),
        shape=(*size, 4),
    )
    types = [o["type"] for o in gh.operators(gh.collect(graph))]
    assert types == ["conv2d", "sepconv"]
    lowered = gh.lower(gh.rewrite(graph))
    assert set(lowered.ops()) <= COMPUTING
    for batch, height, width in [(1, 13, 12), (3, 13, 12), (2, 16, 17)]:
        if size[0] in (None, height):
            images = gh.random_array(batch, height, width, 4)
            gh.assert_equal(gh.run(lowered, images), gh.run(graph, images))


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC", "CONSTANT"])
def test_padding_with_more_than_zeros(mode):
    """A convolution or pool does not absorb padding with values other than zero."""
    filters = gh.constant(3, 3, 9, 5)

    def function(x):
        x = tf.pad(tf.nn.relu(x), [[0, 0], [2, 1], [0, 3], [0, 0]], mode, -0.5)
        return tf.nn.max_pool2d(x, 3, 1, "VALID"), tf.nn.conv2d(x, filters, 2, "VALID")

    check(gh.anchored(function, 9), [9], [[(6, 7)], [(4, 5)]])


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("size", [(None, None), (6, 9)])
@pytest.mark.parametrize(
    ("shift", "axis"), [(2, 1), ([-3, -3], [1, 2]), ([7, -20, 1], [2, -2, 2])]
)
def test_roll(shift, axis, size, data_format):
    """Swin's shifted windows; also by more than the size, and twice along one axis."""

    def network(data_format):
        axes = np.array(axis) % 4
        if data_format == "channels_first":
            axes = axes + 1
        shape = (*size, 3) if data_format == "channels_last" else (3, *size)
        return gh.sequential(
            layers.Conv2D(5, 3, padding="same", data_format=data_format),
            layers.Lambda(lambda x: tf.roll(tf.nn.relu(x), shift, axes)),
            layers.Conv2D(4, 1, data_format=data_format),
            shape=shape,
        )

    check_twin(network, data_format, size, ["conv2d", "pad", "conv2d"])


def test_rolls_that_stay_with_tensorflow():
    """A roll of the batch or channels, or by a computed shift, is left to
    TensorFlow."""
    for shift, axis in [(1, 0), (1, 3), (tf.shape, 1)]:

        def function(x, shift=shift, axis=axis):
            by = shift(x)[1] // 2 if callable(shift) else shift
            return tf.nn.relu(tf.roll(tf.nn.relu(x), by, axis))

        graph = gh.freeze(gh.anchored(function, 5), (None, None, None, 5))
        lowered = gh.lower(gh.rewrite(graph, batch_size=2))
        assert lowered.ops()["Roll"] == 1
        x = gh.random_array(3, 4, 5, 5)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


def test_padding_of_channels():
    """A residual network's shortcut without a convolution pads channels."""

    def function(x):
        short = tf.pad(tf.nn.avg_pool2d(x, 1, 2, "SAME"), [[0, 0]] * 3 + [[3, 4]])
        return short + tf.nn.conv2d(x, gh.constant(3, 3, 9, 16), 2, "SAME")

    check(gh.anchored(function, 9), [9], [[(6, 7)], [(4, 5)]])


@pytest.mark.parametrize("keepdims", [False, True])
def test_sum_of_cells(keepdims):
    def function(x):
        return tf.nn.relu(tf.reduce_sum(x, [1, 2], keepdims=keepdims))

    check(gh.anchored(function, 9), [9], [[(6, 7)], [(4, 5)]])


@pytest.mark.parametrize("length", [None, 20])
def test_sequences(length):
    """Layers of an audio network: dilated, transposed and repeated."""
    graph = gh.sequential(
        layers.Conv1D(8, 3, dilation_rate=2, padding="causal"),
        layers.Conv1D(8, 3, dilation_rate=4, padding="same", activation="relu"),
        layers.Conv1DTranspose(6, 4, 2, padding="same"),
        layers.UpSampling1D(3),
        layers.Conv1D(5, 2, padding="valid"),
        shape=(length, 4),
    )
    types = [o["type"] for o in gh.operators(gh.collect(graph))]
    assert types == ["conv2d"] * 2 + ["conv2d_transpose", "resize", "conv2d"]
    lowered = gh.lower(gh.rewrite(graph))
    assert set(lowered.ops()) <= COMPUTING | {"ExpandDims", "Squeeze", "Reshape"}
    assert lowered.ops()["IosRegion"] == 1
    for batch, size in [(1, 20), (3, 20), (2, 33)]:
        if length in (None, size):
            sound = gh.random_array(batch, size, 4)
            gh.assert_equal(gh.run(lowered, sound), gh.run(graph, sound))


def test_images_without_cells_are_not_resized():
    """TensorFlow and the engine raise an error, even for an empty batch."""

    def function(x):
        return tf.image.resize(x, tf.shape(x)[1:3] * 2, "nearest")

    graph = gh.freeze(gh.anchored(function, 4), (None, None, None, 4))
    lowered = gh.lower(gh.rewrite(graph))
    assert "ResizeNearestNeighbor" not in lowered.ops()
    for images in (0, 2):
        x = gh.random_array(images, 0, 3, 4)
        for one in (graph, lowered):
            with pytest.raises(tf.errors.OpError):
                gh.run(one, x)
