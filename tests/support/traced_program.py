"""A small program for tests of traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ios_tf.native import engine

# The first two operators run concurrently. The other two run after them.
OPERATORS = ("left", "right", "sum", "last")
STAGES = (
    {"strategy": "concurrent", "groups": [[0], [1]]},
    {"strategy": "concurrent", "groups": [[2, 3]]},
)


def _convolution(name: str, inputs: list[int], size: int) -> dict:
    return {
        "name": name,
        "type": "conv2d",
        "inputs": inputs,
        "kernel": [size, size],
        "filters": 4,
        "padding": "SAME",
    }


def program(
    stages: Sequence[dict] = STAGES, name: str = "network", device: str = "cpu"
) -> engine.Program:
    block = {
        "version": 1,
        "name": name,
        "inputs": [[1, 12, 12, 4]],
        "operators": [
            _convolution(OPERATORS[0], [-1], 3),
            _convolution(OPERATORS[1], [-1], 1),
            {"name": OPERATORS[2], "type": "add", "inputs": [0, 1]},
            _convolution(OPERATORS[3], [2], 3),
        ],
        "outputs": [3],
    }
    rng = np.random.default_rng(0)
    shapes = [(3, 3, 4, 4), (1, 1, 4, 4), (3, 3, 4, 4)]
    weights = [rng.normal(size=s).astype(np.float32) for s in shapes]
    return engine.Program(
        block, {"version": 1, "stages": list(stages)}, weights, device
    )


def run(one: engine.Program, batch: int = 1) -> None:
    one.run([np.ones((batch, 12, 12, 4), np.float32)])
