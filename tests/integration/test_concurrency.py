"""Converted models called from many threads give equal bits without a memory leak."""

import json

import hammer as program
import pytest
import shared
import tensorflow as tf
from commands import run_prepared
from hammer import hammer

pytestmark = pytest.mark.usefixtures("cache")

# Eight shapes stay compiled: with ten, threads compile, use and evict concurrently.
FEW, MANY = (1, 2, 3), tuple(range(1, 11))


@pytest.mark.parametrize(("batch_sizes", "runs"), [(FEW, 2000), (MANY, 400)])
def test_many_threads_get_the_bits_of_one(batch_sizes, runs):
    loaded = tf.saved_model.load(shared.converted_cells())
    function = loaded.signatures["serving_default"]
    result = hammer(function, batch_sizes, threads=24, runs=runs)
    assert result.differing == 0
    # Leaking one arena or one output per run would add over 100 MiB.
    assert result.growth < 50


def test_a_call_that_fails_is_an_error():
    def call(**inputs):
        raise ValueError("no")

    call.structured_input_signature = ((), {})
    with pytest.raises(ValueError, match="no"):
        hammer(call, [1], threads=2, runs=4)


def test_in_a_process_of_its_own():
    arguments = json.dumps([shared.converted_cells(), [1, 2], 4, 40])
    output = run_prepared(program.__file__, arguments).stdout
    result = program.Result(**json.loads(output.splitlines()[-1]))
    assert result.runs == 40
    assert result.differing == 0
    assert 0 < result.loaded <= result.settled <= result.peak
