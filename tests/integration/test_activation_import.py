"""Activations as Keras, TensorFlow and users write them: each becomes one operator with
its convolution, may merge, and runs in any TensorFlow."""

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import activations, layers

SQRT_HALF = np.float32(0.5**0.5)


def gelu_of_cubes(x):
    return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))


def gelu_by_erf(x):
    return (1 + tf.math.erf(SQRT_HALF * x)) * x * 0.5


def gelu_by_division(x):
    return x * 0.5 * (1.0 + tf.math.erf(x / tf.sqrt(2.0)))


def hard_swish_by_hand(x):
    return x * tf.nn.relu6(x + 3.0) * 0.16666667


def hard_sigmoid_of_keras_2(x):
    return tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


# The function, the engine's type and the unusual parameters of each activation.
CASES = {
    "relu": (tf.nn.relu, "relu", {}),
    "relu6": (layers.ReLU(6.0), "relu6", {}),
    "relu_to_4": (layers.ReLU(4.0), "clip", {"beta": 4.0}),
    "relu_above": (layers.ReLU(threshold=0.5), "threshold", {"alpha": 0.5}),
    "relu_above_by_hand": (
        lambda x: tf.where(x > 0.5, x, tf.zeros_like(x)),
        "threshold",
        {"alpha": 0.5},
    ),
    "relu_above_to": (lambda x: tf.minimum(layers.ReLU()(x), 6.0), "relu6", {}),
    "leaky_relu": (layers.LeakyReLU(0.3), "leaky_relu", {"alpha": 0.3}),
    "sloped_relu": (layers.ReLU(negative_slope=0.1), "leaky_relu", {"alpha": 0.1}),
    "usual_leaky_relu": (tf.nn.leaky_relu, "leaky_relu", {}),
    "elu": (activations.elu, "elu", {}),
    "gentle_elu": (layers.ELU(0.5), "elu", {"alpha": 0.5}),
    "leaky_relu_by_hand": (
        lambda x: tf.where(x < 0, 0.1 * x, x),
        "leaky_relu",
        {"alpha": 0.1},
    ),
    "abs_by_hand": (lambda x: tf.where(x >= 0, x, -x), "abs", {}),
    "relu_by_hand": (lambda x: tf.where(x <= 0, tf.zeros_like(x), x), "relu", {}),
    "selu": (activations.selu, "selu", {}),
    "softplus": (activations.softplus, "softplus", {}),
    "softsign": (activations.softsign, "softsign", {}),
    "sigmoid": (activations.sigmoid, "sigmoid", {}),
    "tanh": (activations.tanh, "tanh", {}),
    "silu": (activations.silu, "swish", {}),
    "silu_by_hand": (lambda x: tf.sigmoid(x) * x, "swish", {}),
    "steep_silu": (lambda x: tf.nn.silu(x, 0.5), "swish", {"alpha": 0.5}),
    "quick_gelu": (lambda x: x * tf.sigmoid(1.702 * x), "swish", {"alpha": 1.702}),
    "gelu": (activations.gelu, "gelu", {}),
    "gelu_by_erf": (gelu_by_erf, "gelu", {}),
    "gelu_by_division": (gelu_by_division, "gelu", {}),
    "gelu_tanh": (lambda x: tf.nn.gelu(x, True), "gelu_tanh", {}),
    "gelu_of_cubes": (gelu_of_cubes, "gelu_tanh", {}),
    "mish": (activations.mish, "mish", {}),
    "hard_sigmoid": (activations.hard_sigmoid, "hard_sigmoid", {}),
    "hard_sigmoid_2": (hard_sigmoid_of_keras_2, "hard_sigmoid", {"alpha": 0.2}),
    "hard_swish": (activations.hard_swish, "hard_swish", {}),
    "hard_swish_by_hand": (hard_swish_by_hand, "hard_swish", {}),
    "hard_tanh": (activations.hard_tanh, "clip", {"alpha": -1.0}),
    "maximum": (lambda x: tf.maximum(-0.5, x), "maximum", {"alpha": -0.5}),
    "minimum": (lambda x: tf.minimum(x, 0.5), "minimum", {"alpha": 0.5}),
    "minimum_by_relu": (lambda x: -tf.nn.relu(-x), "minimum", {}),
    "exp": (activations.exponential, "exp", {}),
    "square": (lambda x: x**2, "square", {}),
    "cube": (lambda x: x**3, "pow", {}),
    "fourth": (lambda x: tf.square(tf.square(x)), "pow", {"alpha": 4.0}),
    "abs": (tf.abs, "abs", {}),
    "erf": (tf.math.erf, "erf", {}),
    "sin": (tf.sin, "sin", {}),
    "cosh": (tf.cosh, "cosh", {}),
    "expm1": (tf.math.expm1, "expm1", {}),
}


