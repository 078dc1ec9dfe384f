"""Generated inputs, differences of outputs, and the function library of a graph."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import ios_tf
from ios_tf.conversion import inner_tensors
from ios_tf.conversion.comparison import DifferenceError
from ios_tf.conversion.made_up_inputs import (
    CannotCompareError,
    Guess,
    made_up_inputs,
    sizes_from_constants,
)
from ios_tf.conversion.output_differences import compare_outputs
from ios_tf.conversion.reference import Reference
from ios_tf.differences import relative_difference, relative_norm
from ios_tf.model import frozen_graphs, function_library, graph_optimizer
from ios_tf.model.loading import keras_model_of
from ios_tf.reasons import Reason
from ios_tf.scheduler import sequential_schedule

INFINITY = float("inf")


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([0.0], [0.0], 0.0),
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], INFINITY),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.nan, 3.0], [np.nan, 2.0], 0.5),
        ([1.0, 2.0], [np.nan, 2.0], INFINITY),
        ([np.nan, 2.0], [1.0, 2.0], INFINITY),
        ([np.inf, 2.0], [np.inf, 2.0], 0.0),
        ([-np.inf, 2.0], [np.inf, 2.0], INFINITY),
        ([1e-3], [0.0], INFINITY),
        ([3 + 4j], [0 + 5j], 10**0.5 / 5),
    ],
)
def test_relative_difference(found, expected, difference):
    dtype = np.complex64 if np.iscomplexobj(expected) else np.float32
    result = relative_difference(np.array(found, dtype), np.array(expected, dtype))
    if expected == [0.0] and found != [0.0]:
        assert result > 1e20
    else:
        assert result == pytest.approx(difference)


@pytest.mark.parametrize(
    ("found", "expected", "norm"),
    [
        ([3.0, 8.0], [3.0, 4.0], 0.8),
        ([0.0], [0.0], 0.0),
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], INFINITY),
        ([np.nan, 3.0], [np.nan, 2.0], 0.5),
        ([1.0, 2.0], [np.nan, 2.0], INFINITY),
        ([np.nan, 2.0], [1.0, 2.0], INFINITY),
    ],
)
def test_relative_norm(found, expected, norm):
    result = relative_norm(np.array(found), np.array(expected))
    assert result == pytest.approx(norm)


def test_outputs_of_all_types_are_compared():
    expected = {
        "y": tf.constant([1.0, 4.0]),
        "n": tf.constant([1, 2, 3]),
        "s": tf.constant(["a", "b"]),
        "r": tf.ragged.constant([[1.0], [2.0, 4.0]]),
    }
    assert compare_outputs(expected, expected) == (0.0, {})
    found = {
        "y": tf.constant([1.0, 4.0]),
        "n": tf.constant([1, 0, 0]),
        "s": tf.constant(["a"]),
        "r": tf.ragged.constant([[1.0], [2.0, 3.0]]),
    }
    difference, unequal = compare_outputs(found, expected)
    assert difference == 0.25
    assert unequal == {
        "n": "2 of 3 values of output 'n' differ",
        "s": "output 's' has a different shape",
    }


def test_inputs_for_which_outputs_are_defined():
    """Inputs are found for which sqrt(x - 1) is defined, although most give NaN."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 3], name="x")])
    def function(x):
        return {"y": tf.sqrt(x - 1.0)}

    frozen = frozen_graphs.freeze("f", function.get_concrete_function())
    reference = Reference("f", function, frozen, "cpu")
    comparison = reference.compare(function, frozen.graph_def, [2])
    assert comparison.difference == 0 and not comparison.decisions
    (images,) = reference.calls.inputs_at([2])[2].values()
    assert (images.numpy() >= 1).any()


def test_what_is_never_a_number_is_said():
    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def function(x):
        return {"y": tf.sqrt(-1.0 - tf.square(x)), "z": x}

    frozen = frozen_graphs.freeze("f", function.get_concrete_function())
    reference = Reference("f", function, frozen, "cpu")
    (decision,) = reference.compare(function, frozen.graph_def, [2]).decisions
    assert decision.reason is Reason.ALL_NAN


