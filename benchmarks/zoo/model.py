"""Networks of the zoo, with random weights for which outputs reveal every mistake."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ios_tf.model.loading import export_for_inference
from ios_tf.models.calibration import calibrate_on, structured

# Height and width of images if a network leaves them unknown.
_UNKNOWN_SIZE = 224


@dataclasses.dataclass(frozen=True)
class Model:
    """A network, ready to be written as a SavedModel.

    Attributes:
      save: writes the network to a directory, with the signature `serving_default`.
      inputs: makes arguments of that signature for a batch size.
    """

    save: Callable[[str], None]
    inputs: Callable[[int], Mapping[str, np.ndarray]]


def keras_model(
    network: keras.Model, values: Callable[[tuple[int, ...]], np.ndarray] | None = None
) -> Model:
    """Returns a Keras network with calibrated weights.

    Args:
      network: a network with one input.
      values: makes inputs of a shape; by default structured images or sounds.
    """
    (spec,) = network.inputs
    shape = tuple(size or _UNKNOWN_SIZE for size in spec.shape[1:])
    values = values or structured
    calibrate_on(network, values((2, *shape)))
    return Model(
        functools.partial(export_for_inference, network),
        lambda batch: {spec.name: values((batch, *shape))},
    )


def module_model(
    function: Callable[..., Any],
    variables: Any,
    shape: tuple[int | None, ...],
    values: Callable[[tuple[int, ...]], np.ndarray] = structured,
) -> Model:
    """Returns a plain tf.Module with one tf.function of images."""
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
