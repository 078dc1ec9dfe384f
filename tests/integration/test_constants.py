"""Arithmetic with constants, some of which crashes TensorFlow's constant folding."""

import foreign_models as fm
import numpy as np
import tensorflow as tf
from shared import FAST

import ios_tf
from ios_tf.model.constants import computed_of_constants, with_single_factors


def test_runs_of_factors(tmp_path):
    model = fm.Network()
    half = 0.5 + tf.abs(tf.constant(-1.25))  # computed at each use

    def function(x):
        y = model.features(x)
        v = model.c[0, 0]
        quotients = tf.map_fn(lambda one: one / 3.0 / 2.0 * 5.0 / 7.0, y)
        shared = model.features(-x) * 3.0
        return {
            "a": model.features(x / 255.0 / 2.0) / 3.0 * 2.0,
            "b": 2.0 * (model.features(x + 1.0) / 3.0) / 7.0 * 3.0,
            "c": model.features(x * 2.0)
            / (1 + tf.exp(v[0]))
            / tf.sqrt(v[1] ** 2 + 1.0),
            "d": model.features(x - 1.0) / half / (1 + tf.abs(half)) * 0.5,
            "e": quotients,
            "f": shared / 7.0 + shared,
            "g": 3.0 / (2.0 / (1.5 + tf.abs(y))),
        }

    path, output = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.save(model, path, function, fm.image_spec())
    report = ios_tf.convert(path, output, **FAST)
    assert report.operators >= 5 * 4
    original = tf.saved_model.load(path).signatures["serving_default"]
    converted = tf.saved_model.load(output).signatures["serving_default"]
    images = np.random.default_rng(0).normal(size=(3, 12, 12, 3)).astype(np.float32)
    truth, found = original(x=images), converted(x=images)
    for name, value in truth.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5)


def graph_of(function, *specs: tf.TensorSpec):
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    outputs = [tensor.name for tensor in concrete.outputs]
    return concrete, concrete.graph.as_graph_def(), outputs


def multiplications(graph_def) -> list[str]:
    """The multiplications and divisions that do not depend on constants only."""
    constant = computed_of_constants(graph_def.node)
    return [
        node.op
        for node in graph_def.node
        if node.op in ("Mul", "RealDiv") and node.name not in constant
    ]


def test_each_run_is_one_multiplication():
    spec = tf.TensorSpec([None, 4], tf.float32)

    def function(x):
        twice = x * 3.0  # has two readers, so it stays
        return 2.0 * (tf.nn.relu(x / 3.0 * 5.0) / 4.0) / 0.5, twice * 2.0, twice

    concrete, graph_def, outputs = graph_of(function, spec)
    simplified = with_single_factors(graph_def, outputs)
    assert len(multiplications(graph_def)) == 7
    assert multiplications(simplified) == ["Mul"] * 4
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    inputs = [concrete.inputs[0].name]
    again = tf.compat.v1.wrap_function(
        lambda: tf.import_graph_def(simplified, name=""), []
    ).prune(inputs, outputs)
    for found, expected in zip(again(tf.constant(x)), function(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_whole_numbers_and_graphs_without_factors_stay():
    for function in (lambda x: x * 3 // 2, lambda x: tf.nn.relu(x)):
        _, graph_def, outputs = graph_of(function, tf.TensorSpec([4], tf.int32))
        assert with_single_factors(graph_def, outputs) is graph_def
