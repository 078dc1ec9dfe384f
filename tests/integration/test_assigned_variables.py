"""Calls that assign variables which no output depends on: seeds, counters, averages.

TensorFlow's own calls give the expected outputs and variables after each call.
"""

import foreign_models as fm
import keras
import numpy as np
import pytest
import shared
import tensorflow as tf
from keras import layers
from shared import FAST

import ios_tf
from ios_tf.reasons import Reason

pytestmark = [pytest.mark.one_core, pytest.mark.usefixtures("cache")]

CALLS = 3


class Assigning(fm.Network):
    """A network that keeps a count, averages of its results, and a maximum."""

    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0, name="count")
        self.even = tf.Variable(0, name="even")
        self.mean = tf.Variable(tf.zeros([4]), name="mean")
        self.maximum = tf.Variable(-1e9, name="maximum")
        self.filter = tf.Variable(tf.random.stateless_normal([3, 3, 3, 4], (1, 2)))

    def states(self):
        return [v.numpy() for v in (self.count, self.even, self.mean, self.maximum)]

    @tf.function(input_signature=[fm.image_spec()])
    def predict(self, x):
        y = tf.nn.conv2d(x, self.filter, 1, "SAME")
        # A batch norm in training mode, whose output does not read the averages.
        y, mean, _ = tf.compat.v1.nn.fused_batch_norm(y, tf.ones([4]), tf.zeros([4]))
        self.mean.assign(0.9 * self.mean + 0.1 * mean)
        self.count.assign_add(1)
        tf.cond(  # reads the count after it was assigned
            self.count % 2 == 0, lambda: self.even.assign_add(1), lambda: self.even
        )
        self.maximum.assign(tf.maximum(self.maximum, tf.reduce_max(y)))
        return {"y": tf.nn.relu(y), "z": self(x)}


def _inputs(call):
    return fm.images(2, seed=call)


def _expected():
    """The outputs and states after each call, and a network that was not called."""
    network, found = Assigning(), []
    for call in range(CALLS):
        outputs = network.predict(_inputs(call))
        found.append((outputs, network.states()))
    return found, Assigning()


def _check(outputs, states, expected):
    for name, output in expected[0].items():
        np.testing.assert_allclose(outputs[name], output, rtol=1e-4, atol=1e-5)
    for state, truth in zip(states, expected[1], strict=True):
        np.testing.assert_allclose(state, truth, rtol=1e-5, atol=1e-6)


def test_optimized_function_assigns_as_the_original():
    expected, network = _expected()
    before = network.states()
    optimized = ios_tf.optimize(network.predict, **FAST)
    assert optimized.report.operators
    for state, truth in zip(network.states(), before, strict=True):
        np.testing.assert_array_equal(state, truth)  # optimize() restores variables
    for call in range(CALLS):
        _check(optimized(_inputs(call)), network.states(), expected[call])


def test_converted_model_assigns_as_the_original(tmp_path):
    expected, network = _expected()
    signatures = {"serving_default": network.predict}
    tf.saved_model.save(network, str(tmp_path / "model"), signatures=signatures)
    report = ios_tf.convert(str(tmp_path / "model"), str(tmp_path / "out"), **FAST)
    assert report.operators
    assert Reason.CHANGES_VARIABLE not in shared.reasons(report)
    (comparison,) = report.comparisons
    assert comparison.difference is not None
    converted = tf.saved_model.load(str(tmp_path / "out"))
    signature = converted.signatures["serving_default"]
    by_name = {v.name.partition(":")[0]: v for v in signature.variables}
    for call in range(CALLS):
        outputs = signature(x=_inputs(call))
        states = [by_name[n].numpy() for n in ("count", "even", "mean", "maximum")]
        _check(outputs, states, expected[call])


def test_variable_that_another_signature_reads_is_no_constant(tmp_path):
    network = Assigning()

    @tf.function(input_signature=[])
    def count():
        return {"count": tf.identity(network.count)}

    signatures = {"serving_default": network.predict, "count": count}
    tf.saved_model.save(network, str(tmp_path / "model"), signatures=signatures)
    ios_tf.convert(str(tmp_path / "model"), str(tmp_path / "out"), **FAST)
    loaded = tf.saved_model.load(str(tmp_path / "out")).signatures
    for call in range(CALLS):
        loaded["serving_default"](x=_inputs(call))
        assert loaded["count"]()["count"].numpy() == call + 1


def _recurrent(layer):
    image = keras.Input((12, 12, 3))
    x = layers.Conv2D(4, 3, activation="relu")(image)
    if isinstance(layer, layers.ConvLSTM2D):
        x = layers.Reshape((10, 10, 4, 1))(x)
    else:
        x = layers.Reshape((10, 40))(x)
    return keras.Model(image, layer(x))


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.Bidirectional(layers.LSTM(3, dropout=0.2)),
        lambda: layers.GRU(3, recurrent_dropout=0.3),
        lambda: layers.ConvLSTM2D(2, 3, dropout=0.2),
    ],
    ids=["lstm", "gru", "conv_lstm"],
)
def test_recurrent_layers_with_dropout(make, tmp_path):
    model = _recurrent(make())
    images = fm.images(2)
    expected = model(images, training=False)
    report = ios_tf.convert(model, str(tmp_path / "out"), **FAST)
    assert report.operators
    signature = tf.saved_model.load(str(tmp_path / "out")).signatures["serve"]
    (name,) = signature.structured_input_signature[1]
    for _ in range(2):
        (actual,) = signature(**{name: images}).values()
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
