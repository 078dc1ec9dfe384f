"""Rewritten graphs in stock TensorFlow: merges, attributes, and unchanged parts."""

import json

import graph_helpers as gh
import keras
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from keras import layers

from ios_tf.reasons import Reason

pytestmark = pytest.mark.one_core


def parallel(*convolutions, **keywords):
    """Convolutions of one tensor, concatenated, between two more convolutions."""

    def build(x):
        x = layers.Conv2D(6, 1)(x)
        parts = [
            layers.Activation("relu")(layers.BatchNormalization()(c(x)))
            for c in convolutions
        ]
        return layers.Conv2D(3, 1)(layers.Concatenate()(parts))

    inputs = keras.Input((9, 12, 3))
    model = gh.randomised(keras.Model(inputs, build(inputs)))
    return gh.freeze(model, (None, 9, 12, 3))


def attributes(graph: gh.Graph, name: str) -> dict[str, int]:
    return {
        node.name: node.attr[name].list.i[0]
        for node in graph.graph_def.node
        if name in node.attr
    }


@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize(
    "kernels", [(1, 1), (1, 3, 5), (3, (1, 7), (7, 1)), (2, 4, 3), (2, 2)]
)
def test_merged_kernels_give_equal_results(kernels, use_bias):
    graph = parallel(
        *(
            layers.Conv2D(4 + i, kernel, padding="same", use_bias=use_bias)
            for i, kernel in enumerate(kernels)
        )
    )
    images = gh.random_array(2, 9, 12, 3)
    rewritten = gh.rewrite(graph)
    assert rewritten.ops()["Conv2D"] == 3
    assert rewritten.merges() == 1
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


@pytest.mark.parametrize(
    "keywords",
    [
        {"strides": 2, "padding": "same"},
        {"strides": 2, "padding": "valid"},
        {"dilation_rate": 2, "padding": "same"},
        {"padding": "valid"},
    ],
    ids=str,
)
def test_merge_with_strides_dilation_and_valid_padding(keywords):
    graph = parallel(*(layers.Conv2D(4 + i, 3, **keywords) for i in range(3)))
    images = gh.random_array(3, 9, 12, 3)
    rewritten = gh.rewrite(graph)
    assert rewritten.ops()["Conv2D"] == 3
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


@pytest.mark.parametrize(
    "activation",
    [
        "linear",
        "relu6",
        "sigmoid",
        "tanh",
        "elu",
        "swish",
        "hard_sigmoid",
        "hard_swish",
    ],
)
def test_merged_activation(activation):
    def build(x):
        parts = [
            layers.Conv2D(4, k, padding="same", activation=activation)(x)
            for k in (1, 3)
        ]
        return layers.Conv2D(2, 1)(layers.Concatenate()(parts))

    inputs = keras.Input((8, 7, 3))
    model = gh.randomised(keras.Model(inputs, build(inputs)))
    graph = gh.freeze(model, (None, 8, 7, 3))
    images = 2 * gh.random_array(2, 8, 7, 3)
    rewritten = gh.rewrite(graph)
    assert rewritten.ops()["Conv2D"] == 2
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


def test_merged_results_that_are_fetched_keep_their_names():
    filters = [tf.constant(gh.random_array(3, 3, 4, 5, seed=k)) for k in range(2)]

    def function(x):
        return [
            tf.nn.conv2d(x, f, 1, "SAME", name=f"fetched_{k}")
            for k, f in enumerate(filters)
        ]

    graph = gh.freeze(function, (None, 8, 8, 4))
    names = [n.name for n in graph.graph_def.node if n.op == "Conv2D"]
    graph = gh.Graph(graph.graph_def, graph.inputs, [name + ":0" for name in names])
    images = gh.random_array(2, 8, 8, 4)
    rewritten = gh.rewrite(graph)
    assert rewritten.ops()["Conv2D"] == 1
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


def test_merges_that_read_each_other():
    def build(x):
        for _ in range(3):
            parts = [layers.Conv2D(3, k, padding="same")(x) for k in (1, 3)]
            parts = [layers.Conv2D(3, 3, padding="same")(p) for p in parts]
            x = layers.Concatenate()(parts + [x])
        return x

    inputs = keras.Input((8, 7, 3))
    model = gh.randomised(keras.Model(inputs, build(inputs)))
    graph = gh.freeze(model, (None, 8, 7, 3))
    images = gh.random_array(2, 8, 7, 3)
    rewritten = gh.rewrite(graph)
    assert rewritten.ops()["Conv2D"] == 9
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


@pytest.mark.parametrize("filters", [(1, 4), (8, 16, 3)])
def test_merges_take_empty_batches(filters: tuple[int, ...]) -> None:
    """Merges work although oneDNN gives an empty batch its input's channels."""

    def heads(x):
        parts = [
            tf.nn.conv2d(x, gh.random_array(3, 3, 6, n), 1, "VALID") for n in filters
        ]
        return [
            tf.reshape(part, [-1, 42 * n])
            for part, n in zip(parts, filters, strict=True)
        ]

    graph = gh.freeze(heads, (None, 8, 9, 6))
    rewritten = gh.rewrite(graph)
    assert rewritten.merges() == 1
    for batch in (0, 2):
        images = gh.random_array(batch, 8, 9, 6)
        gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


