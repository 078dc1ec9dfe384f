"""Keras networks whose outputs depend on their inputs, for tests of equality."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
from keras import layers
from keras.src.applications.densenet import DenseNet

from ios_tf.models.calibration import calibrate, smooth_images


def calibrated(build: Callable[[], keras.Model], seed: int = 0) -> keras.Model:
    """A network with random weights and the batch statistics of smooth images.

    With the default statistics a network's output hardly depends on its input, so a
    wrong early layer would not be noticed.
    """
    keras.utils.set_random_seed(seed)
    model = build()
    size = model.input_shape[1]
    calibrate(model, seed, images=4)
    assert_sees_mistakes(model(smooth_images(2, size, seed=seed + 1)).numpy())
    return model


def assert_sees_mistakes(outputs: np.ndarray) -> None:
    """Asserts that two inputs give outputs that differ by > 10 % of the maximum."""
    difference = np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs).max()
    assert difference > 0.1, f"outputs hardly depend on the input: {difference:.1e}"


def relative_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference divided by the largest expected magnitude."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def inception_v3(size: int = 299) -> keras.Model:
    return calibrated(
        lambda: keras.applications.InceptionV3(
            weights=None, input_shape=(size, size, 3), classifier_activation=None
        )
    )


def branches(size: int = 17) -> keras.Model:
    """A network of two equal blocks with four convolutions each.

    Three convolutions read the same tensor, and the fourth reads the result of the
    first.
    """
    return calibrated(lambda: _build_branches(size))


def _build_branches(size: int) -> keras.Model:
    inputs = keras.Input((size, size, 3), name="images")
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    for _ in range(2):
        parts = [
            layers.Conv2D(8, kernel, padding="same", activation="relu")(x)
            for kernel in (1, 3, 1)
        ]
        parts[0] = layers.Conv2D(8, 3, padding="same", activation="relu")(parts[0])
        x = layers.Concatenate()(parts)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(5)(x))


def inception_like(size: int = 75) -> keras.Model:
    """Inception V3's stem and one module of each kind."""
    return calibrated(lambda: _build_inception_like(size))


def _build_inception_like(size: int) -> keras.Model:
    def conv(x, filters, kernel, strides=1, padding="same"):
        x = layers.Conv2D(filters, kernel, strides, padding, use_bias=False)(x)
        return layers.ReLU()(layers.BatchNormalization(scale=False)(x))

    def chain(x, *steps):
        for filters, kernel in steps:
            x = conv(x, filters, kernel)
        return x

    def average(x):
        return layers.AveragePooling2D(3, strides=1, padding="same")(x)

    def join(*parts):
        return layers.Concatenate()(parts)

    inputs = keras.Input((size, size, 3))
    x = conv(inputs, 8, 3, 2, "valid")
    x = conv(conv(x, 8, 3, 1, "valid"), 16, 3)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = conv(conv(x, 16, 1, 1, "valid"), 24, 3, 1, "valid")
    x = join(  # 35 x 35 in the original
        chain(x, (16, 1)),
        chain(x, (12, 1), (16, 5)),
        chain(x, (16, 1), (24, 3), (24, 3)),
        chain(average(x), (8, 1)),
    )
    x = join(  # the reduction to 17 x 17
        conv(x, 24, 3, 2, "valid"),
        conv(chain(x, (16, 1), (24, 3)), 24, 3, 2, "valid"),
        layers.MaxPooling2D(3, strides=2)(x),
    )
    x = join(  # 17 x 17
        chain(x, (16, 1)),
        chain(x, (12, 1), (12, (1, 7)), (16, (7, 1))),
        chain(x, (12, 1), (12, (7, 1)), (12, (1, 7)), (16, (7, 1))),
        chain(average(x), (16, 1)),
    )
    x = join(  # the reduction to 8 x 8
        conv(chain(x, (16, 1)), 24, 3, 2, "valid"),
        conv(chain(x, (16, 1), (16, (1, 7)), (16, (7, 1))), 16, 3, 2, "valid"),
        layers.MaxPooling2D(3, strides=2)(x),
    )
    left, right = chain(x, (24, 1)), chain(x, (24, 1), (24, 3))
    x = join(  # 8 x 8
        chain(x, (24, 1)),
        join(chain(left, (16, (1, 3))), chain(left, (16, (3, 1)))),
        join(chain(right, (16, (1, 3))), chain(right, (16, (3, 1)))),
        chain(average(x), (16, 1)),
    )
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10)(x))


def mobilenet_like(size: int = 64) -> keras.Model:
    """MobileNet V2's inverted residuals, with and without stride and sum."""
    return calibrated(lambda: _build_mobilenet_like(size))


def _build_mobilenet_like(size: int) -> keras.Model:
    def norm(x, active=True):
        x = layers.BatchNormalization()(x)
        return layers.ReLU(6.0)(x) if active else x

    def residual(x, filters, strides=1):
        y = norm(layers.Conv2D(6 * x.shape[-1], 1, use_bias=False)(x))
        if strides == 2:
            y = layers.ZeroPadding2D(((0, 1), (0, 1)))(y)
        padding = "same" if strides == 1 else "valid"
        y = layers.DepthwiseConv2D(3, strides, padding, use_bias=False)(y)
        y = layers.Conv2D(filters, 1, use_bias=False)(norm(y))
        y = norm(y, active=False)
        return layers.Add()([x, y]) if x.shape == y.shape else y

    inputs = keras.Input((size, size, 3))
    x = norm(layers.Conv2D(16, 3, 2, "same", use_bias=False)(inputs))
    x = norm(layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x))
    x = norm(layers.Conv2D(8, 1, use_bias=False)(x), active=False)
    for filters, strides in ((12, 2), (12, 1), (16, 2), (16, 1), (24, 1)):
        x = residual(x, filters, strides)
    x = norm(layers.Conv2D(64, 1, use_bias=False)(x))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10)(x))


def densenet_like(size: int = 64) -> keras.Model:
    """DenseNet with two layers in each of its four blocks."""
    return calibrated(
        lambda: DenseNet(
            [2, 2, 2, 2],
            weights=None,
            input_shape=(size, size, 3),
            classes=10,
            classifier_activation=None,
        )
    )


def nasnet_like(size: int = 33) -> keras.Model:
    """Normal cells and a reduction cell in the style of NASNet-A, with odd sizes."""
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
