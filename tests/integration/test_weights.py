"""Weights of converted models are variables: loaded once, read when a region runs."""

import dataclasses
import functools
import json
import threading

import foreign_models as fm
import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from merges import merge_everything
from shared import FAST
from tensorflow.python.framework import op_def_library
from tensorflow.python.saved_model import loader_impl

import ios_tf
from ios_tf.model import (
    frozen_graphs,
    function_library,
    graph_optimizer,
    saved_models,
    subgraphs,
    weights,
)
from ios_tf.native import plugin

pytestmark = pytest.mark.one_core


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(function_library, "LARGE_BYTES", 1)


def converted(path: str) -> str:
    """A converted SavedModel with four weights, one belonging to a Dense layer."""
    module = fm.Network()
    dense = module.dense = tf.Variable(gh.random_array(12 * 12 * 6, 5) / 10)

    def network(x):
        x = tf.nn.relu(module.features(x))
        return {"y": tf.reshape(x, [-1, 12 * 12 * 6]) @ dense}

    fm.save(module, path + "/model", network, fm.image_spec())
    report = ios_tf.convert(
        path + "/model", path + "/converted", strategy="greedy", **FAST
    )
    assert report.comparisons[0].difference < 1e-5
    return path + "/converted"


def constants(path: str) -> list[int]:
    """The sizes in bytes of the float constants of all functions of a SavedModel."""
    (meta_graph,) = loader_impl.parse_saved_model(path).meta_graphs
    return [
        node.attr["value"].tensor.ByteSize()
        for function in meta_graph.graph_def.library.function
        for node in function.node_def
        if node.op == "Const"
        and node.attr["value"].tensor.dtype == tf.float32.as_datatype_enum
    ]


def test_no_weight_is_in_the_graph(tmp_path):
    path = converted(str(tmp_path))
    assert sum(constants(path)) < 200
    loaded = tf.saved_model.load(path)
    assert sorted(v.shape.num_elements() for v in loaded._weights) == [
        *sorted([3 * 3 * 3 * 8, 3 * 8, 16 * 6, 12 * 12 * 6 * 5])
    ]
    function = loaded.signatures["serving_default"]
    nodes = gh.executed_nodes(function, x=fm.images(2))
    (region,) = [node for node in nodes if node.op == "IosRegion"]
    assert region.attr["P"].i == 4


def test_converted_models_are_not_for_training(tmp_path):
    converted(str(tmp_path))
    found = {}
    for name in "model", "converted":
        loaded = tf.saved_model.load(str(tmp_path / name))
        function = loaded.signatures["serving_default"]
        images = tf.constant(fm.images(2))
        with tf.GradientTape() as tape:
            tape.watch(images)
            loss = tf.reduce_sum(function(images)["y"] ** 2)
        assert (len(tape.watched_variables()) > 0) == (name == "model")
        found[name] = tape.gradient(loss, images).numpy()
    assert function.variables and not function.trainable_variables
    # The gradient with respect to the input is equal to that of the original model.
    gh.assert_equal([found["converted"]], [found["model"]])


