"""Converts a Keras network, loads the result and compares it with the original.

    python examples/convert_and_compare.py [NAME] [DIRECTORY]

NAME is a network of keras.applications, by default MobileNetV2, or a .keras file.
"""

import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

import ios_tf
from ios_tf.models.calibration import calibrate_application


def milliseconds(function, images, runs=30):
    """The median latency of a call."""
    latencies = []
    for _ in range(runs + 3):
        start = time.perf_counter()
        function(images)
        latencies.append((time.perf_counter() - start) * 1e3)
    return float(np.median(latencies[3:]))


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "MobileNetV2"
    directory = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()

    if name.endswith(".keras"):
        model = keras.saving.load_model(name)
    else:
        model = getattr(keras.applications, name)(weights=None)
        calibrate_application(model)  # or its outputs hardly depend on the image
    model.export(os.path.join(directory, "original"), verbose=False)
    report = ios_tf.convert(
        os.path.join(directory, "original"),
        os.path.join(directory, "converted"),
        overwrite=True,
        progress=True,
    )
    print(report.table())

    original, converted = (
        tf.saved_model.load(os.path.join(directory, which)).signatures[
            "serving_default"
        ]
        for which in ("original", "converted")
    )
    images = tf.random.normal([1, *model.input_shape[1:]])
    expected = original(images)["output_0"].numpy()
    found = converted(images)["output_0"].numpy()
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"largest relative difference {difference:.1e}")
    print(f"original  {milliseconds(original, images):.2f} ms")
    print(f"converted {milliseconds(converted, images):.2f} ms")


if __name__ == "__main__":
    main()
