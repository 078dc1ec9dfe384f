"""Runs an optimized function inside of a tf.data pipeline, for offline inference.

    python examples/tf_data_pipeline.py [NAME]

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

    images = np.random.default_rng(0).integers(
        0, 256, (20, *model.input_shape[1:]), np.uint8
    )
    scores = (
        tf.data.Dataset.from_tensor_slices(images)
        .map(lambda image: tf.cast(image, tf.float32) / 255)
        .batch(8)
        # Calls run side by side, and share the cores.
        .map(faster, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    found = np.concatenate(list(scores.as_numpy_iterator()))
    expected = model(images.astype(np.float32) / 255, training=False).numpy()
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"largest relative difference {difference:.1e}")


if __name__ == "__main__":
    main()