def branches(names, kernels=(1, 3)):
    """For each activation, two convolutions that may merge and a concat of both."""
    filters = [
        tf.constant(gh.random_array(k, k, 5, 6, seed=i) / 2)
        for i, k in enumerate(kernels)
    ]
    bias = tf.constant(gh.random_array(6, seed=1))

    def function(x):
        outputs = []
        for name in names:
            with tf.name_scope(name):
                y = x + tf.constant(gh.random_array(5, seed=len(name)))
                parts = [
                    CASES[name][0](tf.nn.conv2d(y, f, 1, "SAME") + bias)
                    for f in filters
                ]
                outputs.append(tf.concat(parts, 3))
        return outputs

    return gh.freeze(function, (None, 6, 7, 5))


def test_activations_are_part_of_their_convolutions():
    graph = branches(CASES)
    collected = gh.collect(graph, batch_size=2)
    found = {name: [] for name in CASES}
    for operator in gh.operators(collected):
        if operator["type"] == "conv2d":
            keys = [k for k in ("activation", "alpha", "beta") if k in operator]
            found[operator["name"].split("/")[0]].append({k: operator[k] for k in keys})
    for name, (_, kind, parameters) in CASES.items():
        expected = pytest.approx({"activation": kind, **parameters}, abs=1e-6)
        assert found[name] == [expected, expected], name
    assert gh.left(collected["report"]) == {}
    gh.assert_lowered_equals(graph, (2, 6, 7, 5))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_network_keeps_what_is_no_number(number):
    # Both kernels have the same size, because a merge would pad a smaller kernel with
    # zeros, and zero times a neighbour's NaN or infinity is NaN.
    names = ["relu", "relu6", "gelu", "silu", "hard_swish"]
    graph = branches(names, kernels=(3, 3))
    image = gh.random_array(2, 6, 7, 5)
    image[1, 2, 3, 1] = number
    image[1, 5, 6] = number
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    for found, expected in zip(
        gh.run(lowered, image), gh.run(graph, image), strict=True
    ):
        assert not np.isfinite(expected).all()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_snakes_are_in_one_region():
    """Snake activations, x + sin(ax)^2 / a, as audio networks use them."""
    filters = [gh.random_array(1, 5, 4, 4, seed=i) / 4 for i in range(2)]
    slopes = np.array([0.5, 1.0, 3.0, -2.0], np.float32)

    def snake(x):
        return x + tf.square(tf.sin(x * slopes)) / slopes

    def function(x):
        for f in filters:
            x = snake(tf.nn.conv2d(x, f, 1, "SAME"))
        return x

    graph = gh.freeze(function, (None, 1, None, 4))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops() == {"Placeholder": 1, "IosRegion": 1, "Identity": 1}
    for scale in (1, 1e4, 1e9):
        sounds = gh.random_array(2, 1, 40, 4) * np.float32(scale)
        (found,), (expected,) = gh.run(lowered, sounds), gh.run(graph, sounds)
        if scale < 1e6:  # for larger numbers, rounding decides the sine
            gh.assert_equal([found], [expected])
        assert np.isfinite(found).all()


