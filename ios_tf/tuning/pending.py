"""Searches blocks one by one and stores their schedules in the cache.

This module is used by `ios_tf tune`, and by processes that search blocks while graphs
are loaded (`enable` with on_miss="search").
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.cost.cost_model import DEFAULT_MEASUREMENT, BlockCostModel, Measurement
from ios_tf.cost.database import open_database
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.errors import UserError, first_line
from ios_tf.fleet.cost_model import FleetCostModel
from ios_tf.fleet.ray_fleet import ray_connection
from ios_tf.native import engine, plugin
from ios_tf.options import TuneOptions, with_options
from ios_tf.reasons import Decision, Reason
from ios_tf.scheduler import (
    PAPER_PRUNING,
    Load,
    Problem,
    Pruning,
    Schedule,
    document,
)
from ios_tf.tables import rounded, table
from ios_tf.tuning import cache_files
from ios_tf.tuning.algorithms import allowed
from ios_tf.tuning.cache import (
    ScheduleCache,
    directory_of,
    latency_database,
    pending_directory,
)
from ios_tf.tuning.claims import Claims
from ios_tf.tuning.progress import Progress
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import DEFAULT_STRATEGY, SearchSettings

_logger = logging.getLogger("ios_tf")
# The number of blocks that a process searches at the same time on a Ray cluster.
_AT_ONCE = 16


class BlockTuner:
    """Searches blocks for one cache and one device. Not thread-safe.

    Blocks are measured through the engine's C API, without TensorFlow ops.

    Attributes:
      fingerprint: the fingerprint of the device.
    """

    def __init__(
        self,
        cache_dir: str,
        device: str,
        pruning: Pruning = PAPER_PRUNING,
        measurement: Measurement = DEFAULT_MEASUREMENT,
        progress: bool = False,
        winograd: bool = True,
        fleet: FleetCostModel | None = None,
    ) -> None:
        """`device` is the engine's name of the device, "cpu" or "gpu".

        If there is a `fleet`, its devices measure.

        Raises:
          UserError: the device does not exist.
        """
        self.fingerprint = _fingerprint(device, fleet)
        self._cache = ScheduleCache(cache_dir, self.fingerprint)
        self._searcher: Searcher[BlockCostModel] = Searcher(
            fleet or ProfiledCostModel(device, measurement),
            SearchSettings(pruning=pruning, algorithms=allowed(device, winograd)),
            self._cache,
            open_database(latency_database(cache_dir), self.fingerprint),
            progress=Progress(progress),
        )

    def tune(self, *problems: Problem) -> dict[str, Schedule]:
        """The schedules of blocks: from the cache, or searched and then stored."""
        names = ", ".join(problem.name or "a block" for problem in problems[:2])
        more = f" and {len(problems) - 2} more" if len(problems) > 2 else ""
        with self._searcher.progress.phase(f"search {names}{more}", measures=True):
            schedules, _ = self._searcher.schedule_all(problems)
        return schedules

    @property
    def progress(self) -> Progress:
        """Shows how far the searches are."""
        return self._searcher.progress

    def knows(self, problem: Problem) -> bool:
        """Returns whether the cache has a file for the block."""
        return tf.io.gfile.exists(self._cache.path(problem.signature, DEFAULT_STRATEGY))


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The result of `tune`.

    Attributes:
      device: the device's fingerprint.
      schedules: (block, schedule) of every pending block, with `latency_ms` and
        `sequential_ms` in the schedule's metadata.
      ignored: files that do not contain a valid block, or whose block cannot be
          searched.
      kept: number of blocks that stay pending, because their schedule could not be
        written.
    """

    device: str
    schedules: tuple[tuple[Problem, Schedule], ...]
    ignored: tuple[str, ...]
    kept: int

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {
            "device": self.device,
            "schedules": [schedule.json_object() for _, schedule in self.schedules],
            "ignored": list(self.ignored),
            "kept": self.kept,
        }

    def table(self) -> str:
        """A table with one line per block."""
        if not self.schedules:
            return f"no blocks are pending for {self.device}"
        rows = [
            [
                problem.name,
                str(Load(problem.batch_size, problem.callers)),
                problem.dtype,
                str(len(problem)),
                str(len(schedule.stages)),
                rounded(schedule.metadata["sequential_ms"]),
                rounded(schedule.metadata["latency_ms"]),
            ]
            for problem, schedule in self.schedules
        ]
        names = ["block", "batch", "dtype", "operators", "stages"]
        return table([*names, "sequential ms", "scheduled ms"], rows)


@with_options(TuneOptions)
def tune(options: TuneOptions) -> Tuned:
    """Searches for schedules of the pending blocks, and stores them in the cache.

    A block is pending if a process has needed its schedule, but the cache had none. A
    pending block has the batch size, precision and device of that process. Blocks of
    other devices stay pending, for machines with these devices. Several processes on
    any machines may call this function for one cache at the same time. One of them
    searches each block, and all return when no block is left.

    Args:
      {options}

    Raises:
      UserError: the device or a named directory does not exist, or an argument is out
        of range.
      NativeLibraryError: the native library is missing.

    Examples:
      >>> tuned = ios_tf.tune()
      >>> len(tuned.schedules)
      0
    """
    directory = directory_of(options.cache_dir)
    if options.cache_dir and not tf.io.gfile.isdir(directory):
        raise UserError(f"{directory}: no such directory")
    measurement = Measurement(options.warmup_runs, options.runs, options.sample_count)
    with contextlib.ExitStack() as stack:
        fleet = None
        if options.ray is not None:
            connection = stack.enter_context(
                ray_connection(
                    options.ray, options.device, options.fingerprint, measurement
                )
            )
            fleet = FleetCostModel(connection, measurement)
            stack.callback(fleet.close)
        fingerprint = _fingerprint(options.device, fleet)
        paths = list(pending_files(directory, fingerprint))
        if not paths:  # the directory need not exist
            return Tuned(fingerprint, (), (), 0)
        tuner = BlockTuner(
            directory,
            options.device,
            Pruning(options.max_group_size, options.max_groups),
            measurement,
            options.progress,
            options.winograd,
            fleet,
        )
        return _tune_files(tuner, directory, paths, _AT_ONCE if fleet else 1)


