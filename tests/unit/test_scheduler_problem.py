"""Reading a problem from JSON."""

from scheduler_helpers import make_problem

from ios_tf.native import engine
from ios_tf.scheduler import Problem


def test_reads_the_optimizers_json():
    problem = Problem.from_json(make_problem())
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
