"""Operators of bfloat16 tensors: computed in float32, and rounded once per result.

Expected values are computed in float64 from inputs that are bfloat16 numbers.
"""

import ml_dtypes
import numpy as np
import pytest
from bfloat16_numbers import ACTIVATIONS, SLACK, check, from_bits, numbers, to_bits
from instruction_sets import limited_to

from ios_tf.native import engine

CHANNELS = [1, 3, 15, 16, 17, 33, 64, 70, 130]

BINARY = {
    "multiply": np.multiply,
    "add": np.add,
    "subtract": np.subtract,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "prelu": lambda x, slope: np.where(x > 0, x, x * slope),
}


def run(block, inputs, weights=()):
    """The outputs of a block in float64."""
    groups = [list(range(len(block["operators"])))]
    stage = {"strategy": "concurrent", "groups": groups}
    program = engine.Program(
        {"version": 1, "dtype": "bfloat16", **block},
        {"version": 1, "stages": [stage]},
        [np.asarray(w, np.float32) for w in weights],
    )
    return [from_bits(bits) for bits in program.run([to_bits(x) for x in inputs])]


def run_operator(operator, inputs, weights=()):
    block = {
        "inputs": [list(x.shape) for x in inputs],
        "operators": [{"inputs": [-1 - i for i in range(len(inputs))], **operator}],
        "outputs": [0],
    }
    return run(block, inputs, weights)[0]


def check_operator(operator, inputs, compute, weights=(), slack=SLACK):
    """Checks an operator for dense tensors, and for tensors that are not dense.

    The operator reads ranges of channels of wider tensors, and writes its result into a
    part of a concat.
    """
    expected = np.asarray(compute(*inputs))
    check(run_operator(operator, inputs, weights), expected, slack)
    count = len(inputs)
    wide = [
        np.concatenate([numbers(*x.shape[:-1], 2, seed=7), x, x[..., :1]], -1)
        for x in inputs
    ]
    operators = [
        {"type": "slice", "inputs": [-1 - i], "offset": 2, "size": x.shape[-1]}
        for i, x in enumerate(inputs)
    ]
    operators.append({**operator, "inputs": list(range(count))})
    operators.append({**operator, "inputs": [-1 - count - i for i in range(count)]})
    operators.append({"type": "concat", "inputs": [count + 1, count]})
    block = {
        "inputs": [list(x.shape) for x in (*wide, *inputs)],
        "operators": operators,
        "outputs": [len(operators) - 1],
    }
    (found,) = run(block, [*wide, *inputs], [*weights, *weights])
    check(found, np.concatenate([expected, expected], -1), slack)


def windows(x, kernel, strides, padding, fill):
    """All windows of a pool: [N,OH,OW,C,kh,kw]."""
    (top, bottom), (left, right) = padding
    around = ((0, 0), (top, bottom), (left, right), (0, 0))
    padded = np.pad(x, around, constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2))
    return view[:, :: strides[0], :: strides[1]]


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(channels, activation):
    x, y, z = (numbers(2, 13, 11, channels, seed=seed) for seed in range(3))
    scale, shift = numbers(channels, seed=3) / 3, numbers(channels, seed=4)
    activate = ACTIVATIONS[activation]
    end = {"activation": activation}
    if activation != "none":
        check_operator({"type": "activation", **end}, [x], activate)
    check_operator({"type": "add", **end}, [x, y], lambda a, b: activate(a + b))
    check_operator(
        {"type": "add", **end}, [x, y, z], lambda a, b, c: activate(a + b + c)
    )
    check_operator(
        {"type": "scale", **end},
        [x],
        lambda v: activate(v * scale + shift),
        [scale, shift],
    )


@pytest.mark.parametrize("activation", ["swish", "sigmoid"])
@np.errstate(all="ignore")
def test_activations_of_all_numbers(activation):
    x = from_bits(np.arange(2**16, dtype=np.uint16).reshape(1, 256, 256, 1))
    found = run_operator({"type": "activation", "activation": activation}, [x])
    expected = 1 / (1 + np.exp(-x)) * (x if activation == "swish" else 1)
    # Results below 1e-36 may be rounded to zero.
    check(found, expected, slack=0, more=1e-36, activation=activation)


