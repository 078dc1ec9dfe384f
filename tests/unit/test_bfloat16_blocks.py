"""Random blocks of bfloat16 tensors under random schedules.

All operators are outputs of a block. The expected result of an operator is computed in
float64 from the tensors that the engine gave to it, so that errors do not add up: each
result must be correct up to one rounding, whatever the schedule is.
"""

import numpy as np
import pytest
import tensorflow as tf
from bfloat16_numbers import check, from_bits, to_bits
from instruction_sets import limited_to
from random_blocks import RandomBlock, evaluate, random_schedule
from threads import in_threads

from ios_tf.native import engine


def with_types(block, rng):
    """The block in bfloat16, with inputs of random types and all results as outputs."""
    json = block.json
    types = ["bfloat16", "float32", "float16"]
    chosen = [str(t) for t in rng.choice(types, size=len(json["inputs"]))]
    everything = list(range(len(json["operators"])))
    return {
        **json,
        "dtype": "bfloat16",
        "outputs": everything,
        "input_dtypes": chosen,
        "output_dtypes": ["bfloat16"] * len(everything),
    }


def rounded_weights(block):
    return [from_bits(to_bits(w)) for w in block.weights]


def arrays_of(json, inputs):
    """The inputs as the engine takes them."""
    return [
        to_bits(x) if dtype == "bfloat16" else x.astype(dtype)
        for x, dtype in zip(inputs, json["input_dtypes"], strict=True)
    ]


def half_unit(x):
    return np.ldexp(1.0, np.frexp(x)[1] - 9)


def weight_count(operator):
    counts = {"conv2d": 1 + operator.get("bias", False), "sepconv": 2, "scale": 2}
    return counts.get(operator["type"], 0)


def check_operators(json, weights, inputs, found):
    """Checks each result, given the results of the operators before it."""
    for operator, result in zip(json["operators"], found, strict=True):
        arguments = [
            tf.constant(inputs[-1 - r] if r < 0 else found[r], tf.float64)
            for r in operator["inputs"]
        ]
        count = weight_count(operator)
        own, weights = weights[:count], weights[count:]
        expected = evaluate(operator, arguments, iter(own)).numpy()
        more = 0.0
        if operator["type"] == "sepconv":  # rounds the tensor between its convolutions
            x, depthwise = tf.nn.relu(arguments[0]), np.moveaxis(own[0], 2, 3)
            between = tf.nn.depthwise_conv2d(x, depthwise, [1, 1, 1, 1], "SAME")
            more = half_unit(between.numpy()) @ np.abs(own[1][0, 0])
        check(result, expected, more=more)


def check_random_block(seed, schedules):
    rng = np.random.default_rng(seed)
    block = RandomBlock(rng, operators=int(rng.integers(3, 16)))
    json, weights = with_types(block, rng), rounded_weights(block)
    problem = engine.problem(json)
    for _ in range(schedules):
        program = engine.Program(json, random_schedule(rng, problem), weights)
        for batch in (1, 3):
            inputs = [from_bits(to_bits(x)) for x in block.random_inputs(batch)]
            bits = program.run(arrays_of(json, inputs))
            check_operators(json, weights, inputs, list(map(from_bits, bits)))


@pytest.mark.parametrize("seed", range(20))
def test_every_result_is_correct_up_to_one_rounding(seed):
    check_random_block(seed, schedules=3)


@limited_to("AVX2")
def test_a_processor_without_bfloat16():
    for seed in range(20, 30):
        check_random_block(seed, schedules=1)


def test_callers_at_the_same_time_get_equal_results():
    rng = np.random.default_rng(3)
    block = RandomBlock(rng, operators=12)
    json = {**with_types(block, rng), "outputs": block.outputs}
    json["output_dtypes"] = ["bfloat16"] * len(block.outputs)
    schedule = random_schedule(rng, engine.problem(json))
    program = engine.Program(json, schedule, block.weights)
    cases = [arrays_of(json, block.random_inputs(batch)) for batch in (1, 2, 3, 2)]
    alone = [program.run(arrays) for arrays in cases]

    def call(index):
        for _ in range(20):
            for one, same in zip(program.run(cases[index]), alone[index], strict=True):
                np.testing.assert_array_equal(one, same)

    in_threads(call, range(len(cases)))
