"""Annotated graphs become IosRegion nodes.

Some tests run the optimizer IosOptimizer by its name, also after TensorFlow's own
passes. Other tests call functions and SavedModels, which the plugin optimizes.
"""

import functools
import json
from collections import Counter

import graph_helpers as gh
import keras
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from keras import layers
from tensorflow.core.framework import graph_pb2

from ios_tf.native import grappler
from ios_tf.reasons import Reason

pytestmark = pytest.mark.one_core


def programs(graph: gh.Graph) -> list[dict]:
    return [
        json.loads(node.attr["program"].s)
        for node in graph.graph_def.node
        if node.op == "IosRegion"
    ]


def only_schedule(program: dict) -> dict:
    (entry,) = program["schedules"]
    return entry["schedule"]


def stage_contents(program: dict) -> list[Counter[str]]:
    """The types of each stage's operators, and the number of its groups."""
    operators = program["block"]["operators"]
    return [
        Counter(
            [operators[i]["type"] for group in stage["groups"] for i in group]
            + ["groups"] * len(stage["groups"])
        )
        for stage in only_schedule(program)["stages"]
    ]


def annotated_network(merge: bool = True) -> gh.Graph:
    graph = _annotated_network(merge)
    copy = graph_pb2.GraphDef()
    copy.CopyFrom(graph.graph_def)
    return graph.with_def(copy)


@functools.cache
def _annotated_network(merge: bool) -> gh.Graph:
    return gh.rewrite(shared.cells_graph(), merge)


def test_schedule_is_that_of_the_attributes():
    annotated = annotated_network(merge=False)
    stages = {
        node.name: node.attr["_ios_stage"].list.i[0]
        for node in annotated.graph_def.node
        if "_ios_stage" in node.attr
    }
    (program,) = programs(gh.lower(annotated))
    scheduled = only_schedule(program)["stages"]
    assert len(scheduled) == max(stages.values()) + 1
    operators = program["block"]["operators"]
    for number, stage in enumerate(scheduled):
        for i in (i for group in stage["groups"] for i in group):
            if operators[i]["name"] in stages:
                assert stages[operators[i]["name"]] == number


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(
    "passes",
    [["constfold"], ["constfold", "dependency", "pruning", "loop"], ["remap"]],
    ids="+".join,
)
def test_schedule_survives_other_passes(passes, merge):
    annotated = annotated_network(merge)
    images = networks.smooth_images(2, 17, seed=7).numpy()
    (wanted,) = programs(gh.lower(annotated))
    lowered = gh.lower(annotated, [*passes, "IosOptimizer"])
    (program,) = programs(lowered)
    assert stage_contents(program) == stage_contents(wanted)
    gh.assert_equal(gh.run(lowered, images), gh.run(annotated, images))


def test_invalid_attributes_fall_back_to_the_sequential_schedule():
    annotated = annotated_network()
    backwards = graph_pb2.GraphDef()
    backwards.CopyFrom(annotated.graph_def)
    for node in backwards.node:
        if "_ios_stage" in node.attr:
            stages = node.attr["_ios_stage"].list.i
            stages[:] = [1000 - stage for stage in stages]
    lowered = gh.lower(annotated.with_def(backwards))
    (program,) = programs(lowered)
    stages = only_schedule(program)["stages"]
    assert [len(stage["groups"]) for stage in stages] == [1] * len(stages)
    assert len(stages) == len(program["block"]["operators"])
    images = networks.smooth_images(2, 17, seed=7).numpy()
    gh.assert_equal(gh.run(lowered, images), gh.run(annotated, images))


def test_missing_attributes_are_made_up():
    annotated = annotated_network()
    random = np.random.default_rng(0)
    for node in annotated.graph_def.node:
        if random.random() < 0.3:
            node.attr.pop("_ios_stage", None)
    lowered = gh.lower(annotated)
    assert lowered.ops()["IosRegion"] == 1
    images = networks.smooth_images(2, 17, seed=7).numpy()
    gh.assert_equal(gh.run(lowered, images), gh.run(annotated, images))


def test_graph_without_attributes_is_left_as_it_is():
    graph = gh.sequential(layers.Conv2D(5, 3), shape=(9, 9, 4))
    assert gh.computing_nodes(gh.lower(graph)) == gh.computing_nodes(graph)


GPU = "/job:localhost/replica:0/task:0/device:GPU:"


