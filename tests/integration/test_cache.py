"""The schedule cache: entries that it returns, and entries that it must ignore."""

import dataclasses
import json
import logging
import os

import pytest
import tensorflow as tf

from ios_tf.native import engine
from ios_tf.reasons import Reason
from ios_tf.scheduler import Problem, Pruning, Schedule, sequential_schedule
from ios_tf.tuning import cache_files
from ios_tf.tuning.cache import ScheduleCache, default_directory
from ios_tf.tuning.parts import Patterns
from ios_tf.tuning.settings import SearchSettings

SETTINGS = SearchSettings()


@pytest.fixture
def problem() -> Problem:
    block = {
        "version": 1,
        "name": "two",
        "inputs": [[1, 8, 8, 4]],
        "operators": [
            {"name": "a", "type": "conv2d", "inputs": [-1], "filters": 4},
            {"name": "b", "type": "conv2d", "inputs": [0], "filters": 4},
        ],
        "outputs": [1],
    }
    return Problem.from_json(engine.problem(block))


@pytest.fixture
def schedule(problem) -> Schedule:
    found = sequential_schedule(problem)
    metadata = {"latency_ms": 1.5, "sequential_ms": 2.5}
    return Schedule(found.stages, found.signature, metadata)


@pytest.fixture
def cache(tmp_path) -> ScheduleCache:
    return ScheduleCache(str(tmp_path / "cache"), "device")


def test_gives_back_what_was_put(cache, problem, schedule):
    assert cache.get(problem, SETTINGS) is None
    cache.put(schedule, SETTINGS)
    found = cache.get(problem, SETTINGS)
    assert found.stages == schedule.stages
    assert found.metadata["latency_ms"] == 1.5
    name = os.path.basename(cache.path(problem.signature, "auto"))
    assert os.listdir(os.path.dirname(cache.path("x", "auto"))) == [name]
    assert name == f"{problem.signature}.json"


def test_other_settings_are_other_schedules(cache, problem, schedule):
    cache.put(schedule, SETTINGS)
    for others in (
        SearchSettings("merge"),
        SearchSettings(pruning=Pruning(max_groups=2)),
        SearchSettings(patterns=Patterns(units=("a",))),
        SearchSettings(algorithms=("gemm",)),
    ):
        assert cache.get(problem, others) is None


def _without(key):
    return lambda data: data.pop(key)


BROKEN = {
    "version": lambda data: data.update(version=2),
    "signature": lambda data: data.update(signature="cd" * 32),
    "missing operator": lambda data: data.update(stages=data["stages"][:1]),
    "order": lambda data: data.update(stages=data["stages"][::-1]),
    "no stages": _without("stages"),
    "no latency": _without("latency_ms"),
    "no sequential latency": _without("sequential_ms"),
    "wrong latency": lambda data: data.update(latency_ms="fast"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_schedule_is_ignored_with_one_warning(
    cache, problem, schedule, caplog, name
):
    cache.put(schedule, SETTINGS)
    path = cache.path(problem.signature, "auto")
    with open(path) as file:
        data = json.load(file)
    BROKEN[name](data)
    with open(path, "w") as file:
        json.dump(data, file)
    with caplog.at_level(logging.WARNING):
        assert cache.get(problem, SETTINGS) is None
    (record,) = caplog.records
    assert path in record.getMessage()
    assert record.getMessage().endswith(f"[{Reason.CACHE_FILE_IGNORED.code}]")
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b"null"])
def test_a_file_that_is_no_schedule_is_ignored(
    cache, problem, schedule, caplog, content
):
    cache.put(schedule, SETTINGS)
    path = cache.path(problem.signature, "auto")
    with open(path, "wb") as file:
        file.write(content)
    with caplog.at_level(logging.WARNING):
        assert cache.get(problem, SETTINGS) is None
    (record,) = caplog.records
    assert path in record.getMessage()


def test_a_cache_that_cannot_be_written_is_a_warning(
    tmp_path, problem, schedule, caplog
):
    (tmp_path / "file").write_text("")
    cache = ScheduleCache(str(tmp_path / "file"), "device")
    other = dataclasses.replace(schedule, signature="1" * 64)
    with caplog.at_level(logging.WARNING):
        cache.put(schedule, SETTINGS)
        cache.put(other, SETTINGS)  # fails for the same reason, so no second warning
        assert len(caplog.records) == 1
        assert cache.get(problem, SETTINGS) is None
    message = caplog.records[0].getMessage()
    assert str(tmp_path / "file") in message
    assert message.endswith(f"[{Reason.CACHE_NOT_WRITTEN.code}]")


def test_a_cache_that_cannot_be_read_is_a_warning(cache, problem, caplog, monkeypatch):
    def fail(*arguments):
        raise tf.errors.UnavailableError(None, None, "the network is down")

    monkeypatch.setattr(cache_files, "read", fail)
    for _ in range(2):
        assert cache.get(problem, SETTINGS) is None
    (record,) = caplog.records
    assert "the network is down" in record.getMessage()


def test_default_directory(monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", "/somewhere")
    assert default_directory() == "/somewhere"
    monkeypatch.delenv("IOS_TF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_directory() == "/caches/ios_tf"
    monkeypatch.setenv("HOME", "/home/one")
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert default_directory() == "/home/one/.cache/ios_tf"
