"""Manipulated attributes and programs: the graph computes the original's result, or its
op raises an error, and the process survives."""

import json

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

SHAPE = (None, 10, 9, 3)
VALUES = [0, 1, 2, 5, -1, 2**30, 2**30 + 1, 2**31, 2**62, 2**63 - 1, -(2**63)]
NAMES = ("_ios_batch", "_ios_stage", "_ios_stream", "_ios_micro_batches")


def network() -> gh.Graph:
    inputs = keras.Input(SHAPE[1:])
    left = layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    right = layers.Conv2D(4, 1, padding="same", activation="relu")(inputs)
    joined = layers.Concatenate()(
        [left, right, layers.MaxPooling2D(3, 1, "same")(left)]
    )
    return gh.freeze(
        gh.randomised(keras.Model(inputs, layers.Conv2D(5, 3)(joined))), SHAPE
    )


@pytest.fixture(scope="module")
def original() -> gh.Graph:
    return network()


@pytest.fixture(scope="module")
def rewritten(original, tmp_path_factory) -> gh.Graph:
    return gh.rewrite(original)


@pytest.mark.parametrize("seed", range(30))
def test_mutated_attributes(original, rewritten, seed):
    rng = np.random.default_rng(seed)
    graph_def = type(rewritten.graph_def)()
    graph_def.CopyFrom(rewritten.graph_def)
    annotated = [node for node in graph_def.node if "_ios_stage" in node.attr]
    for node in annotated:
        if rng.integers(2):
            continue
        name = str(rng.choice(NAMES))
        values = node.attr[name].list.i
        count = len(values) or 1
        del values[:]
        count += int(rng.choice([0, 0, 0, -1, 1, 1000]))
        values.extend(int(VALUES[i]) for i in rng.integers(len(VALUES), size=count))
        if rng.integers(6) == 0:
            node.attr["_ios_merge"].list.i[:] = [1] * count
        if rng.integers(2) == 0:
            names = [b"winograd_4x4", b"winograd_2x2", b"direct", b"fft"]
            node.attr["_ios_algorithm"].list.s[:] = list(rng.choice(names, size=count))
        if rng.integers(6) == 0:
            node.attr[name].s = b"a string"
    lowered = gh.lower(gh.Graph(graph_def, rewritten.inputs, rewritten.outputs))
    for batch in (1, 3):
        images = gh.random_array(batch, *SHAPE[1:])
        gh.assert_equal(gh.run(lowered, images), gh.run(original, images))


def mutated(program: dict, rng: np.random.Generator) -> str:
    values = [program]

    def collect(value):
        for item in value.values() if isinstance(value, dict) else value:
            values.append(item)
            if isinstance(item, (dict, list)):
                collect(item)

    collect(program)
    holders = [v for v in values if isinstance(v, (dict, list)) and v]
    for _ in range(int(rng.integers(1, 4))):
        holder = holders[int(rng.integers(len(holders)))]
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        if not keys:
            continue
        key = keys[int(rng.integers(len(keys)))]
        other = values[int(rng.integers(len(values)))]
        new = [int(VALUES[int(rng.integers(len(VALUES)))]), None, "x", [], 1e300]
        if not isinstance(other, (dict, list)):
            new.append(other)
        holder[key] = new[int(rng.integers(len(new)))]
    return json.dumps(program)


def test_mutated_programs(original, rewritten):
    lowered = gh.lower(rewritten)
    images = gh.random_array(2, *SHAPE[1:])
    expected = gh.run(original, images)
    refused = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        graph_def = type(lowered.graph_def)()
        graph_def.CopyFrom(lowered.graph_def)
        (region,) = (n for n in graph_def.node if n.op == "IosRegion")
        program = json.loads(region.attr["program"].s)
        region.attr["program"].s = mutated(program, rng).encode()
        try:
            found = gh.run(gh.Graph(graph_def, lowered.inputs, lowered.outputs), images)
        except (tf.errors.OpError, ValueError):
            refused += 1
            continue
        # The operator may differ from the original one, but not the sizes.
        assert [f.dtype for f in found] == [e.dtype for e in expected]
    assert refused > 50


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"block": ' + b"[" * 200_000 + b"]" * 200_000 + b', "schedules": []}',
        b'{"block": {}, "schedules": [{"batch_size": 99999999999999999999}]}',
        b" " * (2**24 + 1),
    ],
    ids=["empty", "bytes", "unclosed", "deep", "number", "large"],
)
def test_what_is_no_program_is_an_error(rewritten, text):
    lowered = gh.lower(rewritten)
    (region,) = (n for n in lowered.graph_def.node if n.op == "IosRegion")
    region.attr["program"].s = text
    with pytest.raises((tf.errors.OpError, ValueError)):
        gh.run(lowered, gh.random_array(1, *SHAPE[1:]))


