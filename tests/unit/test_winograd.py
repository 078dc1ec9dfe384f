"""Winograd convolutions compared with the definition in float64, NaN included."""

import numpy as np
import pytest
from bfloat16_numbers import ACTIVATIONS
from convolution_cases import (
    beside_sequential,
    between_slices,
    by_definition,
    conv_block,
    merged_pair,
    random_weights,
    run,
    sequential,
)

from ios_tf.native import engine

ALGORITHMS = ("winograd_2x2", "winograd_4x4")
# Tolerances for float32, relative to the largest value.
TOLERANCE = {"direct": 2e-6, "winograd_2x2": 3e-6, "winograd_4x4": 5e-6}


@pytest.mark.parametrize("algorithm", ["direct", *ALGORITHMS])
@pytest.mark.parametrize(
    ("shape", "filters", "attributes"),
    [
        ((1, 8, 8, 16), 16, {}),
        ((1, 7, 9, 32), 33, {"bias": True}),
        ((2, 35, 13, 40), 48, {"bias": True, "activation": "relu"}),
        ((1, 5, 5, 1), 1, {}),
        ((3, 6, 11, 3), 70, {"padding": "VALID", "bias": True}),
        ((1, 3, 3, 17), 5, {"padding": "VALID"}),
        ((1, 1, 1, 24), 8, {"bias": True}),
        ((1, 2, 40, 16), 31, {"padding": [2, 0, 1, 3]}),
        ((2, 14, 14, 64), 96, {"residual": True, "activation": "relu"}),
        ((1, 12, 10, 20), 9, {"residual": True, "bias": True}),
        ((1, 12, 10, 20), 9, {"residual": True, "activation": "hard_swish"}),
        ((1, 60, 61, 8), 128, {"bias": True, "activation": "relu6"}),
        ((1, 9, 9, 130), 130, {"bias": True}),
    ],
)
def test_values(algorithm, shape, filters, attributes):
    rng = np.random.default_rng(1)
    block = conv_block(shape, filters, **attributes)
    weights = random_weights(block, rng)
    inputs = [rng.normal(size=s).astype(np.float32) for s in block["inputs"]]
    (found,) = run(block, algorithm, weights, inputs)
    padding = attributes.get("padding", "SAME")
    cells = {"SAME": [1, 1, 1, 1], "VALID": [0, 0, 0, 0]}.get(str(padding), padding)
    expected = by_definition(
        inputs[0],
        weights[0],
        weights[1] if attributes.get("bias") else None,
        (cells[:2], cells[2:]),
        inputs[1] if attributes.get("residual") else None,
    )
    largest = np.abs(expected).max()
    expected = ACTIVATIONS[attributes.get("activation", "none")](expected)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE[algorithm] * largest)


WINDOWS = {
    "winograd_2x2": [(1, 3), (3, 1), (5, 5), (1, 5), (5, 1), (1, 7), (7, 1)],
    "winograd_4x4": [(1, 3), (3, 1)],
}


@pytest.mark.parametrize("shape", [(1, 17, 17, 24), (2, 3, 10, 17), (1, 9, 1, 8)])
@pytest.mark.parametrize(
    ("algorithm", "kernel"), [(a, k) for a, kernels in WINDOWS.items() for k in kernels]
)
def test_other_windows(algorithm, kernel, shape):
    rng = np.random.default_rng(8)
    block = conv_block(shape, 35, kernel=list(kernel), bias=True)
    weights = random_weights(block, rng)
    x = rng.normal(size=shape).astype(np.float32)
    (found,) = run(block, algorithm, weights, [x])
    cells = [[size // 2] * 2 for size in kernel]
    expected = by_definition(x, *weights, cells, None)
    atol = TOLERANCE[algorithm] * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=atol)
    x[0, shape[1] // 2, 0, 1] = np.inf
    (found,) = run(block, algorithm, weights, [x])
    (expected,) = run(block, "direct", weights, [x])
    finite = np.isfinite(expected)
    assert not finite.all()
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], expected[finite], atol=2 * atol)


@pytest.mark.parametrize(
    ("algorithm", "attributes"),
    [
        ("winograd_2x2", {"kernel": [1, 1]}),
        ("winograd_2x2", {"kernel": [3, 5]}),
        ("winograd_2x2", {"kernel": [7, 7]}),
        ("winograd_2x2", {"kernel": [2, 2]}),
        ("winograd_2x2", {"dilations": [2, 2]}),
        ("winograd_2x2", {"strides": [1, 2]}),
        ("winograd_2x2", {"groups": 2}),
        ("winograd_4x4", {"kernel": [5, 5]}),
        ("winograd_4x4", {"kernel": [1, 7]}),
    ],
)
def test_what_cannot_be_computed_so(algorithm, attributes):
    block = conv_block((1, 12, 12, 4), 4, **attributes, algorithm=algorithm)
    with pytest.raises(
        engine.EngineError, match=f"cannot be computed with the algorithm {algorithm}"
    ):
        engine.problem(block)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("activation", ["swish", "elu", "gelu_tanh"])
