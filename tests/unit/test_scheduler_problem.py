"""Reading a problem from JSON, and the errors for invalid JSON."""

import copy
import json

import pytest
from scheduler_helpers import make_problem

from ios_tf.native import engine
from ios_tf.scheduler import Problem


def test_reads_the_optimizers_json():
    problem = Problem.from_json(json.dumps(make_problem()))
    assert len(problem) == 4
    assert problem.name == "small"
    assert problem.names == ("op0", "op1", "op2", "alone")
    assert problem.inputs == ((-1,), (0,), (1,), (-1,))
    assert problem.predecessors == (0, 0b0001, 0b0010, 0)
    assert problem.successors == (0b0010, 0b0100, 0, 0)
    assert problem.shapes[2] == (1, 8, 8, 16)
    assert problem.flops == (1000,) * 4
    assert problem.merge_classes == (0b1001,)
    assert problem.components(0b1011) == ((0, 1), (3,))
    assert problem.block["operators"][0]["type"] == "conv2d"


def test_an_operator_may_read_one_tensor_twice():
    data = make_problem()
    data["block"]["operators"][1]["inputs"] = [0, 0, -1]
    problem = Problem.from_json(data)
    assert problem.inputs[1] == (0, 0, -1)
    assert problem.predecessors[1] == 1


def _set(path, value):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


_BROKEN = {
    "version": (_set(["version"], 2), "version 2"),
    "no signature": (_set(["signature"], None), "no signature"),
    "no block": (_set(["block"], None), "block must be a JSON object"),
    "empty": (_set(["block", "operators"], []), "'small' has no operators"),
    "operators": (_set(["block", "operators"], {}), "operators must be a list"),
    "operator": (_set(["block", "operators", 1], 3), "operator 1 must be"),
    "cycle": (
        _set(["block", "operators", 0, "inputs"], [2]),
        r"operator 0 \('op0'\) reads operator 2: the graph has a cycle",
    ),
    "self": (_set(["block", "operators", 1, "inputs"], [1]), "has a cycle"),
    "tensor": (_set(["block", "operators", 1, "inputs"], [9]), "tensor 9"),
    "block input": (_set(["block", "operators", 1, "inputs"], [-2]), "tensor -2"),
    "ref type": (_set(["block", "operators", 1, "inputs"], [0.5]), "whole numbers"),
    "output": (_set(["block", "outputs"], [4]), "no operator 4"),
    "input output": (_set(["block", "outputs"], [-1]), "no operator -1"),
    "input shape": (_set(["block", "inputs"], [[-1, 8]]), "has a dimension below 1"),
    "shapes": (_set(["shapes"], [[1]]), "shapes has 1 entries for 4 operators"),
    "shape": (_set(["shapes", 2], [-1, 8, 8, 16]), "has a dimension below 1"),
    "flops": (_set(["flops", 0], "many"), "flops must be whole numbers"),
    "keys": (_set(["operator_keys"], []), "operator_keys has 0 entries"),
    "key": (_set(["operator_keys", 0], 1), "must be a list of strings"),
    "algorithms": (_set(["algorithms"], [[]]), "algorithms has 1 entries"),
    "algorithm": (_set(["algorithms", 0], [1]), "algorithms must be a list of strings"),
    "class range": (_set(["merge_classes"], [[0, 7]]), "no operator 7"),
    "class size": (_set(["merge_classes"], [[0]]), "two or more different"),
    "class twice": (_set(["merge_classes"], [[0, 0]]), "two or more different"),
    "class edge": (
        _set(["merge_classes"], [[0, 1]]),
        "reads another operator of the class",
    ),
}


@pytest.mark.parametrize("change, message", _BROKEN.values(), ids=_BROKEN.keys())
def test_refuses_broken_json_in_one_line(change, message):
    data = copy.deepcopy(make_problem())
    change(data)
    with pytest.raises(ValueError, match=message) as error:
        Problem.from_json(data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_refuses_what_is_no_json_object(text):
    with pytest.raises(ValueError, match="problem"):
        Problem.from_json(text)


@pytest.mark.parametrize(
    "operators, edges, message",
    [
        (0, [], "no operators"),
        (2, [(1, 0)], "cycle"),
        (2, [(0, 0)], "cycle"),
        (2, [(0, 2)], "no operator 2"),
        (2, [(-1, 0)], "no operator -1"),
    ],
)
def test_refuses_broken_graphs(operators, edges, message):
    with pytest.raises(ValueError, match=message):
        Problem.from_edges(operators, edges)


def test_keys_of_operators_contain_the_types_that_a_task_converts():
    convolution = {"type": "conv2d", "padding": "SAME", "kernel": [3, 3], "filters": 4}
    block = {
        "version": 1,
        "dtype": "bfloat16",
        "inputs": [[1, 8, 8, 4]],
        "operators": [{**convolution, "inputs": [i - 1]} for i in range(4)],
        "outputs": [3],
    }
    first, *others = engine.problem(block)["operator_keys"]
    assert others == [first] * 3
    borders = {"input_dtypes": ["float32"], "output_dtypes": ["float32"]}
    keys = engine.problem({**block, **borders})["operator_keys"]
    assert keys[1] == keys[2] == first
    assert len(set(keys)) == 3
