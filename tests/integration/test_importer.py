"""Tests which operators the native importer recognises."""

from collections import Counter

import graph_helpers as gh
import keras
import numpy as np
import pytest
import shared
import tensorflow as tf
from keras import layers

from ios_tf.reasons import Reason
from ios_tf.scheduler import Problem

pytestmark = pytest.mark.one_core


def model(build, *shapes) -> gh.Graph:
    inputs = [keras.Input(shape) for shape in shapes]
    outputs = build(*inputs)
    return gh.freeze(
        gh.randomised(keras.Model(inputs, outputs)), *((None, *s) for s in shapes)
    )


def conv_bn(x, filters, kernel=3, activation="relu", **keywords):
    x = layers.Conv2D(filters, kernel, use_bias=False, **keywords)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation(activation)(x) if activation else x


def imported(graph: gh.Graph, batch_size: int = 2):
    collected = gh.collect(graph, batch_size=batch_size)
    return gh.operators(collected), collected["report"]


def assert_imports(graph, *types: str) -> list[dict]:
    """Asserts that the graph is exactly these operators, none left to TensorFlow."""
    operators, report = imported(graph)
    assert Counter(operator["type"] for operator in operators) == Counter(types)
    assert gh.left(report) == {}
    return operators


@pytest.mark.parametrize(
    "activation",
    ["relu", "relu6", "sigmoid", "tanh", "swish", "hard_sigmoid", "hard_swish", "elu"],
)
@pytest.mark.parametrize("use_bias", [False, True])
def test_convolution_with_batch_norm_and_activation(activation, use_bias):
    graph = gh.sequential(
        layers.Conv2D(5, 3, padding="same", use_bias=use_bias),
        layers.BatchNormalization(),
        layers.Activation(activation),
        shape=(9, 9, 4),
    )
    (operator,) = assert_imports(graph, "conv2d")
    assert operator["activation"] == activation
    assert operator["bias"] is True
    assert operator["padding"] == "SAME"
    gh.assert_lowered_equals(graph, (2, 9, 9, 4))


def test_fused_batch_norm_is_folded():
    random = np.random.default_rng(0)
    filters = tf.constant(random.normal(size=(3, 3, 4, 6)), tf.float32)
    gamma, beta, mean = tf.constant(random.normal(size=(3, 6)), tf.float32)
    variance = tf.constant(random.uniform(0.5, 2, 6), tf.float32)

    def function(x):
        x = tf.nn.conv2d(x, filters, 2, "SAME")
        x, _, _ = tf.compat.v1.nn.fused_batch_norm(
            x, gamma, beta, mean, variance, epsilon=0.01, is_training=False
        )
        return tf.nn.relu(x)

    graph = gh.freeze(function, (None, 8, 8, 4))
    assert graph.ops()["FusedBatchNormV3"] == 1
    assert_imports(graph, "conv2d")
    gh.assert_lowered_equals(graph, (3, 8, 8, 4))


def test_batch_norm_without_convolution_is_a_scale():
    graph = gh.sequential(
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(3, 1),
        shape=(5, 5, 4),
    )
    scale, _ = assert_imports(graph, "scale", "conv2d")
    assert scale["activation"] == "relu"


def test_preprocessing_is_one_scale():
    graph = gh.sequential(
        layers.Rescaling(1 / 127.5, -1),
        layers.Normalization(mean=[0.4, 0.5, 0.6], variance=[0.2, 0.3, 0.4]),
        layers.Conv2D(3, 1),
        shape=(5, 5, 3),
    )
    assert_imports(graph, "scale", "conv2d")
    gh.assert_lowered_equals(graph, (2, 5, 5, 3))


def test_relu_and_separable_convolution_are_one_operator():
    def build(x):
        x = layers.MaxPooling2D(2)(x)
        relus = [layers.ReLU()(x) for _ in range(2)]
        return [
            layers.BatchNormalization()(layers.SeparableConv2D(4, k)(relu))
            for k, relu in zip((3, 5), relus, strict=True)
        ]

    graph = model(build, (16, 16, 3))
    operators = assert_imports(graph, "pool", "sepconv", "sepconv")
    assert all(o.get("pre_activation") == "relu" for o in operators[1:])
    gh.assert_lowered_equals(graph, (2, 16, 16, 3))


