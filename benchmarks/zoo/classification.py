"""Networks that classify images, of kinds that keras.applications lacks."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.zoo.layers import classifier, conv_norm, join
from benchmarks.zoo.model import Model, keras_model
from ios_tf.models.calibration import structured


def googlenet_lrn() -> Model:
    """GoogLeNet: local response normalisation instead of batch norms."""

    def conv(x, filters, kernel, strides=1):
        return layers.Conv2D(filters, kernel, strides, "same", activation="relu")(x)

    def normalise(x):
        return layers.Lambda(lambda t: tf.nn.lrn(t, 5, 1.0, 1e-4, 0.75))(x)

    def module(x, small, middle, large, pooled):
        """Adds an inception module with the given numbers of filters per branch.

        `middle` and `large` are pairs: for the 1x1, and for the 3x3 or 5x5 after it.
        """
        return join(
            conv(x, small, 1),
            conv(conv(x, middle[0], 1), middle[1], 3),
            conv(conv(x, large[0], 1), large[1], 5),
            conv(layers.MaxPooling2D(3, 1, "same")(x), pooled, 1),
        )

    inputs = keras.Input((224, 224, 3))
    x = normalise(layers.MaxPooling2D(3, 2, "same")(conv(inputs, 64, 7, 2)))
    x = normalise(conv(conv(x, 64, 1), 192, 3))
    x = layers.MaxPooling2D(3, 2, "same")(x)
    x = module(x, 64, (96, 128), (16, 32), 32)
    x = module(x, 128, (128, 192), (32, 96), 64)
    x = layers.MaxPooling2D(3, 2, "same")(x)
    x = module(x, 192, (96, 208), (16, 48), 64)
    x = module(x, 160, (112, 224), (24, 64), 64)
    x = module(x, 128, (128, 256), (24, 64), 64)
    x = module(x, 112, (144, 288), (32, 64), 64)
    x = module(x, 256, (160, 320), (32, 128), 128)
    x = layers.MaxPooling2D(3, 2, "same")(x)
    x = module(x, 256, (160, 320), (32, 128), 128)
    x = module(x, 384, (192, 384), (48, 128), 128)
    return keras_model(keras.Model(inputs, classifier(x)))


def shufflenet() -> Model:
    """ShuffleNet V1 with three groups."""
    groups = 3

    def shuffle(x):
        height, width, channels = x.shape[1:]
        x = layers.Reshape((height, width, groups, channels // groups))(x)
        x = layers.Permute((1, 2, 4, 3))(x)
        return layers.Reshape((height, width, channels))(x)

    def unit(x, filters, strides):
        inner = filters // 4
        out = filters - x.shape[-1] if strides == 2 else filters
        first = 1 if x.shape[-1] % groups else groups
        y = shuffle(conv_norm(x, inner, 1, groups=first))
        y = layers.DepthwiseConv2D(3, strides, padding="same", use_bias=False)(y)
        y = layers.BatchNormalization()(y)
        y = conv_norm(y, out, 1, activation=None, groups=groups)
        if strides == 2:
            return layers.ReLU()(join(layers.AveragePooling2D(3, 2, "same")(x), y))
        return layers.ReLU()(x + y)

    inputs = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, 2, "same")(conv_norm(inputs, 24, 3, 2))
    for filters, repeats in ((240, 4), (480, 8), (960, 4)):
        for i in range(repeats):
            x = unit(x, filters, 1 if i else 2)
    return keras_model(keras.Model(inputs, classifier(x)))


def convnext() -> Model:
    """ConvNeXt with three stages: LayerNorm, exact GELU, layer scales."""

    def block(x, filters):
        y = layers.DepthwiseConv2D(7, padding="same")(x)
        y = layers.LayerNormalization(epsilon=1e-6)(y)
        y = layers.Dense(4 * filters)(y)
        y = layers.Dense(filters)(layers.Activation("gelu")(y))
        return x + layers.Rescaling(0.3)(y)

    inputs = keras.Input((224, 224, 3))
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(64, 4, 4)(inputs))
    for filters, repeats in ((64, 2), (128, 2), (256, 4)):
        if x.shape[-1] != filters:
            x = layers.LayerNormalization(epsilon=1e-6)(x)
            x = layers.Conv2D(filters, 2, 2)(x)
        for _ in range(repeats):
            x = block(x, filters)
    return keras_model(keras.Model(inputs, classifier(x)))


def crnn_front() -> Model:
    """The convolutions of CRNN: a line of text becomes a sequence of vectors."""
    inputs = keras.Input((32, 128, 1))
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(128, 3, padding="same", activation="relu")(
        layers.MaxPooling2D()(x)
    )
    x = conv_norm(layers.MaxPooling2D()(x), 256)
    x = layers.Conv2D(256, 3, padding="same", activation="relu")(x)
    x = conv_norm(layers.MaxPooling2D((2, 1))(x), 512)
    x = layers.Conv2D(512, 3, padding="same", activation="relu")(x)
    x = conv_norm(layers.MaxPooling2D((2, 1))(x), 512, 2, padding="valid")
    x = layers.Reshape((x.shape[2], 512))(x)
    return keras_model(keras.Model(inputs, layers.Dense(37)(x)))


def small_cnn() -> Model:
    """Six convolutions: a network whose latency is a fraction of a millisecond."""
    inputs = keras.Input((64, 64, 3))
    x = inputs
    for filters in (16, 32, 64):
        x = conv_norm(conv_norm(x, filters, strides=2), filters)
    return keras_model(keras.Model(inputs, classifier(x, 10)))


def se_net() -> Model:
    """Bottlenecks with squeeze and excitation: many operators, little work."""

    def excite(x):
        filters = x.shape[-1]
        y = layers.GlobalAveragePooling2D(keepdims=True)(x)
        y = layers.Conv2D(filters // 8, 1, activation="relu")(y)
        return x * layers.Conv2D(filters, 1, activation="sigmoid")(y)

    inputs = keras.Input((64, 64, 3))
    x = conv_norm(inputs, 32, 3, 2)
    for filters in (64, 64, 128, 128, 256, 256):
        strides = 1 if filters == x.shape[-1] else 2
        y = conv_norm(x, filters // 4, 1)
        y = conv_norm(y, filters // 4, 3, strides)
        y = excite(conv_norm(y, filters, 1, activation=None))
        if x.shape != y.shape:
            x = conv_norm(x, filters, 1, strides, activation=None)
        x = layers.ReLU()(x + y)
    return keras_model(keras.Model(inputs, classifier(x, 10)))


def video_conv3d() -> Model:
    """Video: convolutions over time, which TensorFlow runs, then over images."""

    def clips(shape: tuple[int, ...]) -> np.ndarray:
        return structured((shape[0] * shape[1], *shape[2:])).reshape(shape)

    inputs = keras.Input((8, 64, 64, 3))
    x = layers.Conv3D(16, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling3D((1, 2, 2))(x)
    x = layers.Conv3D(32, (8, 1, 1), activation="relu")(x)
    x = layers.Reshape((32, 32, 32))(x)
    for filters in (64, 128, 128):
        x = conv_norm(conv_norm(x, filters, strides=2), filters)
    return keras_model(keras.Model(inputs, classifier(x, 10)), clips)
