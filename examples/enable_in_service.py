"""A service that learns: a frozen network gets schedules without being converted.

    python examples/enable_in_service.py [NAME] [DIRECTORY]

NAME is a network of keras.applications, by default MobileNetV2, DIRECTORY the schedule
cache. The first process that loads the network finds no schedule and notes what it
would need; `ios_tf tune`, here or on another machine of this kind, finds it; whoever
loads the network afterwards runs on the engine.
"""

import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

import ios_tf


def frozen(name):
    """A network whose weights are constants, as a function."""
    model = getattr(keras.applications, name)(weights=None)
    shape = [1, *model.input_shape[1:]]
    function = tf.function(lambda images: model(images, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(shape, tf.float32))
    return convert_to_constants.convert_variables_to_constants_v2(concrete), shape


def load(function):
    """The network as a process sees it that has just loaded it."""
    return tf.compat.v1.wrap_function(
        lambda: tf.import_graph_def(function.graph.as_graph_def(), name=""), []
    ).prune(
        [tensor.name for tensor in function.inputs],
        [tensor.name for tensor in function.outputs],
    )


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "MobileNetV2"
    cache = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    function, shape = frozen(name)
    images = tf.random.normal(shape)
    expected = load(function)(images)[0].numpy()

    ios_tf.enable(cache_dir=cache)  # on_miss="skip"
    load(function)(images)
    print(ios_tf.status())

    print(ios_tf.tune(cache, progress=True).table())

    found = load(function)(images)[0].numpy()
    print(ios_tf.status())
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"largest relative difference {difference:.1e}")


if __name__ == "__main__":
    main()
