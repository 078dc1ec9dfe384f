"""Every activation after every operator that takes one, on numbers of all kinds,
compared with TensorFlow's own kernels."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from activation_cases import CASES, IDS, numbers
from tensorflow_ops import TensorFlowOps

from benchmarks.frameworks import interpreter
from ios_tf.native import engine
from ios_tf.scheduler import Schedule, Stage, Strategy


def block_of(case: dict) -> dict:
    """All operators that take an activation, at rank 2 and 4, dense and not."""
    image, vector, channels = -1, -3, 20
    conv = {"type": "conv2d", "filters": channels, "inputs": [image]} | case
    operators = [
        {"type": "activation", "inputs": [image]} | case,
        {"type": "activation", "inputs": [vector]} | case,
        {"type": "matmul", "filters": 7, "bias": True, "inputs": [vector]} | case,
        {"type": "add", "inputs": [vector, vector]} | case,
        {"type": "scale", "inputs": [vector]} | case,
        {"type": "add", "inputs": [image, -2]} | case,
        {"type": "binary", "inputs": [image, -2]} | case,
        {"type": "scale", "inputs": [image]} | case,
        conv | {"bias": True},
        conv | {"kernel": [3, 3], "padding": "SAME", "filters": 7},
        conv | {"kernel": [3, 3], "padding": "SAME", "groups": channels},
        conv | {"bias": True, "residual": True, "inputs": [image, -2]},
        {"type": "sepconv", "kernel": [3, 3], "filters": 9, "inputs": [image]}
        | {"padding": "SAME", "pre_activation": "relu"}
        | case,
        {"type": "sepconv", "kernel": [3, 3], "filters": 9, "multiplier": 2}
        | {"padding": "SAME", "pre_activation": "relu", "inputs": [image]}
        | case,
    ]
    outputs = list(range(len(operators)))
    # Ranges of channels: operators read and write them, and some are parts of a concat.
    last = len(operators)
    operators += [
        {"type": "scale", "inputs": [image]},
        {"type": "slice", "offset": 3, "size": 16, "inputs": [last]},
        {"type": "activation", "inputs": [last + 1]} | case,
        conv | {"filters": 16},
        {"type": "pool", "pool": "avg", "kernel": [3, 3], "padding": "SAME"}
        | {"inputs": [image]},
        conv | {"filters": 16, "inputs": [last + 4]},
        {"type": "concat", "inputs": [last + 2, last + 3, last + 5]},
        {"type": "concat", "inputs": [last + 1, last]},
        {"type": "activation", "inputs": [last + 7]} | case,
    ]
    outputs += [last + 6, last + 8]
    return {
        "version": 1,
        "inputs": [[2, 5, 6, channels], [2, 5, 6, channels], [23, 11]],
        "operators": operators,
        "outputs": outputs,
    }


def arguments(block: dict) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
    """Weights of the operators, and inputs."""
    random = np.random.default_rng(1)
    weights = [
        [random.normal(0, 0.4, shape).astype(np.float32) for shape in shapes]
        for shapes in engine.problem(block)["weight_shapes"]
    ]
    return weights, [numbers(*s, seed=i) for i, s in enumerate(block["inputs"])]


def run(block: dict, device: str = "cpu") -> list[np.ndarray]:
    weights, inputs = arguments(block)
    stages = (
        Stage(Strategy.CONCURRENT, ((i,),)) for i in range(len(block["operators"]))
    )
    schedule = Schedule(tuple(stages)).json_object()
    flat = list(itertools.chain.from_iterable(weights))
    return engine.Program(block, schedule, flat, device).run(inputs)


def assert_like(found: np.ndarray, expected: np.ndarray, rtol: float, what) -> None:
    np.testing.assert_allclose(found, expected, rtol, atol=rtol, err_msg=str(what))


@pytest.fixture(scope="module")
def linear() -> list[np.ndarray]:
    """Returns the outputs of the block without the tested activation.

    Each output contains NaN, infinite and finite values, at the same positions as
    TensorFlow's output.
    """
    block = block_of({})
    found = run(block)
    expected = interpreter.compute(TensorFlowOps(), block, *arguments(block))
    for output, a, b in zip(block["outputs"], found, expected, strict=True):
        assert_like(a, b, 2e-5, block["operators"][output])
        assert np.isnan(b).any() and np.isinf(b).any() and np.isfinite(b).any()
    return found


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_activation_after_every_operator(case, linear):
    block = block_of(case)
    for output, x, y in zip(block["outputs"], linear, run(block), strict=True):
        expected = interpreter.activate(TensorFlowOps(), case, tf.constant(x))
        assert_like(y, expected.numpy(), 3e-6, block["operators"][output])