@pytest.mark.parametrize("channels", [7, 300, 1500])
def test_rows_that_are_longer_than_a_part(channels):
    """Kernels convert 1024 numbers at a time."""
    x, y = (numbers(2, 7, 3, channels, seed=seed) for seed in range(2))
    scale, shift = numbers(channels, seed=3) / 3, numbers(channels, seed=4)
    check_operator({"type": "activation", "activation": "tanh"}, [x], np.tanh)
    check_operator({"type": "add"}, [x, y], np.add)
    check_operator({"type": "scale"}, [x], lambda v: v * scale + shift, [scale, shift])
    check_operator({"type": "binary", "function": "multiply"}, [x, y], np.multiply)
    check_operator(
        {"type": "binary", "function": "subtract"}, [x, y[:1, :1, :1]], np.subtract
    )


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize(
    "operand", [(2, 9, 7, True), (2, 1, 1, True), (1, 1, 1, True), (2, 9, 7, False)]
)
def test_binary_functions(channels, function, operand):
    *image, every_channel = operand
    x = numbers(2, 9, 7, channels)
    y = numbers(*image, channels if every_channel else 1, seed=1)
    compute = BINARY[function]
    operator = {"type": "binary", "function": function}
    check_operator(operator, [x, y], compute)
    check_operator(
        {**operator, "activation": "tanh"},
        [y, x],
        lambda a, b: np.tanh(compute(a, b)),
    )


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("function", ["multiply", "subtract"])
@pytest.mark.parametrize("swapped", [False, True])
def test_constants_keep_their_precision(channels, function, swapped):
    """A constant operand is float32."""
    x, compute = numbers(2, 9, 7, channels), BINARY[function]
    rng = np.random.default_rng(channels)
    for shape in [(1, 1, 1, channels), (1, 9, 7, channels), (1, 1, 1, 1)]:
        constant = rng.normal(size=shape).astype(np.float32)
        operator = {"type": "binary", "function": function, "swapped": swapped}
        check_operator(
            {**operator, "operand": list(shape)},
            [x],
            lambda v, c=constant: compute(c, v) if swapped else compute(v, c),
            [constant],
        )


@pytest.mark.parametrize("channels", CHANNELS)
def test_operators_that_read_the_inputs_of_a_concat(channels):
    x, y = numbers(2, 9, 7, channels), numbers(2, 9, 7, 5, seed=1)
    z = numbers(2, 9, 7, channels + 5, seed=2)
    concat = {"type": "concat", "inputs": [-1, -2]}
    block = {"inputs": [list(v.shape) for v in (x, y, z)], "outputs": [1]}
    tanh = {"type": "activation", "inputs": [0], "activation": "tanh"}
    (found,) = run({**block, "operators": [concat, tanh]}, [x, y, z])
    check(found, np.tanh(np.concatenate([x, y], -1)))
    add = {"type": "add", "inputs": [0, -3], "activation": "relu"}
    (found,) = run({**block, "operators": [concat, add]}, [x, y, z])
    check(found, np.maximum(np.concatenate([x, y], -1) + z, 0))


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("pool", ["max", "avg"])
@pytest.mark.parametrize(
    ("kernel", "strides", "padding"),
    [
        ((3, 3), (2, 2), ((0, 1), (0, 1))),
        ((3, 3), (1, 1), ((1, 1), (1, 1))),
        ((2, 2), (2, 2), ((0, 0), (0, 0))),
        ((5, 1), (1, 3), ((2, 2), (0, 0))),
    ],
)
@pytest.mark.parametrize("activation", ["none", "relu", "tanh"])
def test_pools(channels, pool, kernel, strides, padding, activation):
    x = numbers(2, 8, 10, channels)
    operator = {"type": "pool", "pool": pool, "kernel": kernel, "strides": strides}
    same = any(sum(pads) for pads in padding)
    operator |= {"padding": "SAME" if same else "VALID", "activation": activation}
    activate = ACTIVATIONS[activation]

    def compute(x):
        cells = windows(x, kernel, strides, padding, np.nan)
        function = np.nanmax if pool == "max" else np.nanmean
        return activate(function(cells, axis=(-1, -2)))

    exact = pool == "max" and activation != "tanh"
    check_operator(operator, [x], compute, slack=0 if exact else SLACK)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("pads_zeros", [False, True])
def test_max_pools_with_explicit_padding(channels, pads_zeros):
    x = -np.abs(numbers(2, 6, 5, channels))
    operator = {"type": "pool", "pool": "max", "kernel": [3, 3], "strides": [2, 1]}
    operator |= {"padding": [2, 1, 0, 1], "pads_zeros": pads_zeros}
    fill = 0 if pads_zeros else -np.inf
    check_operator(
        operator,
        [x],
        lambda v: windows(v, (3, 3), (2, 1), ((2, 1), (0, 1)), fill).max((-1, -2)),
        slack=0,
    )


