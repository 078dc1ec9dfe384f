"""Rules for pads, pools and strides give TensorFlow's results, also for numbers that
are not finite and for images that TensorFlow refuses."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

import ios_tf

pytestmark = pytest.mark.one_core

random = np.random.default_rng(0)


def filters(*shape: int) -> np.ndarray:
    return random.normal(0, 0.5, shape).astype(np.float32)


POINTWISE, OTHER, FIRST = filters(1, 1, 3, 3), filters(1, 1, 3, 3), filters(3, 3, 3, 3)


def conv(x: tf.Tensor, weights: np.ndarray = POINTWISE) -> tf.Tensor:
    return tf.nn.conv2d(x, weights, 1, "SAME")


def padded(x: tf.Tensor, before: int = 1, after: int = 1) -> tf.Tensor:
    return tf.pad(x, [[0, 0], [before, after], [before, after], [0, 0]])


def shifted(x: tf.Tensor) -> tf.Tensor:
    """NASNet's second path, shifted by one cell down and to the right."""
    return padded(x, 0, 1)[:, 1:, 1:]


def avg_pool(x: tf.Tensor, size: int = 1, stride: int = 2) -> tf.Tensor:
    return tf.nn.avg_pool2d(x, size, stride, "VALID")


def max_pool(x: tf.Tensor, size: int = 1, stride: int = 2) -> tf.Tensor:
    return tf.nn.max_pool2d(x, size, stride, "VALID")


Function = Callable[[tf.Tensor], tf.Tensor]
FUNCTIONS: dict[str, Function] = {
    "padded maximum": lambda x: max_pool(padded(tf.nn.relu(conv(x))), 3),
    "padded maximum of sums": lambda x: max_pool(padded(conv(x)), 3),
    "padded maximum of two": lambda x: max_pool(padded(tf.nn.relu(conv(x)), 0, 1), 2),
    "padded average": lambda x: avg_pool(padded(tf.nn.relu(conv(x))), 3),
    "subsampled maximum": lambda x: max_pool(conv(x)),
    "subsampled maximum, convolved": lambda x: conv(max_pool(tf.nn.relu(conv(x)))),
    "subsampled average": lambda x: avg_pool(conv(x)),
    "subsampled average, convolved": lambda x: conv(avg_pool(tf.nn.relu(conv(x)))),
    "factorized reduction": lambda x: tf.concat(
        [conv(avg_pool(conv(x))), conv(avg_pool(shifted(conv(x))), OTHER)], -1
    ),
    "padded, cut and subsampled": lambda x: avg_pool(padded(conv(x), 2, 1)[:, 1:, 3:]),
    "average before a convolution": lambda x: conv(
        tf.nn.avg_pool2d(conv(x), 3, 1, "SAME"), OTHER[..., :2]
    ),
}


def images() -> dict[str, np.ndarray]:
    plain = random.random((1, 9, 8, 3)).astype(np.float32)
    made = {"nothing but NaN": np.full_like(plain, np.nan)}
    for name, value in {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf}.items():
        made[name] = plain.copy()
        made[name][0, 4, 3, 1] = made[name][0, 2, 2, 0] = value
        made[f"{name} in the corner"] = plain.copy()
        made[f"{name} in the corner"][0, :2, :2] = value
        made[f"{name} at the end"] = plain.copy()
        made[f"{name} at the end"][0, -2:, -2:] = value
    return made


IMAGES = images()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_that_are_not_finite(name: str) -> None:
    # The reference is eager: TensorFlow's optimizers and fused kernels drop NaN.
    eager = FUNCTIONS[name]
    function = tf.function(eager, [tf.TensorSpec([None, 9, 8, 3])])
    faster = ios_tf.optimize(function, strategy="greedy")
    for kind, image in IMAGES.items():
        found, expected = faster(image).numpy(), eager(tf.constant(image)).numpy()
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6, err_msg=kind)


def test_stem_of_a_residual_network() -> None:
    network = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3))
    stem = keras.Model(network.input, network.get_layer("pool1_pool").output)
    faster = ios_tf.optimize(stem, strategy="greedy")
    image = np.full((1, 64, 64, 3), np.nan, np.float32)
    found, lowest = faster(image).numpy(), np.finfo(np.float32).min
    # Windows at the border see zeros of the padding; the others see only NaN.
    assert (found[:, 0] == 0).all() and (found[:, :, 0] == 0).all()
    assert (found[:, 1:, 1:] == lowest).all()


@pytest.mark.parametrize("size", [(1, 9), (9, 1), (2, 2), (3, 3), (4, 5)])
def test_images_that_are_smaller_than_a_window(size: tuple[int, int]) -> None:
    def eager(x: tf.Tensor) -> tf.Tensor:
        return avg_pool(tf.nn.conv2d(x, FIRST, 1, "VALID"))

    function = tf.function(eager, [tf.TensorSpec([None, None, None, 3])])
    faster = ios_tf.optimize(function, strategy="greedy")
    image = tf.constant(random.random((1, *size, 3)), tf.float32)
    if min(size) < 2:
        for called in (eager, faster):
            with pytest.raises(tf.errors.InvalidArgumentError):
                called(image)
        return
    if min(size) < len(FIRST):
        # On some processors TensorFlow's pools give pixels for an empty image.
        assert faster(image).numpy().size == 0
        return
    np.testing.assert_allclose(faster(image), eager(image), 1e-5, 1e-6)