def chain_of_convolutions(*devices: str) -> gh.Graph:
    """An annotated graph with a convolution, bias and Relu on each device."""
    graph = gh.sequential(
        *(layers.Conv2D(5, 3, activation="relu", name=f"c{i}") for i in range(3)),
        shape=(9, 9, 4),
    )
    graph = gh.rewrite(graph)
    for node in graph.graph_def.node:
        for i, device in enumerate(devices):
            if f"c{i}" in node.name:
                node.device = device
    return graph


def region_devices(graph: gh.Graph) -> list[tuple[str, str]]:
    return [
        (node.device, node.attr["device"].s.decode())
        for node in graph.graph_def.node
        if node.op == "IosRegion"
    ]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([""] * 3, [("", "cpu")]),
        ([GPU + "0"] * 3, [(GPU + "0", "gpu")]),
        ([GPU + "0", GPU + "0", ""], [(GPU + "0", "gpu"), ("", "cpu")]),
        ([GPU + "0", GPU + "1"], [(GPU + "0", "gpu"), (GPU + "1", "gpu"), ("", "cpu")]),
        (["/device:CPU:0", "", ""], [("/device:CPU:0", "cpu"), ("", "cpu")]),
        (["/device:TPU:0"] * 3, []),
    ],
    ids=["cpu", "gpu", "gpu_and_cpu", "two_gpus", "cpu_by_name", "tpu"],
)
def test_regions_are_for_the_device_of_their_nodes(devices, expected, cuda):
    lowered = gh.lower(chain_of_convolutions(*devices))
    assert region_devices(lowered) == expected


def test_one_device_only():
    graph = chain_of_convolutions(GPU + "0", "/device:CPU:0", "")
    lowered = gh.lower(graph, device="cpu")
    assert region_devices(lowered) == [("/device:CPU:0", "cpu"), ("", "cpu")]
    lowered = gh.lower(graph, device="gpu")
    assert region_devices(lowered) == [(GPU + "0", "gpu"), ("", "gpu")]
    report = gh.collect(graph, device="gpu")["report"]
    assert gh.reasons_left(report)["Conv2D"] == {Reason.OTHER_DEVICE.code}
    with pytest.raises(tf.errors.OpError, match="neither"):
        gh.lower(graph, device="tpu")


LOWER_FOR_GPU = """
import test_lower
graph = test_lower.chain_of_convolutions(*[test_lower.GPU + "0"] * 3)
assert test_lower.gh.lower(graph).ops()["IosRegion"] == 0
"""


def test_gpu_without_libraries_is_left_to_tensorflow(tmp_path):
    # Runs in a new process, because this process may have loaded CUDA's libraries.
    (warning,) = gh.warnings_of(LOWER_FOR_GPU, IOS_TF_CUDA_LIBRARIES=str(tmp_path))
    assert "libcuda.so.1" in warning
    assert warning.endswith(f"[{Reason.UNUSABLE_GPU.code}]")


# The first graph has stages in the wrong order, the second one has an unknown type.
LOWER_DAMAGED = """
import test_lower
for damage in ("backwards", "unknown"):
    annotated = test_lower.annotated_network()
    for node in annotated.graph_def.node:
        if damage == "backwards" and "_ios_stage" in node.attr:
            stages = node.attr["_ios_stage"].list.i
            stages[:] = [1000 - stage for stage in stages]
        elif damage == "unknown" and node.op == "AvgPool":
            node.op = "NoSuchOperation"
    test_lower.gh.lower(annotated)
"""


def test_damaged_graphs_are_one_line_each():
    warnings = gh.warnings_of(LOWER_DAMAGED)
    codes = [Reason.INVALID_SCHEDULE.code, Reason.GRAPH_NOT_LOWERED.code]
    for warning, code in zip(warnings, codes, strict=True):
        assert warning.endswith(f"[{code}]")


def test_region_on_another_device_than_it_is_made_for():
    lowered = gh.lower(chain_of_convolutions(), device="gpu")
    for node in lowered.graph_def.node:
        node.device = "/device:CPU:0"
    with pytest.raises(tf.errors.InvalidArgumentError, match="made for the gpu"):
        gh.run(lowered, gh.random_array(1, 9, 9, 4))


def test_fetched_tensors_keep_their_names():
    filters = tf.constant(gh.random_array(3, 3, 4, 5))
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(
            tf.nn.conv2d(x, filters[..., :4], 1, "SAME"), filters, 2, "SAME"
        ),
        (None, 8, 8, 4),
    )
    names = [node.name for node in graph.graph_def.node if node.op == "Conv2D"]
    graph = gh.Graph(graph.graph_def, graph.inputs, [name + ":0" for name in names])
    lowered = gh.assert_lowered_equals(graph, (2, 8, 8, 4))
    assert lowered.ops()["Conv2D"] == 0


