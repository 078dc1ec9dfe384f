"""The op that measures stages of a block on a device."""

import json

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from ios_tf.native import plugin


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    inputs = keras.Input((32, 32, 16))
    parts = [layers.Conv2D(32, k, padding="same")(inputs) for k in (1, 3, 3)]
    model = keras.Model(inputs, layers.Concatenate()(parts))
    graph = gh.freeze(model, (None, 32, 32, 16))
    collected = gh.collect(graph, tmp_path_factory.mktemp("latency"), batch_size=2)
    (problem,) = collected["problems"]
    return json.dumps(problem["block"])


def measure(program, operators, stages, groups, strategies, **attributes):
    return (
        plugin.ops()
        .ios_stage_latency(
            operators=operators,
            stages=stages,
            groups=groups,
            strategies=strategies,
            program=program,
            **attributes,
        )
        .numpy()
    )


@pytest.mark.parametrize("repeat", [1, 4])
def test_latencies_of_a_stage(program, repeat):
    found = measure(program, [0, 1, 2], [0] * 3, [0, 1, 2], [0], repeat=repeat)
    assert found.shape == (repeat,)
    assert found.dtype == np.float64
    assert (found > 0).all()


def test_merged_stage_and_whole_schedule(program):
    assert (measure(program, [1, 2], [0, 0], [0, 0], [1]) > 0).all()
    schedule = [0, 1, 2, 3], [0, 1, 1, 2], [0, 0, 0, 0], [0, 1, 0]
    assert (measure(program, *schedule) > 0).all()
    split = [0, 1, 2, 3], [0, 1, 1, 1], [0, 0, 0, 0], [0, 2]
    assert (measure(program, *split) > 0).all()


def test_more_work_takes_longer(program):
    attributes = {"warmup": 3, "number": 20, "repeat": 5}
    one = np.median(measure(program, [0], [0], [0], [0], **attributes))
    all_three = [0, 1, 2], [0, 1, 2], [0, 0, 0], [0, 0, 0]
    assert np.median(measure(program, *all_three, **attributes)) > 1.5 * one


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([9], [0], [0], [0]), "out of range"),
        (([0], [1], [0], [0]), "out of range"),
        (([0], [0], [1], [0]), "without gaps"),
        (([0], [0], [0], [-1]), "negative"),
        (([0], [0], [0], [7]), "whole block only"),
        (([0, 1], [0], [0], [0]), "vectors of one length"),
        (([0], [0], [0], [0, 0]), "no operators"),
        (([0], [0], [0], [1]), "two or more"),
        (([0, 3], [0, 0], [0, 0], [1]), "cannot be merged"),
    ],
)
def test_bad_candidates_are_errors(program, arguments, message):
    with pytest.raises((tf.errors.OpError, ValueError), match=message):
        measure(program, *arguments)


def test_bad_programs_are_errors():
    for program in ("", "{}", "{", '{"version": 99}'):
        with pytest.raises(tf.errors.OpError):
            measure(program, [0], [0], [0], [0])