def test_images_of_nothing_but_nan_have_logits_of_nan():
    inputs = keras.Input((16, 16, 3))
    x = inputs
    for activation in ("relu", "relu6"):
        x = layers.Conv2D(8, 3, padding="same")(x)
        x = layers.AveragePooling2D(3, 2)(layers.Activation(activation)(x))
    x = layers.GlobalMaxPooling2D()(x)
    outputs = layers.Dense(5)(x)
    graph = gh.freeze(gh.randomised(keras.Model(inputs, outputs)), (None, 16, 16, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 1
    images = gh.random_array(2, 16, 16, 3)
    images[1] = np.nan
    (found,), (expected,) = gh.run(lowered, images), gh.run(graph, images)
    assert np.isnan(expected[1]).all() and np.isfinite(expected[0]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# PReLUs with a slope for each channel or for each cell.
PRELUS = {
    "keras_1": lambda x, a: tf.nn.relu(x) + -a * tf.nn.relu(-x),
    "extremes": lambda x, a: tf.maximum(x, 0.0) + a * tf.minimum(x, 0.0),
    "where": lambda x, a: tf.where(x > 0, x, a * x),
    "difference": lambda x, a: tf.nn.relu(x) - a * tf.nn.relu(-x),
}


@pytest.mark.parametrize("name", PRELUS)
@pytest.mark.parametrize("shape", [[6], [1, 1, 6], [6, 7, 6]])
def test_prelu_is_one_operator(name, shape):
    slopes = gh.random_array(*shape)
    slopes[..., 2] = 0
    slopes[..., 4] = 1.5

    def function(x):
        x = tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 5, 6)), 1, "SAME")
        x = PRELUS[name](x, tf.constant(slopes))
        return tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 6, 4)), 1, "SAME")

    graph = gh.freeze(function, (None, 6, 7, 5))
    found = gh.operators(gh.collect(graph, batch_size=2))
    assert [o["type"] for o in found] == ["conv2d", "binary", "conv2d"]
    assert found[1]["function"] == "prelu"
    gh.assert_lowered_equals(graph, (2, 6, 7, 5))
    image = gh.random_array(2, 6, 7, 5)
    for place, number in enumerate([np.nan, np.inf, -np.inf]):
        image[1, place, place, 1] = number
    lowered = gh.lower(gh.rewrite(graph))
    (expected,) = gh.run(graph, image)
    assert not np.isfinite(expected).all()
    np.testing.assert_allclose(gh.run(lowered, image)[0], expected, atol=1e-5)


# Not PReLUs: some turn at another value, are not linear below 0 or lose an infinity.
NO_PRELUS = {
    "turns_at_a_number": lambda x, a: tf.where(x > 0.001, x, a * x),
    "turns_elsewhere": lambda x, a: tf.nn.relu(x - a) - a * tf.nn.relu(-x),
    "turns_beside_zero": lambda x, a: tf.nn.relu(x - 1e-7) - a * tf.nn.relu(-x),
    "scales_both": lambda x, a: a * tf.nn.relu(x) - a * tf.nn.relu(-x),
    "of_absolutes": lambda x, a: tf.nn.relu(x) + a * (x - tf.abs(x)) * 0.5,
    "of_squares": lambda x, a: tf.nn.relu(x) - a * tf.nn.relu(-x) * tf.nn.relu(-x),
    "of_two": lambda x, a: tf.nn.relu(x) - a * tf.nn.relu(-x[::-1]),
}


@pytest.mark.parametrize("name", NO_PRELUS)
def test_what_is_no_prelu_is_left_as_it_is(name):
    def function(x):
        x = tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 5, 6)), 1, "SAME")
        return NO_PRELUS[name](x, tf.constant(gh.random_array(6)))

    graph = gh.freeze(function, (None, 6, 7, 5))
    found = gh.operators(gh.collect(graph, batch_size=2))
    assert "prelu" not in [o.get("function") for o in found]
    gh.assert_lowered_equals(graph, (2, 6, 7, 5))


