"""The latency database with processes that are killed and with concurrent processes."""

import collections
import contextlib
import dataclasses
import errno
import fcntl
import json
import logging
import math
import os
import pathlib
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import time

import pytest
from commands import run_python

from benchmarks.offline_cost_model import OfflineCostModel
from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import Measurement, SampledCostModel
from ios_tf.cost.database import LatencyDatabase, clear_latencies
from ios_tf.cost.database import open_database as open_or_warn
from ios_tf.cost.samples import Latency, Sample
from ios_tf.cost.stage_key import stage_key
from ios_tf.reasons import Reason
from ios_tf.scheduler import Problem, Pruning, SearchOptions, Stage, search

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Searches a block and logs every measurement when it starts. With `die`, the process
# kills itself when measurement number `die` has started (when="before") or has been
# stored (when="after").
_SEARCH = """
import json, os, signal, sys
from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import Measurement
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import Latency
from ios_tf.scheduler import UNPRUNED, Problem, SearchOptions, search

path, log, die, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
problem = Problem.from_edges(7, [(0, 2), (1, 2), (2, 5), (3, 5), (4, 6)])


class Model:
    count = 0
    lanes_divide_device = True
    measurement = Measurement(sample_count=1)

    def observe(self, problem, stage, lanes):
        self.count += 1
        with open(log, "a") as file:
            file.write(json.dumps([os.getpid(), stage.groups]) + "\\n")
        if self.count == die and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        ms = 1.0 + sum(map(len, stage.groups)) - 0.1 * len(stage.groups)
        return Latency(ms, 0.0, 1)


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
    arguments = [str(tmp_path / "db" / "latencies.txt"), str(tmp_path / "log")]
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
    lines = (tmp_path / "db" / "latencies.txt").read_text().splitlines()
    assert len({line.split()[2] for line in lines}) == len(lines) == known
    assert (
        len(LatencyDatabase(str(tmp_path / "db" / "latencies.txt"), "device")) == known
    )
    assert os.listdir(tmp_path / "db") == ["latencies.txt"]


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
    path = str(tmp_path / "latencies.txt")
    first = LatencyDatabase(path, "first")
    first.put("stage", Latency(1.5, 0.25, 4))
    first.put("once", Latency(2.5, math.inf, 1))
    first.put("stage", Latency(1.25, 0.125, 8))  # has more samples, so replaces 1.5
    second = LatencyDatabase(path, "second")
    assert second.get("stage") is None
    again = LatencyDatabase(path, "first")
    assert again.get("stage") == Latency(1.25, 0.125, 8)
    assert again.get("once") == Latency(2.5, math.inf, 1)
    assert (len(again), len(second)) == (2, 0)


def test_an_offline_search_needs_no_device():
    database = LatencyDatabase(None, "device")
    problem = Problem.from_edges(5, [(0, 2), (1, 2), (3, 4)], [[0, 1]])

    class Model(SampledCostModel):
        lanes_divide_device = True

        def sample(self, problem, stage, lanes):
            return [Sample(1.0 + 0.5 * max(map(len, stage.groups)))] * 3

    offline = OfflineCostModel(database)
    with pytest.raises(LookupError, match="too few stage latencies"):
        search(problem, offline)
    with pytest.raises(LookupError, match="was never measured"):
        search(problem, offline, SearchOptions("sequential"))
    online = search(problem, CachedCostModel(Model(), database))
    # Tighter limits need fewer stages, so all of their latencies are known.
    assert search(problem, offline).schedule == online.schedule
    narrow = search(problem, offline, SearchOptions(pruning=Pruning(1, 1)))
    assert (
        narrow.latency_ms
        == search(problem, Model(), SearchOptions(pruning=Pruning(1, 1))).latency_ms
    )
    # Another block may contain stages whose latencies are known.
    chain = Problem.from_edges(2, [(0, 1)])
    with pytest.raises(LookupError, match="was never measured"):
        offline.stage_latency(chain, Stage.concurrent(chain, 0b11))
    assert offline.stage_latency(chain, Stage.concurrent(chain, 0b01)) > 0


class _Model:
    lanes_divide_device = True

    def __init__(self, measurement):
        self.measurement = measurement
        self.asked = 0

    def observe(self, problem, stage, lanes):
        self.asked += 1
        return Latency(float(self.asked), 0.5, self.measurement.sample_count)


def test_what_was_measured_with_less_care_is_measured_again():
    database = LatencyDatabase(None, "device")
    problem = Problem.from_edges(1, [])
    stage = Stage.concurrent(problem, 1)
    hasty, careful = (
        Measurement(sample_count=1),
        Measurement(sample_count=5, max_spread=0.6),
    )
    for measurement, expected in [(hasty, 1.0), (careful, 1.0), (careful, 1.0)]:
        model = _Model(measurement)
        cached = CachedCostModel(model, database)
        assert cached.stage_latency(problem, stage) == expected
    assert (model.asked, cached.reused) == (0, 1)
    assert database.get(stage_key(problem, stage, {})).samples == 5


def test_disturbed_latencies_are_not_kept(tmp_path):
    """Disturbed latencies serve one search, and the next search measures again."""
    path = str(tmp_path / "latencies.txt")
    problem = Problem.from_edges(1, [])
    stage = Stage.concurrent(problem, 1)

    class Busy(_Model):
        def observe(self, problem, stage, lanes):
            return dataclasses.replace(
                super().observe(problem, stage, lanes), disturbed=True
            )

    careful = Measurement(sample_count=3, max_spread=0.6)
    busy, calm = Busy(careful), _Model(careful)
    cached = CachedCostModel(busy, LatencyDatabase(path, "device"))
    assert [cached.stage_latency(problem, stage) for _ in range(3)] == [1.0] * 3
    assert (busy.asked, os.path.getsize(path)) == (1, 0)
    again = CachedCostModel(calm, LatencyDatabase(path, "device"))
    assert again.stage_latency(problem, stage) == 1.0
    assert (calm.asked, len(LatencyDatabase(path, "device"))) == (1, 1)


def test_a_fresh_database_does_not_know_what_was_measured_before(tmp_path):
    path = str(tmp_path / "latencies.txt")
    LatencyDatabase(path, "device").put("old", Latency(1.0, 0.0, 3))
    fresh = open_or_warn(path, "device", fresh=True)
    other = LatencyDatabase(path, "device")
    other.put("new", Latency(2.0, 0.0, 3))
    assert fresh.get("old") is None
    assert fresh.get("new") == Latency(2.0, 0.0, 3)
    fresh.put("old", Latency(3.0, 0.0, 3))
    assert other.get("old") == Latency(3.0, 0.0, 3)
    assert clear_latencies(path) == 3
    assert len(LatencyDatabase(path, "device")) == 0
    assert clear_latencies(str(tmp_path / "none")) == 0


def _warning(caplog, path):
    with caplog.at_level(logging.WARNING, "ios_tf"):
        database = open_or_warn(str(path), "device")
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert record.getMessage().endswith(f"[{Reason.LATENCIES_NOT_KEPT.code}]")
    problem = Problem.from_edges(2, [(0, 1)])
    cached = CachedCostModel(_Model(Measurement(sample_count=1)), database)
    search(problem, cached)
    assert cached.measured == len(database) == 3


_KEY = "0" * 64


@pytest.mark.parametrize(
    "content",
    [
        b"no database" * 1000,
        b"no database\n" * 1000,
        b'{"version": 1',
        bytes(100),
        b"SQLite format 3\0" + bytes(8176) + b"\n",
        f"2 device {_KEY} 1.0 0.1 3 17\n".encode(),
        f"1 device {_KEY} 1.0 0.1 3\n".encode(),
        f"1 device {_KEY} 1.0 0.1 3 17 18\n".encode(),
        f"1 device {_KEY} -1.0 0.1 3 17\n".encode(),
        f"1 device {_KEY} 9e999 0.1 3 17\n".encode(),
        f"1 device {_KEY} 0.0 0.1 3 17\n".encode(),
        f"1 device {_KEY} 1.0 -0.1 3 17\n".encode(),
        f"1 device {_KEY} 1.0 nan 3 17\n".encode(),
        f"1 device {_KEY} 1.e.5 0.1 3 17\n".encode(),
        f"1 device {_KEY} 1.0 0.1 0 17\n".encode(),
        f"1 device {_KEY} 1.0 0.1 {'9' * 100} 17\n".encode(),
        f"1 device {'0' * 63} 1.0 0.1 3 17\n".encode(),
        b"\n" * 2_000_000,
    ],
)
def test_lines_that_are_no_latencies_are_one_warning(tmp_path, caplog, content):
    path = tmp_path / "latencies.txt"
    path.write_bytes(content)
    _warning(caplog, path)
    if content.endswith(b"\n"):  # another program may read these lines
        assert path.read_bytes().startswith(content)
    database = LatencyDatabase(str(path), "device")
    database.put("stage", Latency(1.5, 0.25, 4))
    again = LatencyDatabase(str(path), "device")
    assert again.get("stage") == Latency(1.5, 0.25, 4)


def test_what_a_killed_writer_has_begun_costs_one_measurement(tmp_path):
    """If a writer is killed at any byte of its line, the next line is still intact."""
    path = tmp_path / "latencies.txt"
    first = LatencyDatabase(str(path), "device")
    first.put("known", Latency(1.5, 0.25, 4))
    whole = path.read_bytes()
    first.put("torn", Latency(12.5, 0.125, 8))
    line = path.read_bytes()[len(whole) :]
    for end in range(len(line)):
        path.write_bytes(whole + line[:end])
        database = LatencyDatabase(str(path), "device")
        assert (len(database), database.get("torn")) == (1, None)
        database.put("next", Latency(2.5, 0.5, 2))
        again = LatencyDatabase(str(path), "device")
        assert again.get("known") == Latency(1.5, 0.25, 4)
        assert again.get("next") == Latency(2.5, 0.5, 2)
        assert len(path.read_bytes().splitlines()) == 2


def test_who_reads_while_another_writes_sees_whole_lines(tmp_path):
    path = tmp_path / "latencies.txt"
    reader = LatencyDatabase(str(path), "device")
    writer = LatencyDatabase(str(path), "device")
    writer.put("stage", Latency(12.5, 0.125, 8))
    line = path.read_bytes()
    path.write_bytes(b"")
    for end in range(len(line)):
        with open(path, "ab") as file:
            file.write(line[end : end + 1])
        expected = Latency(12.5, 0.125, 8) if end == len(line) - 1 else None
        assert reader.get("stage") == expected


def test_a_journal_beside_the_file_is_not_played_back(tmp_path):
    """A database beside a SQLite journal is used, and the journal is not executed.

    The journal names a file that SQLite would remove after playing the journal back.
    """
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    connection = sqlite3.connect(tmp_path / "latencies.txt")
    connection.executescript("PRAGMA user_version = 1; CREATE TABLE x (a);")
    connection.close()
    name, magic = str(victim).encode(), bytes.fromhex("d9d505f920a163d7")
    journal = (magic + struct.pack(">5I", 0, 0, 2, 512, 4096)).ljust(512, b"\0")
    journal += struct.pack(">I", 0x40000000 // 4096 + 1) + name
    journal += struct.pack(">II", len(name), sum(name)) + magic
    (tmp_path / "latencies.txt-journal").write_bytes(journal)
    database = open_or_warn(str(tmp_path / "latencies.txt"), "device")
    database.put("stage", Latency(1.5, 0.25, 4))
    assert open_or_warn(str(tmp_path / "latencies.txt"), "device").get("stage")
    assert victim.read_text() == "years of work"
    assert (tmp_path / "latencies.txt-journal").read_bytes() == journal


def test_a_file_of_ten_gigabytes_is_not_read(tmp_path, caplog):
    path = tmp_path / "latencies.txt"
    with open(path, "wb") as file:
        file.truncate(10 << 30)  # a sparse file
    _warning(caplog, path)


def test_a_file_that_grows_or_shrinks_meanwhile_is_one_warning(tmp_path, caplog):
    path = tmp_path / "latencies.txt"
    database = LatencyDatabase(str(path), "device")
    database.put("stage", Latency(1.5, 0.25, 4))
    for size in (10 << 30, 20, 11 << 30, 0):
        os.truncate(path, size)
        for name in ("stage", f"stage {size}"):
            database.put(name, Latency(1.5, 0.25, 4))
            assert database.get(name) == Latency(1.5, 0.25, 4)
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert len(LatencyDatabase(str(path), "device")) == 2


@pytest.mark.parametrize("how", ["removed", "link", "directory", "moved"])
def test_a_name_that_leads_elsewhere_meanwhile_is_one_warning(tmp_path, caplog, how):
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    path = tmp_path / "shared" / "latencies.txt"
    database = open_or_warn(str(path), "device")
    if how == "removed":
        shutil.rmtree(path.parent)
    elif how == "link":
        path.unlink()
        path.symlink_to(precious)
    elif how == "directory":
        path.unlink()
        path.mkdir()
    else:
        path.parent.rename(tmp_path / "other")
    for stage in ("one", "two"):
        with database.measuring():
            database.put(stage, Latency(1.0, 0.0, 3))
        assert database.get(stage) == Latency(1.0, 0.0, 3)
    assert len(caplog.records) == (0 if how == "moved" else 1)
    assert precious.read_text() == "years of work"


@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_what_a_link_points_to_stays_as_it_is(tmp_path, caplog, kind):
    precious = tmp_path / "precious"
    precious.write_text("years of work")
    directory = tmp_path / "shared"
    directory.mkdir()
    path = directory / "latencies.txt"
    (path.symlink_to if kind == "link" else path.hardlink_to)(precious)
    _warning(caplog, path)
    assert precious.read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["precious", "shared"]


@pytest.mark.parametrize("kind", ["pipe", "directory", "dangling", "device"])
def test_what_is_no_file_is_one_warning_and_no_wait(tmp_path, caplog, kind):
    path = tmp_path / "latencies.txt"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nothing")
    _warning(caplog, path)
    assert os.listdir(tmp_path) == ["latencies.txt"]


def test_a_database_that_may_only_be_read_is_used(tmp_path, caplog, monkeypatch):
    path = tmp_path / "latencies.txt"
    LatencyDatabase(str(path), "device").put("stage", Latency(1.5, 0.25, 4))
    before = path.read_bytes()
    really = os.open

    def denied(name, flags, *mode):  # because the tests may run as root
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return really(name, flags, *mode)

    monkeypatch.setattr(os, "open", denied)
    database = open_or_warn(str(path), "device")
    assert database.get("stage") == Latency(1.5, 0.25, 4)
    for stage in ("one", "two"):
        with database.measuring():
            database.put(stage, Latency(1.0, 0.0, 3))
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert path.read_bytes() == before


def test_a_full_disk_is_one_warning_and_the_search_goes_on(tmp_path):
    """The search goes on after a single warning.

    A limit on the size of files has the effect of a full disk.
    """
    code = """
