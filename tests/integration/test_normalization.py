"""Operators that combine channels: reductions, norms, shuffles."""

from __future__ import annotations

from collections.abc import Callable

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

pytestmark = pytest.mark.one_core

random = np.random.default_rng(0)


def values(*shape: int) -> np.ndarray:
    return random.uniform(-1, 1, shape).astype(np.float32)


FILTERS = values(3, 3, 3, 12)
LAST = values(1, 1, 12, 5)
GAMMA, BETA = values(12), values(12)


def between(function: Callable[[tf.Tensor], tf.Tensor]):
    def network(x):
        x = function(tf.nn.conv2d(x, FILTERS, 1, "SAME"))
        return tf.nn.conv2d(x, LAST, 1, "SAME") if x.shape.rank == 4 else x

    return network


def shuffle(x):
    n, h, w = tf.unstack(tf.shape(x)[:3])
    x = tf.transpose(tf.reshape(x, [n, h, w, 3, 4]), [0, 1, 2, 4, 3])
    return tf.reshape(x, [n, h, w, 12])


def hand_written_norm(x):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * GAMMA + BETA


def by_inverse(x, axes):
    """A norm that subtracts the mean twice and multiplies by the inverse deviation."""
    mean = tf.reduce_mean(x, axes, keepdims=True)
    difference = x - mean
    variance = tf.reduce_mean(difference * difference, axes, keepdims=True)
    return GAMMA * ((x - mean) * tf.math.rsqrt(variance + 1e-3)) + BETA


def by_variance(x):
    variance = tf.math.reduce_variance(x, [1, 2], keepdims=True)
    inverse = tf.math.rsqrt(1e-3 + variance) * GAMMA
    return inverse * (x - tf.reduce_mean(x, [1, 2], keepdims=True))


def group_norm_by_hand(x):
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0], shape[1], shape[2], 3, 4])
    mean, variance = tf.nn.moments(x, [1, 2, 4], keepdims=True)
    x = (x - mean) / tf.sqrt(variance + 1e-3)
    return tf.reshape(x, shape) * GAMMA + BETA


def group_norm_of_rows(x):
    shape = tf.shape(x)
    x = tf.reshape(x, [shape[0], -1, 3, 4])
    mean, variance = tf.nn.moments(x, [1, 3], keepdims=True)
    x = (x - mean) * tf.math.rsqrt(variance + 1e-3)
    return tf.reshape(x, shape) * GAMMA + BETA


