"""Images without cells and batches without images give TensorFlow's result, or an error
if TensorFlow gives one, and do not crash the process."""

import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf

from ios_tf.native import engine

FILTERS = tf.constant(gh.random_array(3, 3, 4, 4) / 4)
DEPTHWISE = tf.constant(gh.random_array(3, 3, 4, 1) / 4)
POINT = tf.constant(gh.random_array(1, 1, 4, 4) / 4)
VECTOR = tf.constant(gh.random_array(4))
SIZES = [(0, 6, 5), (2, 0, 5), (2, 6, 0), (2, 0, 0), (0, 0, 0), (1, 1, 0), (1, 2, 2)]

FUNCTIONS = {
    "SAME": lambda x: tf.nn.conv2d(x, FILTERS, 1, "SAME"),
    "strided": lambda x: tf.nn.relu(tf.nn.conv2d(x, FILTERS, 2, "SAME") + VECTOR),
    "VALID": lambda x: tf.nn.conv2d(x, FILTERS, 1, "VALID"),
    "padded": lambda x: tf.nn.conv2d(x, FILTERS, 1, [[0, 0], [2, 2], [2, 2], [0, 0]]),
    "depthwise": lambda x: tf.nn.depthwise_conv2d(x, DEPTHWISE, [1] * 4, "SAME"),
    "separable": lambda x: tf.nn.separable_conv2d(
        tf.nn.relu(x), DEPTHWISE, POINT, [1] * 4, "SAME"
    ),
    "max": lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
    "average": lambda x: tf.nn.avg_pool2d(x, 3, 1, "SAME"),
    "mean": lambda x: tf.reduce_mean(x, [1, 2]),
    "maximum": lambda x: tf.reduce_max(x, [1, 2]),
    "sum of channels": lambda x: tf.reduce_sum(x, -1, keepdims=True),
    "concat": lambda x: tf.concat([x, tf.nn.relu(x), x * 2.0], -1),
    "add": lambda x: x + tf.nn.sigmoid(x),
    "scale": lambda x: x * VECTOR + 1.0,
    "pad": lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]),
    "softmax": lambda x: tf.nn.softmax(x),
    "lrn": lambda x: tf.nn.local_response_normalization(x),
    "depth": lambda x: tf.nn.depth_to_space(x, 2),
    "resize": lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3]),
    "gate": lambda x: x * tf.reduce_mean(x, [1, 2], keepdims=True),
    "slices": lambda x: tf.split(x, 2, -1)[0] * tf.split(x, 2, -1)[1],
}


def outcome(graph, *images):
    try:
        return gh.run(graph, *images)
    except tf.errors.OpError as error:
        return type(error)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_empty_images(name):
    graph = gh.freeze(
        lambda x: FUNCTIONS[name](tf.nn.conv2d(x, POINT, 1, "SAME")),
        (None, None, None, 4),
    )
    lowered = gh.lower(gh.rewrite(graph))
    for size in SIZES:
        images = gh.random_array(*size, 4)
        expected, found = outcome(graph, images), outcome(lowered, images)
        if isinstance(expected, type):
            assert found is expected, (size, found)
        else:
            assert not isinstance(found, type), (size, found, expected)
            for got, want in zip(found, expected, strict=True):
                # With nothing to compute, TensorFlow's oneDNN convolution gives its
                # input's shape and uninitialised memory.
                if got.size == 0 and name in ("strided", "VALID", "padded"):
                    continue
                np.testing.assert_allclose(got, want, 1e-4, 1e-5, err_msg=str(size))


@pytest.mark.parametrize(
    "operator",
    [
        {"type": "scale"},
        {"type": "softmax"},
        {"type": "activation", "activation": "relu"},
        {"type": "lrn", "depth_radius": 2},
        {"type": "normalize"},
        {"type": "channel_shuffle", "groups": 3},
        {"type": "pool", "kernel": [3, 3]},
        {"type": "global_pool"},
        {"type": "concat"},
        {"type": "pad", "padding": [1, 1, 1, 1]},
        {"type": "resize", "factors": [2, 2]},
        {"type": "depth_to_space", "block_size": 2},
        {"type": "space_to_depth", "block_size": 2},
        {"type": "binary", "inputs": [-1, -1]},
        {"type": "add", "inputs": [-1, -1]},
    ],
    ids=lambda operator: operator["type"],
)
def test_no_channels(operator):
    """An operator on images without channels gives an empty result."""
    block = {
        "version": 1,
        "inputs": [[2, 4, 4, 0]],
        "operators": [{"inputs": [-1], **operator}],
        "outputs": [0],
    }
    stages = [{"strategy": "concurrent", "groups": [[0]]}]
    empty = np.zeros(0, np.float32)
    weights = [empty] * len(engine.problem(block)["weight_shapes"][0])
    program = engine.Program(block, {"version": 1, "stages": stages}, weights)
    (result,) = program.run([np.zeros((2, 4, 4, 0), np.float32)])
    assert result.size == 0


