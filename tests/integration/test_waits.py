"""Checks of inputs, prints and assignments that a network waits for are executed.

The tests let one check fail at a time. If an operator, a weight or a shape of the
network waits for the check, the call must fail.
"""

from __future__ import annotations

import re

import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf
from cache_helpers import undoing_enable

import ios_tf
from ios_tf.native import grappler

v1 = tf.compat.v1

PLACES = (
    "a convolution",
    "a filter that is a constant",
    "a filter that is a variable",
    "a large filter that is a variable",
    "a bias",
    "the factors of its channels",
    "one of two filters that are merged",
    "the slope of an activation",
    "the bound of an activation that is computed twice",
    "the order of a transposition that changes nothing",
    "the sizes of a resized image",
    "the sizes of a transposed convolution",
    "what is added to the result",
)


def network(x, ok):
    """A network that waits, in each of the places, for one element of `ok`."""

    def wait(place):
        # `ok` has several elements, because TensorFlow would treat a single element as
        # a constant.
        check = v1.Assert(ok[PLACES.index(place)], [f"not {place}!"])
        return tf.control_dependencies([check])

    def weight(*shape):
        return gh.random_array(*shape, seed=len(shape) + shape[0]) * 0.1

    variables = iter(range(9))

    def variable(*shape):
        name = f"weight_{next(variables)}"
        return v1.get_variable(name, initializer=weight(*shape), use_resource=True)

    with wait("a convolution"):
        y = tf.nn.relu(tf.nn.conv2d(x, weight(3, 3, 4, 8), 1, "SAME"))
    with wait("a filter that is a constant"):
        y = tf.nn.relu(tf.nn.conv2d(y, weight(3, 3, 8, 8), 1, "SAME"))
    filter = variable(3, 3, 8, 48)
    with wait("a filter that is a variable"):
        read = filter.read_value()
    y = tf.nn.conv2d(y, read, 1, "SAME")
    filter = variable(3, 3, 48, 48)
    with wait("a large filter that is a variable"):
        read = filter.read_value()
    y = tf.nn.conv2d(tf.nn.relu(y), read, 1, "SAME")
    with wait("a bias"):
        bias = tf.constant(weight(48))
    y = tf.nn.relu(tf.nn.bias_add(y, bias))
    y = tf.nn.conv2d(y, variable(3, 3, 48, 48).read_value(), 1, "SAME")
    with wait("the factors of its channels"):
        factors = tf.constant(weight(48))
    y = tf.nn.relu(y * factors)
    parts = [variable(3, 3, 48, 48) for _ in range(2)]
    with wait("one of two filters that are merged"):
        read = parts[1].read_value()
    y = tf.concat(
        [tf.nn.conv2d(y, f, 1, "SAME") for f in (parts[0].read_value(), read)], 3
    )
    with wait("the slope of an activation"):
        slope = tf.constant(0.2)
    y = tf.maximum(y, y * slope)
    with wait("the bound of an activation that is computed twice"):
        bound = tf.constant(0.1)
    y = tf.maximum(y, 0.1) + tf.maximum(y, bound)
    with wait("the order of a transposition that changes nothing"):
        order = tf.constant([0, 1, 2, 3])
    y = tf.transpose(y, order)
    with wait("the sizes of a resized image"):
        sizes = tf.constant([8, 8])
    y = v1.image.resize_nearest_neighbor(y, sizes)
    with wait("the sizes of a transposed convolution"):
        sizes = tf.stack([tf.shape(y)[0], 16, 16, 4])
    y = tf.nn.conv2d_transpose(y, weight(2, 2, 4, 96), sizes, 2)
    with wait("what is added to the result"):
        y += 1.0
    return tf.nn.relu(y, name="y")


X = gh.random_array(2, 4, 4, 4, seed=0)
ALL_OK = np.ones(len(PLACES), bool)


@pytest.fixture(scope="module")
def graph():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4, 4, 4], "x")
        network(x, v1.placeholder(tf.bool, [len(PLACES)], "ok"))
    return graph


@pytest.fixture(scope="module")
def converted(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("waits")
    original = str(path / "original")
    with graph.as_default(), v1.Session() as session:
        session.run(v1.global_variables_initializer())
        inputs = {name: graph.get_tensor_by_name(f"{name}:0") for name in ("x", "ok")}
        outputs = {"y": graph.get_tensor_by_name("y:0")}
        v1.saved_model.simple_save(session, original, inputs, outputs)
    output = str(path / "converted")
    report = ios_tf.convert(
        original, output, keep_slower=True, strategy="merge", sample_count=1, runs=1
    )
    assert report.operators > 8
    return original, output


def fails_at(run) -> set[str]:
    """The places that are checked: run(ok) fails if their element of `ok` is false."""
    run(ALL_OK)
    places = set()
    for i, place in enumerate(PLACES):
        try:
            run(np.arange(len(PLACES)) != i)
        except tf.errors.InvalidArgumentError as error:
            places |= set(re.findall(r"not ([^!]*)!", str(error)))
            assert place in places
    return places


def in_eager_mode(path):
    function = tf.saved_model.load(path).signatures["serving_default"]
    return lambda ok: function(x=tf.constant(X), ok=tf.constant(ok))["y"]


def in_a_session(path):
    def run(ok):
        with tf.Graph().as_default(), v1.Session() as session:
            model = v1.saved_model.load(session, ["serve"], path)
            signature = model.signature_def["serving_default"]
            feeds = {signature.inputs["x"].name: X, signature.inputs["ok"].name: ok}
            return session.run(signature.outputs["y"].name, feeds)

    return run


@pytest.mark.parametrize("way", (in_eager_mode, in_a_session))
@pytest.mark.parametrize("stock", (False, True))
def test_a_converted_model_waits_as_the_original(converted, way, stock):
    original, output = converted
    run = way(output)
    with grappler.options(use_plugin_optimizers=not stock):
        np.testing.assert_allclose(
            run(ALL_OK), way(original)(ALL_OK), rtol=1e-4, atol=1e-6
        )
        assert fails_at(run) == set(PLACES)


def test_an_enabled_graph_waits(converted, tmp_path):
    original, _ = converted
    with undoing_enable():
        ios_tf.enable(cache_dir=str(tmp_path), on_miss="greedy")
        assert fails_at(in_a_session(original)) == set(PLACES)
