"""Networks of the zoo, and random weights that let no mistake hide."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ios_tf.model.loading import export_for_inference
from ios_tf.models.calibration import smooth_images

_WEIGHTED = (
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Dense,
    keras.layers.DepthwiseConv2D,
)
# The size of images whose height and width are unknown.
_UNKNOWN_SIZE = 224


@dataclasses.dataclass(frozen=True)
class Model:
    """A network, ready to be written as a SavedModel.

    Attributes:
      save: writes it to a directory, with the signature `serving_default`.
      inputs: arguments of that signature, for a batch size.
    """

    save: Callable[[str], None]
    inputs: Callable[[int], Mapping[str, np.ndarray]]


def keras_model(
    network: keras.Model, values: Callable[[tuple[int, ...]], np.ndarray] | None = None
) -> Model:
    """A Keras network with calibrated weights.

    Args:
      network: with one input.
      values: makes inputs of a shape; by default images, or sounds, with structure.
    """
    (spec,) = network.inputs
    shape = tuple(size or _UNKNOWN_SIZE for size in spec.shape[1:])
    values = values or structured
    calibrate(network, values((2, *shape)))
    return Model(
        functools.partial(export_for_inference, network),
        lambda batch: {spec.name: values((batch, *shape))},
    )


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


def calibrate(network: keras.Model, inputs: np.ndarray) -> None:
    """Gives batch norms the statistics of `inputs`, and no weight its default.

    With defaults - means of 0, factors of 1 or, as ConvNeXt's, of 1e-6 - an output
    hardly depends on its input or on an operator, and a wrong one would go unseen.
    Without batch norms, convolutions and products get outputs of such statistics.
    """
    random = np.random.default_rng(0)
    norms = [
        layer
        for layer in network._flatten_layers(include_self=False)
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    for weight in network.trainable_weights:
        values = weight.numpy()
        if not values.size or np.ptp(values) > 0:
            continue
        bounds = (-0.2, 0.2) if values.flat[0] == 0 else (0.6, 1.2)
        weight.assign(random.uniform(*bounds, values.shape))
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    if norms:
        network(inputs, training=True)
    else:
        _standardise(network, inputs)
    for layer, momentum in zip(norms, momenta, strict=True):
        layer.momentum = momentum


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
    """Calls a layer with the weights that it gets for it."""
    activation, layer.activation = layer.activation, None
    y = call(x)
    layer.activation = activation
    mean, variance = tf.nn.moments(y, list(range(y.shape.rank - 1)))
    # What hardly differs would be rounding errors if it was much enlarged.
    least = 0.1 * tf.sqrt(tf.reduce_mean(y * y))
    factor = 1.0 / tf.maximum(tf.sqrt(tf.reduce_mean(variance)), least)
    layer.kernel.assign(layer.kernel * factor)
    layer.bias.assign((layer.bias - mean) * factor)
    return call(x)


def module_model(
    function: Callable[..., Any],
    variables: Any,
    shape: tuple[int | None, ...],
    values: Callable[[tuple[int, ...]], np.ndarray] = structured,
) -> Model:
    """A plain tf.Module with one tf.function of images."""
    module = tf.Module()
    module.variables_of_function = variables
    call = tf.function(
        function, input_signature=[tf.TensorSpec(shape, tf.float32, "images")]
    )
    sizes = tuple(size or _UNKNOWN_SIZE for size in shape[1:])
    return Model(
        lambda directory: tf.saved_model.save(module, directory, signatures=call),
        lambda batch: {"images": values((batch, *sizes))},
    )