def test_max_pools_ignore_nan():
    """The result is the lowest bfloat16 number if no other number is in the window."""
    x = numbers(1, 4, 6, 40)
    x[0, 1, 1], x[0, 2, 3, ::2] = np.nan, -np.nan
    x[0, :2, 4:] = np.nan
    x[0, 2:, 4:] = -np.inf
    x[0, 3, 0] = np.inf
    operator = {"type": "pool", "pool": "max", "kernel": [2, 2], "strides": [2, 2]}
    found = run_operator({**operator, "padding": "VALID"}, [x])
    lowest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).min)
    cells = windows(x, (2, 2), (2, 2), ((0, 0), (0, 0)), 0)
    expected = np.where(np.isnan(cells), lowest, cells).max((-1, -2))
    np.testing.assert_array_equal(found, np.maximum(expected, lowest))
    assert np.isinf(found[0, 1, 0]).all() and (found[0, :, 2] == lowest).all()


def test_max_pools_of_images_without_pixels():
    operator = {"type": "pool", "pool": "max", "kernel": [2, 2], "padding": [1] * 4}
    operator |= {"activation": "relu6"}
    found = run_operator(operator, [np.zeros((1, 0, 2, 17))])
    np.testing.assert_array_equal(found, np.zeros((1, 1, 3, 17)))


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("image", [(1, 1), (3, 5), (13, 10)])
@pytest.mark.parametrize(
    ("pool", "compute"), [("max", np.max), ("avg", np.mean), ("sum", np.sum)]
)
def test_global_pools(channels, image, pool, compute):
    x = numbers(2, *image, channels)
    x[0, -1, -1, 0] = np.nan
    operator = {"type": "global_pool", "pool": pool, "keep_dims": True}
    check_operator(
        operator, [x], lambda v: compute(v, axis=(1, 2), keepdims=True), slack=2e-5
    )


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(
    ("pool", "compute"), [("max", np.max), ("avg", np.mean), ("sum", np.sum)]
)
def test_reductions(channels, pool, compute):
    x = numbers(2, 9, 7, channels)
    x[1, 2, 3, -1] = np.nan
    check_operator(
        {"type": "reduce", "pool": pool},
        [x],
        lambda v: compute(v, axis=-1, keepdims=True),
        slack=2e-5,
    )


@pytest.mark.parametrize("channels", CHANNELS)
def test_copies(channels):
    """Operators that only move numbers are exact."""
    x = numbers(2, 4, 6, 4 * channels)
    x[0, 1, 2, 0], x[1, 0, 0, -1], x[1, 1, 1, 1] = np.nan, np.inf, -np.inf
    size = {"offset": 1, "size": 2 * channels}
    check_operator(
        {"type": "slice", **size}, [x], lambda v: v[..., 1 : 1 + 2 * channels], slack=0
    )
    check_operator(
        {"type": "pad", "padding": [1, 0, 2, 1], "pad_value": 1.5}
        | {"channel_padding": [3, 1]},
        [x],
        lambda v: np.pad(v, ((0, 0), (1, 0), (2, 1), (3, 1)), constant_values=1.5),
        slack=0,
    )
    check_operator(
        {"type": "pad", "padding": [1, 2, 0, 1], "pad_mode": "reflect"},
        [x],
        lambda v: np.pad(v, ((0, 0), (1, 2), (0, 1), (0, 0)), "reflect"),
        slack=0,
    )
    check_operator(
        {"type": "channel_shuffle", "groups": 4},
        [x],
        lambda v: v.reshape(2, 4, 6, 4, channels).swapaxes(3, 4).reshape(v.shape),
        slack=0,
    )
    check_operator(
        {"type": "depth_to_space", "block_size": 2},
        [x],
        lambda v: (
            v.reshape(2, 4, 6, 2, 2, channels)
            .transpose(0, 1, 3, 2, 4, 5)
            .reshape(2, 8, 12, channels)
        ),
        slack=0,
    )
    check_operator(
        {"type": "space_to_depth", "block_size": 2},
        [x],
        lambda v: (
            v.reshape(2, 2, 2, 3, 2, 4 * channels)
            .transpose(0, 1, 3, 2, 4, 5)
            .reshape(2, 2, 3, 16 * channels)
        ),
        slack=0,
    )
    check_operator(
        {"type": "resize", "interpolation": "nearest", "factors": [2, 3]},
        [x],
        lambda v: v.repeat(2, 1).repeat(3, 2),
        slack=0,
    )