# Each function, and its operators besides two convolutions (None: not checked).
FUNCTIONS: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], list[str] | None]] = {
    "sum of maps": (lambda x: x * tf.reduce_sum(x, [1, 2], keepdims=True), None),
    "mean of channels": (
        lambda x: x * tf.reduce_mean(x, -1, keepdims=True),
        ["reduce", "binary"],
    ),
    "maximum of channels": (
        lambda x: x - tf.reduce_max(x, 3, keepdims=True),
        ["reduce", "binary"],
    ),
    "sum of channels": (lambda x: x + tf.reduce_sum(x, 3, keepdims=True), None),
    "layer norm": (
        lambda x: tf.nn.batch_normalization(
            x, *tf.nn.moments(x, -1, keepdims=True), BETA, GAMMA, 1e-3
        ),
        ["normalize"],
    ),
    "axes of 64 bits": (
        lambda x: tf.nn.batch_normalization(
            x,
            *tf.nn.moments(x, tf.constant([3], tf.int64), keepdims=True),
            BETA,
            GAMMA,
            1e-3,
        ),
        ["normalize"],
    ),
    "without scale": (
        lambda x: tf.nn.batch_normalization(
            x, *tf.nn.moments(x, -1, keepdims=True), None, None, 1e-2
        ),
        ["normalize"],
    ),
    "image norm": (
        lambda x: tf.nn.batch_normalization(
            x, *tf.nn.moments(x, [1, 2, 3], keepdims=True), BETA, GAMMA, 1e-3
        ),
        ["normalize"],
    ),
    "instance norm": (
        lambda x: tf.nn.batch_normalization(
            x, *tf.nn.moments(x, [1, 2], keepdims=True), BETA, GAMMA, 1e-3
        ),
        ["normalize"],
    ),
    "layer norm by hand": (hand_written_norm, ["normalize"]),
    "layer norm by hand, inverse": (lambda x: by_inverse(x, -1), ["normalize"]),
    "instance norm by hand": (lambda x: by_inverse(x, [1, 2]), ["normalize"]),
    "image norm by hand": (lambda x: by_inverse(x, [1, 2, 3]), ["normalize"]),
    "instance norm of a variance": (by_variance, ["normalize"]),
    "group norm by hand": (group_norm_by_hand, ["normalize"]),
    "group norm of rows": (group_norm_of_rows, ["normalize"]),
    # Adding to the deviation, or dividing by another deviation, does not make a norm.
    "deviation": (
        lambda x: (
            (x - tf.reduce_mean(x, -1, keepdims=True))
            / (tf.math.reduce_std(x, -1, keepdims=True) + 1e-2)
        ),
        None,
    ),
    "other mean": (
        lambda x: (
            (x - tf.reduce_max(x, -1, keepdims=True))
            / tf.sqrt(tf.math.reduce_variance(x, -1, keepdims=True) + 1e-2)
        ),
        None,
    ),
    "sum of a list": (
        lambda x: tf.reduce_sum(tf.stack([x, tf.nn.relu(x), x * 2], -2), 3),
        ["activation", "scale", "add"],
    ),
    "channel shuffle": (shuffle, ["channel_shuffle"]),
}


def operator_types(graph: gh.Graph) -> list[str]:
    types = [o["type"] for o in gh.operators(gh.collect(graph))]
    return [t for t in types if t != "conv2d"]


def check(function, shapes=((1, 9, 7, 3), (3, 4, 6, 3)), types=None):
    graph = gh.freeze(function, (None, None, None, 3))
    if types is not None:
        assert operator_types(graph) == types
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    for shape in shapes:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function, types = FUNCTIONS[name]
    check(between(function), types=types)


@pytest.mark.parametrize(
    ("layer", "types"),
    [
        (layers.LayerNormalization(), ["normalize"]),
        (layers.LayerNormalization(center=False), ["normalize"]),
        (layers.LayerNormalization(scale=False, epsilon=0.1), ["normalize"]),
        (layers.GroupNormalization(4), ["normalize"]),
        (layers.GroupNormalization(-1, scale=False), ["normalize"]),
        (layers.GroupNormalization(1, center=False), ["normalize"]),
    ],
)
def test_layers(layer, types):
    graph = gh.sequential(
        layers.Conv2D(12, 3), layer, layers.Conv2D(5, 1), shape=(9, 8, 3)
    )
    assert operator_types(graph) == types
    assert gh.left(gh.collect(graph)["report"]) == {}
    gh.assert_lowered_equals(graph, (3, 9, 8, 3), batch_size=2)


def attend(x):
    """Attention over channels and cells (CBAM)."""
    squeeze, excite = layers.Dense(4, activation="relu"), layers.Dense(12)
    pools = layers.GlobalAveragePooling2D, layers.GlobalMaxPooling2D
    pooled = [excite(squeeze(pool(keepdims=True)(x))) for pool in pools]
    x = x * keras.ops.sigmoid(pooled[0] + pooled[1])
    reductions = keras.ops.mean, keras.ops.max
    maps = [reduce(x, axis=-1, keepdims=True) for reduce in reductions]
    where = layers.Conv2D(1, 7, padding="same", activation="sigmoid")
    return x * where(layers.Concatenate()(maps))


