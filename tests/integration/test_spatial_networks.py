"""Small networks that change images' height and width: regions, operators left to
TensorFlow, and results for other batches and sizes than the original ones."""

from __future__ import annotations

import graph_helpers as gh
import keras
import pytest
import tensorflow as tf
from keras import layers

from ios_tf.models.calibration import calibrate

pytestmark = pytest.mark.one_core


def conv(x, filters, kernel=3, strides=1, dilation=1, activation="relu"):
    x = layers.Conv2D(
        filters, kernel, strides, "same", dilation_rate=dilation, use_bias=False
    )(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x)


def separable(x, filters, dilation):
    x = layers.DepthwiseConv2D(
        3, padding="same", dilation_rate=dilation, use_bias=False
    )(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    return conv(x, filters, 1)


class Resize(layers.Layer):
    """Resizes to the height and width of another tensor, as research code does."""

    def call(self, x, like):
        return tf.image.resize(x, tf.shape(like)[1:3])

    def compute_output_shape(self, x_shape, like_shape):
        return (x_shape[0], *like_shape[1:3], x_shape[3])


def unet(inputs, up):
    x, skips = inputs, []
    for filters in (8, 12):
        x = conv(conv(x, filters), filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv(x, 16)
    for filters, skip in ((12, skips[1]), (8, skips[0])):
        x = layers.Concatenate()([up(filters)(x), skip])
        x = conv(conv(x, filters), filters)
    return layers.Conv2D(3, 1)(x)


def unet_transposed(inputs):
    return unet(
        inputs,
        lambda filters: layers.Conv2DTranspose(filters, 3, 2, "same", activation="elu"),
    )


def unet_upsampling(inputs):
    return unet(inputs, lambda filters: layers.UpSampling2D())


def deeplab(inputs):
    """The head of DeepLab v3+: dilated branches, image pooling, a decoder."""
    low = conv(inputs, 8, strides=2)
    high = conv(conv(low, 16, strides=2), 16, strides=2)
    pooled = layers.GlobalAveragePooling2D(keepdims=True)(high)
    branches = [conv(high, 12, 1), *(separable(high, 12, d) for d in (2, 3))]
    branches.append(Resize()(conv(pooled, 12, 1), high))
    x = conv(layers.Concatenate()(branches), 12, 1)
    x = layers.Concatenate()([Resize()(x, low), conv(low, 6, 1)])
    x = layers.Conv2D(5, 1)(separable(x, 12, 1))
    return Resize()(x, inputs)


def fpn(inputs):
    """Three levels, each with its own output."""
    levels, x = [], inputs
    for filters in (8, 12, 16):
        x = conv(conv(x, filters, strides=2), filters)
        levels.append(x)
    laterals = [layers.Conv2D(10, 1)(level) for level in levels]
    merged = [laterals[2]]
    for lateral in (laterals[1], laterals[0]):
        merged.append(layers.Add()([lateral, Resize()(merged[-1], lateral)]))
    return [layers.Conv2D(10, 3, padding="same")(x) for x in merged]


def edsr(inputs):
    """Super-resolution: residual blocks, then sub-pixel convolutions."""
    x = first = layers.Conv2D(12, 3, padding="same")(inputs)
    for _ in range(2):
        y = layers.Conv2D(12, 3, padding="same", activation="relu")(x)
        y = layers.Conv2D(12, 3, padding="same")(y)
        x = layers.Add()([x, layers.Rescaling(0.1)(y)])
    x = layers.Add()([first, layers.Conv2D(12, 3, padding="same")(x)])
    x = layers.Conv2D(48, 3, padding="same")(x)
    x = layers.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(x)
    return layers.Conv2D(3, 3, padding="same")(x)


def googlenet(inputs):
    def lrn(x):
        return layers.Lambda(lambda t: tf.nn.lrn(t, 2, 1.0, 2e-2, 0.75))(x)

    def inception(x):
        return layers.Concatenate()(
            [
                conv(x, 6, 1),
                conv(conv(x, 6, 1), 8, 3),
                conv(conv(x, 4, 1), 6, 5),
                conv(layers.MaxPooling2D(3, 1, "same")(x), 4, 1),
            ]
        )

    x = layers.Conv2D(16, 7, 2, "same", activation="relu")(inputs)
    x = lrn(layers.MaxPooling2D(3, 2, "same")(x))
    x = lrn(conv(conv(x, 16, 1), 24))
    x = inception(inception(layers.MaxPooling2D(3, 2, "same")(x)))
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


# Each network and its largest number of regions.
NETWORKS = {
    unet_transposed: 1,
    unet_upsampling: 1,
    deeplab: 1,
    fpn: 1,
    edsr: 1,
    googlenet: 1,
}
MULTIPLY = {"Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "MatMul"}


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_network(network):
    def build(size) -> keras.Model:
        inputs = keras.Input((size, size, 3))
        return keras.Model(inputs, network(inputs))

    keras.utils.set_random_seed(0)
    fixed, model = build(32), build(None)
    calibrate(fixed)
    model.set_weights(fixed.get_weights())
    graph = gh.freeze(model, (None, None, None, 3))
    lowered = gh.lower(gh.rewrite(graph))
    left = set(lowered.ops()) & MULTIPLY
    assert not left and lowered.ops()["IosRegion"] <= NETWORKS[network]
    for batch, height, width in [(1, 32, 48), (3, 40, 24)]:
        images = gh.random_array(batch, height, width, 3)
        gh.assert_equal(gh.run(lowered, images), gh.run(graph, images))