def test_plugin_lowers_functions_of_any_batch_size():
    graph = annotated_network()
    function = gh.as_function(graph)
    for batch in (1, 4):
        images = networks.smooth_images(batch, 17, seed=7)
        (found,) = function(images)
        gh.assert_equal([found.numpy()], gh.run(graph, images.numpy()))
    ops = gh.executed_ops(gh.as_function(graph), images)
    assert ops["IosRegion"] == 1
    assert not gh.convolutions(ops)


def test_plugin_can_be_switched_off():
    graph = annotated_network()
    images = networks.smooth_images(1, 17, seed=7)
    with grappler.options(use_plugin_optimizers=False):
        ops = gh.executed_ops(gh.as_function(graph), images)
    assert ops["IosRegion"] == 0
    assert gh.convolutions(ops)


def test_other_graphs_execute_the_same_nodes_as_without_the_plugin():
    model = networks.inception_like(75)
    images = networks.smooth_images(1, 75)

    def ops():
        function = tf.function(lambda x: model(x, training=False))
        return gh.executed_ops(function, images)

    with grappler.options(use_plugin_optimizers=False):
        expected = ops()
    assert ops() == expected


def test_plugin_handles_unknown_height_and_width():
    graph = gh.sequential(
        layers.Conv2D(5, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        shape=(None, None, 3),
    )
    function = gh.as_function(gh.rewrite(graph))
    for size in (9, 30):
        images = gh.random_array(2, size, size + 1, 3)
        (found,) = function(tf.constant(images))
        gh.assert_equal([found.numpy()], gh.run(graph, images))
    again = gh.as_function(gh.rewrite(graph))
    assert gh.executed_ops(again, tf.constant(images))["IosRegion"] == 1


def test_plugin_fuses_what_it_leaves_to_tensorflow():
    # The plugin displaces TensorFlow's remapper, which would fuse these nodes.
    graph = gh.sequential(
        layers.Conv2D(5, 3, use_bias=True, activation="relu"), shape=(9, 9, 4)
    )
    ops = gh.executed_ops(
        gh.as_function(graph), tf.constant(gh.random_array(1, 9, 9, 4))
    )
    (convolution,) = gh.convolutions(ops)
    assert "Fused" in convolution


def test_training_is_left_alone():
    model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3)])
    model.compile("sgd", "mse")
    images = gh.random_array(4, 8, 8, 3)
    first = model.train_on_batch(images, np.zeros([4, 6, 6, 4]))
    for _ in range(5):
        last = model.train_on_batch(images, np.zeros([4, 6, 6, 4]))
    assert last < first


def test_gradients_of_an_annotated_function():
    graph = annotated_network()
    images = networks.smooth_images(2, 17, seed=7)

    def gradient(g):
        with tf.GradientTape() as tape:
            tape.watch(images)
            (logits,) = gh.as_function(g)(images)
        return tape.gradient(logits, images).numpy()

    gh.assert_equal([gradient(graph)], [gradient(shared.cells_graph())])


def test_network_in_a_conditional_and_in_a_loop():
    graph = annotated_network()
    function = gh.as_function(graph)
    images = networks.smooth_images(2, 17, seed=7)
    (expected,) = gh.run(graph, images.numpy())

    @tf.function
    def conditional(x, use):
        return tf.cond(use, lambda: function(x)[0], lambda: tf.zeros([2, 10]))

    @tf.function
    def loop(x, count):
        total = tf.zeros([2, 10])
        for _ in tf.range(count):
            total += function(x)[0]
        return total

    gh.assert_equal([conditional(images, tf.constant(True)).numpy()], [expected])
    assert not conditional(images, tf.constant(False)).numpy().any()
    gh.assert_equal([loop(images, tf.constant(3)).numpy()], [3 * expected])


def test_operators_after_a_conditional():
    filters = tf.constant(gh.random_array(3, 3, 3, 4))
    graph = gh.rewrite(
        gh.freeze(lambda x: tf.nn.conv2d(x, filters, 1, "SAME"), (None, 8, 8, 3)),
    )
    network = gh.as_function(graph)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3])])
    def function(x):
        x = tf.cond(tf.reduce_max(x) > 1, lambda: x / 2, lambda: 2 * x)
        return network(x)[0]

    images = gh.random_array(2, 8, 8, 3)
    (expected,) = gh.run(graph, images / 2)
    gh.assert_equal([function(tf.constant(images)).numpy()], [expected])