def test_prelu_of_rows_and_of_sequences_is_one_operator():
    image = keras.Input((12, 5))
    x = layers.Conv1D(6, 3)(image)
    x = layers.PReLU("random_normal", shared_axes=[1])(x)
    x = layers.Dense(7)(layers.GlobalAveragePooling1D()(x))
    model = gh.randomised(keras.Model(image, layers.PReLU("random_normal")(x)))
    graph = gh.freeze(model, (None, 12, 5))
    found = gh.operators(gh.collect(graph, batch_size=2))
    assert [o.get("function") for o in found].count("prelu") == 2
    gh.assert_lowered_equals(graph, (2, 12, 5))


def test_functions_that_are_no_activation_are_left_as_they_are():
    def function(x):
        x = tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 5, 6)), 1, "SAME")
        return [0.5 * x * (1.1 + tf.tanh(1.6 * x)), tf.exp(tf.tanh(x))]

    graph = gh.freeze(function, (None, 6, 7, 5))
    found = gh.operators(gh.collect(graph, batch_size=2))
    kinds = {operator.get("activation") for operator in found}
    assert {"tanh", "exp"} <= kinds
    gh.assert_lowered_equals(graph, (2, 6, 7, 5))


# Compositions with small constants. If the importer ignored these constants, it would
# find an activation that has very different values for some inputs.
NEARLY = {
    "log": lambda x: tf.math.log(tf.nn.relu(x) + 1e-6),
    "log_of_probability": lambda x: tf.math.log(
        tf.clip_by_value(tf.sigmoid(9.0 * x), 1e-7, 1 - 1e-7)
    ),
    "entropy": lambda x: tf.sigmoid(x) * tf.math.log(tf.sigmoid(9.0 * x) + 1e-7),
    "sign": lambda x: x / (tf.abs(x) + 1e-8),
    "norm": lambda x: x * tf.math.rsqrt(tf.square(tf.nn.relu(x)) + 1e-12),
    "root": lambda x: x / tf.sqrt(tf.nn.relu(x) + 1e-9),
    "inverse": lambda x: 1e-6 / (tf.nn.relu(x) + 1e-6),
    "rate": lambda x: 1e-6 * tf.sigmoid(x),
    "small_tanh": lambda x: 1e5 * (1e-6 * tf.tanh(x)),
    "dead_zone": lambda x: tf.where(
        tf.abs(x) < 0.004, tf.zeros_like(x), tf.nn.leaky_relu(x, 0.1)
    ),
    "hard_shrink": lambda x: tf.where(
        x > 0.06, x, tf.where(x < -0.06, x, tf.zeros_like(x))
    ),
}


@pytest.mark.parametrize("name", NEARLY)
def test_small_numbers_are_not_forgotten(name):
    def function(x):
        x = tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 5, 6)), 1, "SAME")
        x = NEARLY[name](x)
        return tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 6, 4)), 1, "SAME")

    graph = gh.freeze(function, (None, 6, 7, 5))
    image = gh.random_array(2, 6, 7, 5) * 10
    image[:, :3] = 0  # so the convolution's output is 0 there
    image[:, 4] *= 1e-3
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] >= 1
    (expected,) = gh.run(graph, image)
    assert np.isfinite(expected).all()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(gh.run(lowered, image)[0], expected, atol=1e-5 * scale)


