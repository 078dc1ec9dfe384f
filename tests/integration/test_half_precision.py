"""float16 and bfloat16 graphs: each type has its own blocks.

On a CPU, float16 operators compute in float32. The engine's results, also those on the
fake GPU, are compared with TensorFlow in float32.
"""

import json

import graph_helpers as gh
import keras
import numpy as np
import pytest
import stock
import tensorflow as tf
from cache_helpers import undoing_enable
from cuda_engine import TOLERANCE, decode, encode
from keras import layers
from shared import FAST

import ios_tf
from ios_tf.conversion import show
from ios_tf.models import calibration
from ios_tf.native import engine

HALVES = ["float16", "bfloat16"]
GPU = {"device": "gpu"}


def values(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(gh.random_array(*shape, seed=seed) / 4)


def network(x, dtype):
    """Two branches that may merge, all in one type."""

    def conv(x, *shape, seed):
        return tf.nn.conv2d(x, tf.cast(values(*shape, seed=seed), dtype), 1, "SAME")

    x = tf.cast(x, dtype)
    x = tf.nn.relu(conv(x, 3, 3, 3, 8, seed=1))
    bias = tf.cast(values(4), dtype)
    a = tf.nn.relu(tf.nn.bias_add(conv(x, 3, 3, 8, 4, seed=2), bias))
    b = tf.nn.relu(conv(x, 1, 1, 8, 6, seed=3) * tf.cast(0.5, dtype))
    return tf.cast(tf.concat([a, b], 3), tf.float32)


def freeze(dtype) -> gh.Graph:
    return gh.freeze(lambda x: network(x, dtype), (None, 9, 8, 3))


def run_regions(graph: gh.Graph, images: np.ndarray) -> list[np.ndarray]:
    """The outputs of a lowered graph's only region on the engine's GPU."""
    (node,) = [n for n in graph.graph_def.node if n.op == "IosRegion"]
    program = json.loads(node.attr["program"].s)
    dtype = program["block"]["dtype"]
    assert node.attr["T"].type == tf.as_dtype(dtype).as_datatype_enum
    weights = [tf.make_ndarray(t) for t in node.attr["weights"].list.tensor]
    (entry,) = program["schedules"]
    compiled = engine.Program(
        program["block"], entry["schedule"], weights, "gpu,tf32=off"
    )
    return [decode(y) for y in compiled.run([encode(images, dtype)])]


def assert_close(found, expected, dtype: str) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max()


@pytest.mark.parametrize("dtype", HALVES)
def test_region_in_half_precision(dtype, cuda):
    graph = freeze(dtype)
    collected = gh.collect(graph, batch_size=2, **GPU)
    assert {p["block"]["dtype"] for p in collected["problems"]} == {dtype}
    assert gh.left(collected["report"]) == {"Cast": 2}
    images = gh.random_array(2, 9, 8, 3)
    (expected,) = gh.run(freeze("float32"), images)
    for merge in (False, True):
        rewritten = gh.rewrite(graph, merge, batch_size=2, **GPU)
        lowered = gh.lower(rewritten, **GPU)
        assert lowered.ops()["IosRegion"] == 1
        assert lowered.ops()["Conv2D"] == 0
        (found,) = run_regions(lowered, images)
        assert_close(found, expected, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_merges_in_half_precision_run_in_stock_tensorflow(dtype):
    graph = freeze(dtype)
    rewritten = gh.rewrite(graph, batch_size=2, **GPU)
    assert rewritten.merges() == 1
    for node in rewritten.graph_def.node:
        if node.op in ("Conv2D", "BiasAdd", "StridedSlice"):
            assert node.attr["T"].type == tf.as_dtype(dtype).as_datatype_enum
    images = gh.random_array(2, 9, 8, 3)
    (expected,) = gh.run(freeze("float32"), images)
    assert_close(gh.run(rewritten, images)[0], expected, dtype)


def only_block(graph: gh.Graph) -> dict:
    """The block of a lowered graph's only region."""
    (node,) = [n for n in graph.graph_def.node if n.op == "IosRegion"]
    return json.loads(node.attr["program"].s)["block"]


def test_float16_on_a_cpu():
    graph = freeze("float16")
    assert gh.collect(graph)["report"]["regions"] == 1
    images = gh.random_array(2, 9, 8, 3)
    (expected,) = gh.run(freeze("float32"), images)
    # A model that was made for a GPU runs on the engine on a CPU, too.
    for options in ({}, GPU):
        lowered = gh.lower(gh.rewrite(graph, **options))
        block = only_block(lowered)
        assert block["dtype"] == "float32"
        assert block["input_dtypes"] == ["float16"]
        assert set(block["output_dtypes"]) == {"float16"}
        assert_close(gh.run(lowered, images)[0], expected, "float16")


def test_float16_without_an_overflow():
    """A sum above 65504 overflows in float16, but not in a region of the engine."""

    def function(x, dtype):
        filters = tf.cast(tf.fill([1, 1, 4, 4], 200.0), dtype)
        x = tf.nn.conv2d(tf.cast(x, dtype), filters, 1, "SAME")
        x = tf.nn.conv2d(x, filters / tf.cast(40000, dtype), 1, "SAME")
        return tf.cast(x, tf.float32)

    graph = gh.freeze(lambda x: function(x, tf.float16), (None, 2, 2, 4))
    x = np.full([1, 2, 2, 4], 100, np.float32)
    x[0, 1, 1] = 60000  # the result is too large for float16, too
    lowered = gh.lower(gh.rewrite(graph))
    assert only_block(lowered)["dtype"] == "float32"
    (found,) = gh.run(lowered, x)
    assert (gh.run(graph, x)[0] == np.inf).all()
    assert (found[0, 1, 1] == np.inf).all()
    np.testing.assert_allclose(found[0, 0], 1600, rtol=2e-3)


def test_special_numbers_in_float16():
    def function(x):
        x = tf.cast(x, tf.float16)
        filters = tf.cast(values(1, 1, 3, 5), tf.float16)
        return tf.cast(tf.nn.relu6(tf.nn.conv2d(x, filters, 1, "SAME")), tf.float32)

    graph = gh.freeze(function, (None, 3, 3, 3))
    images = gh.random_array(2, 3, 3, 3)
    images[0, 0, 0, 1], images[1, 2, 1, 0], images[1, 1, 1, 2] = np.nan, np.inf, -np.inf
    images[0, 1, 1, 1] = 1e6  # becomes infinity in float16
    (found,) = gh.run(gh.lower(gh.rewrite(graph)), images)
    (expected,) = gh.run(graph, images)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, atol=2e-2)


def test_bfloat16_on_a_cpu():
    graph = freeze("bfloat16")
    assert gh.collect(graph)["report"]["regions"] == 1
    lowered = gh.lower(gh.rewrite(graph))
    block = only_block(lowered)
    assert block["dtype"] == "bfloat16" and "input_dtypes" not in block
    images = gh.random_array(2, 9, 8, 3)
    (found,) = gh.run(lowered, images)
    (expected,) = gh.run(freeze("float32"), images)
    assert_close(found.astype(np.float32), expected, "bfloat16")


def test_types_are_borders_of_regions():
    def mixed(x):
        filters = values(3, 3, 3, 3)
        x = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME"))
        x = tf.cast(x, tf.float16)
        x = tf.nn.relu(tf.nn.conv2d(x, tf.cast(filters, tf.float16), 1, "SAME"))
        x = tf.cast(x, tf.bfloat16)
        return tf.nn.conv2d(x, tf.cast(filters, tf.bfloat16), 1, "SAME")

    graph = gh.freeze(mixed, (None, 9, 8, 3))
    collected = gh.collect(graph, **GPU)
    dtypes = [p["block"]["dtype"] for p in collected["problems"]]
    assert sorted(dtypes) == ["bfloat16", "float16", "float32"]
    assert collected["report"]["regions"] == 3
    # Blocks with equal operators of different types have different signatures.
    assert len({p["signature"] for p in collected["problems"]}) == 3
    on_cpu = gh.collect(graph)
    types = {"float16": "float32"}
    found = [p["block"]["dtype"] for p in on_cpu["problems"]]
    assert sorted(found) == sorted(types.get(dtype, dtype) for dtype in dtypes)
    assert on_cpu["report"]["operators"] == {"conv2d": 3}


@pytest.fixture
def policy():
    before = keras.mixed_precision.dtype_policy()
    yield keras.mixed_precision.set_dtype_policy
    keras.mixed_precision.set_dtype_policy(before)


def small_network() -> keras.Model:
    inputs = keras.Input((9, 8, 3))
    x = layers.Conv2D(8, 3, use_bias=False)(inputs)
    x = layers.Activation("swish")(layers.BatchNormalization()(x))
    a, b = (
        layers.ReLU()(
            layers.BatchNormalization()(layers.SeparableConv2D(8, k, padding="same")(x))
        )
        for k in (3, 5)
    )
    x = layers.Concatenate()([layers.Add()([a, b]), a])
    x = layers.GlobalAveragePooling2D()(x)
    return gh.randomised(keras.Model(inputs, layers.Dense(5)(x)))


@pytest.mark.parametrize("dtype", HALVES)
def test_keras_mixed_precision(dtype, policy, cuda):
    """Batch norms are float32 between two casts, and become part of convolutions."""
    expected_model = small_network()
    policy(f"mixed_{dtype}")
    graph = gh.freeze(small_network(), (None, 9, 8, 3))
    report = gh.collect(graph, batch_size=2, **GPU)["report"]
    assert gh.left(report) == {"Cast": 1}
    assert report["regions"] == 1
    images = gh.random_array(2, 9, 8, 3)
    lowered = gh.lower(gh.rewrite(graph, batch_size=2, **GPU), **GPU)
    (found,) = run_regions(lowered, images)
    assert_close(found, expected_model(images).numpy(), dtype)


@pytest.mark.parametrize("name", ["mixed_float16", "float16"])
@pytest.mark.usefixtures("cache")
def test_converted_keras_model(name, policy, tmp_path):
    expected_model = small_network()
    policy(name)
    model = small_network()
    images = gh.random_array(3, 9, 8, 3).astype(model.inputs[0].dtype)
    expected = expected_model(images.astype(np.float32)).numpy()
    original, converted = str(tmp_path / "original"), str(tmp_path / "converted")
    model.export(original, verbose=False)
    report = ios_tf.convert(original, converted, **FAST)
    assert set(report.left_to_tensorflow) <= {"Cast"}
    operators = [one for network in report.networks for one in network["operators"]]
    assert {one["precision"] for one in operators} == {"float32"}
    text = show.text_of(show.converted_regions(converted))
    assert "operators in float32, with float16 inputs and outputs" in text
    function = tf.saved_model.load(converted).signatures["serving_default"]
    ((name, found),) = function(tf.constant(images)).items()
    assert found.dtype == model.outputs[0].dtype
    assert_close(found.numpy().astype(np.float32), expected, "float16")
    # Without the plugin, TensorFlow computes in float16.
    portable = stock.serve(converted, images, tmp_path)
    assert_close(portable.astype(np.float32), expected, "float16")


@pytest.mark.usefixtures("cache", "computes_bfloat16")
def test_float16_model_in_bfloat16(policy):
    expected_model = small_network()
    policy("mixed_float16")
    model = small_network()
    images = gh.random_array(3, 9, 8, 3)
    expected = expected_model(images).numpy()
    result = ios_tf.optimize(model, precision="bfloat16", max_error=0.1, **FAST)
    (choice,) = result.report.precisions
    assert choice.precision == "bfloat16" and not choice.returned
    assert_close(result(images).numpy().astype(np.float32), expected, "bfloat16")


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.usefixtures("computes_bfloat16")
def test_enable_with_a_float16_model(precision, policy, cache):
    expected_model = small_network()
    policy("mixed_float16")
    graph = gh.freeze(small_network(), (None, 9, 8, 3))
    images = gh.random_array(3, 9, 8, 3)
    with undoing_enable():
        ios_tf.enable(
            cache_dir=cache, on_miss="greedy", batch_size=3, precision=precision
        )
        function = gh.as_function(graph)
        nodes = gh.executed_nodes(function, tf.constant(images))
        (node,) = [one for one in nodes if one.op == "IosRegion"]
        assert json.loads(node.attr["program"].s)["block"]["dtype"] == precision
        (found,) = function(tf.constant(images))
    expected = expected_model(images).numpy()
    error = "float16" if precision == "float32" else precision
    assert_close(found.numpy().astype(np.float32), expected, error)


def test_mobilenet_v2_in_float16(policy):
    """All operators are in regions, with all batch norms folded."""

    def build() -> keras.Model:
        return keras.applications.MobileNetV2(
            (64, 64, 3), alpha=0.35, weights=None, classifier_activation=None
        )

    exact = build()
    calibration.calibrate(exact)
    policy("mixed_float16")
    model = build()
    model.set_weights(exact.get_weights())
    images = calibration.smooth_images(2, 64, seed=1).numpy()
    graph = gh.freeze(model, (None, 64, 64, 3))
    collected = gh.collect(graph)
    assert gh.left(collected["report"]) == {"Cast": 1}
    lowered = gh.lower(gh.rewrite(graph))
    (found,) = gh.run(lowered, images)
    (original,) = gh.run(graph, images)
    # The engine rounds inputs, weights and outputs to float16, and nothing else.
    for layer in exact.layers:
        if not isinstance(layer, layers.BatchNormalization):
            for weight in layer.weights:
                weight.assign(tf.cast(tf.cast(weight, tf.float16), tf.float32))
    expected = exact(images.astype(np.float16).astype(np.float32)).numpy()
    error = np.abs(found - expected).max()
    assert error < 1e-3 * np.abs(expected).max()
    assert error < 0.1 * np.abs(original - expected).max()


def test_casts_that_others_read_stay():
    def function(x):
        x = tf.cast(x, tf.float16)
        x = tf.nn.conv2d(x, tf.cast(values(3, 3, 3, 4), tf.float16), 1, "SAME")
        y = tf.cast(x, tf.float32)
        z = tf.cast(tf.nn.relu(y * 0.5), tf.float16)
        return tf.nn.conv2d(z, tf.cast(values(1, 1, 4, 4), tf.float16), 1, "SAME"), y

    collected = gh.collect(gh.freeze(function, (None, 9, 8, 3)), **GPU)
    assert collected["report"]["regions"] == 2
    assert gh.left(collected["report"])["Cast"] == 3
