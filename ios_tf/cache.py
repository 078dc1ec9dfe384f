"""The schedule cache: one JSON file per block, on any TensorFlow filesystem.

    <directory>/<device>/<block signature>.json               strategy "both"
    <directory>/<device>/<block signature>.<strategy>.json    the others

Shapes and precision are part of a block's signature. Files are written under a
temporary name and renamed: a reader sees a whole file or none.
"""

from __future__ import annotations

import json
import logging
import os
import uuid

import tensorflow as tf

from ios_tf.scheduler import Problem, Pruning, Schedule, validate
from ios_tf.source import first_line

_logger = logging.getLogger("ios_tf")
DEFAULT_STRATEGY = "both"


def default_directory() -> str:
    """$IOS_TF_CACHE, or ~/.cache/ios_tf."""
    return os.environ.get("IOS_TF_CACHE") or os.path.join(
        os.path.expanduser("~"), ".cache", "ios_tf"
    )


class ScheduleCache:
    """The schedules of one device."""

    def __init__(self, directory: str, device: str) -> None:
        """`directory` need not exist; `device` is a fingerprint."""
        self._directory = os.path.join(directory, device)

    def path(self, signature: str, strategy: str) -> str:
        """Where the schedule of a block is kept."""
        suffix = "" if strategy == DEFAULT_STRATEGY else f".{strategy}"
        return os.path.join(self._directory, f"{signature}{suffix}.json")

    def get(self, problem: Problem, strategy: str, pruning: Pruning) -> Schedule | None:
        """The schedule of a block found with this strategy and pruning, or None.

        A file that is not such a schedule is ignored with one warning.
        """
        path = self.path(problem.signature, strategy)
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                data = file.read()
        except tf.errors.NotFoundError:
            return None
        except tf.errors.OpError as error:
            _logger.warning("%s is ignored: %s", path, first_line(error))
            return None
        try:
            schedule = Schedule.from_json(data)
            validate(schedule, problem)
            latency_ms = [schedule.metadata[k] for k in ("latency_ms", "sequential_ms")]
            if not all(isinstance(ms, (int, float)) and ms > 0 for ms in latency_ms):
                raise ValueError("its latencies are not positive numbers")
        except KeyError as error:
            _logger.warning("%s is ignored: it has no %s", path, error)
            return None
        except ValueError as error:
            _logger.warning("%s is ignored: %s", path, first_line(error))
            return None
        wanted = (strategy, *_limits(pruning))
        if tuple(schedule.metadata.get(key) for key in _KEYS) != wanted:
            return None
        return schedule

    def put(self, schedule: Schedule, strategy: str, pruning: Pruning) -> None:
        """Keeps a schedule. A cache that cannot be written is one warning."""
        path = self.path(schedule.signature, strategy)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        settings = dict(zip(_KEYS, (strategy, *_limits(pruning)), strict=True))
        data = {**json.loads(schedule.to_json()), **settings}
        try:
            tf.io.gfile.makedirs(self._directory)
            with tf.io.gfile.GFile(temporary, "w") as file:
                file.write(json.dumps(data) + "\n")
            tf.io.gfile.rename(temporary, path, overwrite=True)
        except tf.errors.OpError as error:
            _logger.warning(
                "the schedule cache %s cannot be written: %s",
                self._directory,
                first_line(error),
            )


_KEYS = ("strategy_option", "max_groups", "max_group_size")


def _limits(pruning: Pruning) -> tuple[int, int]:
    # No limit has two spellings.
    return pruning.max_groups or 0, pruning.max_group_size or 0
