"""Calls a Keras network's optimized function in place of `model.predict`.

    python examples/optimize_keras_model.py [NAME]

NAME is a network of keras.applications, by default MobileNetV2, or a .keras file.
"""

import sys
import time

import keras
import numpy as np

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
    if name.endswith(".keras"):
        model = keras.saving.load_model(name)
    else:
        model = getattr(keras.applications, name)(weights=None)
        calibrate_application(model)  # or its outputs hardly depend on the image

    faster = ios_tf.optimize(model, progress=True)
    print(faster.report.table())

    def predict(images):
        """Returns arrays, as `model.predict(images)` does, not tensors."""
        return faster(images).numpy()

    images = np.random.default_rng(0).normal(size=(1, *model.input_shape[1:]))
    expected = model.predict(images, verbose=0)
    difference = np.abs(predict(images) - expected).max() / np.abs(expected).max()
    print(f"largest relative difference {difference:.1e}")
    for name, function in (
        ("model.predict", lambda images: model.predict(images, verbose=0)),
        ("model(...)", lambda images: model(images, training=False).numpy()),
        ("optimized", predict),
    ):
        print(f"{name:<13} {milliseconds(function, images):.2f} ms")


if __name__ == "__main__":
    main()