def test_regions_follow_variables(tmp_path):
    """A call uses the new value of a variable, by whatever operation it was changed."""
    loaded = tf.saved_model.load(converted(str(tmp_path)))
    function = loaded.signatures["serving_default"]

    @tf.function(input_signature=[fm.image_spec()])
    def stock(x):
        a = tf.nn.relu(tf.nn.conv2d(x, by_size[216], 1, "SAME"))
        b = tf.nn.relu(tf.nn.conv2d(x, by_size[24], 1, "SAME"))
        x = tf.nn.conv2d(tf.concat([a, b], -1), by_size[96], 1, "SAME")
        return tf.reshape(tf.nn.relu(x), [-1, 864]) @ by_size[4320]

    by_size = {v.shape.num_elements(): v for v in loaded._weights}
    saved = {
        v.ref(): tf.train.Checkpoint(v=v).write(f"{tmp_path}/{size}")
        for size, v in by_size.items()
    }
    x = fm.images(3)

    def check():
        found, truth = function(x=x)["y"].numpy(), stock(x).numpy()
        assert np.abs(truth).max() > 0
        assert np.abs(found - truth).max() <= 1e-5 * np.abs(truth).max()

    assert "IosRegion" in gh.executed_ops(function, x=x)
    check()
    for change in (
        lambda v: v.assign(v * 2),
        lambda v: v.assign_add(tf.ones_like(v)),
        lambda v: v.assign_sub(0.5 * v),
        lambda v: tf.raw_ops.ResourceScatterUpdate(
            resource=v.handle, indices=[0], updates=0.3 * tf.ones_like(v[:1])
        ),
        lambda v: v.scatter_nd_update([[0]], 0.7 * tf.ones_like(v[:1])),
        lambda v: tf.raw_ops.ResourceScatterNdAdd(
            ref=v.handle, indices=[[0]], updates=0.1 * tf.ones_like(v[:1])
        ),
        lambda v: tf.train.Checkpoint(v=v).read(saved[v.ref()]).assert_consumed(),
    ):
        for variable in loaded._weights:
            change(variable)
            check()
        packings = plugin.runtime().ios_tf_packings()
        check()
        check()
        assert plugin.runtime().ios_tf_packings() == packings
    for variable in loaded._weights:
        variable.assign(variable)
        check()


def test_threads_see_one_value_of_each_variable(tmp_path):
    """A call that runs while a variable changes uses its old or its new value."""
    loaded = tf.saved_model.load(converted(str(tmp_path)))
    function = loaded.signatures["serving_default"]
    (dense,) = [v for v in loaded._weights if v.shape.rank == 2]
    x, first = fm.images(1), dense.numpy()
    unit = function(x=x)["y"].numpy()
    errors, stop = [], threading.Event()

    def call():
        while not stop.is_set():
            factor = (function(x=x)["y"].numpy() / unit).ravel()
            if np.ptp(factor) > 1e-3 or abs(factor[0] - round(factor[0])) > 1e-3:
                errors.append(factor)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for factor in (2, 3, 4, 1, 5) * 4:
        dense.assign(first * factor)
        function(x=x)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []


def test_equal_weights_are_one_variable():
    shared_value = gh.random_array(3, 3, 4, 4)
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(
            tf.nn.conv2d(x, shared_value, 1, "SAME"), shared_value, 1, "SAME"
        ),
        [None, 8, 8, 4],
    )
    store = weights.Weights()
    _, captures = store.take(gh.signature(graph), graph.graph_def)
    assert len(store.variables) == len(captures) == 1
    np.testing.assert_array_equal(store.variables[0], shared_value)
    store.take(gh.signature(graph), graph.graph_def)
    assert len(store.variables) == 1


def test_what_the_engine_takes_as_constants_stays():
    """Biases, scales and a constant that is added to each image stay constants."""
    position = gh.random_array(1, 8, 8, 4)
    graph = gh.freeze(
        lambda x: tf.nn.bias_add(
            tf.nn.conv2d(x + position, gh.random_array(1, 1, 4, 6), 1, "SAME"),
            gh.random_array(6),
        ),
        [None, 8, 8, 4],
    )
    rewritten = gh.rewrite(graph)
    graph_def, _ = weights.Weights().take(gh.signature(rewritten), rewritten.graph_def)
    reads = [node for node in graph_def.node if node.op == "ReadVariableOp"]
    assert [[d.size for d in node.attr["_ios_shape"].shape.dim] for node in reads] == [
        [1, 1, 4, 6]
    ]


def test_a_small_constant_stays(monkeypatch):
    monkeypatch.setattr(function_library, "LARGE_BYTES", 1 << 16)
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(x, gh.random_array(3, 3, 3, 8), 1, "SAME"),
        [None, 8, 8, 3],
    )
    graph_def, captures = weights.Weights().take(gh.signature(graph), graph.graph_def)
    assert list(graph_def.node) == list(graph.graph_def.node)
    assert captures == {}


