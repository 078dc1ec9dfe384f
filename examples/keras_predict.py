"""Runs `predict` of Keras, with its batches and data sets, on an optimized function.

    python examples/keras_predict.py [NAME]

NAME is a network of keras.applications, by default MobileNetV2, or a .keras file.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import ios_tf
from ios_tf.models.calibration import calibrate_application


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "MobileNetV2"
    if name.endswith(".keras"):
        model = keras.saving.load_model(name)
    else:
        model = getattr(keras.applications, name)(weights=None)
        calibrate_application(model)  # or its outputs hardly depend on the image
    faster = ios_tf.optimize(model, batch_size=8, progress=True)
    print(faster.report.headline)

    # A layer calls the function, so that all of Keras's methods for inference work.
    inputs = keras.Input(model.input_shape[1:])
    predictor = keras.Model(inputs, keras.layers.Lambda(faster)(inputs))

    images = np.random.default_rng(0).random((20, *model.input_shape[1:]), np.float32)
    found = predictor.predict(tf.data.Dataset.from_tensor_slices(images).batch(8))
    expected = model.predict(images, batch_size=8)
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"largest relative difference {difference:.1e}")


if __name__ == "__main__":
    main()
