"""Constants larger than any usual size: a graph that behaves differently beyond such a
bound is converted with that bound, or the part is left to TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tensorflow as tf

import ios_tf

pytestmark = pytest.mark.one_core

# Larger than the largest usual size, 10,784.
BOUND = 16_000
LENGTHS = [1, 7, BOUND - 1, BOUND, BOUND + 1, BOUND + 3]
LENGTHS += [2 * BOUND - 1, 2 * BOUND, 2 * BOUND + 1, 40_005]

random = np.random.default_rng(0)
FIRST = random.normal(0, 0.3, (3, 2, 4)).astype(np.float32)
SECOND = random.normal(0, 0.3, (3, 4, 4)).astype(np.float32)


def first(x: tf.Tensor, stride: int = 1) -> tf.Tensor:
    return tf.nn.relu(tf.nn.conv1d(x, FIRST, stride, "SAME"))


def second(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.relu(tf.nn.conv1d(x, SECOND, 1, "SAME"))


def length(x: tf.Tensor) -> tf.Tensor:
    return tf.shape(x)[1]


def as_float(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(length(x), tf.float32)


def pad_to_bound(x: tf.Tensor) -> tf.Tensor:
    return tf.pad(x, [[0, 0], [0, tf.maximum(0, BOUND - length(x))], [0, 0]])


def pad_to_multiple(x: tf.Tensor) -> tf.Tensor:
    return tf.pad(x, [[0, 0], [0, -length(x) % BOUND], [0, 0]])


Function = Callable[[tf.Tensor], tf.Tensor]
FUNCTIONS: dict[str, Function] = {
    "head": lambda x: first(x[:, :BOUND]),
    "tail": lambda x: first(x[:, -BOUND:]),
    "offset": lambda x: first(x[:, BOUND:]),
    "middle": lambda x: first(x[:, 12_000:BOUND]),
    "all but the last": lambda x: first(x[:, :-BOUND]),
    "behind strides": lambda x: second(first(x, 4)[:, : BOUND // 4 + 3]),
    "slice of a slice": lambda x: second(first(x[:, :BOUND])[:, 12_000:]),
    "computed begin": lambda x: first(x[:, length(x) - BOUND :]),
    "Slice": lambda x: second(tf.slice(first(x), [0, 0, 0], [-1, BOUND, -1])),
    "two parts": lambda x: tf.concat([first(x[:, :BOUND]), first(x[:, BOUND:])], 1),
    "one step": lambda x: first(x[:, :BOUND])[:, -1],
    "as long as a slice": lambda x: first(x)[:, : length(x[:, :BOUND])] * 2,
    "padding to a size": lambda x: first(pad_to_bound(x)),
    "padding and slice": lambda x: first(pad_to_bound(x)[:, :BOUND]),
    "padding to a multiple": lambda x: first(pad_to_multiple(x)),
    "minimum": lambda x: first(x)[:, : tf.minimum(length(x), BOUND)],
    "maximum": lambda x: first(x)[:, tf.maximum(0, length(x) - BOUND) :],
    "minimum of a list": lambda x: first(
        x[:, : tf.reduce_min(tf.stack([length(x), BOUND]))]
    ),
    "quotient": lambda x: first(x[:, length(x) // BOUND :]),
    "quotient of floats": lambda x: first(
        x[:, tf.cast(tf.math.floor(as_float(x) / BOUND), tf.int32) :]
    ),
    "factor": lambda x: first(x[:, tf.cast(as_float(x) / BOUND, tf.int32) :]),
    "square root": lambda x: first(
        x[:, tf.cast(tf.sqrt(as_float(x)) / 127, tf.int32) :]
    ),
    "shift": lambda x: first(x[:, tf.bitwise.right_shift(length(x), 14) :]),
    "comparison": lambda x: first(x[:, 3 * tf.cast(length(x) > BOUND, tf.int32) :]),
    "choice": lambda x: first(x[:, tf.where(length(x) > BOUND, 5, 0) :]),
    "condition": lambda x: tf.cond(
        length(x) > BOUND, lambda: first(x[:, :5]), lambda: first(x)
    ),
    "strides": lambda x: second(first(x)[:, ::BOUND]),
    "pool": lambda x: second(tf.nn.avg_pool1d(first(x), BOUND, BOUND, "SAME")),
    "window": lambda x: second(tf.nn.max_pool1d(first(x), BOUND, 300, "VALID")),
    "range": lambda x: first(x) + tf.cast(tf.range(length(x))[:1], tf.float32),
}


def outcome(function: Function, x: tf.Tensor) -> np.ndarray | None:
    """The output, or None if TensorFlow refuses the input; some of its kernels refuse
    empty inputs."""
    try:
        return function(x).numpy()
    except (tf.errors.InvalidArgumentError, tf.errors.AbortedError):
        return None


def check(
    function: Function, faster: Function, shapes: Sequence[Sequence[int]]
) -> None:
    for shape in shapes:
        x = tf.constant(random.random(shape), tf.float32)
        expected, found = outcome(function, x), outcome(faster, x)
        if expected is None or found is None:
            assert expected is found, shape
            continue
        assert found.shape == expected.shape, shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def optimized(
    function: Function, shape: Sequence[int | None], image_size: int = 60
) -> Function:
    return ios_tf.optimize(
        tf.function(function, input_signature=[tf.TensorSpec(shape)]),
        strategy="greedy",
        image_size=image_size,
        keep_slower=True,
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lengths_around_a_large_constant(name: str) -> None:
    function = FUNCTIONS[name]
    faster = optimized(function, [None, None, 2])
    check(function, faster, [(1, n, 2) for n in LENGTHS])


def test_graphs_that_differ_in_one_number() -> None:
    """The shapes of a graph are not used for one that differs in a small constant."""
    for bound in (40, 41, 40):

        def function(x: tf.Tensor, bound: int = bound) -> tf.Tensor:
            return first(x[:, :bound])

        faster = optimized(lambda x, f=function: f(x), [None, None, 2])
        check(function, faster, [(1, n, 2) for n in (39, 40, 41, 42)])


def test_dilated_convolutions() -> None:
    """The padding of each convolution depends on a remainder of the length."""
    filters = [tf.constant(random.random((2, 2, 2)) - 0.5, tf.float32)] * 4

    def function(x: tf.Tensor) -> tf.Tensor:
        for k, w in enumerate(filters):
            padded = tf.pad(x, [[0, 0], [2**k, 0], [0, 0]])
            x += tf.nn.convolution(padded, w, padding="VALID", dilations=2**k)
        return x

    faster = optimized(function, [None, None, 2])
    check(function, faster, [(2, n, 2) for n in (1, 2, 7, 8, 9, 16, 17, 31, 100)])


def test_batches_around_a_large_constant() -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        return first(x[:BOUND])

    batches = [1, 2, BOUND - 1, BOUND, BOUND + 1, 20_000]
    check(function, optimized(function, [None, 3, 2]), [(n, 3, 2) for n in batches])


def test_images_around_large_constants() -> None:
    filters = random.normal(0, 0.3, (3, 3, 2, 4)).astype(np.float32)

    def function(x: tf.Tensor) -> tf.Tensor:
        x = tf.nn.relu(tf.nn.conv2d(x[:, :20_000], filters, 1, "SAME"))
        return x[:, :, :12_000]

    sizes = [(5, 5), (20_001, 3), (3, 11_999), (3, 12_001), (3, 20_003)]
    faster = optimized(function, [None, None, None, 2])
    check(function, faster, [(1, *size, 2) for size in sizes])


@pytest.mark.parametrize(
    ("block", "padding"),
    [(2, 0), (2, 2), (2, 1), (3, 1), (5, 2), (8, 3), (16, 0), (12, 5)],
)
def test_images_of_some_sizes_only(block: int, padding: int) -> None:
    """TensorFlow refuses other sizes, so they give no information on a bound."""
    bound = 12_000
    filters = random.normal(0, 0.3, (3, 3, 1, 1)).astype(np.float32)

    def function(x: tf.Tensor) -> tf.Tensor:
        x = tf.pad(x, [[0, 0], [0, padding], [0, padding], [0, 0]])
        x = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME"))
        return tf.nn.space_to_depth(x, block)[:, :, -bound:]

    height = 2 * block - padding
    widths = [block * blocks - padding for blocks in (1, 7, bound - 1, bound)]
    widths += [block * (bound + more) - padding for more in (1, 2, 200)]
    faster = optimized(function, [None, None, None, 1], 12 * block - padding)
    check(function, faster, [(1, height, max(w, 1), 1) for w in widths])


def test_a_bound_keeps_what_it_does_not_concern() -> None:
    """Operators before and after a slice are converted."""
    signature = [tf.TensorSpec([None, None, 2])]
    function = tf.function(lambda x: second(first(x)[:, :BOUND]), signature)
    faster = ios_tf.optimize(function, strategy="greedy", keep_slower=True)
    assert faster.report.operators == 2
