"""Blocks of convolutions, and their results by definition in float64."""

import numpy as np

from ios_tf.native import engine

# Attributes of depthwise convolutions. The default kernel is 3x3.
DEPTHWISE_WINDOWS = [
    {"strides": [2, 2]},
    {"strides": [3, 3], "kernel": [1, 1]},
    {"kernel": [7, 7], "padding": [0, 0, 0, 0]},
    {"kernel": [5, 5], "dilations": [2, 3]},
    {"kernel": [1, 5]},
    {"padding": [0, 3, 3, 0], "strides": [2, 1]},
]


def conv_block(shape, filters, **attributes):
    op = {
        "type": "conv2d",
        "inputs": [-1, -2] if attributes.get("residual") else [-1],
        "kernel": [3, 3],
        "padding": "SAME",
        "filters": filters,
        **attributes,
    }
    inputs = [list(shape)]
    block = {"version": 1, "inputs": inputs, "operators": [op], "outputs": [0]}
    if op.get("residual"):
        plain = {**op, "inputs": [-1], "residual": False}
        inputs.append(output_shape({**block, "operators": [plain]}))
    return block


def output_shape(block):
    return engine.problem(block)["shapes"][0]


def sequential(block):
    count = len(block["operators"])
    stages = [{"strategy": "concurrent", "groups": [[i]]} for i in range(count)]
    return {"version": 1, "stages": stages}


def random_weights(block, rng):
    shapes = engine.problem(block)["weight_shapes"]
    return [
        rng.normal(size=shape).astype(np.float32)
        for of_operator in shapes
        for shape in of_operator
    ]


def by_definition(x, filters, bias, padding, residual):
    """A convolution in float64, by its definition.

    `padding` has the numbers of cells before and after the image, for height and width.
    """
    (top, bottom), (left, right) = padding
    x = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right), (0, 0)))
    high, wide = filters.shape[:2]
    height, width = x.shape[1] - high + 1, x.shape[2] - wide + 1
    out = sum(
        x[:, r : r + height, k : k + width] @ filters[r, k].astype(np.float64)
        for r in range(high)
        for k in range(wide)
    )
    if bias is not None:
        out = out + bias
    return out if residual is None else out + residual


def convolution(x, filters, bias, padding, strides=(1, 1), dilations=(1, 1)):
    """A convolution in float64; `padding` is as in the block.

    If the filters have fewer channels than `x`, the convolution has groups.
    """
    high, wide = (
        (size - 1) * dilation + 1
        for size, dilation in zip(filters.shape[:2], dilations, strict=True)
    )
    spread = np.zeros((high, wide, *filters.shape[2:]))
    spread[:: dilations[0], :: dilations[1]] = filters
    groups = x.shape[-1] // filters.shape[2]
    cells = (padding[:2], padding[2:])
    parts = [
        by_definition(*operands, None, cells, None)
        for operands in zip(
            np.split(x, groups, -1), np.split(spread, groups, -1), strict=True
        )
    ]
    return np.concatenate(parts, -1)[:, :: strides[0], :: strides[1]] + bias


def run(block, algorithm, weights, inputs):
    schedule = sequential(block)
    if algorithm != "direct":
        schedule["algorithms"] = {algorithm: list(range(len(block["operators"])))}
    return engine.Program(block, schedule, weights).run(inputs)


def beside_sequential(block, schedule, rng):
    """For each output, its value with `schedule` and with the sequential schedule."""
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    found, expected = (
        engine.Program(block, each, weights).run([x])
        for each in (schedule, sequential(block))
    )
    return zip(found, expected, strict=True)


def between_slices(conv, shape):
    """A block whose convolutions 0 and 1 write into a concat; 4 reads a part of it."""
    return {
        "version": 1,
        "inputs": [list(shape)],
        "operators": [
            conv,
            {**conv, "filters": 9, "activation": "none"},
            {"type": "concat", "inputs": [0, 1]},
            {"type": "slice", "inputs": [2], "offset": 7, "size": 21},
            {**conv, "inputs": [3], "filters": 33, "activation": "none"},
        ],
        "outputs": [2, 4],
    }


def merged_pair(conv, shape, algorithm):
    """Two convolutions of one tensor, and the schedule that merges them."""
    block = {
        "version": 1,
        "inputs": [list(shape)],
        "operators": [conv, {**conv, "filters": 17}],
        "outputs": [0, 1],
    }
    schedule = {
        "version": 1,
        "stages": [{"strategy": "merge", "groups": [[0, 1]]}],
        "algorithms": {algorithm: [0, 1]},
    }
    return block, schedule
