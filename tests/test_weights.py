"""Weights of converted models are variables: loaded once, read when a region runs."""

import functools
import json
import threading

import foreign_models as fm
import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf
from shared import FAST
from tensorflow.python.framework import op_def_library
from tensorflow.python.saved_model import loader_impl

import ios_tf
from ios_tf import graphs, optimizer, weights


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "LARGE_BYTES", 1)


def converted(path: str) -> str:
    """A converted SavedModel of four weights, one of them of a Dense of maps."""
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
    """Bytes of the float constants of all functions of a SavedModel."""
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
    assert sorted(v.shape.num_elements() for v in loaded.weights) == [
        *sorted([3 * 3 * 3 * 8, 3 * 8, 16 * 6, 12 * 12 * 6 * 5])
    ]
    assert not any(v.trainable for v in loaded.weights)
    function = loaded.signatures["serving_default"]
    nodes = gh.executed_nodes(function, x=fm.images(2))
    (region,) = [node for node in nodes if node.op == "IosRegion"]
    assert region.attr["P"].i == 4


def test_regions_follow_variables(tmp_path):
    """Whatever writes to a variable, the next call computes with what it wrote."""
    loaded = tf.saved_model.load(converted(str(tmp_path)))
    function = loaded.signatures["serving_default"]

    @tf.function(input_signature=[fm.image_spec()])
    def stock(x):
        a = tf.nn.relu(tf.nn.conv2d(x, by_size[216], 1, "SAME"))
        b = tf.nn.relu(tf.nn.conv2d(x, by_size[24], 1, "SAME"))
        x = tf.nn.conv2d(tf.concat([a, b], -1), by_size[96], 1, "SAME")
        return tf.reshape(tf.nn.relu(x), [-1, 864]) @ by_size[4320]

    by_size = {v.shape.num_elements(): v for v in loaded.weights}
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
    ):
        for variable in loaded.weights:
            change(variable)
            check()
        check()
    for variable in loaded.weights:
        variable.assign(variable)
        check()


def test_threads_see_one_value_of_each_variable(tmp_path):
    """Calls that run while a variable changes use its value before or after."""
    loaded = tf.saved_model.load(converted(str(tmp_path)))
    function = loaded.signatures["serving_default"]
    (dense,) = [v for v in loaded.weights if v.shape.rank == 2]
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
    _, captures = store.take(graph.graph_def)
    assert len(store.variables) == len(captures) == 1
    np.testing.assert_array_equal(store.variables[0], shared_value)
    store.take(graph.graph_def)
    assert len(store.variables) == 1


def test_what_the_engine_takes_as_constants_stays(tmp_path):
    """Biases, scales and what is added to each image."""
    position = gh.random_array(1, 8, 8, 4)
    graph = gh.freeze(
        lambda x: tf.nn.bias_add(
            tf.nn.conv2d(x + position, gh.random_array(1, 1, 4, 6), 1, "SAME"),
            gh.random_array(6),
        ),
        [None, 8, 8, 4],
    )
    rewritten = gh.rewrite(graph, tmp_path)
    graph_def, _ = weights.Weights().take(rewritten.graph_def)
    reads = [node for node in graph_def.node if node.op == "ReadVariableOp"]
    assert [[d.size for d in node.attr["_ios_shape"].shape.dim] for node in reads] == [
        [1, 1, 4, 6]
    ]


def test_a_small_constant_stays(monkeypatch):
    monkeypatch.setattr(weights, "LARGE_BYTES", 1 << 16)
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(x, gh.random_array(3, 3, 3, 8), 1, "SAME"),
        [None, 8, 8, 3],
    )
    graph_def, captures = weights.Weights().take(graph.graph_def)
    assert list(graph_def.node) == list(graph.graph_def.node)
    assert captures == {}


# Programs whose parameters are not what they should be.


def region(tmp_path) -> dict:
    """The program of an IosRegion with a parameter."""
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(x, gh.random_array(3, 3, 3, 8), 1, "SAME"),
        [None, 8, 8, 3],
    )
    graph_def, _ = weights.Weights().take(gh.rewrite(graph, tmp_path).graph_def)
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
        )

    return call(tf.constant(gh.random_array(2, 8, 8, 3)), *parameters)


# Where the function is made, and where it runs.
refused = functools.partial(pytest.raises, (ValueError, tf.errors.InvalidArgumentError))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 1}, "no weight of its own"),
        ({"weight": -1}, "is not a JSON object"),
        ({"weight": 1 << 40}, "is not a JSON object"),
        ({"swaps": [[1, 2, 3]]}, "is not a JSON object"),
        ({"swaps": [[1, 1, 1, 1]]}, "does not fit operator"),
        ({"swaps": [[-1, -216, 1, 1]]}, "does not fit operator"),
        ({"swaps": [[1 << 62, 1 << 62, 216, 1]]}, "does not fit operator"),
        ({"swaps": 3}, "is not a JSON object"),
    ],
)
def test_wrong_parameters_are_refused(change, message, tmp_path):
    program = region(tmp_path)
    program["parameters"][0].update(change)
    filters = tf.constant(gh.random_array(3, 3, 3, 8))
    with refused(match=message):
        call_region(program, filters)


def test_wrong_values_of_parameters_are_refused(tmp_path):
    program = region(tmp_path)
    with refused(match="has another shape by now"):
        call_region(program, tf.constant(gh.random_array(3, 3, 3, 9)))
    filters = tf.constant(gh.random_array(3, 3, 3, 8))
    with refused(match="another number of inputs"):
        call_region(program, filters, filters)
    with refused(match="does not fit operator"):
        call_region(program, filters, scale=range(7))
    program["parameters"] = []
    with refused(match="another number of inputs"):
        call_region(program, filters)


def test_converted_models_are_frozen_again(tmp_path):
    loaded = graphs.load(converted(str(tmp_path)))
    frozen = graphs.freeze("serving_default", loaded.signatures["serving_default"])
    assert optimizer.is_converted(frozen)
    assert not frozen.captures
    (program,) = optimizer.lowered_programs(frozen)
    assert program["parameters"] == []
