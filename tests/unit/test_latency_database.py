"""The latency database: processes that are killed, and processes side by side."""

import collections
import itertools
import json
import logging
import math
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys

import pytest

from ios_tf.cost import (
    CachedCostModel,
    Latency,
    LatencyDatabase,
    Measurement,
    OfflineCostModel,
    known_devices,
)
from ios_tf.cost import open_database as open_or_warn
from ios_tf.scheduler import Problem, Pruning, SearchOptions, Stage, search

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Searches a block, noting every measurement when it begins. With `die`, the process
# kills itself when the measurement of that number has begun ("before"), or when it has
# been kept ("after").
_SEARCH = """
import json, os, signal, sys
from ios_tf.cost import CachedCostModel, LatencyDatabase
from ios_tf.scheduler import UNPRUNED, Problem, SearchOptions, search

path, log, die, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
problem = Problem.from_edges(7, [(0, 2), (1, 2), (2, 5), (3, 5), (4, 6)])


class Model:
    count = 0

    def stage_latency(self, problem, stage):
        self.count += 1
        with open(log, "a") as file:
            file.write(json.dumps([os.getpid(), stage.groups]) + "\\n")
        if self.count == die and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1.0 + sum(map(len, stage.groups)) - 0.1 * len(stage.groups)


database = LatencyDatabase(path, "device")
model = Model()
keep = database.put


def put(*arguments):
    keep(*arguments)
    if model.count == die and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)


database.put = put
result = search(
    problem, CachedCostModel(model, database), SearchOptions("parallel", UNPRUNED)
)
print(json.dumps([result.latency_ms, len(result.schedule.stages), model.count]))
"""


def _start(tmp_path, die=0, when="before"):
    arguments = [str(tmp_path / "db" / "latencies.sqlite"), str(tmp_path / "log")]
    return subprocess.Popen(
        [sys.executable, "-c", _SEARCH, *arguments, str(die), when],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )


def _finish(process):
    output, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(output)


def _measured(tmp_path):
    lines = (tmp_path / "log").read_text().splitlines()
    return collections.Counter(str(json.loads(line)[1]) for line in lines)


def _whole(tmp_path):
    """The result of an undisturbed search, and the stages that it measures."""
    (tmp_path / "whole").mkdir()
    result = _finish(_start(tmp_path / "whole"))
    return result, set(_measured(tmp_path / "whole"))


def _check(tmp_path, known):
    connection = sqlite3.connect(tmp_path / "db" / "latencies.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT COUNT(*) FROM latencies").fetchone() == (known,)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("die", [1, 2, 17])
def test_a_killed_search_resumes(tmp_path, die, when):
    (latency_ms, stages, count), stages_measured = _whole(tmp_path)
    killed = _start(tmp_path, die, when)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    _check(tmp_path, die - 1 if when == "before" else die)
    again = _finish(_start(tmp_path))
    # Only the stage that was being measured is measured again.
    lost = 1 if when == "before" else 0
    assert again == [latency_ms, stages, count - die + lost]
    measured = _measured(tmp_path)
    assert set(measured) == stages_measured
    assert sum(measured.values()) == count + lost
    _check(tmp_path, count)


def test_two_searches_share_the_work(tmp_path):
    (latency_ms, stages, count), stages_measured = _whole(tmp_path)
    both = [_start(tmp_path), _start(tmp_path)]
    results = [_finish(process) for process in both]
    assert [result[:2] for result in results] == [[latency_ms, stages]] * 2
    assert sum(result[2] for result in results) == count
    measured = _measured(tmp_path)
    assert set(measured) == stages_measured
    assert set(measured.values()) == {1}
    _check(tmp_path, count)


def test_remembers_latencies_of_each_device(tmp_path):
    path = str(tmp_path / "latencies.sqlite")
    first = LatencyDatabase(path, "first")
    first.put("stage", Latency(1.5, 0.25, 4))
    first.put("once", Latency(2.5, math.inf, 1))
    first.put("stage", Latency(1.25, 0.125, 8))  # more samples replace fewer
    second = LatencyDatabase(path, "second")
    assert second.get("stage") is None
    again = LatencyDatabase(path, "first")
    assert again.get("stage") == Latency(1.25, 0.125, 8)
    assert again.get("once") == Latency(2.5, math.inf, 1)
    assert (len(again), len(second)) == (2, 0)


def test_an_offline_search_needs_no_device():
    database = LatencyDatabase(None, "device")
    problem = Problem.from_edges(5, [(0, 2), (1, 2), (3, 4)], [[0, 1]])

    class Model:
        def stage_latency(self, problem, stage):
            return 1.0 + 0.5 * max(map(len, stage.groups))

    offline = OfflineCostModel(database)
    with pytest.raises(LookupError, match="too few stages"):
        search(problem, offline)
    with pytest.raises(LookupError, match="was never measured"):
        search(problem, offline, SearchOptions("sequential"))
    online = search(problem, CachedCostModel(Model(), database))
    # With more limits fewer stages are needed: all are known.
    assert search(problem, offline).schedule == online.schedule
    narrow = search(problem, offline, SearchOptions(pruning=Pruning(1, 1)))
    assert (
        narrow.latency_ms
        == search(problem, Model(), SearchOptions(pruning=Pruning(1, 1))).latency_ms
    )
    # Other blocks may hold stages that are known, too.
    chain = Problem.from_edges(2, [(0, 1)])
    assert not offline.knows(chain, Stage.concurrent(chain, 0b11))
    assert offline.knows(chain, Stage.concurrent(chain, 0b01))


class _Model:
    def __init__(self, measurement):
        self.measurement = measurement
        self.asked = 0

    def observe(self, problem, stage, lanes):
        self.asked += 1
        return Latency(float(self.asked), 0.5, self.measurement.repeat)


