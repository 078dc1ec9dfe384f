"""The least work of operators: their operations and their bytes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ios_tf.native import engine

# Operators that mostly multiply and add. The operations of all other operators are not
# counted, because reading and writing their tensors takes longer.
ARITHMETIC = ("conv2d", "conv2d_transpose", "sepconv", "matmul")
# Operators that move no bytes if their inputs and outputs share memory.
VIEWS = ("concat", "slice")


@dataclasses.dataclass(frozen=True)
class Work:
    """The least work of an operator.

    Attributes:
      flop: floating-point operations of the products, two for a multiply-add; 0 for
        operators without products.
      bytes: size of its inputs, weights and output, each counted once.
    """

    flop: int
    bytes: int


def convolution(kernel: int, filters: int) -> dict[str, Any]:
    """A square convolution that reads the input of its block, as a JSON object."""
    return {
        "type": "conv2d",
        "kernel": [kernel, kernel],
        "filters": filters,
        "padding": "SAME",
        "inputs": [-1],
    }


# The sum of a block's two inputs.
SUM = {"type": "add", "inputs": [-1, -2]}


def block_of(
    operator: Mapping[str, Any], shape: Sequence[int], dtype: str = "float32"
) -> dict[str, Any]:
    """The JSON object of a block of one operator, whose inputs have one shape."""
    return {
        "version": 1,
        "dtype": dtype,
        "inputs": [shape] * len(operator["inputs"]),
        "operators": [operator],
        "outputs": [0],
    }


def work_of(block: Mapping[str, Any]) -> list[Work]:
    """The work of each operator of a block, which is a JSON object."""
    problem = engine.problem(block)
    shapes = problem["shapes"]
    size = element_size(block.get("dtype", "float32"))
    works = []
    for index, operator in enumerate(block["operators"]):
        touched = [
            *(
                shapes[ref] if ref >= 0 else block["inputs"][-1 - ref]
                for ref in dict.fromkeys(operator["inputs"])
            ),
            *problem["weight_shapes"][index],
            shapes[index],
        ]
        flop = problem["flops"][index] if operator["type"] in ARITHMETIC else 0
        works.append(Work(flop, size * sum(map(math.prod, touched))))
    return works


def element_size(dtype: str) -> int:
    """The bytes of an element of a block's tensors."""
    return 4 if dtype == "float32" else 2