import logging, resource, signal, sys
logging.basicConfig(format="%(message)s")
from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import SampledCostModel
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import Sample
from ios_tf.scheduler import Problem, search

class Model(SampledCostModel):
    lanes_divide_device = True

    def sample(self, problem, stage, lanes):
        return [Sample(1.0 + sum(map(len, stage.groups)))] * 3

database = LatencyDatabase(sys.argv[1], "device")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
cached = CachedCostModel(Model(), database)
edges = [(i, 8) for i in range(8)]
result = search(Problem.from_edges(9, edges), cached)
print(result.schedule.stages != (), cached.measured)
"""
    path = str(tmp_path / "latencies.txt")
    done = run_python("-c", code, path)
    found, measured = done.stdout.split()
    assert (found, int(measured) > 100) == ("True", True)
    assert len(done.stderr.splitlines()) == 1 and path in done.stderr
    database = LatencyDatabase(path, "device")
    assert 0 <= len(database) < int(measured)
    database.put("new", Latency(1.0, 0.1, 3))
    assert database.get("new") == Latency(1.0, 0.1, 3)


def test_a_close_that_fails_is_one_warning(tmp_path, caplog):
    database = LatencyDatabase(str(tmp_path / "latencies.txt"), "device")
    database.put("stage", Latency(1.0, 0.0, 3))
    os.close(database._file)  # closing it again fails
    with (
        pytest.raises(RuntimeError, match="disk is full"),
        contextlib.closing(database),
    ):
        raise RuntimeError("the disk is full")
    (record,) = caplog.records
    assert "Bad file descriptor" in record.getMessage()
    assert database.get("stage") == Latency(1.0, 0.0, 3)


def test_who_measures_is_waited_for_and_who_keeps_the_lock_is_not(
    tmp_path, caplog, monkeypatch
):
    path = tmp_path / "latencies.txt"
    writer = LatencyDatabase(str(path), "device")
    writer.put("first", Latency(1.0, 0.0, 3))
    holder = os.open(path, os.O_RDONLY)  # a read lock keeps others from writing
    whole = struct.pack("@hhqqi0q", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(holder, fcntl.F_OFD_SETLK, whole)
    line = path.read_bytes()
    clock = 1000.0

    def sleep(_seconds):
        nonlocal clock
        clock += 50.0
        if clock < 2000.0:
            with path.open("ab") as file:
                file.write(line)

    monkeypatch.setattr("ios_tf.cost.database.time.monotonic", lambda: clock)
    monkeypatch.setattr("ios_tf.cost.database.time.sleep", sleep)
    writer.put("second", Latency(2.0, 0.0, 3))
    assert clock == 2050.0  # more than 60 s after the last line of the other writer
    writer.put("third", Latency(3.0, 0.0, 3))
    assert clock == 2050.0
    (record,) = caplog.records
    assert "kept the file locked for 60 seconds" in record.getMessage()
    os.close(holder)
    reader = LatencyDatabase(str(path), "device")
    assert [reader.get(name) for name in ("second", "third")] == [
        Latency(2.0, 0.0, 3),
        Latency(3.0, 0.0, 3),
    ]


def test_without_locks_nobody_cuts_what_others_have_begun(tmp_path, monkeypatch):
    path = tmp_path / "latencies.txt"

    def no_locks(_file, _operation, _lock):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("ios_tf.file_locks.fcntl.fcntl", no_locks)
    database = LatencyDatabase(str(path), "device")
    database.put("first", Latency(1.0, 0.0, 3))
    with path.open("ab") as file:
        file.write(b"1 dev")
    database.put("second", Latency(2.0, 0.0, 3))
    assert b"1 dev\n1 device " in path.read_bytes()
    reader = LatencyDatabase(str(path), "device")
    assert reader.get("first") and reader.get("second")


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    path = str(tmp_path / "latencies.txt")
    for shift in (0, -1e9, 1e12):
        monkeypatch.setattr(time, "time", lambda shift=shift: shift)
        database = LatencyDatabase(path, "device")
        database.put("stage", Latency(2.0, 0.1, 3))
        again = LatencyDatabase(path, "device")
        assert again.get("stage") == database.get("stage")


def test_machines_measure_at_the_same_time_and_processes_of_one_in_turn(
    tmp_path, monkeypatch
):
    path = str(tmp_path / "latencies.txt")
    first, second, third = (LatencyDatabase(path, "device") for _ in range(3))
    waits = []

    class WaitedError(Exception):
        pass

    def sleep(seconds):
        waits.append(seconds)
        raise WaitedError

    monkeypatch.setattr("ios_tf.cost.database.time.sleep", sleep)
    with first.measuring():
        with pytest.raises(WaitedError), second.measuring():
            pass
        assert len(waits) == 1
        monkeypatch.setattr("ios_tf.cost.database._machine", lambda: 7)
        with third.measuring():
            third.put("of another machine", Latency(2.0, 0.0, 3))
        first.put("of this machine", Latency(1.0, 0.0, 3))
    monkeypatch.undo()
    with second.measuring():
        pass
    assert first.get("of another machine") == Latency(2.0, 0.0, 3)
    assert second.get("of this machine") == Latency(1.0, 0.0, 3)
    assert len(waits) == 1
