"""A tiny network in the benchmarks' file format, generated without TensorFlow."""

from benchmarks.network import Network
from ios_tf.native import engine
from ios_tf.scheduler import Problem


def tiny_network() -> Network:
    """Two regions: one with branches like Inception's, and a head."""

    def conv(inputs, filters, kernel, **attributes):
        return {
            "type": "conv2d",
            "inputs": inputs,
            "kernel": [kernel, kernel],
            "filters": filters,
            "bias": True,
            "padding": "SAME",
            "activation": "relu",
            **attributes,
        }

    pool = {"type": "pool", "pool": "avg", "kernel": [3, 3], "padding": "SAME"}
    branches = [
        conv([-1], 8, 3, strides=[2, 2]),
        conv([0], 6, 1),
        conv([0], 4, 1),
        conv([2], 6, 3),
        {**pool, "inputs": [0]},
        conv([4], 4, 1),
        {"type": "concat", "inputs": [1, 3, 5]},
    ]
    head = [
        {"type": "global_pool", "pool": "avg", "inputs": [-1]},
        {"type": "matmul", "inputs": [0], "filters": 5, "bias": True},
        {"type": "softmax", "inputs": [1]},
    ]
    problems, regions = {}, []
    for inputs, operators in (([[1, 17, 13, 3]], branches), ([[1, 9, 7, 16]], head)):
        operators = [
            {"name": f"{operator['type']}_{i}", **operator}
            for i, operator in enumerate(operators)
        ]
        block = {
            "version": 1,
            "inputs": inputs,
            "operators": operators,
            "outputs": [len(operators) - 1],
        }
        alone = Network.of(Problem.from_json(engine.problem(block)))
        problems.update(alone.problems)
        regions += alone.regions
    return Network("models:tiny", problems, regions)
