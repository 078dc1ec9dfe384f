"""Batch statistics for networks with random weights.

With the default statistics, activations grow or vanish with depth, and a network's
output hardly depends on its input. A comparison of outputs would then not find a wrong
layer.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_WEIGHTED = (
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Dense,
    keras.layers.DepthwiseConv2D,
)
# The size of images whose height and width are unknown.
_UNKNOWN_SIZE = 224


def smooth_images(count: int, size: int, channels: int = 3, seed: int = 0) -> tf.Tensor:
    """Random images [count, size, size, channels] with large structures."""
    random = np.random.default_rng(seed)
    coarse = random.uniform(-2, 2, [count, 5, 5, channels]).astype(np.float32)
    return tf.image.resize(coarse, [size, size], "bicubic")


def calibrate(model: keras.Model, seed: int = 0, images: int = 2) -> None:
    """Gives every batch norm the statistics of smooth images, and a random affine map.

    Args:
      model: takes one square image.
      seed: the seed of the images and of the affine maps.
      images: the number of images; all of their activations are in memory at once.
    """
    with _without_momentum(model.layers) as norms:
        model(smooth_images(images, model.input_shape[1], seed=seed), training=True)
    random = np.random.default_rng(seed)
    for layer in norms:
        if layer.scale:  # the batch norms of Inception V3 have no factors
            layer.gamma.assign(random.uniform(0.8, 1.2, layer.gamma.shape))
        layer.beta.assign(random.uniform(-0.2, 0.2, layer.beta.shape))


@contextlib.contextmanager
def _without_momentum(layers: Iterable[Any]) -> Iterator[list[Any]]:
    """In the block, a training call replaces the statistics of these batch norms."""
    norms = [one for one in layers if isinstance(one, keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    yield norms
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum


def structured(shape: tuple[int, ...]) -> np.ndarray:
    """Smooth random images [N,H,W,C], or sequences [N,T,C], of values in [-2, 2]."""
    if len(shape) == 4:
        height, width, channels = shape[1:]
        images = smooth_images(shape[0], max(height, width), channels)
        return images.numpy()[:, :height, :width]
    coarse = np.random.default_rng(0).uniform(-2, 2, [shape[0], 50, shape[2]])
    places = np.linspace(0, 49, shape[1])
    low = places.astype(int)
    share = (places - low)[:, None]
    high = np.minimum(low + 1, 49)
    return (coarse[:, low] * (1 - share) + coarse[:, high] * share).astype(np.float32)


def calibrate_on(network: keras.Model, inputs: np.ndarray) -> None:
    """Gives batch norms the statistics of `inputs`, and constant weights random values.

    With default weights (means of 0, and factors of 1, or of 1e-6 in ConvNeXt), outputs
    hardly depend on the input or on single operators, so that a comparison of outputs
    would not find a wrong operator. If the network has no batch norms, the outputs of
    convolutions and products are standardised instead.
    """
    random = np.random.default_rng(0)
    for weight in network.trainable_weights:
        values = weight.numpy()
        if not values.size or np.ptp(values) > 0:
            continue
        bounds = (-0.2, 0.2) if values.flat[0] == 0 else (0.6, 1.2)
        weight.assign(random.uniform(*bounds, values.shape))
    with _without_momentum(network._flatten_layers(include_self=False)) as norms:
        if norms:
            network(inputs, training=True)
        else:
            _standardise(network, inputs)


def _standardise(network: keras.Model, inputs: np.ndarray) -> None:
    """Gives the outputs of convolutions and products means of 0 and deviations of 1."""
    found = [
        layer
        for layer in network._flatten_layers(include_self=False)
        if isinstance(layer, _WEIGHTED) and layer.use_bias
    ]
    for layer in found:
        layer.call = functools.partial(_call_and_standardise, layer, layer.call)
    network(inputs)
    for layer in found:
        del layer.call


def _call_and_standardise(
    layer: Any, call: Callable[[tf.Tensor], tf.Tensor], x: tf.Tensor
) -> tf.Tensor:
    """Changes a layer's weights to standardise its outputs, and calls it with them."""
    activation, layer.activation = layer.activation, None
    y = call(x)
    layer.activation = activation
    mean, variance = tf.nn.moments(y, list(range(y.shape.rank - 1)))
    # The factor is limited, because differences that are tiny relative to the values
    # are rounding errors, which must not be magnified.
    least = 0.1 * tf.sqrt(tf.reduce_mean(y * y))
    factor = 1.0 / tf.maximum(tf.sqrt(tf.reduce_mean(variance)), least)
    layer.kernel.assign(layer.kernel * factor)
    layer.bias.assign((layer.bias - mean) * factor)
    return call(x)


def calibrate_application(network: keras.Model) -> None:
    """Calibrates a network of `keras.applications` on two smooth images."""
    calibrate_on(network, application_images(network, 2))


def application_images(network: keras.Model, count: int) -> np.ndarray:
    """Smooth images [count,H,W,C] for a network of `keras.applications`.

    A network that rescales its inputs itself gets pixels between 0 and 255.
    """
    (spec,) = network.inputs
    images = structured((count, *(size or _UNKNOWN_SIZE for size in spec.shape[1:])))
    rescales = (keras.layers.Rescaling, keras.layers.Normalization)
    layers = network._flatten_layers(include_self=False)
    if any(isinstance(layer, rescales) for layer in layers):
        images = np.clip(images * 64 + 128, 0, 255)
    return images