def test_relu_with_other_readers_stays_an_operator():
    def build(x):
        x = layers.ReLU()(layers.MaxPooling2D(2)(x))
        return [layers.SeparableConv2D(4, 3)(x), layers.Conv2D(4, 3)(x)]

    types = "pool", "activation", "sepconv", "conv2d"
    assert_imports(model(build, (16, 16, 3)), *types)


def test_depthwise_with_activation_is_no_separable_convolution():
    graph = gh.sequential(
        layers.DepthwiseConv2D(3, padding="same"),
        layers.ReLU(6.0),
        layers.Conv2D(7, 1),
        shape=(6, 6, 4),
    )
    depthwise, _ = assert_imports(graph, "conv2d", "conv2d")
    assert depthwise["groups"] == 4


def test_residual_is_folded_into_the_convolution():
    def build(x):
        x = conv_bn(x, 4, padding="same")
        y = conv_bn(conv_bn(x, 4, padding="same"), 4, activation=None, padding="same")
        return layers.ReLU()(layers.Add()([x, y]))

    operators = assert_imports(model(build, (8, 8, 3)), *["conv2d"] * 3)
    assert operators[2]["residual"] is True
    assert operators[2]["activation"] == "relu"
    assert len(operators[2]["inputs"]) == 2


def test_addition_of_parallel_branches_is_an_operator():
    # If the addition were folded into one branch, that branch would wait for the other.
    def build(x):
        branches = [conv_bn(x, 4, k, activation=None, padding="same") for k in (1, 3)]
        return layers.ReLU()(layers.Add()(branches))

    operators = assert_imports(model(build, (8, 8, 3)), "conv2d", "conv2d", "add")
    assert operators[2]["activation"] == "relu"


def test_result_that_is_fetched_is_not_folded():
    def build(x):
        x = layers.Conv2D(4, 3)(x)
        return [x, layers.ReLU()(x)]

    graph = model(build, (8, 8, 3))
    assert_imports(graph, "conv2d", "activation")
    gh.assert_lowered_equals(graph, (2, 8, 8, 3))


def test_padding_is_folded():
    graph = gh.sequential(
        layers.ZeroPadding2D(((1, 2), (0, 1))),
        layers.Conv2D(4, 3, strides=2, activation="relu"),
        layers.ZeroPadding2D(1),  # the maximum ignores zeros after a Relu
        layers.MaxPooling2D(3, strides=2),
        shape=(9, 9, 3),
    )
    conv, pool = assert_imports(graph, "conv2d", "pool")
    assert conv["padding"] == [1, 2, 0, 1]
    assert pool["padding"] == [1, 1, 1, 1]
    gh.assert_lowered_equals(graph, (2, 9, 9, 3))


def test_padding_equal_to_same_is_called_so():
    graph = gh.sequential(layers.ZeroPadding2D(2), layers.Conv2D(4, 5), shape=(9, 9, 3))
    (conv,) = assert_imports(graph, "conv2d")
    assert conv["padding"] == "SAME"


def test_padding_of_negative_values_is_not_folded_into_a_maximum():
    graph = gh.sequential(
        layers.Conv2D(4, 3),
        layers.ZeroPadding2D(1),
        layers.MaxPooling2D(3),
        shape=(9, 9, 3),
    )
    assert_imports(graph, "conv2d", "pad", "pool")
    gh.assert_lowered_equals(graph, (2, 9, 9, 3))


