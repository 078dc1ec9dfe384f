"""Functions of a loaded SavedModel stay callable and run on the engine."""

import graph_helpers as gh
import keras
import numpy as np
import pytest
import shared
import tensorflow as tf
from shared import FAST, branches

import ios_tf
from ios_tf.reasons import Reason

pytestmark = [pytest.mark.one_core, pytest.mark.usefixtures("cache")]


def _images(batch=3, size=12, channels=3, seed=0):
    generator = np.random.default_rng(seed)
    return tf.constant(generator.normal(size=(batch, size, size, channels)), tf.float32)


def _assert_same(converted, original):
    tf.nest.assert_same_structure(converted, original)
    for found, expected in zip(
        tf.nest.flatten(converted), tf.nest.flatten(original), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def _convert(directory, tmp_path):
    """Loads the original and the converted model; gives both and the report."""
    report = ios_tf.convert(directory, str(tmp_path / "converted"), **FAST)
    assert report.operators
    loaded = tf.saved_model.load(str(tmp_path / "converted"))
    return tf.saved_model.load(directory), loaded, report


def _assert_runs_on_the_engine(function, *arguments):
    """The first call of a function runs its convolutions in regions."""
    ops = gh.executed_ops(function, *arguments)
    assert ops["IosRegion"]
    assert not gh.convolutions(ops)


def test_serve_of_a_keras_export(tmp_path):
    original, converted, report = _convert(branches(), tmp_path)
    images = _images(2, 17)
    _assert_runs_on_the_engine(converted.serve, images)
    _assert_same(converted.serve(images), original.serve(images))
    assert isinstance(converted.serve(images), tf.Tensor)
    assert Reason.LOST_FUNCTION not in shared.reasons(report)


def test_layer_of_keras(tmp_path):
    _convert(branches(), tmp_path)
    layers = [
        keras.layers.TFSMLayer(path, call_endpoint="serve")
        for path in (str(tmp_path / "converted"), branches())
    ]
    converted, original = (layer(_images(2, 17)) for layer in layers)
    _assert_same(converted, original)


def _functional(package):
    """A network of two inputs and two outputs that behaves differently in training."""
    layers = package.layers
    image = package.Input((12, 12, 3), name="z_image")
    scale = package.Input((4,), name="a_scale")
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    x = layers.Concatenate()([layers.Conv2D(4, 3)(x), layers.Conv2D(4, 3)(x)])
    x = layers.Dropout(0.5)(layers.BatchNormalization()(x))
    x = layers.Dense(4)(layers.GlobalAveragePooling2D()(x))
    outputs = [x * scale, layers.Dense(2)(x)]
    return package.Model([image, scale], outputs)


def test_endpoints_of_an_export_archive(tmp_path):
    model = _functional(keras)
    archive = keras.export.ExportArchive()
    archive.track(model)
    specs = [tf.TensorSpec((None, 12, 12, 3)), tf.TensorSpec((None, 4))]
    archive.add_endpoint(
        "both", lambda image, scale: model([image, scale]), input_signature=specs
    )
    archive.add_endpoint(
        "nested",
        lambda pair: {"second": model(pair)[1], "first": model(pair)[0]},
        input_signature=[specs],
    )
    archive.write_out(str(tmp_path / "model"), verbose=False)
    original, converted, _ = _convert(str(tmp_path / "model"), tmp_path)
    inputs = _images(), tf.reshape(tf.range(12.0), (3, 4))
    _assert_same(converted.both(*inputs), original.both(*inputs))
    _assert_same(
        converted.both(scale=inputs[1], image=inputs[0]), original.both(*inputs)
    )
    _assert_runs_on_the_engine(converted.nested, list(inputs))
    _assert_same(converted.nested(list(inputs)), original.nested(list(inputs)))


def test_calls_of_keras_2(tmp_path):
    tf_keras = pytest.importorskip("tf_keras", reason="tf_keras is not installed")
    _functional(tf_keras).save(str(tmp_path / "model"), save_format="tf")
    original, converted, _ = _convert(str(tmp_path / "model"), tmp_path)
    inputs = [_images(), tf.reshape(tf.range(12.0), (3, 4))]
    _assert_runs_on_the_engine(converted, inputs)
    _assert_same(converted(inputs), original(inputs))
    _assert_same(converted(inputs, training=False), original(inputs, False))
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        converted(inputs, training=True)


class _Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.filters = tf.Variable(gh.random_array(3, 3, 3, 8))
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["half"], [0.5]), 1.0
        )

    @tf.function
    def __call__(self, image, scale="half", *, negated=False):
        x = tf.nn.relu(tf.nn.conv2d(image, self.filters, 1, "SAME"))
        x = x * self.table.lookup(tf.constant(scale))
        for _ in tf.range(2):
            x = x + 1.0
        return -x if negated else x

    @tf.function(input_signature=[tf.TensorSpec((None, 12, 12, 3))])
    def edges(self, image):
        return tf.nn.conv2d(image, self.filters, 2, "SAME")


def test_calls_of_a_module(tmp_path):
    """Python values select the function; the report names functions of no signature."""
    module = _Module()
    spec = tf.TensorSpec((None, 12, 12, 3))
    signatures = {
        "plain": module.__call__.get_concrete_function(spec),
        "negated": module.__call__.get_concrete_function(spec, negated=True),
    }
    module.__call__.get_concrete_function(spec, scale="other")
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
    original, converted, report = _convert(str(tmp_path / "model"), tmp_path)
    images = _images()
    _assert_same(converted(images), original(images))
    _assert_same(converted(images, negated=True), original(images, negated=True))
    with pytest.raises(ValueError, match="Could not find matching concrete function"):
        converted(images, scale="other")
    assert not hasattr(converted, "edges")
    (lost,) = (one for one in report.decisions if one.reason is Reason.LOST_FUNCTION)
    assert "edges" in lost.sentence


def test_converted_models_keep_their_endpoints_when_saved_again(tmp_path):
    original, converted, _ = _convert(branches(), tmp_path)
    tf.saved_model.save(
        converted, str(tmp_path / "again"), signatures=converted.signatures
    )
    again = tf.saved_model.load(str(tmp_path / "again"))
    images = _images(2, 17)
    _assert_runs_on_the_engine(again.serve, images)
    _assert_same(again.serve(images), original.serve(images))