@pytest.mark.parametrize(
    "layer",
    [layers.GroupNormalization(4), layers.GroupNormalization(12), attend],
    ids=["groups", "instances", "attention"],
)
def test_layers_on_images_of_any_size(layer):
    """The layers reshape to sizes that they compute from the input's."""
    image = layers.Input((None, None, 3))
    x = layers.ReLU()(layer(layers.Conv2D(12, 3)(image)))
    graph = gh.freeze(keras.Model(image, layers.Conv2D(5, 1)(x)), (None, None, None, 3))
    assert gh.left(gh.collect(graph)["report"]) == {}
    lowered = gh.lower(gh.rewrite(graph))
    for shape in [(1, 9, 8, 3), (3, 13, 7, 3)]:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


def test_sequences_are_normalised():
    graph = gh.sequential(
        layers.Conv1D(12, 3),
        layers.LayerNormalization(),
        layers.Dense(5),
        shape=(None, 3),
    )
    assert operator_types(graph) == ["normalize"]
    lowered = gh.lower(gh.rewrite(graph))
    for shape in [(1, 9, 3), (3, 14, 3)]:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


def test_norms_of_rows_are_left_to_tensorflow():
    def norm(x):
        moments = tf.nn.moments(x, [2, 3], keepdims=True)
        return tf.nn.batch_normalization(x, *moments, BETA, GAMMA, 1e-3)

    graph = gh.freeze(between(norm), (None, None, None, 3))
    assert "normalize" not in operator_types(graph)
    x = gh.random_array(2, 9, 7, 3)
    lowered = gh.lower(gh.rewrite(graph))
    gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


@pytest.mark.parametrize("axes", [[1], [2], [1, 2]])
def test_norms_of_sequences(axes):
    def network(x):
        x = tf.nn.conv1d(x, FILTERS[0], 1, "SAME")
        moments = tf.nn.moments(x, axes, keepdims=True)
        x = tf.nn.batch_normalization(x, *moments, BETA, GAMMA, 1e-3)
        return tf.nn.conv1d(x, LAST[0], 1, "SAME")

    graph = gh.freeze(network, (None, None, 3))
    assert operator_types(graph) == ["normalize"]
    lowered = gh.lower(gh.rewrite(graph))
    for shape in [(1, 9, 3), (3, 14, 3)]:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


@pytest.mark.parametrize("size", [(12, 8), (8, 12)])
def test_scales_of_rows_and_columns_are_none_of_channels(size):
    """Scales of rows or columns are not mistaken for scales of channels.

    The numbers of rows and columns equal that of channels.
    """

    def network(x):
        x = tf.nn.conv2d(x, FILTERS, 1, "SAME")
        mean, variance = tf.nn.moments(x, [3], keepdims=True)
        one_each = [12 if length == 12 else 1 for length in size]
        shift, scale = (tf.reshape(v + 2, [*one_each, 1]) for v in (BETA, GAMMA))
        x = tf.nn.batch_normalization(x, mean, variance, shift, scale, 1e-3)
        return tf.nn.conv2d(x, LAST, 1, "SAME")

    graph = gh.freeze(network, (None, *size, 3))
    gh.assert_lowered_equals(graph, (2, *size, 3))


