"""The engine uses no more threads than TensorFlow gives its own operators."""

import os

import pytest
import shared
from commands import run_prepared
from quotas import quota_of_one_core

# Both programs (_RUN and _SESSION) run a network on the engine. Then they print the
# engine's number of lanes, and 1 if the engine's device has one core, otherwise 0.
_RUN = """
import os, sys
import tensorflow as tf
{setting}
import ios_tf
from ios_tf.native import engine
function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
((name, spec),) = function.structured_input_signature[1].items()
for batch in (1, 2, 3):
    function(**{{name: tf.ones([batch, *spec.shape[1:]])}})
print(engine.lane_count(), engine.device_fingerprint().count(", 1 cores,"))
"""
_SESSION = """
import os, sys
import tensorflow as tf
import ios_tf
from ios_tf.native import engine
config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
    model = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
    signature = model.signature_def["serving_default"]
    (given,), outputs = signature.inputs.values(), signature.outputs.values()
    sizes = [d.size for d in given.tensor_shape.dim][1:]
    image = [[[[1.0] * sizes[2]] * sizes[1]] * sizes[0]]
    session.run([one.name for one in outputs], {given.name: image})
print(engine.lane_count(), engine.device_fingerprint().count(", 1 cores,"))
"""
_SET = "tf.config.threading.set_intra_op_parallelism_threads({})"


def lanes_of(code, model, **environment):
    output = run_prepared("-c", code, model, **environment).stdout
    return [int(word) for word in output.split()]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core, so that a limit changes nothing")
    monkeypatch.delenv("IOS_TF_NUM_THREADS", raising=False)


def test_tensorflows_limit_holds():
    model = shared.converted_cells()
    assert lanes_of(_RUN.format(setting=_SET.format(1)), model) == [1, 1]


def test_a_session_has_its_own_limit():
    assert lanes_of(_SESSION, shared.converted_cells()) == [1, 1]


@pytest.mark.parametrize("setting", ["", _SET.format(512)])
def test_without_a_limit_all_cores_are_used(setting):
    model = shared.converted_cells()
    cores = len(os.sched_getaffinity(0))
    assert lanes_of(_RUN.format(setting=setting), model) == [cores, 0]


def test_the_environment_variable_overrides_the_limit():
    found = lanes_of(
        _RUN.format(setting=_SET.format(1)),
        shared.converted_cells(),
        IOS_TF_NUM_THREADS="2",
    )
    assert found == [2, 0]


_SEARCH = """
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
import ios_tf
from ios_tf.native import engine
@tf.function(input_signature=[tf.TensorSpec([1, 16, 16, 8])])
def network(x):
    for _ in range(3):
        x = tf.nn.relu(tf.nn.conv2d(x, tf.ones([3, 3, 8, 8]) / 72, 1, "SAME"))
    return x
report = ios_tf.optimize(network).report
print(engine.lane_count(), report.device.count("_1_cores_"))
"""


def test_schedules_are_searched_under_the_limit(tmp_path):
    assert lanes_of(_SEARCH, "", IOS_TF_CACHE=str(tmp_path)) == [1, 1]


def test_a_limit_stays_if_a_quota_is_lifted():
    """With a quota of one core, a limit of one thread still counts as a limit."""
    with quota_of_one_core() as processes:
        code = f"""
open({str(processes)!r}, "w").write("0")
from ios_tf.native import engine
engine.allow_threads(1)
open({str(processes.parent.parent / "cgroup.procs")!r}, "w").write("0")
print(engine.lane_count(), engine.device_fingerprint().count(", 1 cores,"))
"""
        assert lanes_of(code, "") == [1, 1]