def test_channels_of_zeros_around_none():
    pad = {"type": "pad", "inputs": [-1], "channel_padding": [1, 2], "pad_value": 3.0}
    convolution = {"type": "conv2d", "inputs": [-1], "filters": 2, "bias": True}
    join = {"type": "concat", "inputs": [-1, 0, 1, -1]}
    block = {
        "version": 1,
        "inputs": [[2, 4, 4, 0]],
        "operators": [pad, convolution, join],
        "outputs": [2],
    }
    stages = [
        {"strategy": "concurrent", "groups": [[0], [1]]},
        {"strategy": "concurrent", "groups": [[2]]},
    ]
    weights = [np.zeros(0, np.float32), np.float32([7, 8])]
    program = engine.Program(block, {"version": 1, "stages": stages}, weights)
    (result,) = program.run([np.zeros((2, 4, 4, 0), np.float32)])
    assert (result == [3, 3, 3, 7, 8]).all()


@pytest.mark.parametrize("pads_zeros", [False, True])
def test_maximum_of_nothing(pads_zeros):
    """A window inside the padding gives the lowest float, or 0 if it sees zeros."""
    pool = {"type": "pool", "name": "it", "inputs": [-1], "kernel": [3, 3]}
    pool |= {"padding": [2, 2, 2, 2], "pads_zeros": pads_zeros}
    block = {
        "version": 1,
        "inputs": [[2, 0, 4, 3]],
        "operators": [pool],
        "outputs": [0],
    }
    stages = [{"strategy": "concurrent", "groups": [[0]]}]
    program = engine.Program(block, {"version": 1, "stages": stages}, [])
    (result,) = program.run([np.zeros((2, 0, 4, 3), np.float32)])
    expected = 0.0 if pads_zeros else np.finfo(np.float32).min
    assert result.shape == (2, 2, 6, 3) and (result == expected).all()


@pytest.mark.parametrize(
    ("image", "operator"),
    [
        ([2, 0], {"type": "matmul", "filters": 2}),
        (
            [2, 0, 4, 3],
            {"type": "pool", "pool": "avg", "kernel": [3, 3], "padding": [2, 2, 2, 2]},
        ),
    ],
    ids=["matmul", "pool"],
)
def test_something_of_nothing_is_refused(image, operator):
    block = {
        "version": 1,
        "inputs": [image],
        "operators": [{"name": "it", "inputs": [-1], **operator}],
        "outputs": [0],
    }
    stages = [{"strategy": "concurrent", "groups": [[0]]}]
    empty = np.zeros(0, np.float32)
    weights = [empty] * len(engine.problem(block)["weight_shapes"][0])
    message = rf"^{operator['type']} 'it' reads a tensor without elements$"
    with pytest.raises(engine.EngineError, match=message):
        engine.Program(block, {"version": 1, "stages": stages}, weights)


def test_sizes_of_images_that_are_not_there():
    """A tensor that is read only for its size may have no images or no cells."""
    graph = gh.freeze(
        lambda x, y: tf.image.resize(
            tf.nn.conv2d(x, POINT, 1, "SAME") + VECTOR, tf.shape(y)[1:3]
        ),
        (None, None, None, 4),
        (None, None, None, 4),
    )
    assert any(o.get("like") for o in gh.operators(gh.collect(graph)))
    lowered = gh.lower(gh.rewrite(graph))
    for size in SIZES:
        for other in [(0, 6, 5), (0, 12, 9), (2, 12, 9), (1, 0, 2), (0, 0, 0)]:
            arrays = gh.random_array(*size, 4), gh.random_array(*other, 4)
            expected, found = outcome(graph, *arrays), outcome(lowered, *arrays)
            if isinstance(expected, type):
                assert found is expected, (size, other)
            else:
                gh.assert_equal(found, expected)
