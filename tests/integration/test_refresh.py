"""Running processes use schedules that appear in the cache after they have loaded.

Each process polls ios_tf.status(). IOS_TF_REFRESH_SECONDS is set so that schedules are
read again within a few hundredths of a second.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time

import prepared_python
import pytest
from cache_helpers import DEVICE

import ios_tf
from ios_tf.reasons import Reason
from ios_tf.scheduler import Problem, Schedule, greedy_schedule, sequential_schedule
from ios_tf.tuning import pending
from ios_tf.tuning.cache import ScheduleCache
from ios_tf.tuning.settings import SearchSettings

FAST = {"warmup_runs": 0, "runs": 1, "sample_count": 1}
# A server: argument 1 is the cache. It loads a network of two branches and a chain, and
# then follows the commands in its standard input. It ends when the input ends.
SERVER = """
import json, signal, sys
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import wrap_function
from tensorflow.python.framework import convert_to_constants
import ios_tf

signal.alarm(300)  # ends a process that waits in vain

def network(x):
    filters = tf.random.stateless_normal([3, 3, 16, 16], [1, 2]) / 10
    x = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME"))
    a = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME"))
    b = tf.nn.conv2d(x, filters[:1, :1], 1, "SAME")
    x = a + tf.nn.conv2d(b, filters, 1, "SAME")
    return tf.reduce_mean(tf.nn.softmax(x), [1, 2])

concrete = tf.function(network).get_concrete_function(
    tf.TensorSpec([None, 12, 12, 16]))
frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
function = wrap_function.function_from_graph_def(
    frozen.graph.as_graph_def(),
    [t.name for t in frozen.inputs], [t.name for t in frozen.outputs])
images = [tf.random.stateless_normal([n, 12, 12, 16], [3, n]) for n in (1, 2)]
expected = [network(x).numpy() for x in images]

def call():
    for x, result in zip(images, expected):
        np.testing.assert_allclose(function(x)[0].numpy(), result, atol=1e-5)

def until(condition):
    while not condition(ios_tf.status()):
        call()

def picked_up(status):
    return status.counts["schedules_picked_up"]

def say(**values):
    print(json.dumps(values), flush=True)

def describe():
    status = ios_tf.status()
    say(regions=[vars(region) for region in status.regions], counts=dict(status.counts),
        text=str(status), pending=status.pending)

ios_tf.enable(cache_dir=sys.argv[1])
call()
describe()
for line in sys.stdin:
    exec(line)
"""


class Server:
    """A process that serves a network with the schedules of a cache."""

    def __init__(self, cache: str) -> None:
        self._process = subprocess.Popen(
            [prepared_python.path(), "-c", SERVER, cache],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TF_CPP_MIN_LOG_LEVEL": "1",
                "IOS_TF_REFRESH_SECONDS": "0.02",
            },
        )

    def answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(self._process.communicate()[1])
        return json.loads(line)

    def run(self, command: str) -> dict:
        """Runs a command; gives the server's description of its state."""
        self._process.stdin.write(f"{command}; describe()\n")
        self._process.stdin.flush()
        return self.answer()

    def end(self) -> list[str]:
        """Ends the server; gives the lines of IOS-TF in its standard error."""
        _, errors = self._process.communicate()
        assert self._process.returncode == 0, errors
        return [line for line in errors.splitlines() if "ios_tf: " in line]


def put(cache: str, schedule: Schedule) -> None:
    times = {"latency_ms": 1.0, "sequential_ms": 1.0}
    ScheduleCache(cache, DEVICE).put(
        dataclasses.replace(schedule, metadata=times), SearchSettings()
    )


def other_schedule(problem: Problem, schedule: Schedule) -> Schedule:
    """A schedule with other stages than `schedule`."""
    sequential = sequential_schedule(problem)
    if len(schedule.stages) < len(sequential.stages):
        return sequential
    return greedy_schedule(problem)


def test_a_running_server_uses_new_schedules(cache, tmp_path):
    server = Server(cache)
    loaded = server.answer()
    (region,) = loaded["regions"]
    assert region["waits"]
    assert region["blocks"] == region["missing"] == loaded["pending"] > 0
    assert region["age_s"] is None
    assert loaded["counts"]["blocks_missed"] == 1
    assert loaded["counts"]["regions"] == 0
    assert "1 region waits for a schedule" in loaded["text"]

    tuned = ios_tf.tune(cache, **FAST)
    assert len(tuned.schedules) == loaded["pending"]
    refreshed = server.run("until(lambda s: not s.regions[0].missing)")
    (region,) = refreshed["regions"]
    assert not region["waits"]
    assert region["missing"] == refreshed["pending"] == 0
    assert refreshed["counts"]["blocks_missed"] == 0
    assert region["picked_up"] == refreshed["counts"]["schedules_picked_up"] > 0
    # A virtual machine's clock may be set while the test runs.
    assert abs(region["age_s"]) < 60

    # A schedule of one block is replaced by another one, which is an hour old.
    problem, schedule = max(tuned.schedules, key=lambda entry: len(entry[0]))
    put(str(tmp_path), other_schedule(problem, schedule))
    name = os.path.join(DEVICE, f"{problem.signature}.json")
    hour_ago = time.time() - 3600
    os.utime(tmp_path / name, (hour_ago, hour_ago))
    os.replace(tmp_path / name, os.path.join(cache, name))
    replaced = server.run(f"until(lambda s: picked_up(s) > {region['picked_up']})")
    assert replaced["regions"][0]["picked_up"] == region["picked_up"] + 1
    assert replaced["regions"][0]["age_s"] == pytest.approx(3600, abs=60)
    assert replaced["counts"]["warnings"] == 0
    assert server.end() == []


def test_a_damaged_file_is_ignored_with_one_warning(cache):
    server = Server(cache)
    server.answer()
    problems = [
        pending.read_problem(cache, path)
        for path in pending.pending_files(cache, DEVICE)
    ]
    damaged, good = problems
    directory = os.path.join(cache, DEVICE)
    os.makedirs(directory)
    path = os.path.join(directory, f"{damaged.signature}.json")
    with open(path, "w") as file:
        file.write('{"version": 1, "stages": [')
    server.run("until(lambda s: s.counts['warnings'] == 1)")
    # The file is damaged in another way, so the region reads it again.
    with open(path, "w") as file:
        file.write("[]")
    put(cache, sequential_schedule(good))
    state = server.run("until(lambda s: s.regions[0].missing < 2)")
    assert state["regions"][0]["waits"] == (len(damaged) > 1)  # a chain runs at once
    assert state["counts"]["warnings"] == 1
    put(cache, sequential_schedule(damaged))
    state = server.run("until(lambda s: not s.regions[0].missing)")
    assert not state["regions"][0]["waits"]
    (line,) = server.end()
    assert path in line
    assert line.endswith(f"[{Reason.CACHE_FILE_IGNORED.code}]")
