"""Networks of sequences: sound and text."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from benchmarks.zoo.model import Model, keras_model


def audio_conv1d() -> Model:
    """Classifies raw sound."""
    inputs = keras.Input((16000, 1))
    x = inputs
    for filters, kernel, strides in ((64, 80, 4), (64, 3, 1), (128, 3, 1), (256, 3, 1)):
        x = layers.Conv1D(filters, kernel, strides, "same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.MaxPooling1D(4)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras_model(keras.Model(inputs, layers.Dense(35)(x)))


def wavenet() -> Model:
    """Causal convolutions with growing dilations and gates."""
    inputs = keras.Input((4096, 1))
    x = layers.Conv1D(32, 2, padding="causal")(inputs)
    skips = []
    for dilation in [2**i for i in range(8)] * 2:
        gate, values = (
            layers.Conv1D(32, 2, padding="causal", dilation_rate=dilation)(x)
            for _ in range(2)
        )
        y = layers.Activation("tanh")(values) * layers.Activation("sigmoid")(gate)
        skips.append(layers.Conv1D(64, 1)(y))
        x = x + layers.Conv1D(32, 1)(y)
    x = layers.ReLU()(layers.Add()(skips))
    x = layers.Conv1D(64, 1, activation="relu")(x)
    return keras_model(keras.Model(inputs, layers.Conv1D(256, 1)(x)))


def text_cnn() -> Model:
    """Convolutions of several widths over word vectors."""
    inputs = keras.Input((64,), dtype="int32")
    words = layers.Embedding(5000, 128)(inputs)
    parts = [
        layers.GlobalMaxPooling1D()(layers.Conv1D(100, width, activation="relu")(words))
        for width in (3, 4, 5)
    ]
    x = layers.Dense(5)(layers.Concatenate()(parts))
    return keras_model(
        keras.Model(inputs, x),
        lambda shape: np.random.default_rng(0).integers(0, 5000, shape, np.int32),
    )
