"""An output's error is bounded by the values in its own window."""

import numpy as np
import pytest
from convolution_cases import by_definition, conv_block, random_weights, run, sequential
from instruction_sets import limited_to

from ios_tf.native import engine

# The bound of an output's error, in units of 2**-24 * (the largest magnitude in its
# window) * (the sum of its filter's magnitudes). For a direct convolution, the bound is
# the number of products. The guide states 64 times that number, which is far more than
# this factor.
FACTOR = 24

WINDOWS = [
    *(("winograd_2x2", k) for k in [(3, 3), (5, 5), (1, 3), (5, 1), (1, 7), (7, 1)]),
    *(("winograd_4x4", k) for k in [(3, 3), (1, 3), (3, 1)]),
    ("direct", (3, 3)),
]


def images(shape, rng):
    """Images whose pixels, or channels, have very different magnitudes."""
    normal = rng.normal(size=shape)
    pixels = (*shape[:3], 1)
    columns = np.arange(shape[2])[:, None]
    yield normal
    yield normal * 10.0 ** rng.uniform(-30, 30, shape)
    yield normal * 10.0 ** rng.uniform(-30, 30, pixels)
    yield normal * 10.0 ** rng.uniform(-30, 30, shape[-1:])
    yield normal * 2.0 ** rng.uniform(-6, 6, pixels)
    for step in (15.9, 63, 1e4):
        yield normal * np.where(columns % 13 < 6, 1, step)
    yield normal * (rng.random(pixels) < 0.03)
    yield normal * (rng.random(shape) < 0.01)
    for value in (-9999, 65535, 9.96921e36):
        bright = rng.random(shape)
        bright[:, shape[1] // 2, shape[2] // 2] = bright[:, -1, -1] = value
        yield bright


def window_bound(x, filters, cells):
    """The largest magnitude in each output's window, times the sum of its filter's
    magnitudes. Cells at which the filter is zero do not belong to the window."""
    largest = np.abs(x.astype(np.float64)).max(-1)
    largest = np.pad(largest, ((0, 0), *((c, c) for c in cells)))
    windows = np.lib.stride_tricks.sliding_window_view(
        largest, filters.shape[:2], axis=(1, 2)
    )
    seen = (filters != 0).any(2)
    magnitudes = np.abs(filters.astype(np.float64)).sum((0, 1, 2))
    of_filters = [
        (windows * seen[..., f]).max((-1, -2)) * magnitudes[f]
        for f in range(filters.shape[-1])
    ]
    return np.stack(of_filters, -1)


def check(algorithm, x, weights, block):
    """Asserts the bound for a block of one SAME convolution, with or without bias."""
    cells = [size // 2 for size in weights[0].shape[:2]]
    (found,) = run(block, algorithm, weights, [x])
    exact = by_definition(x, weights[0], None, [(c, c) for c in cells], None)
    bound = window_bound(x, weights[0], cells)
    bias = weights[1] if len(weights) > 1 else np.float32(0)
    error = np.abs(found.astype(np.float64) - (exact + bias))
    rounded = 2.0**-24 * (np.abs(exact) + np.abs(bias))  # from adding the bias
    assert (error <= FACTOR * 2.0**-24 * bound + rounded).all()
    nothing = bound == 0
    assert (found[nothing] == np.broadcast_to(bias, found.shape)[nothing]).all()
    return nothing.any()


@pytest.mark.parametrize("channels", [8, 17, 64])
@pytest.mark.parametrize(("algorithm", "kernel"), WINDOWS)
def test_errors_are_those_of_the_window(algorithm, kernel, channels):
    rng = np.random.default_rng(channels)
    shape = (1, 23, 26, channels)
    block = conv_block(shape, 20, kernel=list(kernel), bias=channels == 17)
    weights = random_weights(block, rng)
    empty = [
        check(algorithm, x.astype(np.float32), weights, block)
        for x in images(shape, rng)
    ]
    assert any(empty)  # some windows contain only zeros


@pytest.mark.parametrize(
    ("algorithm", "kernel", "limit"),
    [
        ("direct", (5, 5), 6e-6),
        ("winograd_2x2", (5, 5), 7e-6),
        ("winograd_2x2", (1, 7), 7e-6),
        ("winograd_4x4", (3, 3), 9e-6),
    ],
)
def test_errors_relative_to_the_largest_value(algorithm, kernel, limit):
    """Errors are within the limits in the guide, for normal numbers and 512
    channels."""
    rng = np.random.default_rng(5)
    shape = (1, 14, 15, 512)
    block = conv_block(shape, 32, kernel=list(kernel))
    weights = random_weights(block, rng)
    x = rng.normal(size=shape).astype(np.float32)
    (found,) = run(block, algorithm, weights, [x])
    padding = [[size // 2] * 2 for size in kernel]
    exact = by_definition(x, weights[0], None, padding, None)
    assert np.abs(found - exact).max() < limit * np.abs(exact).max()


@pytest.mark.parametrize("algorithm", ["winograd_2x2", "winograd_4x4"])
@pytest.mark.parametrize(
    "factors",
    [
        [[[1, 1, 1], [1, 1, 0], [0, 0, 0]]],  # PixelCNN's filter: no pixels below
        [  # 1x3, 3x1 and 1x1, merged
            [[0, 0, 0], [1, 1, 1], [0, 0, 0]],
            [[0, 1, 0], [0, 1, 0], [0, 1, 0]],
            [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
        ],
        [[[1, 0, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 1]]],
        [[[0, 0, 0]] * 3, [[1, 1, 1]] * 3],
    ],
)
def test_cells_at_which_a_filter_is_zero_are_outside(algorithm, factors):
    rng = np.random.default_rng(1)
    shape = (1, 15, 14, 16)
    block = conv_block(shape, 24)
    (filters,) = random_weights(block, rng)
    for f in range(24):
        filters[..., f] *= np.array(factors[f % len(factors)])[:, :, None]
    for x in images(shape, rng):
        check(algorithm, x.astype(np.float32), [filters], block)


@pytest.mark.parametrize("algorithm", ["winograd_2x2", "winograd_4x4"])
@pytest.mark.parametrize(
    ("shape", "padding"), [((2, 21, 22, 16), "SAME"), ((1, 10, 9, 24), "VALID")]
)
def test_tiles_computed_by_the_definition_have_all_that_follows(
    algorithm, shape, padding
):
    """Bias, residual and activation are applied at borders and in every image too."""
    rng = np.random.default_rng(2)
    for activation in ("none", "relu", "relu6", "elu"):
        attributes = {"padding": padding, "bias": True, "activation": activation}
        block = conv_block(shape, 33, residual=True, **attributes)
        weights = random_weights(block, rng)
        x, residual = (rng.normal(size=s).astype(np.float32) for s in block["inputs"])
        x *= rng.random((*shape[:3], 1)) < 0.1
        found, expected = (
            run(block, a, weights, [x, residual])[0] for a in (algorithm, "direct")
        )
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize(("algorithm", "kernel"), WINDOWS[:-1])
def test_all_tiles_of_ordinary_images_are_transformed(algorithm, kernel):
    """Every tile is transformed, at the borders too.

    Two more filters without a common cell force all tiles to be computed by the
    definition, which rounds differently.
    """
    rng = np.random.default_rng(3)
    for side in (1, 7, 8, 17, 30):  # the last tile of a row may have only some outputs
        shape = (1, side, side, 64)
        x = np.maximum(rng.normal(size=shape), 0).astype(np.float32)
        block = conv_block(shape, 64, kernel=list(kernel))
        more = conv_block(shape, 66, kernel=list(kernel))
        (filters,) = random_weights(more, rng)
        filters[..., 64:] = 0
        filters[0, 0, :, 64] = filters[-1, -1, :, 65] = 1
        (found,) = run(block, algorithm, [filters[..., :64].copy()], [x])
        (by_the_definition,) = run(more, algorithm, [filters], [x])
        assert (found != by_the_definition[..., :64]).any(-1).all()


CONV = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 16}
POINTWISE = {"type": "conv2d", "kernel": [1, 1], "filters": 16}
DEPTHWISE = {**CONV, "groups": 16}
# For each case: operators, the distance in pixels over which an input affects outputs,
# and the algorithms of the schedule.
LOCAL = {
    "conv2d": ([CONV], 1, {}),
    "gemm": ([POINTWISE], 0, {"gemm": [0]}),
    "depthwise": ([DEPTHWISE], 1, {}),
    "rows": ([DEPTHWISE], 1, {"rows": [0]}),
    "rows_of_products": ([POINTWISE, DEPTHWISE], 1, {"rows": [1]}),
    "sepconv": ([{**CONV, "type": "sepconv"}], 1, {}),
    "average": ([{"type": "pool", "kernel": [3, 3], "pool": "avg"}], 1, {}),
    "maximum": ([{"type": "pool", "kernel": [3, 3], "pool": "max"}], 1, {}),
    "lrn": ([{"type": "lrn", "depth_radius": 2, "normalization": [1, 1, 0.5]}], 0, {}),
    "normalize": ([{"type": "normalize"}], 0, {}),
    "softmax": ([{"type": "softmax"}], 0, {}),
    "resize": (
        [{"type": "resize", "output_size": [13, 14], "interpolation": "bilinear"}],
        1,
        {},
    ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_nothing_else_shares_rounding_between_pixels(name):
    """The bits of an output do not depend on pixels outside of its window."""
    operators, reach, algorithms = LOCAL[name]
    shape = (1, 13, 14, 16)
    block = {
        "version": 1,
        "inputs": [list(shape)],
        "operators": [
            {"padding": "SAME"} | op | {"inputs": [i - 1]}
            for i, op in enumerate(operators)
        ],
        "outputs": [len(operators) - 1],
    }
    rng = np.random.default_rng(4)
    schedule = {**sequential(block), "algorithms": algorithms}
    program = engine.Program(block, schedule, random_weights(block, rng))
    x = rng.random(shape).astype(np.float32)
    (expected,) = program.run([x])
    far = np.ones(expected.shape[1:3], bool)
    far[6 - reach : 7 + reach, 6 - reach : 7 + reach] = False
    for value in (-9999, 65535, 9.96921e36):
        x[0, 6, 6] = value
        (found,) = program.run([x])
        assert not np.array_equal(found, expected)
        np.testing.assert_array_equal(found[0, far], expected[0, far])


@limited_to("SSE41", "AVX2")
def test_other_instruction_sets():
    for algorithm, kernel in WINDOWS:
        test_errors_are_those_of_the_window(algorithm, kernel, 17)
    test_tiles_computed_by_the_definition_have_all_that_follows(
        "winograd_4x4", (2, 21, 22, 16), "SAME"
    )