def test_other_activations_are_those_of_direct_convolutions(algorithm, activation):
    rng = np.random.default_rng(2)
    block = conv_block((1, 11, 11, 24), 40, bias=True, activation=activation)
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    (expected,) = run(block, "direct", weights, [x])
    (found,) = run(block, algorithm, weights, [x])
    np.testing.assert_allclose(found, expected, atol=5e-4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("activation", ["none", "relu", "relu6", "hard_swish", "swish"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_stays_where_it_is(algorithm, activation, value):
    """NaN, infinity and huge values affect only the outputs whose window has them.

    A transform would spread such a value over its tile.
    """
    rng = np.random.default_rng(3)
    block = conv_block((2, 13, 10, 18), 35, bias=True, activation=activation)
    weights = random_weights(block, rng)
    x = rng.normal(size=block["inputs"][0]).astype(np.float32)
    x[0, 4, 4, 3] = x[1, 12, 9, 17] = value
    (expected,) = run(block, "direct", weights, [x])
    (found,) = run(block, algorithm, weights, [x])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    near = np.isfinite(expected) & (np.abs(expected) < 1e6)
    np.testing.assert_allclose(found[near], expected[near], atol=2e-3)


def test_all_images_that_are_not_numbers():
    block = conv_block((1, 20, 20, 16), 16, activation="relu6")
    weights = random_weights(block, np.random.default_rng(4))
    x = np.full(block["inputs"][0], np.nan, np.float32)
    (found,) = run(block, "winograd_4x4", weights, [x])
    assert np.isnan(found).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_tensors_that_are_slices_of_others(algorithm):
    """A convolution may write into a part of a concat and read a part of it."""
    rng = np.random.default_rng(5)
    conv = conv_block((1, 15, 12, 20), 24, bias=True)["operators"][0]
    block = between_slices({**conv, "activation": "relu"}, (1, 15, 12, 20))
    schedule = {**sequential(block), "algorithms": {algorithm: [0, 1, 4]}}
    for a, b in beside_sequential(block, schedule, rng):
        np.testing.assert_allclose(a, b, atol=5e-5 * np.abs(b).max())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_merged_convolutions_keep_what_their_parts_have(algorithm):
    rng = np.random.default_rng(6)
    conv = conv_block((2, 10, 10, 16), 24, bias=True)["operators"][0]
    block, schedule = merged_pair(conv, (2, 10, 10, 16), algorithm)
    for a, b in beside_sequential(block, schedule, rng):
        assert not np.array_equal(a, b)  # not computed directly
        np.testing.assert_allclose(a, b, atol=5e-5 * np.abs(b).max())


@pytest.mark.parametrize(
    ("algorithms", "message"),
    [
        (
            {"winograd_4x4": [1]},
            "operator 1 cannot be computed with the algorithm winograd_4x4",
        ),
        (
            {"winograd_4x4": [2]},
            "operator 2 cannot be computed with the algorithm winograd_4x4",
        ),
        ({"winograd_4x4": [-1]}, "operator -1 cannot be"),
        ({"winograd_4x4": [2**40]}, '"algorithms" must map'),
        ({"winograd_4x4": 0}, '"algorithms" must map'),
        ({"fft": [0]}, "no algorithm 'fft'"),
        ([0], '"algorithms" must map'),
    ],
)
def test_algorithms_that_do_not_fit(algorithms, message):
    conv = conv_block((1, 8, 8, 4), 4)["operators"][0]
    block = {
        "version": 1,
        "inputs": [[1, 8, 8, 4]],
        "operators": [conv, {**conv, "strides": [2, 2]}],
        "outputs": [0, 1],
    }
    weights = random_weights(block, np.random.default_rng(7))
    schedule = {**sequential(block), "algorithms": algorithms}
    with pytest.raises(engine.EngineError, match=message):
        engine.Program(block, schedule, weights)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("padding", ["SAME", "VALID", [0, 1, 2, 0]])
@pytest.mark.parametrize(
    "shape", [(0, 8, 8, 8), (1, 0, 8, 8), (1, 8, 0, 8), (2, 2, 5, 8), (1, 5, 1, 8)]
)
def test_images_with_few_cells_or_none(algorithm, padding, shape):
    """Winograd gives the same result as the direct convolution, or the same error."""

    def result(of):
        try:
            (found,) = run(block, of, weights, [x])
        except engine.EngineError as error:
            return str(error)
        return found

    block = conv_block((1, 8, 8, 8), 12, padding=padding, bias=True)
    rng = np.random.default_rng(9)
    weights = random_weights(block, rng)
    x = rng.normal(size=shape).astype(np.float32)
    expected = result("direct")
    if isinstance(expected, str):
        assert result(algorithm) == expected
    else:
        np.testing.assert_allclose(result(algorithm), expected, atol=1e-5)