def test_what_was_measured_with_less_care_is_measured_again():
    database = LatencyDatabase(None, "device")
    problem = Problem.from_edges(1, [])
    stage = Stage.concurrent(problem, 1)
    hasty, careful = Measurement(repeat=1), Measurement(repeat=5, max_spread=0.6)
    for measurement, expected in [(hasty, 1.0), (careful, 1.0), (careful, 1.0)]:
        model = _Model(measurement)
        cached = CachedCostModel(model, database)
        assert cached.stage_latency(problem, stage) == expected
    assert (model.asked, cached.reused) == (0, 1)
    assert database.get(next(_stages(database))).samples == 5


def _stages(database):
    rows = database._connection.execute("SELECT stage FROM latencies")
    return (stage for (stage,) in rows)


def _warning(caplog, path):
    with caplog.at_level(logging.WARNING, "ios_tf"):
        database = open_or_warn(str(path), "device")
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    problem = Problem.from_edges(2, [(0, 1)])
    cached = CachedCostModel(_Model(Measurement(repeat=1)), database)
    search(problem, cached)
    assert cached.measured == len(database) == 3


@pytest.mark.parametrize("kind", ["version", "directory"])
def test_an_unusable_database_is_one_warning(tmp_path, caplog, kind):
    path = tmp_path / "latencies.sqlite"
    if kind == "version":
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 99")
        connection.close()
    else:
        path.mkdir()
    _warning(caplog, path)
    left = {name.removesuffix(".lock") for name in os.listdir(tmp_path)}
    assert left == {"latencies.sqlite"}  # as it is


def test_a_file_that_is_no_database_goes_aside(tmp_path, caplog):
    path = tmp_path / "latencies.sqlite"
    path.write_bytes(b"no database" * 1000)
    _warning(caplog, path)
    assert (tmp_path / "latencies.sqlite.broken").read_bytes().startswith(b"no data")
    assert len(LatencyDatabase(str(path), "device")) == 3


@pytest.mark.parametrize("name", ["latencies.sqlite.lock", "latencies.sqlite"])
def test_what_a_link_points_to_stays_as_it_is(tmp_path, caplog, name):
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    directory = tmp_path / "shared"
    directory.mkdir()
    (directory / name).symlink_to(precious)
    _warning(caplog, directory / "latencies.sqlite")
    assert precious.read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["precious", "shared"]


def test_a_lock_keeps_what_is_in_it(tmp_path):
    lock = tmp_path / "latencies.sqlite.lock"
    lock.write_text("a note")
    LatencyDatabase(str(tmp_path / "latencies.sqlite"), "device").close()
    assert lock.read_text() == "a note"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", ".lock"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "link", "device"])
def test_what_is_no_file_is_one_warning_and_no_wait(tmp_path, caplog, suffix, kind):
    path = tmp_path / f"latencies.sqlite{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nothing")
    if kind == "pipe" and suffix == ".lock":  # locks like a file
        LatencyDatabase(str(tmp_path / "latencies.sqlite"), "device").close()
    else:
        _warning(caplog, tmp_path / "latencies.sqlite")
    assert not (tmp_path / "nothing").exists()
    assert known_devices(str(tmp_path / "latencies.sqlite")) in ([], ["device"])


def test_values_that_are_no_latencies_are_measured_again(tmp_path):
    path = str(tmp_path / "latencies.sqlite")
    problem = Problem.from_edges(2, [(0, 1)])
    search(
        problem,
        CachedCostModel(_Model(Measurement(repeat=1)), LatencyDatabase(path, "d")),
    )
    expected = len(LatencyDatabase(path, "d"))
    columns = itertools.product(("median_ms", "spread", "samples"), ("abc", b"\x00"))
    for column, value in [*columns, ("median_ms", -1.0), ("median_ms", 9e999)]:
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE latencies SET {column} = ?", (value,))
        cached = CachedCostModel(
            _Model(Measurement(repeat=1)), LatencyDatabase(path, "d")
        )
        search(problem, cached)
        assert cached.measured == expected, (column, value)


def test_a_full_disk_is_one_warning_and_the_search_goes_on(tmp_path):
    """A limit on the size of files is met as a full disk is."""
    code = """
import logging, resource, signal, sys
logging.basicConfig(format="%(message)s")
from ios_tf.cost import CachedCostModel, Latency, LatencyDatabase
from ios_tf.scheduler import Problem, search

class Model:
    def stage_latency(self, problem, stage):
        return 1.0 + sum(map(len, stage.groups))

database = LatencyDatabase(sys.argv[1], "device")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
cached = CachedCostModel(Model(), database)
edges = [(i, 8) for i in range(8)]
result = search(Problem.from_edges(9, edges), cached)
print(result.schedule.stages != (), cached.measured)
"""
    path = str(tmp_path / "latencies.sqlite")
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found, measured = done.stdout.split()
    assert (found, int(measured) > 100) == ("True", True)
    assert len(done.stderr.splitlines()) == 1 and path in done.stderr
    database = LatencyDatabase(path, "device")
    assert 0 <= len(database) < int(measured)
    database.put("new", Latency(1.0, 0.1, 3))
    assert database.get("new") == Latency(1.0, 0.1, 3)


def test_a_clock_that_jumps_changes_nothing(tmp_path):
    path = str(tmp_path / "latencies.sqlite")
    for shift in (0, -1e9, 1e12):
        database = LatencyDatabase(path, "device")
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE latencies SET measured_at = ?", (shift,))
        database.put("stage", Latency(2.0, 0.1, 3))
        assert database.get("stage") == Latency(2.0, 0.1, 3)
