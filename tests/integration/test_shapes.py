"""Shapes that vary between calls: a shape that the importer assumes must hold for every
batch and image size. Other operators are left to TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf
from commands import run_prepared
from keras import layers

pytestmark = pytest.mark.one_core

random = np.random.default_rng(0)


def values(*shape: int) -> np.ndarray:
    scale = np.prod(shape[:-1]) ** -0.5
    return (random.normal(size=shape) * scale).astype(np.float32)


FIRST = values(3, 3, 3, 8)
SECOND = values(3, 3, 8, 8)
LAST = values(1, 1, 8, 8)
POSITIONS = random.normal(size=(1, 16, 16, 8)).astype(np.float32)
DENSE = values(16 * 16 * 8, 10)


def first(x):
    return tf.nn.relu(tf.nn.conv2d(x, FIRST, 1, "SAME"))


def second(x):
    return tf.nn.conv2d(x, SECOND, 1, "SAME")


def last(x):
    return tf.nn.conv2d(x, LAST, 1, "SAME")


def crop_like(x):
    y = tf.nn.max_pool2d(x, 2, 2, "SAME")
    return second(x[:, : tf.shape(y)[1], : tf.shape(y)[2]])


# Each function between two convolutions, and the types and numbers of the nodes that
# are left to TensorFlow.
FIXED: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], dict[str, int]]] = {
    "first image": (lambda x: x[:1], {"StridedSlice": 1}),
    "last image": (lambda x: x[-1:], {"StridedSlice": 1}),
    "slice of an image": (
        lambda x: tf.slice(x, [0, 0, 0, 0], [1, -1, -1, -1]),
        {"Slice": 1},
    ),
    "every other image": (lambda x: x[::2], {"StridedSlice": 1}),
    "clamped channels": (lambda x: tf.pad(x[..., -100:], [[0, 0]] * 4), {}),
    "positions": (lambda x: x + POSITIONS, {}),
    "reverse difference": (lambda x: POSITIONS - x, {}),
    "one per channel": (lambda x: x * POSITIONS[:, :1, :1], {}),
    "one per cell": (lambda x: tf.maximum(x, POSITIONS[0, :, :, :1]), {}),
    "one per row": (lambda x: x / (3 + POSITIONS[0, :1, :, :1]), {}),
    "attention": (
        lambda x: x * tf.sigmoid(tf.nn.conv2d(x, LAST[..., :1], 1, "SAME")),
        {},
    ),
    "mean of the batch": (
        lambda x: x - tf.reduce_mean(x, 0, keepdims=True),
        {"Mean": 1},
    ),
    "center": (lambda x: x[:, 2:-2, 3:-1], {}),
}


def check(
    function: Callable[..., tf.Tensor],
    shapes: Sequence[Sequence[int | None]],
    calls: Sequence[Sequence[Sequence[int]]],
    left: dict[str, int] | None = None,
    batch_sizes: Sequence[int] = (1,),
    regions: int = 1,
) -> None:
    """Compares the graph on the engine with TensorFlow for inputs of these shapes."""
    graph = gh.freeze(function, *shapes)
    if left is not None:
        collected = gh.collect(graph, batch_size=batch_sizes[0])
        assert gh.left(collected["report"]) == left
    lowered = gh.lower(gh.rewrite(graph, batch_size=batch_sizes))
    assert lowered.ops()["IosRegion"] >= regions
    for call in calls:
        arrays = [gh.random_array(*shape) for shape in call]
        try:
            wanted = gh.run(graph, *arrays)
        except tf.errors.InvalidArgumentError:
            with pytest.raises(tf.errors.InvalidArgumentError):
                gh.run(lowered, *arrays)
            continue
        gh.assert_equal(gh.run(lowered, *arrays), wanted)


@pytest.mark.parametrize("name", FIXED)
def test_images_of_one_size(name):
    between, left = FIXED[name]
    check(
        lambda x: last(between(second(first(x)))),
        [(None, 16, 16, 3)],
        [[(n, 16, 16, 3)] for n in (1, 2, 3, 5)],
        left,
    )


@pytest.mark.parametrize("name", ["positions", "attention", "first image"])
def test_several_batch_sizes(name):
    between, left = FIXED[name]
    check(
        lambda x: last(between(second(first(x)))),
        [(None, 16, 16, 3)],
        [[(n, 16, 16, 3)] for n in (1, 3, 8)],
        left,
        batch_sizes=(1, 8),
    )


UNKNOWN: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], bool]] = {
    "corner": (lambda x: x[:, :10, :10], True),
    "size of another": (crop_like, True),
    "without its border": (lambda x: x[:, 1:-1, 2:-1], False),
    "last cells": (lambda x: x[:, -4:, -4:], True),
    "turned": (lambda x: tf.transpose(x, [0, 2, 1, 3]), True),
    "dense": (lambda x: tf.tensordot(x, LAST[0, 0], 1), False),
    "as high as wide": (lambda x: tf.image.resize(x, tf.shape(x)[1:3][::-1]), True),
    "columns backwards": (
        lambda x: tf.gather(x, tf.range(tf.shape(x)[2])[::-1], axis=2),
        True,
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_images_of_any_size(name):
    between, leaves = UNKNOWN[name]
    graph = gh.freeze(lambda x: last(between(second(first(x)))), (None, None, None, 3))
    left = gh.left(gh.collect(graph)["report"])
    assert bool(left) is leaves
    check(
        lambda x: last(between(second(first(x)))),
        [(None, None, None, 3)],
        [[(1, 16, 16, 3)], [(2, 8, 12, 3)], [(3, 21, 9, 3)]],
    )


def valid(x):
    return tf.nn.relu(tf.nn.conv2d(x, SECOND, 1, "VALID"))


def to_even(x):
    size = tf.shape(x)[1:3] // 2 * 2
    return second(x[:, : size[0], : size[1]])


def joined_at_twice_the_size(x):
    small = second(tf.nn.avg_pool2d(x, 2, 2, "VALID"))
    n, height, width = (tf.shape(small)[d] for d in range(3))
    shape = tf.stack([n, 2 * height, 2 * width, 8])
    large = tf.nn.conv2d_transpose(small, SECOND[:2, :2], shape, 2, "SAME")
    return tf.concat([x[:, : 2 * height, : 2 * width], large], 3)[..., 3:11]


def in_blocks(x):
    pads = tf.stack([[2, 2 + tf.shape(x)[d] % 2] for d in (1, 2)])
    x = tf.space_to_batch(x, [2, 2], pads)
    x = tf.nn.conv2d(x, SECOND, 1, "VALID")
    return tf.batch_to_space(x, [2, 2], [[0, 0], [0, 0]])


def in_whole_blocks_only(x):
    x = tf.space_to_batch(x, [2, 2], [[2, 2], [2, 2]])
    x = tf.nn.conv2d(x, SECOND, 1, "VALID")
    return tf.batch_to_space(x, [2, 2], [[0, 0], [0, 0]])


def at_most(x):
    return second(tf.image.resize(x, tf.minimum(tf.shape(x)[1:3], 40)))


def twice_the_half(x):
    small = second(tf.nn.max_pool2d(x, 2, 2, "SAME"))
    return tf.image.resize(small, 2 * tf.shape(small)[1:3], "nearest") + x


@pytest.mark.parametrize(
    "between",
    [
        to_even,
        joined_at_twice_the_size,
        in_blocks,
        in_whole_blocks_only,
        at_most,
        twice_the_half,
    ],
)
def test_sizes_that_few_examples_do_not_show(between):
    """Images of even sizes do not show what happens to odd, to very small and to
    bounded sizes after a convolution without padding."""
    check(
        lambda x: last(between(valid(second(first(x))))),
        [(None, None, None, 3)],
        [[(n, *size, 3)] for n, size in enumerate(((34, 18), (33, 35), (3, 3)), 1)],
    )


def cropped(a, b):
    return valid(first(a)[:, : tf.shape(b)[1], : tf.shape(b)[2]]), first(b)


def sliced(a, b):
    size = tf.concat([tf.shape(a)[:1], tf.shape(b)[1:3], [8]], 0)
    return second(tf.slice(first(a), [0, 0, 0, 0], size)), first(b)


def reshaped(a, b):
    a, b = first(a), first(b)
    return second(tf.reshape(a, tf.shape(b))), b


def summed(a, b):
    a, b = first(a), first(b)
    return second(tf.nn.relu(tf.nn.silu(a) + a * b))


@pytest.mark.parametrize("function", [cropped, sliced, reshaped, summed])
def test_two_images_need_not_be_equally_large(function):
    sizes = [((12, 12), (12, 12)), ((16, 9), (12, 6)), ((16, 4), (8, 8))]
    sizes += [((1, 1), (7, 8)), ((7, 8), (1, 1))]
    check(
        function,
        [(None, None, None, 3)] * 2,
        [[(2, *one, 3), (2, *other, 3)] for one, other in sizes],
    )


def test_dense_of_turned_maps_of_as_many_columns_as_channels():
    def function(x):
        x = tf.transpose(first(x), [0, 3, 1, 2])
        return tf.tensordot(x, LAST[0, 0], 1)

    check(function, [(None, 8, 8, 3)], [[(n, 8, 8, 3)] for n in (1, 2, 3)])


def test_batches_of_two_inputs_broadcast():
    check(
        lambda x, y: second(first(x) + first(y)) - last(first(x)),
        [(None, 8, 8, 3), (None, 8, 8, 3)],
        [
            [(a, 8, 8, 3), (b, 8, 8, 3)]
            for a, b in [(1, 1), (2, 2), (3, 1), (1, 4), (2, 3)]
        ],
        {},
    )


def test_an_input_of_one_image_broadcasts():
    check(
        lambda x, t: second(first(x) * first(t)),
        [(None, 8, 8, 3), (1, 8, 8, 3)],
        [[(n, 8, 8, 3), (1, 8, 8, 3)] for n in (1, 2, 5)],
        {},
        batch_sizes=(2, 4),
    )


def test_squeezed_batches_are_left():
    """A Squeeze without axes drops the dimension of a batch of one."""
    check(
        lambda x: tf.squeeze(tf.reduce_mean(second(first(x)), [1, 2], keepdims=True)),
        [(None, 8, 8, 3)],
        [[(n, 8, 8, 3)] for n in (1, 2, 3)],
        {"Squeeze": 1},
    )


@pytest.mark.parametrize("channels_first", [False, True])
def test_flattened_maps_are_multiplied(channels_first):
    def function(x):
        x = second(first(x))
        if channels_first:
            x = tf.transpose(x, [0, 3, 1, 2])
        return tf.nn.softmax(tf.reshape(x, [-1, 16 * 16 * 8]) @ DENSE)

    check(
        function,
        [(None, 16, 16, 3)],
        [[(n, 16, 16, 3)] for n in (1, 2)],
        {},
    )


def memory(field: str) -> float:
    """A field of /proc/self/status in MiB."""
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = [line for line in status if line.startswith(field)]
    return int(line.split()[1]) / 1024


def test_large_values_are_not_computed_to_know_shapes():
    """Shape inference does not compute large tensors that depend only on sizes."""

    def function(x):
        mask = tf.fill(tf.shape(x) * [1, 32, 32, 1], 0.5)
        return second(first(x * tf.nn.max_pool(mask, 32, 32, "VALID")))

    graph = gh.freeze(function, (None, 192, 192, 3))
    with open("/proc/self/clear_refs", "w", encoding="ascii") as peak:
        peak.write("5")  # resets the peak
    before = memory("VmRSS")
    assert len(gh.operators(gh.collect(graph))) == 4
    assert memory("VmHWM") < before + 256


def test_a_default_is_no_constant():
    def function(x):
        size = tf.compat.v1.placeholder_with_default(np.int32([8, 8]), [2], "size")
        return last(tf.compat.v1.image.resize_nearest_neighbor(first(x), size))

    graph = gh.freeze(function, (1, 16, 16, 3))
    lowered = gh.lower(gh.rewrite(graph))
    assert lowered.ops()["IosRegion"] == 2  # before the resize, and after it
    x = gh.random_array(1, 16, 16, 3)
    for feeds in ({}, {"size": np.int32([12, 10])}):
        found, expected = (
            gh.run(
                dataclasses.replace(one, inputs=[*one.inputs, *feeds]),
                x,
                *feeds.values(),
            )
            for one in (lowered, graph)
        )
        gh.assert_equal(found, expected)


def test_an_operator_that_does_not_fit_does_not_drop_its_region():
    """A reshape of the batch is left to TensorFlow; convolutions around it are not."""

    def function(x):
        x = second(first(x))
        halves = tf.reshape(x, [-1, 4, 8, 8])
        return last(second(halves))

    check(
        function,
        [(None, 8, 8, 3)],
        [[(n, 8, 8, 3)] for n in (1, 2, 3)],
        {"Reshape": 1},
        regions=2,
    )


# --- Sequences: [N,W,C]

SEQUENCE_FIRST = values(3, 4, 8)
SEQUENCE = values(3, 8, 8)


def sequence(x, stride=1, padding="SAME", dilation=1, filters=SEQUENCE):
    return tf.nn.conv1d(x, filters, stride, padding, dilations=dilation)


SEQUENCES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "bias and relu": lambda x: sequence(
        tf.nn.relu(tf.nn.bias_add(x, POSITIONS[0, 0, 0]))
    ),
    "sum": lambda x: sequence(tf.nn.relu(x + sequence(x))),
    "concat and slice": lambda x: sequence(tf.concat([x, sequence(x)], -1)[..., 3:11]),
    "crop": lambda x: sequence(x[:, 2:-1]) + sequence(x)[:, 1:-2],
    "pad": lambda x: sequence(tf.pad(x, [[0, 0], [2, 1], [0, 0]])),
    "dilation": lambda x: sequence(x, dilation=2),
    "stride": lambda x: sequence(x, 2, "VALID"),
    "dense": lambda x: sequence(tf.tensordot(x, LAST[0, 0], 1)),
    "mean": lambda x: tf.reduce_mean(sequence(x), 1),
    "softmax": lambda x: tf.nn.softmax(sequence(x)),
    "constants": lambda x: sequence(x * POSITIONS[0, :1, :1] - 1),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name):
    def function(x):
        return SEQUENCES[name](sequence(x, filters=SEQUENCE_FIRST))

    check(
        function,
        [(None, None, 4)],
        [[(1, 20, 4)], [(2, 17, 4)], [(3, 33, 4)]],
    )


def test_keras_sequences_of_any_length_are_one_region():
    graph = gh.sequential(
        layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu"),
        layers.MaxPooling1D(2),
        layers.SeparableConv1D(8, 3),
        layers.Dense(5),
        layers.GlobalAveragePooling1D(),
        layers.Dense(3),
        shape=(None, 4),
    )
    assert gh.left(gh.collect(graph)["report"]) == {}
    lowered = gh.lower(gh.rewrite(graph))
    for shape in [(1, 20, 4), (2, 17, 4), (3, 33, 4)]:
        x = gh.random_array(*shape)
        gh.assert_equal(gh.run(lowered, x), gh.run(graph, x))


def to_multiple(x, step: int):
    size = tf.shape(x)[1:3] // step * step
    return x[:, : size[0], : size[1]]


def crop_by_values(x):
    """Crops to as many rows as the first number says, at least one."""
    rows = 1 + tf.cast(tf.abs(x[0, 0, 0, 0]) * 4, tf.int32)
    return x[:, :rows]


# Heights and widths that TensorFlow cannot infer; convolutions read the results.
BY_VALUES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "condition": lambda x: tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.reverse(x, [2]), lambda: x
    ),
    "multiple of a condition": lambda x: to_multiple(
        tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x), 2
    ),
    "multiple": lambda x: to_multiple(x, 4),
    "even width": lambda x: x[:, :, : tf.shape(x)[2] // 2 * 2],
    "even height": lambda x: x[:, : tf.shape(x)[1] // 2 * 2],
    "half": lambda x: tf.image.resize(x, tf.shape(x)[1:3] // 2 + 1),
    "crop": crop_by_values,
    "two": lambda x: tf.concat(
        [second(crop_by_values(x)), second(crop_by_values(x + 0.5))[:, :1]], 1
    ),
}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("name", BY_VALUES)
def test_sizes_that_only_values_tell(name, fixed):
    between = BY_VALUES[name]

    def function(x):
        x = last(second(between(second(first(x)))))
        # The results are right only if no size was assumed to be fixed or equal.
        return tf.reshape(x, [tf.shape(x)[0], -1, 8]), tf.reduce_max(x, [1, 2])

    if fixed:
        shapes, calls = [(1, 13, 18, 3)], [[(1, 13, 18, 3)]] * 3
    else:
        shapes = [(None, None, None, 3)]
        calls = [
            [(n, *size, 3)] for n in (1, 3) for size in ((16, 16), (13, 18), (37, 22))
        ]
    one = (
        name in ("multiple", "two")
        or name.startswith("even")
        or (name == "half" and fixed)
    )
    check(function, shapes, calls, regions=1 if one else 2)


def test_a_slice_that_ends_at_a_number():
    """The slice takes all of a smaller image, so its size is not a constant."""

    def function(x):
        x = second(first(x)[:, :9, :9])
        return tf.image.resize(x, 2 * tf.shape(x)[1:3], "nearest")

    check(
        function,
        [(None, None, None, 3)],
        [[(1, 16, 12, 3)], [(2, 4, 5, 3)], [(1, 1, 1, 3)]],
    )


def test_many_images_are_cut():
    """A slice of 30 images takes all of a batch of 10."""
    check(
        lambda x: last(second(first(x))[:30]),
        [(None, 3, 3, 3)],
        [[(n, 3, 3, 3)] for n in (1, 10, 40)],
        {"StridedSlice": 1},
    )


# --- Images without rows or columns

EMPTY: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "convolution": lambda x: second(first(x)),
    "window": lambda x: last(tf.nn.conv2d(first(x), SECOND, 1, "VALID")),
    "stride": lambda x: tf.nn.conv2d(first(x), SECOND, 3, "VALID"),
    "pools": lambda x: last(tf.nn.avg_pool2d(first(x), 2, 2, "SAME")),
    "mean": lambda x: tf.reduce_mean(first(x), [1, 2]),
    "largest": lambda x: tf.reduce_max(first(x), [1, 2]),
    "cut": lambda x: last(first(x)[:, 1:-1, 1:-1]),
    "border": lambda x: tf.nn.relu(
        last(second(tf.pad(first(x)[:, 1:-1], [[0, 0], [2, 1], [1, 1], [0, 0]]))) + 0.5
    ),
    "concat": lambda x: last(
        tf.concat([first(x)[..., :3], second(first(x))[..., :5]], -1)
    ),
    "softmax": lambda x: tf.nn.softmax(last(first(x))),
    "resized to nothing": lambda x: tf.image.resize(
        first(x), tf.shape(tf.nn.conv2d(first(x), SECOND, 1, "VALID"))[1:3]
    ),
    "sum": lambda x: last(first(x) + second(first(x)) * POSITIONS[:, :1, :1]),
}


def test_columns_of_any_number_are_no_channels():
    def function(x):
        rows = tf.reduce_mean(last(first(x))[..., 0], 2, keepdims=True)
        return tf.nn.conv1d(rows, LAST[0, :, :1], 1, "SAME")

    calls = [[(n, size, size + 1, 3)] for n, size in [(1, 8), (2, 1), (3, 20)]]
    check(function, [(None, None, None, 3)], calls)


def compare_empty_images() -> None:
    """Compares empty images; needs TensorFlow without oneDNN.

    With oneDNN, its convolutions fail on empty images or give uninitialised memory.
    """
    for name, function in EMPTY.items():
        graph = gh.freeze(function, (None, None, None, 3))
        lowered = gh.lower(gh.rewrite(graph))
        assert lowered.ops()["IosRegion"] == 1
        for shape in [(2, 0, 4, 3), (1, 3, 0, 3), (1, 2, 2, 3), (2, 1, 5, 3)]:
            x = gh.random_array(*shape)
            try:
                (wanted,) = gh.run(graph, x)
            except tf.errors.InvalidArgumentError:
                with pytest.raises(tf.errors.InvalidArgumentError):
                    gh.run(lowered, x)
                continue
            (found,) = gh.run(lowered, x)
            np.testing.assert_allclose(found, wanted, 1e-4, 1e-4, err_msg=name)


def test_empty_images():
    code = "import test_shapes; test_shapes.compare_empty_images()"
    run_prepared("-c", code, TF_ENABLE_ONEDNN_OPTS="0")


def patches(x):
    x = tf.nn.conv2d(x, FIRST, 1, "VALID")
    return tf.nn.max_pool2d(tf.nn.max_pool2d(x, 2, 2, "SAME"), 2, 2, "SAME")


def tokens(x):
    return tf.reshape(x, [tf.shape(x)[0], -1, 8])


# Tensors that are added to images, or multiply them, determine the image size. Each
# entry has the function, and sizes that it accepts.
TOLD: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], list[tuple[int, int]]]] = {
    "positions": (lambda x: second(first(x) + POSITIONS), [(16, 16), (1, 16), (1, 1)]),
    "not square": (lambda x: second(first(x) * POSITIONS[:, :6]), [(6, 16), (6, 1)]),
    "of rows": (lambda x: second(first(x) - POSITIONS[:, :, :1]), [(16, 9), (16, 16)]),
    "behind strides": (
        lambda x: second(patches(x) + POSITIONS[:, :6, :5]),
        [(23, 19), (24, 20), (26, 22), (25, 19)],
    ),
    "twice": (
        lambda x: second(second(first(x) + POSITIONS)[:, ::2] * POSITIONS[:, :8]),
        [(16, 16)],
    ),
    "of tokens": (
        lambda x: tf.matmul(tokens(patches(x)) + POSITIONS[0, 0], LAST[0, 0]),
        [(18, 18), (17, 16), (10, 34)],
    ),
    "resized back": (
        lambda x: second(
            tf.image.resize(patches(x) + POSITIONS[:, :6, :5], tf.shape(x)[1:3])
        ),
        [(23, 19), (25, 22)],
    ),
    "dense": (
        lambda x: tf.matmul(
            tf.reshape(second(first(x)), [tf.shape(x)[0], 16 * 16 * 8]), DENSE
        ),
        [(16, 16)],
    ),
    "dense of any": (
        lambda x: tf.matmul(tf.reshape(second(first(x)), [tf.shape(x)[0], -1]), DENSE),
        [(16, 16), (8, 32), (32, 8)],
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_constants_tell_the_size_of_images(name):
    function, sizes = TOLD[name]
    graph = gh.freeze(function, (None, None, None, 3))
    left = gh.left(gh.collect(graph)["report"])
    assert not set(left) & {"Conv2D", "AddV2", "Mul", "Sub"} or name == "of tokens"
    check(
        function,
        [(None, None, None, 3)],
        [[(n, *size, 3)] for n in (1, 2, 3) for size in [*sizes, (7, 30)]],
    )


# Slices that remove images from a batch. The operators after such a slice still form
# a region.
@pytest.mark.parametrize(
    "between",
    [
        lambda x: x[1:],
        lambda x: x[:-1],
        lambda x: tf.slice(x, [1, 0, 0, 0], [-1, -1, -1, -1]),
        lambda x: x[1:] - x[:-1],
        lambda x: x[1:2],
        lambda x: x[1:3],
        lambda x: x[2:],
        lambda x: x[1:][:1],
        lambda x: x[1:, 2:-2],
    ],
)
@pytest.mark.parametrize("size", [16, None])
def test_batches_without_their_first_image(between, size):
    def function(x):
        return last(second(between(first(x))))

    graph = gh.freeze(function, (None, size, size, 3))
    left = gh.left(gh.collect(graph)["report"])
    assert "Conv2D" not in left
    check(
        function,
        [(None, size, size, 3)],
        [[(n, 16, 16, 3)] for n in (1, 2, 3, 5)],
        batch_sizes=(1, 4),
        regions=2,
    )


# Functions that TensorFlow refuses, or computes differently, if there are too few
# images, rows or columns. Each entry has the function, and the shape and sizes of its
# input.
REFUSED: dict[
    str,
    tuple[Callable[[tf.Tensor], tf.Tensor], tuple[int | None, ...], list[list[int]]],
] = {
    name: (between, (None, 5, 4, 8), [[n, 5, 4, 8] for n in (0, 1, 3)])
    for name, between in {
        "slice of one": lambda x: tf.slice(x[:1], [0, 0, 0, 0], [1, -1, -1, -1]),
        "slice of all": lambda x: tf.slice(x[:1], [0, 0, 0, 0], [1, 5, 4, 8]),
        "reshape": lambda x: tf.reshape(second(x[:1]), [1, 5, 4, 8]),
        "turned": lambda x: tf.reshape(second(x[:1]), [1, -1, 4, 8]),
        "shuffle": lambda x: tf.reshape(
            tf.transpose(tf.reshape(second(x[:1]), [1, 5, 4, 2, 4]), [0, 1, 2, 4, 3]),
            [1, 5, 4, 8],
        ),
        "broadcast": lambda x: tf.broadcast_to(
            tf.reduce_mean(second(x[:1]), [1, 2], keepdims=True), [1, 5, 4, 8]
        ),
        "transposed": lambda x: tf.nn.conv2d_transpose(
            second(x[:1]), SECOND, [1, 10, 8, 8], 2
        ),
    }.items()
} | {
    "rows": (
        lambda x: tf.slice(second(x)[:, :4], [0, 0, 0, 0], [-1, 4, -1, -1]),
        (None, None, None, 8),
        [[2, 6, 5, 8], [1, 4, 3, 8], [2, 3, 5, 8]],
    ),
    "from a row on": (
        lambda x: tf.slice(second(x), [0, 2, 1, 0], [-1, -1, -1, -1]),
        (None, None, None, 8),
        [[2, 6, 5, 8], [1, 4, 3, 8], [2, 1, 5, 8]],
    ),
    "columns": (
        lambda x: tf.reshape(
            tf.nn.conv1d(x[:, :3], SECOND[0], 1, "SAME"), [-1, 1, 3, 8]
        ),
        (None, None, 8),
        [[2, 6, 8], [1, 3, 8], [1, 2, 8]],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_tensorflow_refuses(name):
    between, shape, inputs = REFUSED[name]
    check(lambda x: second(between(x)), [shape], [[size] for size in inputs])


def one_list_of_cells(x):
    y = tf.matmul(tf.reshape(x, [1, -1, 8]), LAST[0, 0])
    return tf.reshape(y, [1, tf.shape(x)[1], tf.shape(x)[2], 8])


# Operations that accept any size, or have known sizes, do not split a region.
@pytest.mark.parametrize(
    ("between", "shape"),
    [
        (lambda x: x[:, 2:, 1:-1], (None, None, None)),
        (lambda x: tf.slice(x, [0, 1, 0, 0], [-1, 2, -1, -1]), (None, 5, 4)),
        (lambda x: tf.slice(x, [0, 0, 0, 2], [-1, -1, -1, 4]), (None, None, None)),
        (lambda x: tf.slice(x, [0, 0, 0, 0], tf.shape(x)), (None, None, None)),
        (one_list_of_cells, (1, None, None)),
    ],
)
def test_sizes_that_tensorflow_takes(between, shape):
    def function(x):
        y = between(second(x))
        return tf.nn.conv2d(y, SECOND[:, :, : y.shape[-1]], 1, "SAME")

    graph = gh.freeze(function, (*shape, 8))
    left = gh.left(gh.collect(graph)["report"])
    assert not set(left) & {"Slice", "StridedSlice", "Reshape"}
    sizes = [(shape[0] or n, 5, 4, 8) for n in (1, 2, 3)]
    check(function, [(*shape, 8)], [[size] for size in sizes])


def tokenwise(x):
    n, height, width = (tf.shape(x)[d] for d in range(3))
    y = tf.reshape(x, [n, height * width, 8])
    y = tf.nn.relu(tf.nn.bias_add(tf.matmul(y, LAST[0, 0]), POSITIONS[0, 0, 0]))
    return tf.reshape(tf.nn.softmax(y), [n, height, width, 8])


def channel_attention(gate):
    """`gate` makes [N,1,1,C] from the sum of two branches that share their weights."""

    def function(x):
        def branch(pooled):
            return tf.matmul(tf.nn.relu(tf.matmul(pooled, LAST[0, 0])), LAST[0, 0])

        mean, most = tf.reduce_mean(x, [1, 2]), tf.reduce_max(x, [1, 2])
        return x * gate(tf.sigmoid(branch(mean) + branch(most)))

    return function


def middle(x):
    begin = (tf.shape(x)[1] - 4) // 2
    return x[:, begin : begin + 4, 1:-1]


# Functions between two convolutions that no longer split a region, and whether each
# needs images of a fixed size.
WHOLE: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], bool]] = {
    "reshaped gate": (channel_attention(lambda y: tf.reshape(y, [-1, 1, 1, 8])), False),
    "indexed gate": (channel_attention(lambda y: y[:, None, None]), False),
    "expanded gate": (
        channel_attention(lambda y: tf.expand_dims(tf.expand_dims(y, 1), 2)),
        False,
    ),
    "list of cells": (tokenwise, False),
    "bias of a list of cells": (
        lambda x: tf.reshape(
            tf.nn.bias_add(tf.reshape(x, [-1, 16 * 16, 8]), POSITIONS[0, 0, 1]),
            [-1, 16, 16, 8],
        ),
        True,
    ),
    "flat": (
        lambda x: tf.reshape(tf.tanh(tf.reshape(x, [-1, 16 * 16 * 8])), tf.shape(x)),
        True,
    ),
    "middle": (middle, True),
    "tiled mean": (
        lambda x: tf.concat(
            [
                x,
                tf.tile(
                    tf.reduce_mean(x, [1, 2], keepdims=True),
                    [1, tf.shape(x)[1], tf.shape(x)[2], 1],
                ),
            ],
            3,
        )[..., 3:11],
        False,
    ),
    "tiled to a number": (
        lambda x: x - tf.tile(tf.reduce_max(x, [1, 2], keepdims=True), [1, 16, 16, 1]),
        True,
    ),
    "broadcast mean": (
        lambda x: tf.concat(
            [
                tf.broadcast_to(tf.reduce_mean(x, [1, 2], keepdims=True), tf.shape(x)),
                x,
            ],
            3,
        )[..., 3:11],
        False,
    ),
    "tiled channel": (
        lambda x: x * tf.tile(tf.reduce_mean(x, 3, keepdims=True), [1, 1, 1, 8]),
        False,
    ),
    "mean of rows": (
        lambda x: x * tf.reduce_mean(x, 1, keepdims=True),
        True,
    ),
    "mean of columns": (
        lambda x: x * tf.sigmoid(tf.reduce_mean(x, 2, keepdims=True)),
        True,
    ),
    "sequence of columns": (
        lambda x: tf.nn.conv1d(tf.reduce_mean(x, 1), SECOND[0], 1, "SAME")[:, None],
        True,
    ),
}


@pytest.mark.parametrize(
    ("name", "size"),
    [(n, size) for n, (_, fixed) in WHOLE.items() for size in (16, None)[: 2 - fixed]],
)
def test_what_computes_images_on_the_way_is_no_border(name, size):
    between, _ = WHOLE[name]

    def function(x):
        return last(between(second(first(x))))

    graph = gh.freeze(function, (None, size, size, 3))
    assert gh.collect(graph)["report"]["regions"] == 1
    sizes = [(16, 16)] if size else [(16, 16), (5, 9), (1, 7)]
    check(
        function,
        [(None, size, size, 3)],
        [[(n, *one, 3)] for n in (1, 2, 3) for one in sizes],
    )


@pytest.mark.parametrize(
    "between",
    [
        # These give other cells or other images.
        lambda x: tf.tile(x, [1, 2, 1, 1]),
        lambda x: tf.tile(x, [2, 1, 1, 1]),
        lambda x: tf.tile(x[:, :1, :1], [1, 3, 2, 1]),
        lambda x: tf.tile(tf.reduce_mean(x, [1, 2], keepdims=True), [2, 4, 4, 1]),
        lambda x: tf.broadcast_to(x[:1], tf.shape(x)),
        lambda x: tf.broadcast_to(x[:, :1], [3, 16, 16, 8]),
        lambda x: tf.reduce_mean(x, 2)[:, :, None],
        lambda x: tf.reduce_mean(x, 1)[:, :, None],
        lambda x: tf.reshape(
            tf.nn.bias_add(tf.reshape(x, [-1, 16 * 4, 32]), tf.range(32.0)), tf.shape(x)
        ),
        lambda x: tf.reshape(
            tf.nn.softmax(tf.reshape(x, [-1, 16 * 16 * 8])), tf.shape(x)
        ),
        lambda x: tf.reshape(tf.exp(tf.reshape(x, [-1, 256 * 8])), [-1, 8, 32, 8]),
        lambda x: x[:, (tf.shape(x)[0] - 1) // 2 :, :3],
    ],
)
def test_what_looks_like_it_computes_the_same(between):
    check(
        lambda x: last(between(second(first(x)))),
        [(None, 16, 16, 3)],
        [[(n, 16, 16, 3)] for n in (1, 2, 3)],
    )


@pytest.mark.parametrize("length", [24, None])
def test_group_norms_of_sequences(length):
    norm = layers.GroupNormalization(4)
    norm.build((None, length, 8))
    norm.set_weights([values(8) + 2, values(8)])

    def function(x):
        y = norm(tf.nn.conv1d(x, FIRST[0], 1, "SAME"))
        return tf.nn.conv1d(y, SECOND[0], 1, "SAME")

    graph = gh.freeze(function, (None, length, 3))
    assert gh.collect(graph)["report"]["regions"] == 1
    check(
        function,
        [(None, length, 3)],
        [[(n, size, 3)] for n in (1, 3) for size in (24, 7) if length in (None, size)],
    )
