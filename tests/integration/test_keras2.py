"""Models of Keras 2 (the package tf_keras), as objects and as files."""

import json
import sys
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from shared import FAST

import ios_tf

pytestmark = [pytest.mark.one_core, pytest.mark.usefixtures("cache")]


def _images(shape=(3, 12, 12, 3)):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def _two_branches(tf_keras):
    """A network whose layers behave differently in training."""
    layers = tf_keras.layers
    image = tf_keras.Input((12, 12, 3), name="a_image")
    scale = tf_keras.Input((4,), name="b_scale")
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    x = layers.Concatenate()([layers.Conv2D(4, 3)(x), layers.Conv2D(4, 3)(x)])
    x = layers.Dropout(0.5)(layers.BatchNormalization()(x))
    x = layers.Dense(4)(layers.GlobalAveragePooling2D()(x))
    return tf_keras.Model([image, scale], x * scale)


def _subclassed(tf_keras):
    class Network(tf_keras.Model):
        def __init__(self):
            super().__init__()
            self.convolution = tf_keras.layers.Conv2D(8, 3, activation="relu")
            self.dropout = tf_keras.layers.Dropout(0.5)

        def call(self, inputs, training=None):
            x = self.convolution(inputs["image"])
            return {"maxima": tf.reduce_max(self.dropout(x, training=training), 3)}

    model = Network()
    model({"image": _images()})
    return model


def _with_table(tf_keras):
    layers = tf_keras.layers
    image = tf_keras.Input((12, 12, 3), name="image")
    word = tf_keras.Input((), dtype="string", name="word")
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3)(image))
    index = layers.StringLookup(vocabulary=["a", "b"])(word)
    return tf_keras.Model(
        {"image": image, "word": word}, x + layers.Embedding(3, 4)(index)
    )


_MODELS = {
    "two_branches": (_two_branches, [_images(), _images((3, 4))]),
    "subclassed": (_subclassed, {"image": _images()}),
    "with_table": (
        _with_table,
        {"image": _images(), "word": np.array(["b", "?", "a"], object)},
    ),
}


def _outputs_of_saved_model(directory, inputs):
    signature = tf.saved_model.load(directory).signatures["serving_default"]
    if not isinstance(inputs, dict):
        names = sorted(signature.structured_input_signature[1])
        inputs = dict(zip(names, inputs, strict=True))
    outputs = signature(**{name: tf.constant(x) for name, x in inputs.items()})
    (output,) = outputs.values()
    return output


@pytest.fixture(params=_MODELS)
def model(request):
    """A model of Keras 2, its inputs and its outputs."""
    tf_keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed")
    tf_keras.utils.set_random_seed(0)
    make, inputs = _MODELS[request.param]
    network = make(tf_keras)
    tensors = tf.nest.map_structure(tf.constant, inputs)
    (expected,) = tf.nest.flatten(network(tensors, training=False))
    return network, inputs, expected


def test_objects(model, tmp_path):
    network, inputs, expected = model
    optimized = ios_tf.optimize(network, **FAST)
    (actual,) = tf.nest.flatten(optimized(inputs))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    report = ios_tf.convert(network, str(tmp_path / "converted"), **FAST)
    assert report.operators
    actual = _outputs_of_saved_model(str(tmp_path / "converted"), inputs)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extension", ["keras", "h5"])
def test_files(extension, tmp_path):
    tf_keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed")
    make, inputs = _MODELS["two_branches"]
    network = make(tf_keras)
    path = str(tmp_path / f"model.{extension}")
    network.save(path)
    report = ios_tf.convert(path, str(tmp_path / "converted"), **FAST)
    assert report.operators
    actual = _outputs_of_saved_model(str(tmp_path / "converted"), inputs)
    expected = network([tf.constant(x) for x in inputs], training=False)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_object_without_inputs():
    tf_keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed")
    with pytest.raises(ios_tf.UserError, match="Call the model once on an input"):
        ios_tf.optimize(tf_keras.Sequential([tf_keras.layers.Conv2D(8, 3)]))


def test_file_where_tf_keras_is_not_installed(tmp_path, monkeypatch):
    path = str(tmp_path / "model.keras")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "2.21.0"}))
        archive.writestr("config.json", json.dumps({"class_name": "Functional"}))
    monkeypatch.setitem(sys.modules, "tf_keras", None)
    with pytest.raises(ios_tf.UserError) as caught:
        ios_tf.convert(path, str(tmp_path / "converted"))
    assert f"Keras 2.21.0 wrote {path}, and Keras {keras.__version__} cannot" in str(
        caught.value
    )
    assert "Install tf_keras" in str(caught.value)
