"""Operators of bfloat16 tensors access only the memory of their inputs and outputs.

Each array lies beside a page without access: reading or writing over its end would end
the process. The results must equal those of usual arrays.
"""

import numpy as np
from bfloat16_numbers import numbers, to_bits
from guarded_arrays import guarded
from instruction_sets import limited_to

from ios_tf.native import engine

WINDOWS = [([1, 1], [1, 1]), ([3, 3], [1, 1]), ([3, 3], [2, 2]), ([1, 5], [1, 2])]
IMAGES = [(1, 5, 7), (2, 3, 3)]


def operators_of(channels, image):
    """Operators for tensors of this shape, and how many tensors each of them reads."""
    for kernel, strides in WINDOWS:
        window = {"kernel": kernel, "strides": strides, "padding": "SAME"}
        for filters in (1, 17, 48):
            yield {"type": "conv2d", "filters": filters, "bias": True, **window}, 1
        yield {"type": "conv2d", "filters": channels, "groups": channels, **window}, 1
        yield {"type": "sepconv", "filters": 20, **window}, 1
        for pool in ("max", "avg"):
            yield {"type": "pool", "pool": pool, **window}, 1
    yield {"type": "matmul", "filters": 9, "kernel": image[1:]}, 1
    for pool in ("max", "avg"):
        yield {"type": "global_pool", "pool": pool}, 1
        yield {"type": "reduce", "pool": pool}, 1
    for activation in ("relu", "swish", "tanh"):
        yield {"type": "activation", "activation": activation}, 1
    yield {"type": "scale"}, 1
    yield {"type": "add", "activation": "relu"}, 2
    yield {"type": "binary", "function": "multiply"}, 2
    yield {"type": "concat"}, 2
    yield {"type": "slice", "offset": channels // 2, "size": channels // 3 + 1}, 1
    yield {"type": "pad", "padding": [1, 0, 2, 1]}, 1
    yield {"type": "resize", "factors": [2, 2]}, 1
    yield {"type": "lrn", "depth_radius": 2}, 1
    yield {"type": "normalize"}, 1
    yield {"type": "channel_shuffle", "groups": channels}, 1


def check_bounds(channels, is_sliced):
    """Checks all operators. If `is_sliced`, they read only a part of the inputs."""
    for image in IMAGES:
        for operator, count in operators_of(channels, image):
            shape = [*image, channels + 3 * is_sliced]
            references = [-1 - i for i in range(count)]
            operators = []
            if is_sliced:
                last = {"type": "slice", "offset": 3, "size": channels}
                operators = [{**last, "inputs": [ref]} for ref in references]
                references = list(range(count))
            operators.append({**operator, "inputs": references})
            block = {
                "version": 1,
                "dtype": "bfloat16",
                "inputs": [shape] * count,
                "operators": operators,
                "outputs": [len(operators) - 1],
            }
            check_block(block)


def check_block(block):
    shapes = [shape for one in engine.problem(block)["weight_shapes"] for shape in one]
    weights = [numbers(*shape).astype(np.float32) for shape in shapes]
    group = {"strategy": "concurrent", "groups": [list(range(len(block["operators"])))]}
    program = engine.Program(block, {"version": 1, "stages": [group]}, weights)
    inputs = [to_bits(numbers(*x, seed=i)) for i, x in enumerate(block["inputs"])]
    (expected,) = program.run(inputs)
    for at_end in (False, True):
        result = guarded(np.zeros_like(expected), at_end)
        program.bind([guarded(x, at_end) for x in inputs], [result])()
        np.testing.assert_array_equal(result, expected, err_msg=str(block))


@limited_to("DEFAULT", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2", "SSE41")
def test_no_array_is_left():
    for channels in (1, 3, 8, 15, 16, 17, 33):
        check_bounds(channels, is_sliced=False)
        check_bounds(channels, is_sliced=True)
