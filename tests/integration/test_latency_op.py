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
    collected = gh.collect(graph, batch_size=2)
    (problem,) = collected["problems"]
    return json.dumps(problem["block"])


def stage(*groups, strategy="concurrent", **members):
    return {"strategy": strategy, "groups": list(groups), **members}


def measure(program, *stages, algorithms=None, **attributes):
    schedule = {"version": 1, "stages": stages, "algorithms": algorithms or {}}
    return (
        plugin.ops()
        .ios_stage_latency(json.dumps(schedule), program=program, **attributes)
        .latencies.numpy()
    )


@pytest.mark.parametrize("repeat", [1, 4])
def test_latencies_of_a_stage(program, repeat):
    found = measure(program, stage([0], [1], [2]), repeat=repeat)
    assert found.shape == (repeat,)
    assert found.dtype == np.float64
    assert (found > 0).all()


def test_merged_stage_and_whole_schedule(program):
    merge = stage([1, 2], strategy="merge")
    assert (measure(program, merge) > 0).all()
    whole = stage([0]), merge, stage([3])
    assert (measure(program, *whole) > 0).all()
    assert (measure(program, *whole, algorithms={"winograd_4x4": [1, 2]}) > 0).all()
    split = stage([1, 2, 3], strategy="split", micro_batches=2)
    assert (measure(program, stage([0]), split) > 0).all()


def test_more_work_takes_longer(program):
    attributes = {"warmup": 3, "number": 20, "repeat": 5}
    one = np.median(measure(program, stage([0]), **attributes))
    all_three = stage([0]), stage([1]), stage([2])
    assert np.median(measure(program, *all_three, **attributes)) > 1.5 * one


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([stage([9])], "no operator 9"),
        ([stage([0]), stage([0])], "scheduled twice"),
        ([stage([0], [])], "an empty group"),
        ([stage([0], strategy="auto")], '"stages" must be a list'),
        (
            [stage([0], strategy="split", micro_batches=7)],
            "only in a schedule of the whole block",
        ),
        ([stage()], "is empty"),
        ([stage([0], strategy="merge")], "two or more"),
        ([stage([0, 3], strategy="merge")], "cannot be merged"),
        ([stage([0], micro_batches=2)], "cannot have"),
    ],
)
def test_bad_candidates_are_errors(program, stages, message):
    with pytest.raises(tf.errors.OpError, match=message):
        measure(program, *stages)


def test_algorithms_need_a_whole_schedule(program):
    message = "only in a schedule of the whole block"
    with pytest.raises(tf.errors.OpError, match=message):
        measure(program, stage([1]), algorithms={"winograd_4x4": [1]})


def test_a_schedule_is_one_string(program):
    for schedules in (["{}"], [["{}"]], []):
        with pytest.raises((tf.errors.OpError, ValueError, TypeError)):
            plugin.ops().ios_stage_latency(schedules, program=program)
    with pytest.raises(tf.errors.OpError, match="not a JSON object"):
        plugin.ops().ios_stage_latency("{", program=program)


def test_bad_programs_are_errors():
    for program in ("", "{}", "{", '{"version": 99}'):
        with pytest.raises(tf.errors.OpError):
            measure(program, stage([0]))
