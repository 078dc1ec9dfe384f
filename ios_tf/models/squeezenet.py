"""SqueezeNet (Iandola et al., 2016) with the bypasses that the IOS paper schedules."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

# (channels of the squeeze, channels of each expansion); None is a pooling.
_MODULES = (
    *((16, 64), (16, 64), (32, 128), None),
    *((32, 128), (48, 192), (48, 192), (64, 256), None),
    (64, 256),
)


def squeezenet(size: int = 224, classes: int = 1000) -> keras.Model:
    """SqueezeNet 1.0, images [N, size, size, 3] to logits [N, classes]."""
    inputs = keras.Input((size, size, 3))
    x = layers.ZeroPadding2D(3)(inputs)
    x = layers.Conv2D(96, 7, strides=2, activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    for module in _MODULES:
        x = _fire(x, *module) if module else layers.MaxPooling2D(3, strides=2)(x)
    x = layers.Conv2D(classes, 1, activation="relu")(x)
    return keras.Model(inputs, layers.GlobalAveragePooling2D()(x), name="squeezenet")


def _fire(x: Any, squeeze: int, expand: int) -> Any:
    """A fire module with a bypass, which is a convolution if the channels change."""
    bypass = x
    if x.shape[-1] != 2 * expand:
        bypass = layers.Conv2D(2 * expand, 1, activation="relu")(x)
    x = layers.Conv2D(squeeze, 1, activation="relu")(x)
    wide = layers.Conv2D(expand, 3, padding="same", activation="relu")(x)
    narrow = layers.Conv2D(expand, 1, activation="relu")(x)
    return layers.Add()([layers.Concatenate()([wide, narrow]), bypass])