# Filters that are computed from variables.


def branches(use_bias: bool, data_format: str) -> keras.Model:
    """Convolutions with three kernel sizes and batch norms, and a depthwise one."""
    first = data_format == "channels_first"
    axis = 1 if first else -1
    inputs = keras.Input((3, 9, 8) if first else (9, 8, 3))
    kwargs = {"padding": "same", "data_format": data_format, "use_bias": use_bias}
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, **kwargs)(inputs)
    x = layers.ReLU()(layers.BatchNormalization(axis)(x))
    parts = [layers.Conv2D(4, kernel, **kwargs)(x) for kernel in (1, 3, 5)]
    parts = [layers.ReLU()(layers.BatchNormalization(axis)(part)) for part in parts]
    return gh.randomised(keras.Model(inputs, layers.Concatenate(axis)(parts)))


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("use_bias", [False, True])
def test_merged_and_scaled_filters(use_bias, data_format):
    model = branches(use_bias, data_format)
    call = tf.function(model, input_signature=[tf.TensorSpec(model.inputs[0].shape)])
    store = weights.Weights()
    frozen = frozen_graphs.freeze_flat(
        "f", call.get_concrete_function(), keep_filters=True
    )
    assert len(frozen.captures) == 4
    frozen = store.with_scaled_filters(graph_optimizer.fold_constants(frozen))
    assert len(frozen.captures) == 4
    # With a bias, the products stay in the graph, and the filters are scaled when the
    # weights are packed.
    products = sum(node.op == "Mul" for node in frozen.graph_def.node)
    turned = data_format == "channels_first"  # a Transpose follows the depthwise layer
    assert products == (4 if use_bias else int(turned))
    problems = graph_optimizer.collect(frozen, 1).problems
    schedules = {s: merge_everything(p) for s, p in problems.items()}
    rewritten = graph_optimizer.rewrite(frozen, schedules, [1])
    graph_def, captures = store.take(frozen, rewritten)
    kept = dataclasses.replace(frozen, graph_def=graph_def, captures=captures)
    reads = [node for node in graph_def.node if node.op == "ReadVariableOp"]
    assert sorted(
        tuple(d.size for d in node.attr["_ios_shape"].shape.dim) for node in reads
    ) == [(3, 3, 3, 2), (5, 5, 6, 12)]
    assert len(captures) == 2
    lowered = graph_optimizer.lowered(kept)
    assert [n.op for n in lowered.node].count("IosRegion") == 1
    x = tf.constant(gh.random_array(2, *model.inputs[0].shape[1:]))
    names = [name for name, _ in kept.outputs.values()]
    truth = keras.Model(model.inputs, model.outputs)
    for graph in (rewritten, graph_def, lowered):
        owner = frozen if graph is rewritten else kept
        if graph is not lowered and data_format == "channels_first":
            continue  # not every CPU supports convolutions with channels first
        (found,) = subgraphs.tensors(owner, graph, names)(x)
        expected = in_channels_last(model, truth, x)
        assert np.abs(expected).max() > 0
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def in_channels_last(model, truth, x):
    """The model's output, if necessary from an equal model with channels last."""
    if model.inputs[0].shape[-1] == 3:
        return truth(x).numpy()
    other = branches(model.layers[1].use_bias, "channels_last")
    other.set_weights(model.get_weights())
    return np.transpose(other(tf.transpose(x, [0, 2, 3, 1])), [0, 3, 1, 2])


def test_other_products_stay():
    """A product stays if others read its input or its factor is not per channel."""
    filters = tf.Variable(gh.random_array(3, 3, 3, 8))

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3])])
    def function(x):
        y = tf.nn.conv2d(x, filters, 1, "SAME")
        z = tf.nn.conv2d(-x, filters, 1, "SAME")
        return y * gh.random_array(8), y, z * gh.random_array(8, 8)

    concrete = function.get_concrete_function()
    frozen = frozen_graphs.freeze_flat("f", concrete, keep_filters=True)
    frozen = graph_optimizer.fold_constants(frozen)
    same = weights.Weights().with_scaled_filters(frozen)
    assert gh.computing_nodes(same) == gh.computing_nodes(frozen)


