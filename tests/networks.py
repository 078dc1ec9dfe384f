"""Keras networks whose outputs depend on their inputs, for tests of equality."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
from keras import layers

from ios_tf.models.calibration import calibrate, smooth_images


def calibrated(build: Callable[[], keras.Model], seed: int = 0) -> keras.Model:
    """A network with random weights and the batch statistics of smooth images.

    With the default statistics a network's output hardly depends on its input, and a
    wrong early layer would go unseen.
    """
    keras.utils.set_random_seed(seed)
    model = build()
    size = model.input_shape[1]
    calibrate(model, seed, images=4)
    assert_sees_mistakes(model(smooth_images(2, size, seed=seed + 1)).numpy())
    return model


def assert_sees_mistakes(outputs: np.ndarray) -> None:
    """Two inputs must give outputs that differ by > 10 % of the maximum."""
    difference = np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs).max()
    assert difference > 0.1, f"outputs hardly depend on the input: {difference:.1e}"


def relative_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest expected value."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def inception_v3(size: int = 299) -> keras.Model:
    return calibrated(
        lambda: keras.applications.InceptionV3(
            weights=None, input_shape=(size, size, 3), classifier_activation=None
        )
    )


def mobilenet_v2(size: int = 96) -> keras.Model:
    return calibrated(
        lambda: keras.applications.MobileNetV2(
            weights=None, input_shape=(size, size, 3), classifier_activation=None
        )
    )


def densenet121(size: int = 96) -> keras.Model:
    return calibrated(
        lambda: keras.applications.DenseNet121(
            weights=None, input_shape=(size, size, 3), classifier_activation=None
        )
    )


def nasnet_like(size: int = 33) -> keras.Model:
    """A normal and a reduction cell in the manner of NASNet-A, odd sizes."""
    return calibrated(lambda: _build_nasnet_like(size))


def _build_nasnet_like(size: int) -> keras.Model:
    def separable(x, filters, kernel, strides=1):
        for stride in (strides, 1):
            x = layers.ReLU()(x)
            x = layers.SeparableConv2D(
                filters, kernel, strides=stride, padding="same", use_bias=False
            )(x)
            x = layers.BatchNormalization()(x)
        return x

    def squeeze(x, filters):
        x = layers.ReLU()(x)
        x = layers.Conv2D(filters, 1, use_bias=False)(x)
        return layers.BatchNormalization()(x)

    def average(x):
        return layers.AveragePooling2D(3, strides=1, padding="same")(x)

    inputs = keras.Input((size, size, 3))
    x = layers.Conv2D(16, 3, strides=2, padding="valid", use_bias=False)(inputs)
    previous = x = layers.BatchNormalization()(x)
    for _ in range(2):  # normal cells
        left, right = squeeze(previous, 12), squeeze(x, 12)
        parts = [
            layers.Add()([separable(right, 12, 5), separable(left, 12, 3)]),
            layers.Add()([separable(left, 12, 5), separable(left, 12, 3)]),
            layers.Add()([average(right), left]),
            layers.Add()([average(left), average(left)]),
            layers.Add()([separable(right, 12, 3), right]),
        ]
        previous, x = x, layers.Concatenate()([left, *parts])
    left, right = squeeze(previous, 16), squeeze(x, 16)  # a reduction cell
    pooled = layers.MaxPooling2D(3, strides=2, padding="same")(right)
    parts = [
        layers.Add()([separable(right, 16, 5, 2), separable(left, 16, 7, 2)]),
        layers.Add()([pooled, separable(left, 16, 7, 2)]),
        layers.Add()([average(pooled), pooled]),
    ]
    x = layers.ReLU()(layers.Concatenate()(parts))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10)(x))