def test_whole_network_with_merges():
    graph = shared.inception_v3_graph()
    images = networks.smooth_images(2, 139, seed=7).numpy()
    rewritten = gh.rewrite(graph)
    # The merges are 1x1 convolutions of one tensor, and the 1x3/3x1 pairs.
    assert rewritten.merges() == 14
    assert rewritten.ops()["Conv2D"] < graph.ops()["Conv2D"]
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))


def test_every_operator_has_a_stage_and_stages_follow_edges():
    graph = parallel(*(layers.Conv2D(4, k, padding="same") for k in (1, 3, 3)))
    rewritten = gh.rewrite(graph)
    stages = attributes(rewritten, "_ios_stage")
    streams = attributes(rewritten, "_ios_stream")
    assert stages.keys() == streams.keys()
    assert set(stages.values()) == set(range(max(stages.values()) + 1))
    nodes = {node.name: node for node in rewritten.graph_def.node}
    for name, node in nodes.items():
        if node.op in ("Conv2D", "Relu", "ConcatV2", "BiasAdd"):
            assert name in stages
        for value in node.input:
            source = value.split(":")[0]
            if name in stages and source in stages:
                assert stages[source] <= stages[name]


def test_concurrent_operators_have_different_streams():
    graph = parallel(*(layers.Conv2D(4, k, padding="same") for k in (1, 3, 3)))
    rewritten = gh.rewrite(graph, merge=False)
    stages = attributes(rewritten, "_ios_stage")
    streams = attributes(rewritten, "_ios_stream")
    found = {}
    for node in rewritten.graph_def.node:
        if node.op == "Conv2D":
            found.setdefault(stages[node.name], []).append(streams[node.name])
    assert sorted(sorted(s) for s in found.values()) == [[0], [0], [0, 1, 2]]


def test_rewriting_twice_changes_nothing():
    graph = parallel(*(layers.Conv2D(4, k, padding="same") for k in (1, 3)))
    once = gh.rewrite(graph)
    twice = gh.rewrite(once)
    assert gh.computing_nodes(twice) == gh.computing_nodes(once)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: None,
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"version": 1', '"version": 99'),
        lambda text: json.dumps({**json.loads(text), "stages": []}),
        lambda text: text.replace("[[0], [1], [2]]", "[[0], [1], [1]]"),
        lambda text: text.replace("[[0], [1], [2]]", "[[0, 1, 2]]"),
        lambda text: "\x00",
    ],
    ids=["missing", "truncated", "version", "empty", "twice", "groups", "binary"],
)
def test_blocks_without_valid_schedule_are_left_alone(damage):
    graph = parallel(*(layers.Conv2D(4, k, padding="same") for k in (1, 3, 3)))
    native = gh.opened(graph)
    schedules = {}
    damaged = 0
    for problem in native.blocks(1, "cpu")["problems"]:
        text = json.dumps(gh.schedule_by_levels(problem, merge=False))
        if "[[0], [1], [2]]" in text:
            before, text = text, damage(text)
            assert text != before
            damaged += 1
        if text is not None:
            schedules[problem["signature"]] = text
    assert damaged == 1
    rewritten = graph.with_def(native.rewritten([(1, 1)], "cpu", schedules))
    stages = attributes(rewritten, "_ios_stage")
    convolutions = [n.name for n in rewritten.graph_def.node if n.op == "Conv2D"]
    # The chains before and after the block have nothing to schedule.
    assert sum(name in stages for name in convolutions) == 2
    images = gh.random_array(2, 9, 12, 3)
    gh.assert_equal(gh.run(rewritten, images), gh.run(graph, images))
    gh.assert_equal(gh.run(gh.lower(rewritten), images), gh.run(graph, images))


REWRITE_WITHOUT_SCHEDULES = """
import graph_helpers as gh
import test_rewrite
from keras import layers
graph = test_rewrite.parallel(*(layers.Conv2D(4, k, padding="same") for k in (1, 3)))
gh.opened(graph).rewritten([(1, 1)], "cpu", {})
"""


def test_one_warning_names_the_missing_schedule():
    (warning,) = gh.warnings_of(REWRITE_WITHOUT_SCHEDULES)
    assert "the first: block " in warning
    assert warning.endswith(f"[{Reason.MISSING_SCHEDULE.code}]")


def test_graph_without_convolution_is_left_as_it_is():
    graph = gh.sequential(layers.Dense(4), layers.ReLU(), shape=(7,))
    rewritten = gh.rewrite(graph)
    assert gh.computing_nodes(rewritten) == gh.computing_nodes(graph)
    assert not attributes(rewritten, "_ios_stage")


def test_control_dependencies_survive_a_merge():
    filters = [tf.constant(gh.random_array(3, 3, 4, 5, seed=k)) for k in range(2)]

    def function(x):
        with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
            parts = [tf.nn.conv2d(x, f, 1, "SAME") for f in filters]
        return tf.concat(parts, 3)

    graph = gh.freeze(function, (None, 8, 8, 4))
    rewritten = gh.rewrite(graph)
    for graph in (rewritten, gh.lower(rewritten)):
        assert graph.ops()["Conv2D"] < 2
        gh.run(graph, np.zeros([1, 8, 8, 4], np.float32))
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion"):
            gh.run(graph, np.full([1, 8, 8, 4], 200, np.float32))
