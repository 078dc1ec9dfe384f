"""Batch statistics for networks with random weights.

With the default statistics activations grow or vanish with depth, and a network's
output hardly depends on its input: a wrong layer would go unseen.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf


def smooth_images(count: int, size: int, channels: int = 3, seed: int = 0) -> tf.Tensor:
    """Random images [count, size, size, channels] with large structures."""
    random = np.random.default_rng(seed)
    coarse = random.uniform(-2, 2, [count, 5, 5, channels]).astype(np.float32)
    return tf.image.resize(coarse, [size, size], "bicubic")


def calibrate(model: keras.Model, seed: int = 0, images: int = 2) -> None:
    """Gives every batch norm the statistics of smooth images, and a random affine map.

    Args:
      model: takes one square image.
      seed: of the images and of the affine maps.
      images: whose statistics count; all activations for them are in memory at once.
    """
    norms = [
        layer
        for layer in model.layers
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    model(smooth_images(images, model.input_shape[1], seed=seed), training=True)
    random = np.random.default_rng(seed)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum
        if layer.scale:  # Inception V3 has none
            layer.gamma.assign(random.uniform(0.8, 1.2, layer.gamma.shape))
        layer.beta.assign(random.uniform(-0.2, 0.2, layer.beta.shape))
