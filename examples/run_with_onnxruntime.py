"""Converts a small network and runs what came of it with ONNX Runtime.

    python examples/run_with_onnxruntime.py [DIRECTORY]

Needs `pip install tf2onnx onnxruntime`. Merged convolutions are ordinary ones: runtimes
that know nothing of schedules run them, too.
"""

import os
import sys
import tempfile

import keras
import numpy as np
from keras import layers

import ios_tf
from ios_tf.conversion.onnx_export import export_onnx


def network():
    """Branches in the manner of GoogLeNet."""
    x = inputs = keras.Input((64, 64, 3), name="image")
    for filters in (16, 32, 32):
        branches = [layers.Conv2D(filters, k, padding="same")(x) for k in (1, 1, 3)]
        pooled = layers.AveragePooling2D(3, strides=1, padding="same")(x)
        branches.append(layers.Conv2D(filters, 1)(pooled))
        x = layers.ReLU()(layers.Concatenate()(branches))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, name="scores")(x))


def main():
    try:
        import onnxruntime
    except ImportError:
        sys.exit("run_with_onnxruntime.py: needs pip install tf2onnx onnxruntime")

    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    converted = os.path.join(directory, "converted")
    path = os.path.join(directory, "model.onnx")
    model = network()
    ios_tf.convert(model, converted, strategy="merge", overwrite=True, progress=True)
    exported = export_onnx(converted, path)
    print(f"{path}: {exported.merged} merged convolutions")

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = np.random.default_rng(0).random((4, 64, 64, 3), np.float32)
    (scores,) = session.run(None, {"image": images})
    expected = model(images).numpy()
    difference = np.abs(scores - expected).max() / np.abs(expected).max()
    print(f"largest relative difference {difference:.1e}")


if __name__ == "__main__":
    main()