def test_variables_that_are_more_than_filters_are_constants():
    filters = tf.Variable(gh.random_array(3, 3, 4, 4))
    only, state = tf.Variable(gh.random_array(3, 3, 4, 4)), tf.Variable(tf.ones([4]))

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 4])])
    def function(x):
        y = tf.nn.conv2d(x, filters, 1, "SAME") + tf.reduce_sum(filters)
        return tf.nn.conv2d(y * state, tf.identity(only), 1, "SAME")

    frozen = frozen_graphs.freeze_flat("f", function.get_concrete_function(), True)
    (handle,) = frozen.captures.values()
    assert handle is only.handle


# Programs with wrong parameters.


def region() -> dict:
    """The program of an IosRegion with a parameter."""
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(x, gh.random_array(3, 3, 3, 8), 1, "SAME"),
        [None, 8, 8, 3],
    )
    rewritten = gh.rewrite(graph)
    graph_def, _ = weights.Weights().take(gh.signature(rewritten), rewritten.graph_def)
    lowered = gh.lower(graph.with_def(graph_def))
    (node,) = [n for n in lowered.graph_def.node if n.op == "IosRegion"]
    return json.loads(node.attr["program"].s)


def call_region(program, *parameters, scale=()):
    @tf.function
    def call(x, *filters):
        return op_def_library.apply_op(
            "IosRegion",
            inputs=[x],
            parameters=list(filters),
            M=1,
            program=json.dumps(program),
            weights=[tf.make_tensor_proto(list(scale), tf.float32)],
            device="cpu",
            watch="",
        )

    return call(tf.constant(gh.random_array(2, 8, 8, 3)), *parameters)


# TensorFlow raises these when a function is made or when it runs.
refused = functools.partial(pytest.raises, (ValueError, tf.errors.InvalidArgumentError))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 1}, "must refer to an existing weight"),
        ({"weight": -1}, "is not a JSON object"),
        ({"weight": 1 << 40}, "is not a JSON object"),
        ({"swaps": [[1, 2, 3]]}, "is not a JSON object"),
        ({"swaps": [[1, 1, 1, 1]]}, "swaps do not match the weight's size"),
        ({"swaps": [[-1, -216, 1, 1]]}, "swaps do not match the weight's size"),
        (
            {"swaps": [[1 << 62, 1 << 62, 216, 1]]},
            "swaps do not match the weight's size",
        ),
        ({"swaps": 3}, "is not a JSON object"),
    ],
)
def test_wrong_parameters_are_refused(change, message):
    program = region()
    program["parameters"][0].update(change)
    filters = tf.constant(gh.random_array(3, 3, 3, 8))
    with refused(match=message):
        call_region(program, filters)


def test_wrong_values_of_parameters_are_refused():
    program = region()
    with refused(match="does not have the shape that the program expects"):
        call_region(program, tf.constant(gh.random_array(3, 3, 3, 9)))
    filters = tf.constant(gh.random_array(3, 3, 3, 8))
    with refused(match="number of inputs or outputs is not that of its program"):
        call_region(program, filters, filters)
    with refused(match="not a multiple of the number of scales"):
        call_region(program, filters, scale=range(7))
    program["parameters"] = []
    with refused(match="number of inputs or outputs is not that of its program"):
        call_region(program, filters)


def test_converted_models_are_frozen_again(tmp_path):
    loaded = saved_models.load(converted(str(tmp_path)))
    frozen = frozen_graphs.freeze(
        "serving_default", loaded.signatures["serving_default"]
    )
    assert graph_optimizer.is_converted(frozen)
    assert not frozen.captures
    (program,) = graph_optimizer.lowered_programs(frozen)
    assert program["parameters"] == []