def test_norms_of_large_maps_lose_no_digits():
    def function(x):
        mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-3)

    graph = gh.freeze(between(function), (None, 320, 300, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    image = (30 + np.random.default_rng(1).normal(size=(1, 320, 300, 3))).astype("f")
    features = tf.nn.conv2d(image.astype("d"), FILTERS.astype("d"), 1, "SAME")
    features -= tf.reduce_mean(features, [1, 2], keepdims=True)
    variance = tf.reduce_mean(features**2, [1, 2], keepdims=True)
    truth = tf.nn.conv2d(
        features * tf.math.rsqrt(variance + 1e-3), LAST.astype("d"), 1, "SAME"
    ).numpy()
    difference = np.abs(gh.run(lowered, image)[0] - truth).max()
    assert difference < 1e-4 * np.abs(truth).max()


@pytest.mark.parametrize("batch", [1, 3])
def test_means_of_large_maps_far_from_zero_lose_no_digits(batch):
    """The mean keeps its digits outside of a known norm too.

    A naive sum would lose more than a few digits of 1e4.
    """
    graph = gh.freeze(
        lambda x: tf.nn.conv2d(
            tf.reduce_mean(x, [1, 2], keepdims=True) - x, FILTERS, 1, "SAME"
        ),
        (None, None, None, 3),
    )
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    random = np.random.default_rng(0)
    image = (1e4 + random.normal(size=(batch, 256, 256, 3))).astype(np.float32)
    exact = image.astype(np.float64)
    truth = tf.nn.conv2d(
        exact.mean((1, 2), keepdims=True) - exact, FILTERS.astype("d"), 1, "SAME"
    ).numpy()
    difference = np.abs(gh.run(lowered, image)[0] - truth).max()
    # One unit in the last place of 1e4 is 1e-3.
    assert difference < 1e-3 * np.abs(FILTERS).sum((0, 1, 2)).max()


@pytest.mark.parametrize(("mean", "deviation"), [(101325.0, 3.0), (0.5, 0.25)])
def test_values_far_from_zero_are_moved_before_they_are_scaled(mean, deviation):
    graph = gh.freeze(
        lambda x: tf.nn.conv2d((x - mean) / deviation, FILTERS, 1, "SAME"),
        (None, 9, 8, 3),
    )
    image = mean + deviation * np.random.default_rng(1).normal(size=(2, 9, 8, 3))
    image = image.astype(np.float32)
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    (expected,) = gh.run(graph, image)
    np.testing.assert_allclose(gh.run(lowered, image)[0], expected, atol=3e-5)


def dead_channel(x):
    """A batch norm with a channel whose variance is 0, with epsilon 0."""
    variance = tf.constant([0.0] + [1.0] * 11)
    return tf.compat.v1.nn.fused_batch_norm(
        x, GAMMA, BETA, 0 * BETA, variance, epsilon=0.0, is_training=False
    )[0]


def by_infinity(x):
    return tf.nn.relu(x * tf.constant([np.inf] + [1.0] * 11))


def by_zero(x):
    return x / tf.constant([0.0] + [1.0] * 11)


def by_large_numbers(x):
    return tf.nn.relu(x * tf.constant([1e30] * 12)) * tf.constant([1e-30] * 12)


@pytest.mark.parametrize(
    "function", [dead_channel, by_infinity, by_zero, by_large_numbers]
)
def test_factors_are_not_folded_into_infinite_filters(function):
    """A factor is not folded into a filter if the products overflow to infinity.

    A sum of infinite products may be NaN, but the factor times the sum is not.
    """

    def network(x):
        return function(tf.nn.conv2d(x, 1e10 * FILTERS, 1, "SAME"))

    graph = gh.freeze(network, (None, None, None, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    images = 1e-10 * values(2, 7, 9, 3)
    (found,), (expected,) = gh.run(lowered, images), gh.run(graph, images)
    assert not np.isnan(expected).any()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_scales_whose_product_underflows_are_not_composed():
    def network(x):
        x = tf.nn.relu(tf.nn.conv2d(x, FILTERS, 1, "SAME"))
        return (x * tf.constant([1e-25] * 12) + 1.0) * tf.constant([1e-25] * 12)

    graph = gh.freeze(network, (None, 7, 9, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    images = values(2, 7, 9, 3)
    images[0, 3, 3] = np.inf
    (found,), (expected,) = gh.run(lowered, images), gh.run(graph, images)
    assert np.isinf(expected).any()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_mean_that_is_an_output_is_left_one():
    def function(x):
        x = tf.nn.conv2d(x, FILTERS, 1, "SAME")
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        y = tf.nn.batch_normalization(x, mean, variance, BETA, GAMMA, 1e-3)
        return y, mean + 1.0

    check(function)


def batch_norm(x, axes, shape):
    moments = tf.nn.moments(x, axes, keepdims=True)
    beta, gamma = BETA.reshape(shape), GAMMA.reshape(shape)
    return tf.nn.batch_normalization(x, *moments, beta, gamma, 1e-3)


def hand_written(x, axes, shape):
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * GAMMA.reshape(shape)


@pytest.mark.parametrize("norm", [batch_norm, hand_written])
@pytest.mark.parametrize("axes", [[1], [2, 3], [3, 1, -2]])
def test_norms_of_channels_first(axes, norm):
    def function(x):
        x = tf.transpose(tf.nn.conv2d(x, FILTERS, 1, "SAME"), [0, 3, 1, 2])
        x = tf.transpose(norm(x, axes, (12, 1, 1)), [0, 2, 3, 1])
        return tf.nn.conv2d(x, LAST, 1, "SAME")

    # There are as many columns as channels, so only the shape of a scale tells whether
    # it scales columns or channels.
    check(function, ((1, 9, 12, 3), (3, 4, 6, 3)), types=["normalize"])


def test_scales_of_columns_are_none_of_channels_first():
    def function(x):
        x = tf.transpose(tf.nn.conv2d(x, FILTERS, 1, "SAME"), [0, 3, 1, 2])
        x = tf.transpose(batch_norm(x, [2, 3], (12,)), [0, 2, 3, 1])
        return tf.nn.conv2d(x, LAST, 1, "SAME")

    graph = gh.freeze(function, (None, 9, 12, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert "IosRegion" in lowered.ops()
    x = gh.random_array(2, 9, 12, 3)
    gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


@pytest.mark.parametrize("axes", [[3], [1, 2], [1, 2, 3]])
def test_a_difference_that_others_read_is_computed(axes):
    """A difference inside a norm is also computed for its other readers.

    These are in the region, in TensorFlow between regions, and outside of the graph.
    """

    def function(x):
        x = tf.nn.conv2d(x, FILTERS, 1, "SAME")
        difference = x - tf.reduce_mean(x, axes, keepdims=True)
        variance = tf.reduce_mean(tf.square(difference), axes, keepdims=True)
        y = difference * tf.math.rsqrt(variance + 1e-3)
        z = tf.cumsum(difference, -1) + tf.nn.relu(difference)
        return tf.nn.conv2d(y + z, LAST, 1, "SAME"), difference

    graph = gh.freeze(function, (None, None, None, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert "IosRegion" in lowered.ops()
    for shape in [(1, 9, 7, 3), (3, 4, 6, 3)]:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


@pytest.mark.parametrize("axes", [[3], [1, 2, 3]])
def test_a_variance_that_comes_back_is_left_one(axes):
    """TensorFlow's nodes that read the variance are not part of the norm's region."""

    def norm(x):
        mean, variance = tf.nn.moments(x, axes, keepdims=True)
        y = tf.nn.batch_normalization(x, mean, variance, BETA, GAMMA, 1e-3)
        return y * tf.sigmoid(variance)

    def network(x):
        x = tf.nn.conv2d(x, FILTERS, 1, "SAME")
        y = x * tf.reduce_mean(x, [1, 2, 3], keepdims=True)
        return [tf.nn.conv2d(one, LAST, 1, "SAME") for one in (y, norm(x))]

    graph = gh.freeze(network, (None, None, None, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert "IosRegion" in lowered.ops()
    for shape in [(1, 9, 7, 3), (3, 4, 6, 3)]:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


def test_keras_model_of_norms():
    """A ConvNeXt block, and an input that is normalised before any convolution."""
    inputs = keras.Input((12, 12, 3))
    x = layers.LayerNormalization()(inputs)
    x = layers.Conv2D(8, 4, strides=4)(x)
    y = layers.DepthwiseConv2D(7, padding="same")(x)
    y = layers.LayerNormalization(epsilon=1e-6)(y)
    y = layers.Dense(32)(y)
    y = layers.Dense(8)(layers.Activation("tanh")(y))
    x = layers.Add()([x, y])
    model = gh.randomised(keras.Model(inputs, layers.UnitNormalization()(x)))
    graph = gh.freeze(model, (None, 12, 12, 3))
    lowered = gh.lower(gh.rewrite(graph))
    x = gh.random_array(2, 12, 12, 3)
    gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))
