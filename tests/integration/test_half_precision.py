"""float16 and bfloat16 graphs: separate blocks, except that a CPU has no float16.

The engine's results on the fake GPU are compared with TensorFlow in float32.
"""

import json

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from cuda_engine import TOLERANCE, decode, encode
from keras import layers

from ios_tf.native import engine
from ios_tf.reasons import nodes

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


def test_float16_is_left_to_tensorflow_on_a_cpu():
    graph = freeze("float16")
    report = gh.collect(graph)["report"]
    assert report["regions"] == 0
    assert gh.left(report)["Conv2D"] == 3
    assert gh.reasons_left(report)["Conv2D"] == {nodes.TYPE_ON_GPU_ONLY.code}
    texts = {one["text"] for one in report["left_to_tensorflow"]}
    assert any("float16" in text for text in texts)
    # A model that was made for a GPU loads on a CPU as plain TensorFlow.
    rewritten = gh.rewrite(graph, **GPU)
    lowered = gh.lower(rewritten)
    assert lowered.ops()["IosRegion"] == 0
    images = gh.random_array(2, 9, 8, 3)
    gh.assert_equal(gh.run(lowered, images), gh.run(rewritten, images))


def test_bfloat16_on_a_cpu():
    graph = freeze("bfloat16")
    assert gh.collect(graph)["report"]["regions"] == 1
    lowered = gh.lower(gh.rewrite(graph))
    (node,) = (node for node in lowered.graph_def.node if node.op == "IosRegion")
    block = json.loads(node.attr["program"].s)["block"]
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
    report = gh.collect(graph)["report"]
    assert report["operators"] == {"conv2d": 2}  # not the one in float16


@pytest.fixture
def policy():
    before = keras.mixed_precision.dtype_policy()
    yield keras.mixed_precision.set_dtype_policy
    keras.mixed_precision.set_dtype_policy(before)


@pytest.mark.parametrize("dtype", HALVES)
def test_keras_mixed_precision(dtype, policy, cuda):
    """Batch norms are float32 between two casts, and become part of convolutions."""

    def build() -> keras.Model:
        inputs = keras.Input((9, 8, 3))
        x = layers.Conv2D(8, 3, use_bias=False)(inputs)
        x = layers.Activation("swish")(layers.BatchNormalization()(x))
        a, b = (
            layers.ReLU()(
                layers.BatchNormalization()(
                    layers.SeparableConv2D(8, k, padding="same")(x)
                )
            )
            for k in (3, 5)
        )
        x = layers.Concatenate()([layers.Add()([a, b]), a])
        x = layers.GlobalAveragePooling2D()(x)
        return gh.randomised(keras.Model(inputs, layers.Dense(5)(x)))

    expected_model = build()
    policy(f"mixed_{dtype}")
    graph = gh.freeze(build(), (None, 9, 8, 3))
    report = gh.collect(graph, batch_size=2, **GPU)["report"]
    assert gh.left(report) == {"Cast": 1}
    assert report["regions"] == 1
    images = gh.random_array(2, 9, 8, 3)
    lowered = gh.lower(gh.rewrite(graph, batch_size=2, **GPU), **GPU)
    (found,) = run_regions(lowered, images)
    assert_close(found, expected_model(images).numpy(), dtype)


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