@pytest.mark.parametrize("layer", [layers.Conv2D, layers.SeparableConv2D])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_dilation_between_space_to_batch_is_an_attribute(layer, padding):
    graph = gh.sequential(
        layer(4, 3, dilation_rate=(2, 3), padding=padding), shape=(13, 17, 3)
    )
    assert graph.ops()["SpaceToBatchND"] == 1
    name = "conv2d" if layer is layers.Conv2D else "sepconv"
    (operator,) = assert_imports(graph, name)
    assert operator["dilations"] == [2, 3]
    assert operator.get("padding", "VALID") == padding.upper()
    gh.assert_lowered_equals(graph, (2, 13, 17, 3))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_grouped_convolution_in_a_function_that_xla_must_compile(padding):
    graph = gh.sequential(
        layers.Conv2D(6, 3, groups=3, padding=padding),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(4, 1),
        shape=(9, 9, 12),
    )
    assert graph.ops()["StatefulPartitionedCall"] == 1
    grouped, _ = assert_imports(graph, "conv2d", "conv2d")
    assert grouped["groups"] == 3
    assert grouped["activation"] == "relu"
    lowered = gh.assert_lowered_equals(graph, (2, 9, 9, 12))
    assert lowered.ops()["Conv2D"] == 0


def test_nested_concatenations_are_flattened():
    def build(x):
        x = layers.Conv2D(4, 1)(x)
        parts = [layers.Conv2D(k, k, padding="same")(x) for k in (1, 3, 5)]
        inner = layers.Concatenate()(parts[:2])
        return layers.Concatenate()([parts[2], inner])

    types = ["conv2d"] * 4 + ["concat"]
    graph = model(build, (8, 8, 3))
    assert_imports(graph, *types)
    for problem in gh.collect(graph)["problems"]:
        operators = problem["block"]["operators"]
        if operators[-1]["type"] == "concat":
            parts = [operators[i] for i in operators[-1]["inputs"]]
            assert [part["filters"] for part in parts] == [5, 1, 3]
            return
    pytest.fail("no block ends with the concatenation")


def test_nested_sums_are_flattened():
    def build(x):
        x = layers.Conv2D(4, 1)(x)
        parts = [layers.Conv2D(4, k, padding="same")(x) for k in (1, 3, 5, 7)]
        inner = layers.Add()(parts[:2])
        read_twice = layers.Add()([parts[3], inner])
        return layers.Add()([layers.ReLU()(read_twice), parts[2], read_twice])

    graph = model(build, (8, 8, 3))
    types = ["conv2d"] * 5 + ["add", "activation", "add"]
    operators = assert_imports(graph, *types)
    assert [len(op["inputs"]) for op in operators if op["type"] == "add"] == [3, 3]
    gh.assert_lowered_equals(graph, (2, 8, 8, 3))


def test_padded_and_cropped_subsampling():
    """NASNet's shifted path: a Pad, a StridedSlice and a 1x1 pool."""

    def build(x):
        x = layers.Conv2D(4, 1)(x)
        shifted = layers.Cropping2D(((1, 0), (1, 0)))(
            layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
        )
        paths = [
            layers.Conv2D(3, 1)(layers.AveragePooling2D(1, strides=2)(p))
            for p in (x, shifted)
        ]
        return layers.Concatenate()(paths)

    graph = model(build, (9, 8, 3))
    types = ("conv2d", "pad", "conv2d", "conv2d", "concat")
    operators = assert_imports(graph, *types)
    strides = [one["strides"] for one in operators if "strides" in one]
    assert strides == [[2, 2], [2, 2]]
    gh.assert_lowered_equals(graph, (2, 9, 8, 3))


def test_crop_is_a_pad():
    graph = gh.sequential(
        layers.Conv2D(4, 1), layers.Cropping2D(((3, 1), (0, 2))), shape=(9, 8, 3)
    )
    _, pad = assert_imports(graph, "conv2d", "pad")
    assert pad["padding"] == [-3, -1, 0, -2]
    gh.assert_lowered_equals(graph, (2, 9, 8, 3))