def _fingerprint(device: str, fleet: FleetCostModel | None) -> str:
    return fleet.fingerprint if fleet else plugin.device_fingerprint(device)


def _tune_files(
    tuner: BlockTuner, directory: str, paths: Sequence[str], at_once: int
) -> Tuned:
    """Searches the blocks of pending files, `at_once` at the same time."""
    tuned, ignored, kept = [], [], 0
    claims = Claims(directory)
    while paths:
        elsewhere: list[str] = []
        for start in range(0, len(paths), at_once):
            with contextlib.ExitStack() as stack:
                mine: list[str] = []
                for path in paths[start : start + at_once]:
                    is_mine = stack.enter_context(claims.claimed(path))
                    (mine if is_mine else elsewhere).append(path)
                problems, invalid = _read_problems(directory, mine)
                schedules, unsearchable = _schedules(tuner, problems)
                ignored += invalid + unsearchable
                for path, schedule in schedules.items():
                    tuned.append((problems[path], schedule))
                    if not tuner.knows(problems[path]):
                        kept += 1
                    elif error := cache_files.remove(path):
                        _warn(
                            Reason.CACHE_NOT_WRITTEN, f"{path} cannot be removed", error
                        )
        paths = elsewhere
        if paths:
            with tuner.progress.phase("wait for searches of other processes"):
                paths = claims.wait(paths)
    return Tuned(tuner.fingerprint, tuple(tuned), tuple(ignored), kept)


def _read_problems(
    directory: str, paths: Iterable[str]
) -> tuple[dict[str, Problem], list[str]]:
    """Returns the blocks of pending files, and the files that are not valid.

    A file that does not exist any more is in neither result, because another process
    has searched its block.
    """
    problems, invalid = {}, []
    for path in paths:
        try:
            problems[path] = read_problem(directory, path)
        except tf.errors.NotFoundError:
            pass
        except (ValueError, tf.errors.OpError) as error:
            _warn(Reason.CACHE_FILE_IGNORED, f"{path} is ignored", error)
            invalid.append(path)
    return problems, invalid


def _schedules(
    tuner: BlockTuner, problems: Mapping[str, Problem]
) -> tuple[dict[str, Schedule], list[str]]:
    """Searches blocks.

    Returns:
      The schedules, and the files of the blocks that cannot be searched.
    """
    if not problems:
        return {}, []
    try:
        found = tuner.tune(*problems.values())
        return {path: found[one.signature] for path, one in problems.items()}, []
    except engine.EngineError as error:
        if len(problems) == 1:
            (path,) = problems
            _warn(Reason.NOT_SEARCHED, f"{path} cannot be searched", error)
            return {}, [path]
    # One of the blocks cannot be searched. To find it, the blocks are tuned one by one.
    # This is fast for blocks that are in the cache by now.
    schedules, ignored = {}, []
    for path, problem in problems.items():
        found, bad = _schedules(tuner, {path: problem})
        schedules.update(found)
        ignored += bad
    return schedules, ignored


def pending_files(cache_dir: str, fingerprint: str) -> Iterator[str]:
    """The files of blocks that wait for `tune` on a device."""
    directory = pending_directory(cache_dir, fingerprint)
    try:
        names = sorted(tf.io.gfile.listdir(directory))
    except tf.errors.OpError:
        return
    for name in names:
        if name.endswith(".json"):
            yield os.path.join(directory, name)


def read_problem(cache_dir: str, path: str) -> Problem:
    """The block in a pending file of a cache.

    Only the block itself is read from the file. The engine computes everything else,
    such as the signature, from the block.

    Raises:
      ValueError: the file does not contain a block, or its name is not the signature
        of the block.
      tf.errors.OpError: the file cannot be read.
    """
    problem = problem_of(cache_files.read(cache_dir, path))
    name = os.path.basename(path).removesuffix(".json")
    if problem.signature != name:
        raise ValueError(
            f"the file is named {name}.json, but the signature of its block is "
            f"{problem.signature}, and the two must be equal. Remove the file"
        )
    return problem


def problem_of(data: str | bytes | Mapping[str, Any]) -> Problem:
    """Returns the problem that the engine computes from a JSON object {"block": …}.

    Raises:
      ValueError: the data does not hold a valid block.
    """
    try:
        if isinstance(data, (str, bytes)):
            data = document.parse(data, "the file")
        if not isinstance(data, Mapping) or not isinstance(data.get("block"), Mapping):
            raise ValueError('the file is not a JSON object with a member "block"')
        return Problem.from_json(engine.problem(data["block"]))
    except engine.EngineError as error:
        raise ValueError(first_line(error)) from None


def _warn(reason: Reason, what: str, error: Exception) -> None:
    _logger.warning("%s", Decision(reason, f"{what}: {first_line(error)}"))