def test_outputs_are_compared_around_bounds():
    """A comparison at usual sizes misses a slice beyond them; bound sizes find it."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, 2], name="x")])
    def function(x):
        return {"y": 2 * x[:, :16_000]}

    @tf.function(input_signature=[tf.TensorSpec([None, None, 2], name="x")])
    def without_slice(x):
        return {"y": 2 * x}

    frozen = frozen_graphs.freeze("f", function.get_concrete_function())
    bounds = graph_optimizer.collect(frozen, 1).bound_sizes
    assert {16_000, 16_001} <= {width for _, _, width in bounds}
    arguments = ("f", function, frozen, "cpu")
    same = Reference(*arguments).compare(without_slice, frozen.graph_def, [1])
    assert same.difference == 0
    message = (
        r"'y' .* x 16001 differs by its shape, \[2, 16001, 2\] instead of \[2, 16000"
    )
    with pytest.raises(DifferenceError, match=message):
        Reference(*arguments, bound_sizes=bounds).compare(
            without_slice, frozen.graph_def, [1]
        )


def test_values_that_are_large_and_hardly_move():
    """The comparison works for tensors with small differences from a large constant.

    The network rescales pixels, which gives such tensors.
    """
    report = ios_tf.optimize(
        keras_model_of("keras:MobileNetV3Small", log=lambda line: None),
        batch_size=3,
        strategy="sequential",
    ).report
    assert report.sizes[3].stages > 70


def test_only_the_wrong_part_of_a_network_differs():
    """Only the tensors of the wrong part are reported.

    Later tensors are computed from the original's tensors, so they do not differ.
    """
    random = np.random.default_rng(0)
    filters = [random.normal(0, 0.5, (3, 3, 4, 4)).astype(np.float32) for _ in range(3)]

    @tf.function(input_signature=[tf.TensorSpec([None, 9, 9, 4], name="x")])
    def function(x):
        for one in filters:
            x = tf.cumsum(tf.nn.conv2d(x, one, 1, "SAME"), 1)  # is left to TensorFlow
        return {"y": x}

    frozen = frozen_graphs.freeze("f", function.get_concrete_function())
    collected = graph_optimizer.collect(frozen, 1)
    schedules = {s: sequential_schedule(p) for s, p in collected.problems.items()}
    graph_def = graph_optimizer.rewrite(frozen, schedules, [1], "cpu")
    images = [
        {"x": tf.constant(random.random((1, 9, 9, 4)), tf.float32)} for _ in range(2)
    ]

    def differing(graph_def):
        compared = inner_tensors.compare(frozen, graph_def, *images, "cpu")
        assert [one.is_region for one in compared] == [True] * len(compared)
        return compared, [one.differs for one in compared]

    compared, differ = differing(graph_def)
    assert len(compared) == 3 and not any(differ)
    assert all(one.by_itself is None for one in compared)
    for number, values in enumerate(filters):
        wrong = graph_pb2.GraphDef()
        wrong.CopyFrom(graph_def)
        (node,) = (
            node
            for node in wrong.node
            if node.op == "Const"
            and node.attr["value"].tensor.tensor_content == values.tobytes()
        )
        content = (values * np.float32(1.01)).tobytes()
        node.attr["value"].tensor.tensor_content = content
        compared, differ = differing(wrong)
        wrong_later = [one.difference > one.allowed for one in compared]
        assert wrong_later == [i >= number for i in range(3)]
        assert differ == [i == number for i in range(3)]


def test_gates_between_layers_do_not_split_regions():
    """Only the results of regions and the inputs of the last softmax are compared."""

    @tf.function(input_signature=[tf.TensorSpec([None, 6, 6, 4], name="x")])
    def function(x):
        for seed in range(3):
            filters = tf.random.stateless_normal([3, 3, 4, 4], [seed, 1])
            x = tf.nn.conv2d(x, filters, 1, "SAME")
            x *= tf.sigmoid(x)
        x = tf.tanh(tf.reduce_mean(x, [1, 2]))
        dense = tf.random.stateless_normal([4, 5], [1, 2])
        return {"y": tf.nn.softmax(tf.matmul(x, dense), name="last")}

    frozen = graph_optimizer.fold_constants(
        frozen_graphs.freeze("f", function.get_concrete_function())
    )
    collected = graph_optimizer.collect(frozen, 1)
    schedules = {s: sequential_schedule(p) for s, p in collected.problems.items()}
    graph_def = graph_optimizer.rewrite(frozen, schedules, [1], "cpu")
    images = [{"x": tf.random.stateless_normal([1, 6, 6, 4], [s, 3])} for s in (1, 2)]
    compared = inner_tensors.compare(frozen, graph_def, *images, "cpu")
    # The region ends with the logits instead of the softmax.
    assert [one.is_region for one in compared] == [True, True]
    assert not any(one.differs for one in compared)


def test_inputs_of_all_types_are_made_up():
    specs = {
        "photo": tf.TensorSpec([None, None, 6, 3], tf.uint8),
        "depth": tf.TensorSpec([None, 2], tf.float16),
        "sound": tf.TensorSpec([None, None], tf.float32),
        "words": tf.TensorSpec([None, None], tf.int32),
        "anything": tf.TensorSpec(None, tf.float32),
        "image": tf.TensorSpec([None] * 4, tf.float32),
        "video": tf.TensorSpec([None, None, None, 6, None], tf.float32),
        "small": tf.TensorSpec([None], tf.int8),
        "word": tf.TensorSpec([4], tf.int64),
        "flag": tf.TensorSpec([], tf.bool),
        "content": tf.TensorSpec([None], tf.string),
    }
    inputs = made_up_inputs(specs, 2, Guess(5, limit=200))
    for name, shape in (
        ("photo", [2, 5, 6, 3]),
        ("depth", [2, 2]),
        ("sound", [2, 320]),
        ("words", [2, 5]),
        ("anything", [2, 5, 5, 3]),
        ("image", [2, 5, 5, 3]),
        ("video", [2, 1, 5, 6, 3]),
        ("small", [2]),
        ("word", [4]),
        ("flag", []),
        ("content", [2]),
    ):
        assert inputs[name].dtype == specs[name].dtype
        assert inputs[name].shape == shape
    assert 100 < np.max(inputs["photo"]) < 200
    assert tf.io.decode_jpeg(inputs["content"][1]).shape[-1] == 3
    with pytest.raises(CannotCompareError, match="type variant, which input 'v' has"):
        made_up_inputs({"v": tf.TensorSpec([], tf.variant)}, 1)


def test_sizes_may_differ():
    specs = {
        "image": tf.TensorSpec([None, None, None, 3], tf.float32),
        "wide": tf.TensorSpec([None, 9, None, 3], tf.float32),
        "words": tf.TensorSpec([None, None], tf.int32),
    }
    inputs = made_up_inputs(specs, 2, Guess((6, 4)))
    assert [x.shape.as_list() for x in inputs.values()] == [
        [2, 6, 4, 3],
        [2, 9, 4, 3],
        [2, 4],
    ]


def test_constants_tell_sizes():
    @tf.function
    def function(x, filters):
        y = tf.nn.conv2d(x, filters, 4, "SAME") + np.ones([1, 9, 6, 8], np.float32)
        return tf.reshape(y, [-1, 54, 8]) * np.ones([1, 54, 1], np.float32)

    concrete = function.get_concrete_function(
        tf.TensorSpec([None, None, None, 3]), tf.TensorSpec([5, 5, 3, 8])
    )
    sizes = sizes_from_constants(concrete.graph.as_graph_def())
    assert sizes[:4] == [(9, 6), (54, 54), (18, 12), (108, 108)]
    assert (36, 24) in sizes and 32 in sizes


def graph_of_calls() -> tf.compat.v1.GraphDef:
    """Functions that call each other: in branches, loops and datasets, and directly."""

    @tf.function
    def inner(x):
        return x * 2.0

    @tf.function
    def function(x):
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: inner(x), lambda: x)
        for i in tf.range(3):
            x = tf.switch_case(i, [lambda: inner(x), lambda: x + 1.0, lambda: x])  # noqa: B023
        data = tf.data.Dataset.from_tensors(x).map(lambda v: inner(v) + 1.0)
        return data.reduce(tf.zeros([2]), lambda a, b: a + b)

    concrete = function.get_concrete_function(tf.TensorSpec([2], tf.float32))
    return concrete.graph.as_graph_def()


def test_every_name_of_a_function_is_renamed():
    graph_def = graph_of_calls()
    before = [function.signature.name for function in graph_def.library.function]
    assert len(before) > 8
    function_library.rename_functions(graph_def)
    text = str(graph_def)
    for name in before:
        assert f'"{name}"' not in text
    after = [function.signature.name for function in graph_def.library.function]
    assert len({*after}) == len(before)
    assert not {*after} & {*before}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    assert graph.get_operations()


def test_names_follow_from_the_library():
    one, other = graph_of_calls(), graph_of_calls()
    same = type(one)()
    same.CopyFrom(one)
    for graph_def in (one, same, other):
        function_library.rename_functions(graph_def)
    assert one == same
    names = [{f.signature.name for f in g.library.function} for g in (one, other)]
    assert not names[0] & names[1]


def test_graphs_of_training_lose_their_gradients():
    @tf.function
    def function(x):
        return tf.nn.silu(x)

    concrete = function.get_concrete_function(tf.TensorSpec([2], tf.float32))
    graph_def = concrete.graph.as_graph_def()
    assert "_gradient_op_type" in str(graph_def)
    function_library.drop_references(graph_def)
    assert "_gradient_op_type" not in str(graph_def)


def test_who_takes_resources():
    variable, other = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])

    @tf.function
    def function(x):
        for i in tf.range(3):
            if i > 1:
                other.assign_add(x)
        data = tf.data.Dataset.from_tensors(x).map(lambda v: v * variable)
        return data.reduce(tf.zeros([2]), lambda a, b: a + b) + other

    concrete = function.get_concrete_function(tf.TensorSpec([2], tf.float32))
    names = {
        internal.op.name: {id(variable.handle): "variable", id(other.handle): "other"}[
            id(external)
        ]
        for external, internal in concrete.graph.captures
    }
    uses = set(function_library.uses(concrete.graph.as_graph_def(), names))
    assert ("other", "AssignAddVariableOp", False) in uses
    assert ("other", "ReadVariableOp", False) in uses
    assert ("variable", "MapDataset", True) in uses
    assert ("variable", "ReadVariableOp", False) in uses
    assert not any(who == "variable" and "Assign" in op for who, op, _ in uses)
