"""Networks that output images: segmentation and super-resolution."""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import layers

from benchmarks.zoo.layers import conv_norm, join, resize, resnet
from benchmarks.zoo.model import Model, keras_model


def unet_transpose() -> Model:
    return keras_model(_unet(transpose=True))


def unet_upsampling() -> Model:
    return keras_model(_unet(transpose=False))


def _unet(transpose: bool) -> keras.Model:
    inputs = keras.Input((256, 256, 3))
    x, skips = inputs, []
    for filters in (32, 64, 128, 256):
        x = conv_norm(conv_norm(x, filters), filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv_norm(conv_norm(x, 512), 512)
    for skip in reversed(skips):
        filters = skip.shape[-1]
        if transpose:
            x = layers.Conv2DTranspose(filters, 2, strides=2, padding="same")(x)
        else:
            x = layers.Conv2D(filters, 2, padding="same")(resize(x, 2, "nearest"))
        x = conv_norm(conv_norm(join(skip, x), filters), filters)
    return keras.Model(inputs, layers.Conv2D(2, 1)(x))


def deeplab_v3_plus() -> Model:
    inputs = keras.Input((256, 256, 3))
    low, *_, x = resnet(inputs, dilate_last=True)
    pooled = layers.GlobalAveragePooling2D(keepdims=True)(x)
    parts = [conv_norm(x, 256, 1)]
    parts += [conv_norm(x, 256, 3, dilation_rate=rate) for rate in (6, 12, 18)]
    parts.append(resize(conv_norm(pooled, 256, 1), x.shape[1]))
    x = conv_norm(join(*parts), 256, 1)
    x = join(resize(x, 4), conv_norm(low, 48, 1))
    for _ in range(2):
        x = layers.SeparableConv2D(256, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return keras_model(keras.Model(inputs, resize(layers.Conv2D(21, 1)(x), 4)))


def fpn() -> Model:
    """A feature pyramid with heads for all of its levels."""
    inputs = keras.Input((256, 256, 3))
    levels, x = [], None
    for feature in reversed(resnet(inputs)):
        lateral = layers.Conv2D(256, 1)(feature)
        x = lateral if x is None else lateral + resize(x, 2, "nearest")
        levels.append(layers.Conv2D(256, 3, padding="same")(x))
    levels.append(layers.MaxPooling2D(1, 2)(levels[0]))
    head = layers.Conv2D(256, 3, padding="same", activation="relu")
    scores, boxes = (layers.Conv2D(n, 3, padding="same") for n in (9, 36))
    outputs = {}
    for number, level in enumerate(levels):
        y = head(level)
        outputs[f"scores_{number}"] = scores(y)
        outputs[f"boxes_{number}"] = boxes(y)
    return keras_model(keras.Model(inputs, outputs))


def edsr() -> Model:
    """Super-resolution by two: sums and DepthToSpace, but no batch norms."""
    inputs = keras.Input((96, 96, 3))
    first = x = layers.Conv2D(64, 3, padding="same")(inputs)
    for _ in range(16):
        y = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
        x = x + 0.1 * layers.Conv2D(64, 3, padding="same")(y)
    x = first + layers.Conv2D(64, 3, padding="same")(x)
    x = layers.Conv2D(256, 3, padding="same")(x)
    x = layers.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(x)
    return keras_model(keras.Model(inputs, layers.Conv2D(3, 3, padding="same")(x)))