@pytest.mark.parametrize(
    "reduce", ["convolution", "dense", "dense_of_vectors", "dense_of_slices"]
)
def test_squeeze_and_excite(reduce):
    def build(x):
        x = conv_bn(x, 8, activation="swish")
        y = layers.GlobalAveragePooling2D(keepdims=reduce == "dense_of_slices")(x)
        if reduce.startswith("dense_of"):
            if reduce == "dense_of_slices":
                y = y[:, 0, 0]
            y = layers.Dense(2, activation="relu")(y)
            y = layers.Dense(8, activation="sigmoid")(y)
            if reduce == "dense_of_slices":
                y = y[:, None, None]
            else:
                y = layers.Reshape((1, 1, 8))(y)
        else:
            y = layers.Reshape((1, 1, 8))(y)
            layer = layers.Dense
            if reduce == "convolution":

                def layer(filters, **keywords):
                    return layers.Conv2D(filters, 1, **keywords)

            y = layer(2, activation="relu")(y)
            y = layer(8, activation="sigmoid")(y)
        return layers.Conv2D(4, 1)(layers.Multiply()([x, y]))

    graph = model(build, (8, 8, 3))
    types = ["conv2d"] * 4 + ["global_pool", "binary"]
    operators = assert_imports(graph, *types)
    (pool,) = [o for o in operators if o["type"] == "global_pool"]
    assert pool["keep_dims"] is True
    gh.assert_lowered_equals(graph, (2, 8, 8, 3))


def test_flatten_at_the_end_stays_with_tensorflow():
    graph = gh.sequential(layers.Conv2D(5, 4), layers.Flatten(), shape=(4, 4, 3))
    operators, report = imported(graph)
    assert [operator["type"] for operator in operators] == ["conv2d"]
    assert "Reshape" in gh.left(report)
    # The new shape is computed from the shape of the convolution's result.
    lowered = gh.assert_lowered_equals(graph, (2, 4, 4, 3))
    assert lowered.ops()["Conv2D"] == 0


def test_flatten_in_front_of_dense_is_an_operator():
    graph = gh.sequential(
        layers.Conv2D(5, 4),
        layers.Flatten(),
        layers.Dense(3, activation="softmax"),
        shape=(4, 4, 3),
    )
    assert_imports(graph, "conv2d", "matmul", "softmax")
    gh.assert_lowered_equals(graph, (2, 4, 4, 3))


def test_unknown_operations_are_borders():
    def build(x):
        x = conv_bn(x, 4)
        x = keras.ops.floor(x)
        return conv_bn(x, 4)

    graph = model(build, (12, 12, 3))
    collected = gh.collect(graph, batch_size=1)
    assert collected["report"]["regions"] == 2
    assert gh.left(collected["report"]) == {"Floor": 1}
    lowered = gh.assert_lowered_equals(graph, (2, 12, 12, 3))
    assert lowered.ops()["IosRegion"] == 2


def test_regions_are_convex():
    # One branch leaves the region and comes back: the addition cannot be in the
    # same region as the first convolution.
    def build(x):
        x = conv_bn(x, 4, padding="same")
        left = conv_bn(x, 4, padding="same")
        right = keras.ops.floor(x)
        return conv_bn(layers.Add()([left, right]), 4)

    graph = model(build, (12, 12, 3))
    collected = gh.collect(graph, batch_size=1)
    assert collected["report"]["regions"] == 2
    regions = {
        name: block["region"]
        for block in collected["blocks"]
        for name in block["names"]
    }
    assert [regions[name] for name in sorted(regions)][-1] == 1
    gh.assert_lowered_equals(graph, (2, 12, 12, 3))


def test_graph_without_convolution_has_no_region():
    graph = gh.sequential(layers.Dense(4), layers.ReLU(), shape=(7,))
    operators, report = imported(graph)
    assert operators == []
    assert report["regions"] == 0
    assert gh.left(report)["MatMul"] == 1


def test_reasons_for_refusals_are_reported():
    def function(x, filters):
        return tf.nn.conv2d(x, filters, 1, "SAME")

    graph = gh.freeze(function, (None, 8, 8, 3), (3, 3, 3, 4))
    _, report = imported(graph)
    assert gh.reasons_left(report) == {"Conv2D": {Reason.OPERAND_NOT_CONSTANT.code}}