def test_mutated_watches(original, rewritten, tmp_path, monkeypatch):
    """Manipulates the list of files from which a region gets its schedules, while a
    thread reads these files."""
    monkeypatch.setenv("IOS_TF_REFRESH_SECONDS", "0.01")
    images = gh.random_array(2, *SHAPE[1:])
    expected = gh.run(original, images)
    refused = 0
    for seed in range(60):
        lowered = gh.lower(rewritten)
        (region,) = (n for n in lowered.graph_def.node if n.op == "IosRegion")
        block = json.loads(region.attr["program"].s)["block"]
        watched = {"block": block, "is_searched": True, "is_cached": False}
        watch = {
            "key": f"region {seed}",
            "cache_dir": str(tmp_path),
            "device": "cpu",
            "waits": False,
            "blocks": [{**watched, "modified_ns": 0, "bytes": -1}],
        }
        region.attr["watch"].s = mutated(watch, np.random.default_rng(seed)).encode()
        try:
            found = gh.run(lowered, images)
        except (tf.errors.OpError, ValueError):
            refused += 1
            continue
        gh.assert_equal(found, expected)
    assert 10 < refused < 60


@pytest.mark.parametrize("number", [0, -1, 2**31, 2**62, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    ("op", "attribute"),
    [
        ("Conv2D", "strides"),
        ("Conv2D", "dilations"),
        ("Conv2DBackpropInput", "strides"),
        ("Conv2DBackpropInput", "dilations"),
        ("MaxPool", "ksize"),
        ("MaxPool", "strides"),
    ],
)
def test_steps_that_no_window_takes_are_left_to_tensorflow(op, attribute, number):
    filters = gh.constant(3, 3, 3, 3)

    def network(x):
        x = tf.nn.conv2d(x, filters, 1, "SAME")
        x = tf.nn.conv2d_transpose(x, filters, [2, 10, 9, 3], 1, "SAME")
        return tf.nn.max_pool2d(x, 2, 2, "SAME")

    graph = gh.freeze(network, (2, 10, 9, 3))
    assert len(operator_types(graph)) == 3
    (node,) = (n for n in graph.graph_def.node if n.op == op)
    node.attr[attribute].list.i[:] = [1, number, number, 1]
    assert len(operator_types(graph)) < 3


def test_blocks_of_no_cells_are_left_to_tensorflow():
    """A zero block size is refused, because image sizes are divided by it."""
    filters = gh.constant(3, 3, 3, 3)

    def network(x):
        x = tf.nn.conv2d(x, filters, 1, "SAME")
        x = tf.space_to_batch(x, [2, 2], [[2, 2], [2, 2]])
        x = tf.nn.conv2d(x, filters, 1, "VALID")
        return tf.batch_to_space(x, [2, 2], [[0, 0], [0, 0]])

    graph = gh.freeze(network, (2, 10, 8, 3))
    assert "BatchToSpaceND" not in gh.left(gh.collect(graph)["report"])
    for node in graph.graph_def.node:
        if node.op in ("SpaceToBatchND", "BatchToSpaceND"):
            name = node.input[1]
            (block,) = (n for n in graph.graph_def.node if n.name == name)
            block.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([0, 0]))
    assert "BatchToSpaceND" in gh.left(gh.collect(graph)["report"])


def operator_types(graph: gh.Graph) -> list[str]:
    return [o["type"] for o in gh.operators(gh.collect(graph))]


def test_images_of_more_cells_than_can_be_counted():
    filters = gh.constant(1, 1, 3, 3)

    def network(x):
        y = tf.nn.conv2d(x, filters, 1, "SAME")
        y = tf.raw_ops.ResizeNearestNeighbor(images=y, size=[2**30, 2**30])
        return tf.nn.relu(y + tf.nn.relu(y))

    graph = gh.freeze(network, (None, 10, 9, 3))
    assert "conv2d" in operator_types(graph)


@pytest.mark.parametrize(
    "made_from",
    [
        # The slice has two numbers for batch 1, and none for batch 4.
        lambda shape: shape[shape[0] : 3],
        # The tensor is one row of two numbers for batch 1.
        lambda shape: tf.reshape([5, 5], tf.constant([1, 2])[shape[0] - 1 :]),
    ],
    ids=["none", "row"],
)
def test_sizes_that_are_not_two_numbers(made_from):
    """TensorFlow's own shape functions crash the process if a value contradicts its
    shape."""
    filters = gh.constant(1, 1, 3, 3)

    def network(x):
        y = tf.nn.conv2d(x, filters, 1, "SAME")
        y = tf.raw_ops.ResizeBilinear(images=y, size=made_from(tf.shape(x)))
        return tf.nn.conv2d(y, filters, 1, "SAME")

    graph = gh.freeze(network, (None, 10, 9, 3))
    assert "conv2d" in operator_types(graph)
