"""The schedule cache: one JSON file per block, on any TensorFlow filesystem.

    <directory>/<device>/<block signature>.json               strategy "auto"
    <directory>/<device>/<block signature>.<strategy>.json    other strategies
    <directory>/pending/<device>/<block signature>.json       blocks without a schedule

A block's signature depends on its shapes and precision. Files are written under a
temporary name and then renamed, so that a reader never sees half of a file.
"""

from __future__ import annotations

import json
import logging
import os

import tensorflow as tf

from ios_tf import validation
from ios_tf.errors import UserError, first_line
from ios_tf.native import engine
from ios_tf.native.names import PENDING
from ios_tf.reasons import Decision, Reason
from ios_tf.scheduler import Problem, Schedule
from ios_tf.tuning import cache_files
from ios_tf.tuning.settings import DEFAULT_STRATEGY, SearchSettings

_logger = logging.getLogger("ios_tf")


def default_directory() -> str:
    """$IOS_TF_CACHE, or ios_tf in $XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("IOS_TF_CACHE")
    if named:
        return named
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(caches):  # XDG's specification ignores relative paths
        caches = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "ios_tf")


def directory_of(cache_dir: str | os.PathLike[str] | None) -> str:
    """Returns the directory of the schedule cache; by default `default_directory`.

    Raises:
      UserError: the argument, or else $IOS_TF_CACHE, is not the path of a directory
        that exists or can be created.
    """
    name, named = "cache_dir", os.environ.get("IOS_TF_CACHE")
    if cache_dir:
        named = validation.path(name, cache_dir)
    elif named:
        name = "IOS_TF_CACHE"
    # Removes "file://", so that the path is recognised as local and its links are
    # checked.
    directory = (named or default_directory()).removeprefix("file://")
    file = _file_in_the_way(directory) if named else None
    if file:
        raise UserError(
            f"{name}={directory!r}: {file} is not a directory. Name a directory for "
            "schedules and latencies"
        )
    return directory


def _file_in_the_way(directory: str) -> str | None:
    """Returns a file that exists where a directory or its parent should be, or None."""
    while directory and "://" not in directory:
        if os.path.lexists(directory):
            return None if os.path.isdir(directory) else directory
        directory = os.path.dirname(directory)
    return None


def latency_database(directory: str) -> str:
    """Returns the path of the latency database for a schedule cache.

    The database is a local file, because lines are appended to it. For a remote cache,
    it is in the default directory.
    """
    local = default_directory() if "://" in directory else directory
    return os.path.join(local, "latencies.txt")


def pending_directory(directory: str, device: str) -> str:
    """The directory of pending blocks (cc/tensorflow/cache/schedule_cache.h)."""
    return os.path.join(directory, PENDING, device)


class ScheduleCache:
    """The schedules of one device."""

    def __init__(self, directory: str, device: str, fresh: bool = False) -> None:
        """`directory` need not exist; `device` is a fingerprint.

        With `fresh`, `get` returns only schedules that this object has stored.
        """
        self._fresh = fresh
        self._own: set[str] = set()  # paths that this object has written
        self._root = directory
        self._directory = os.path.join(directory, device)
        self._has_warned = False  # only the first failed read or write is logged

    def path(self, signature: str, strategy: str) -> str:
        """The path of a block's schedule."""
        suffix = "" if strategy == DEFAULT_STRATEGY else f".{strategy}"
        return os.path.join(self._directory, f"{signature}{suffix}.json")

    def get(self, problem: Problem, settings: SearchSettings) -> Schedule | None:
        """Returns the schedule that a search with these settings stored, or None.

        If a file is not a valid schedule for the block, or cannot be read, it is
        ignored with one warning.
        """
        path = self.path(problem.signature, settings.strategy)
        if self._fresh and path not in self._own:
            return None
        try:
            schedule = Schedule.from_json(cache_files.read(self._root, path))
            engine.check_schedule(problem.block, schedule.to_json())
            for key in ("latency_ms", "sequential_ms"):
                if schedule.metadata.get(key, 0) <= 0:
                    raise ValueError(f"{key} is not a positive number")
        except tf.errors.NotFoundError:
            return None
        except (
            tf.errors.FailedPreconditionError,
            ValueError,
            engine.EngineError,
        ) as error:
            text = f"{path} is ignored: {first_line(error)}"
            _logger.warning("%s", Decision(Reason.CACHE_FILE_IGNORED, text))
            return None
        except tf.errors.OpError as error:
            self._warn(f"the file {path} cannot be read", error)
            return None
        wanted = settings.to_json()
        if any(schedule.metadata.get(key) != value for key, value in wanted.items()):
            return None
        return schedule

    def put(self, schedule: Schedule, settings: SearchSettings) -> None:
        """Stores a schedule. If the cache cannot be written, one warning is logged."""
        path = self.path(schedule.signature, settings.strategy)
        data = {**schedule.json_object(), **settings.to_json()}
        try:
            cache_files.write(self._root, path, json.dumps(data) + "\n")
            self._own.add(path)
        except tf.errors.OpError as error:
            self._warn(f"{self._directory} cannot be written", error)

    def _warn(self, what: str, error: Exception) -> None:
        if not self._has_warned:
            text = f"schedule cache: {what} ({first_line(error)})"
            _logger.warning("%s", Decision(Reason.CACHE_NOT_WRITTEN, text))
        self._has_warned = True