def test_unknown_height_and_width():
    graph = gh.sequential(
        layers.Conv2D(5, 3, strides=2, padding="same", activation="relu"),
        layers.MaxPooling2D(3, strides=2),
        layers.GlobalAveragePooling2D(),
        shape=(None, None, 3),
    )
    types = "conv2d", "pool", "global_pool"
    assert_imports(graph, *types)
    for size in (15, 40):
        gh.assert_lowered_equals(graph, (2, size, size + 3, 3))


def test_batch_size_is_the_problem_s():
    graph = gh.sequential(layers.Conv2D(5, 3), shape=(9, 9, 4))
    for batch_size in (1, 7):
        collected = gh.collect(graph, batch_size=batch_size)
        (problem,) = collected["problems"]
        assert problem["block"]["inputs"] == [[batch_size, 9, 9, 4]]


def signatures_of_branches(collected) -> list[str]:
    """The signatures of the blocks that are not chains of operators."""
    problems = map(Problem.from_json, collected["problems"])
    branches = {p.signature for p in problems if not p.is_chain}
    signatures = [block["signature"] for block in collected["blocks"]]
    return [signature for signature in signatures if signature in branches]


def test_equal_blocks_are_one_problem():
    def build(x):
        x = conv_bn(x, 8, padding="same")
        for _ in range(3):
            x = layers.Concatenate()([conv_bn(x, 4, k, padding="same") for k in (1, 3)])
        return x

    collected = gh.collect(model(build, (8, 8, 3)), batch_size=1)
    signatures = signatures_of_branches(collected)
    assert len(signatures) == 3
    assert len(set(signatures)) == 1
    every = {block["signature"] for block in collected["blocks"]}
    assert len(collected["problems"]) == len(every)


def test_a_network_is_taken_whole():
    collected = gh.collect(shared.inception_v3_graph())
    report = collected["report"]
    assert report["regions"] == 1
    assert gh.left(report) == {}
    found = report["operators"]
    assert found["conv2d"] + found.get("sepconv", 0) == 94
    # There are 11 mixed modules; the other blocks are chains.
    assert len(signatures_of_branches(collected)) == 11


def test_operators_are_called_as_their_convolutions():
    """Operators get their convolution's layer name.

    Constant folding names a convolution after the batch norm's product.
    """

    def build(x):
        x = conv_bn(x, 5, name="first")
        x = layers.SeparableConv2D(6, 3, use_bias=False, name="separable")(x)
        x = layers.BatchNormalization()(x)
        return layers.Conv2D(4, 1, name="last")(x)

    graph = model(build, (9, 9, 4))
    folded = gh.optimize(graph, ["constfold"], {})
    for network in (graph, folded):
        names = [o["name"] for o in gh.operators(gh.collect(network))]
        assert [name.split("/")[-2:] for name in names] == [
            ["first_1", "convolution"],
            ["separable_1", "separable_conv2d"],
            ["last_1", "convolution"],
        ]
    assert any(
        "batchnorm/mul" in n.name for n in folded.graph_def.node if "Conv" in n.op
    )


def test_bad_parameters():
    graph = gh.sequential(layers.Conv2D(5, 3), shape=(9, 9, 4))
    for parameters, message in [
        ({"mode": "improve"}, "mode 'improve' is neither"),
        ({"mode": "optimize"}, 'needs "cache_dir"'),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"device": "tpu"}, "device 'tpu' is neither"),
        ({"strategy": "auto"}, "no parameter 'strategy'"),
    ]:
        with pytest.raises(tf.errors.OpError, match=message):
            gh.optimize(graph, ["IosOptimizer"], parameters)


def test_bad_questions():
    graph = gh.opened(gh.sequential(layers.Conv2D(5, 3), shape=(9, 9, 4)))
    for question, message in [
        (lambda: graph.blocks(0, "cpu"), "batch_size is 0"),
        (lambda: graph.blocks(1, "tpu"), "device 'tpu' is neither"),
        (lambda: graph.rewritten([(-1, 1)], "cpu", {}), "batch_size is -1"),
        (lambda: graph.rewritten([], "cpu", {}), "loads is empty"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            question()