@pytest.mark.parametrize("channels", CHANNELS)
def test_bilinear_resize(channels):
    def doubled(v, axis):
        """Each number twice, and the mean of the second and the next number."""
        following = np.delete(v, 0, axis)
        following = np.concatenate([following, v.take([-1], axis)], axis)
        return np.insert(v, range(1, v.shape[axis] + 1), (v + following) / 2, axis)

    check_operator(
        {"type": "resize", "interpolation": "bilinear", "factors": [2, 2]},
        [numbers(2, 5, 4, channels)],
        lambda v: doubled(doubled(v, 1), 2),
    )


@pytest.mark.parametrize("channels", CHANNELS)
def test_normalizations(channels):
    x = numbers(2, 9, 6, channels)
    scale, shift = numbers(channels, seed=3) / 3, numbers(channels, seed=4)

    def softmax(v):
        powers = np.exp(v - v.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def normalized(axes):
        def compute(v):
            v = v - v.mean(axes, keepdims=True)
            v = v / np.sqrt((v**2).mean(axes, keepdims=True) + 1e-3)
            return v * scale + shift

        return compute

    def responses(v):
        squares = np.pad(v**2, ((0, 0), (0, 0), (0, 0), (2, 2)))
        sums = sum(squares[..., i : i + channels] for i in range(5))
        return v * (1 + 0.3 * sums) ** -0.5

    check_operator({"type": "softmax"}, [x], softmax)
    norm = {"type": "normalize", "epsilon": 1e-3}
    check_operator(norm, [x], normalized((-1,)), [scale, shift], slack=2e-5)
    check_operator(
        {**norm, "whole_images": True, "groups": 1},
        [x],
        normalized((1, 2, 3)),
        [scale, shift],
        slack=2e-5,
    )
    check_operator(
        {"type": "lrn", "depth_radius": 2, "normalization": [1, 0.3, 0.5]},
        [x],
        responses,
    )


@pytest.mark.parametrize("channels", [5, 33, 64])
def test_nan_and_infinity(channels):
    x, y = numbers(1, 5, 4, channels), numbers(1, 5, 4, channels, seed=1)
    x[0, 0, 0], x[0, 0, 1], x[0, 0, 2] = np.nan, np.inf, -np.inf
    y[0, 0, :3, ::2] = -np.inf
    x[0, 1] = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    y[0, 1, 0] = x[0, 1, 0]
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    with np.errstate(invalid="ignore"):
        total = x + y
    total[total > largest * (1 + 2**-9)] = np.inf  # the sum rounds to infinity
    check(run_operator({"type": "add"}, [x, y]), total)
    relu = {"activation": "relu"}
    check(run_operator({"type": "add", **relu}, [x, y]), np.maximum(total, 0))
    check(run_operator({"type": "activation", **relu}, [x]), np.maximum(x, 0))
    average = {"type": "pool", "pool": "avg", "kernel": [1, 1], "padding": "VALID"}
    check(run_operator(average, [x]), x)


def test_nan_with_all_bits_set():
    """Rounding must not carry into the sign of a NaN."""
    bits = np.full((1, 2, 2, 40), 0xFFFF, np.uint16)
    bits[..., ::2] = 0x7FFF
    block = {"version": 1, "dtype": "bfloat16", "inputs": [[1, 2, 2, 40]]}
    operator = {"type": "activation", "inputs": [-1], "activation": "relu6"}
    stages = [{"strategy": "concurrent", "groups": [[0]]}]
    program = engine.Program(
        {**block, "operators": [operator], "outputs": [0]},
        {"version": 1, "stages": stages},
        [],
    )
    assert np.isnan(from_bits(program.run([bits])[0])).all()


@limited_to("AVX512_CORE", "AVX2", "SSE41")
def test_other_instruction_sets():
    same = ((1, 1), (1, 1))
    for n in (1, 3, 16, 33, 130):
        test_activations(n, "relu")
        test_activations(n, "swish")
        test_binary_functions(n, "multiply", (2, 1, 1, True))
        test_constants_keep_their_precision(n, "subtract", True)
        for pool in ("max", "avg"):
            test_pools(n, pool, (3, 3), (1, 1), same, "relu")
        test_max_pools_with_explicit_padding(n, True)
        test_global_pools(n, (13, 10), "avg", np.mean)
        test_global_pools(n, (13, 10), "max", np.max)
        test_reductions(n, "sum", np.sum)
        test_copies(n)
        test_bilinear_resize(n)
        test_normalizations(n)
        test_nan_and_infinity(n)
    test_max_pools_ignore_nan()
    test_nan_with_all_bits_set()