# Functions that differ from relu only within a band.
BANDS = {
    "dead_pixels": (
        lambda x, r: tf.where(
            x < 20000.0, r, tf.where(x > 30000.0, r, tf.zeros_like(r))
        ),
        (20000, 30000),
    ),
    "distance": (
        lambda x, r: tf.where(tf.abs(x - 25000.0) < 5000.0, tf.zeros_like(r), r),
        (20000, 30000),
    ),
    "normalised": (
        lambda x, r: tf.where(
            x * 0.01 - 3.0 > 1.6,
            r,
            tf.where(x * 0.01 - 3.0 > 1.2, tf.zeros_like(r), r),
        ),
        (420, 460),
    ),
    "narrow": (
        lambda x, r: tf.where(
            x * 0.5 - 1.0 > 0.54,
            r,
            tf.where(x * 0.5 - 1.0 > 0.51, tf.zeros_like(r), r),
        ),
        (3.02, 3.08),
    ),
    "very_narrow": (
        lambda x, r: (
            r
            - tf.nn.relu(x - 777.0)
            + 2.0 * tf.nn.relu(x - 777.5)
            - tf.nn.relu(x - 778.0)
        ),
        (777, 778),
    ),
    "smooth": (
        lambda x, r: (
            r * (1.0 - tf.sigmoid(9.0 * (x - 2000.0)) + tf.sigmoid(9.0 * (x - 2100.0)))
        ),
        (2000, 2100),
    ),
}


@pytest.mark.parametrize("name", BANDS)
def test_bands_between_samples_are_seen(name):
    band, (low, high) = BANDS[name]
    # Products and sums of numbers with few bits are exact. Otherwise steep bands would
    # show differences in rounding.
    filters = np.round(gh.random_array(1, 1, 5, 6) * 8) / 8
    step = 2.0 ** (np.floor(np.log2(high)) - 11)

    def function(x):
        x = tf.nn.conv2d(x, tf.constant(filters), 1, "SAME")
        x = band(x, tf.nn.relu(x))
        return tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 6, 4)), 1, "SAME")

    graph = gh.freeze(function, (None, 64, 64, 5))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] >= 1
    image = gh.random_array(2, 64, 64, 5) * (low + high) / 2
    image = np.float32(np.round(image / step) * step)
    (expected,) = gh.run(graph, image)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(gh.run(lowered, image)[0], expected, atol=1e-5 * scale)


def test_zeros_keep_their_signs():
    def function(x):
        x = tf.nn.conv2d(x, tf.constant(gh.random_array(3, 3, 5, 6)), 1, "SAME")
        return [1.0 / -tf.nn.relu(x), 1.0 / (tf.nn.relu(x) * -2.0)]

    graph = gh.freeze(function, (None, 6, 7, 5))
    image = gh.random_array(2, 6, 7, 5)
    expected = gh.run(graph, image)
    for found, truth in zip(
        gh.run(gh.lower(gh.rewrite(graph)), image), expected, strict=True
    ):
        assert (truth == -np.inf).any()
        np.testing.assert_allclose(found, truth, rtol=1e-4)


def test_activation_that_others_read_too_is_not_hidden():
    def function(x):
        x = tf.nn.conv2d(x, tf.constant(gh.random_array(1, 1, 5, 6)), 1, "SAME")
        gate = tf.sigmoid(x)
        return x * gate, tf.nn.max_pool2d(gate, 2, 1, "SAME")

    graph = gh.freeze(function, (None, 6, 7, 5))
    found = gh.operators(gh.collect(graph, batch_size=2))
    assert [o["type"] for o in found].count("binary") == 1
    gh.assert_lowered_equals(graph, (2, 6, 7, 5))


def test_keras_network_with_activation_layers():
    image = keras.Input((9, 8, 3))
    x = image
    for activation in (layers.LeakyReLU(0.1), layers.ReLU(3.0), layers.ELU()):
        x = layers.Conv2D(6, 3, padding="same")(x)
        x = activation(layers.BatchNormalization()(x))
    model = gh.randomised(keras.Model(image, layers.GlobalAveragePooling2D()(x)))
    graph = gh.freeze(model, (None, 9, 8, 3))
    found = gh.operators(gh.collect(graph, batch_size=2))
    assert [o.get("activation") for o in found] == ["leaky_relu", "clip", "elu", None]
    gh.assert_lowered_equals(graph, (2, 9, 8, 3))
