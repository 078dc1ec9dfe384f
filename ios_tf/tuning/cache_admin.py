"""Lists, checks, cleans, packs and unpacks a schedule cache, for `ios_tf cache`.

An entry is one file: a schedule, a pending block, or a temporary file that a process
left when it was killed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from ios_tf.cost.database import clear_latencies
from ios_tf.errors import UserError, first_line
from ios_tf.files import is_special
from ios_tf.native.names import PENDING
from ios_tf.printable import printable
from ios_tf.scheduler import STRATEGIES, Schedule, document
from ios_tf.tables import age, counted, rounded, table
from ios_tf.tuning import cache_files
from ios_tf.tuning.cache import latency_database
from ios_tf.tuning.pending import problem_of
from ios_tf.tuning.settings import DEFAULT_STRATEGY

_PLANS = "plans"  # cuDNN plans, see cc/engine/cuda/cudnn/plan_cache.h
_VERSION = 1
# A temporary file that is older than this many seconds was left by a process that was
# killed.
_STALE_SECONDS = 3600
_MAX_PACKED_BYTES = 256 << 20
# Matches the names of files that this package writes, which begin with a block's
# signature.
_OWN = re.compile(r"[0-9a-f]{64}\.")
# Matches the names that files and directories of a cache may have.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file of a cache.

    Attributes:
      path: the file's path.
      device: fingerprint of the device that the file belongs to.
      kind: "schedule", "pending" or "temporary".
      signature: the block's signature, as in the file's name.
      strategy: strategy of a schedule; empty for a pending block.
      data: the JSON object; empty if there is none.
      problem: what is wrong with the file, in one line; None if the file is valid.
      age_s: seconds since the file was written; None if its filesystem keeps no times.
    """

    path: str
    device: str
    kind: str
    signature: str
    strategy: str
    data: dict[str, Any]
    problem: str | None
    age_s: float | None = None

    @property
    def name(self) -> str:
        """The path below the cache's directory."""
        parts = [self.device, os.path.basename(self.path)]
        return "/".join([PENDING, *parts] if self.kind == PENDING else parts)


def entries(directory: str) -> list[Entry]:
    """All entries of a cache, sorted by device and block.

    Raises:
      UserError: the directory does not exist or cannot be read.
    """
    if not tf.io.gfile.isdir(directory):
        raise UserError(f"{directory}: no such directory")
    found: list[Entry] = []
    try:
        for device in _directories(directory, directory):
            below = os.path.join(directory, device)
            if device == PENDING:
                for waiting in _directories(directory, below):
                    path = os.path.join(below, waiting)
                    found += _entries_of(directory, path, pending=True)
            elif device != _PLANS:
                found += _entries_of(directory, below, pending=False)
    except tf.errors.OpError as error:
        raise UserError(
            f"the schedule cache {directory} cannot be read: {first_line(error)}"
        ) from error
    return sorted(found, key=lambda entry: (entry.kind == PENDING, entry.path))


def list_table(found: Iterable[Entry]) -> str:
    """The entries, one per line, in a table for each device.

    The title of a table says how many blocks are tuned and how many are pending.
    """
    tables = []
    by_device: dict[str, list[Entry]] = {}
    for entry in found:
        by_device.setdefault(entry.device, []).append(entry)
    for device, of_device in by_device.items():
        title = f"{printable(device)}: {_coverage(of_device)}"
        tables.append(f"{title}\n{_table(of_device)}")
    return "\n\n".join(tables)


def _coverage(found: Iterable[Entry]) -> str:
    """The number of blocks with and without a schedule, and the ages of the files."""
    valid = [entry for entry in found if not entry.problem]
    tuned = {entry.signature for entry in valid if entry.kind == "schedule"}
    waiting = {entry.signature for entry in valid if entry.kind == PENDING} - tuned
    text = counted(len(tuned | waiting), "block", "blocks")
    text += f", {len(tuned)} tuned, {len(waiting)} pending"
    ages = [entry.age_s for entry in valid if entry.age_s is not None]
    if ages:
        text += f"; newest entry {age(min(ages))} old, oldest {age(max(ages))}"
    return text


def _table(found: list[Entry]) -> str:
    rows = []
    for entry in found:
        if entry.problem:
            rows.append([entry.signature[:12], "", entry.problem, "", ""])
            continue
        if entry.kind == PENDING:
            block = entry.data["block"]
            operators = len(block["operators"])
            what = f"pending: {counted(operators, 'operator', 'operators')}"
            times = ["", ""]
        else:
            what = counted(len(entry.data["stages"]), "stage", "stages")
            times = [
                rounded(entry.data[k]) if k in entry.data else ""
                for k in ("sequential_ms", "latency_ms")
            ]
        rows.append([entry.signature[:12], entry.strategy, what, *times])
    return table(["block", "strategy", "what", "sequential ms", "scheduled ms"], rows)


def entries_of(directory: str, signature: str) -> list[Entry]:
    """The entries of the blocks whose signature starts with `signature`.

    Raises:
      UserError: no block matches.
    """
    found = [e for e in entries(directory) if e.signature.startswith(signature)]
    if not found:
        raise UserError(
            f"{directory}: no entry starts with {signature!r}. List the entries with: "
            "ios_tf cache list"
        )
    return found


def verify(directory: str) -> list[Entry]:
    """Returns the entries that are not valid, which readers of the cache ignore."""
    return [entry for entry in entries(directory) if entry.problem]


def prune(directory: str, device: str | None = None) -> list[Entry]:
    """Removes useless entries, and returns them.

    Useless entries are those of `verify`, temporary files of processes that were
    killed, and pending blocks that have a schedule by now. Files with other names are
    left alone, because the user may have given a wrong directory.

    Args:
      directory: the cache.
      device: a fingerprint; if given, entries of other devices are removed, too.
    """
    found = entries(directory)
    known = {
        (entry.device, entry.signature)
        for entry in found
        if entry.strategy == DEFAULT_STRATEGY and not entry.problem
    }
    useless = [
        entry
        for entry in found
        if _OWN.match(os.path.basename(entry.path))
        and (
            entry.problem
            or (entry.kind == PENDING and (entry.device, entry.signature) in known)
            or (device is not None and entry.device != device)
        )
    ]
    for entry in useless:
        _remove(entry.path)
    return useless


def clear(directory: str) -> tuple[int, int]:
    """Empties a cache; returns the numbers of entries and latencies that it had.

    Files whose names are not those of entries are left alone.

    Raises:
      UserError: the directory does not exist, or a file cannot be removed.
    """
    found = [e for e in entries(directory) if _OWN.match(os.path.basename(e.path))]
    paths = [entry.path for entry in found]
    plans = os.path.join(directory, _PLANS)
    if tf.io.gfile.isdir(plans):
        paths += tf.io.gfile.glob(os.path.join(plans, "*.json"))
    for path in paths:
        _remove(path)
    latencies = latency_database(directory)
    try:
        return len(paths), clear_latencies(latencies)
    except (OSError, ValueError) as error:
        raise UserError(f"{latencies}: cannot be emptied: {error}") from error


def _remove(path: str) -> None:
    if error := cache_files.remove(path):
        raise UserError(f"{path}: cannot be removed: {first_line(error)}") from error


def export(directory: str, path: str) -> int:
    """Packs the valid entries of a cache into one file; returns their number.

    Raises:
      UserError: the directory does not exist, or the file cannot be written.
    """
    if is_special(path) or tf.io.gfile.isdir(path):
        raise UserError(f"{path} exists and is not a regular file")
    parent = os.path.dirname(path) or "."
    if not tf.io.gfile.isdir(parent):
        raise UserError(f"{path} cannot be written: {parent} is not a directory")
    valid = [entry for entry in entries(directory) if not entry.problem]
    packed = {"version": _VERSION, "entries": {e.name: e.data for e in valid}}
    _write(parent, path, packed)
    return len(valid)


def import_(directory: str, path: str, overwrite: bool = False) -> tuple[int, int]:
    """Unpacks a file that `export` wrote.

    Args:
      directory: the cache; it need not exist.
      path: the file.
      overwrite: whether to replace entries that exist already.

    Returns:
      The number of entries written, and the number of entries that were not written
      because they existed already.

    Raises:
      UserError: `export` did not write the file; nothing is unpacked then.
    """
    try:
        # The file may be anywhere, because the user has named it.
        data = cache_files.read("/", path, _MAX_PACKED_BYTES)
        packed = document.parse(data, path, _MAX_PACKED_BYTES)
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be read: {first_line(error)}") from error
    except ValueError:
        raise UserError(
            f"{path} was not written by `ios_tf cache export`, or is damaged. Export "
            "the cache again, and import the new file"
        ) from None
    if (
        not isinstance(packed, dict)
        or packed.get("version") != _VERSION
        or not isinstance(packed.get("entries"), dict)
    ):
        raise UserError(
            f"{path} was not written by `ios_tf cache export` of this version of "
            "IOS-TF. Export the cache again with this version, and import the new file"
        )
    checked = {}
    for name, data in packed["entries"].items():
        parts = name.split("/")
        pending = parts[0] == PENDING
        if pending:
            parts = parts[1:]
        # A name must not lead out of the cache's directory.
        if len(parts) != 2 or not all(_PLAIN.fullmatch(part) for part in parts):
            raise UserError(
                f"{path} cannot be imported: it contains {name!r}, which is not the "
                "name of a cache entry"
            )
        problem = _check(parts[1], data, pending)
        if problem:
            raise UserError(
                f"{path} cannot be imported, because its entry {name!r} is not valid: "
                f"{problem}"
            )
        checked[os.path.join(directory, *name.split("/"))] = data
    written = 0
    for target, data in checked.items():
        if overwrite or not tf.io.gfile.exists(target):
            _write(directory, target, data)
            written += 1
    return written, len(checked) - written


def _directories(cache: str, directory: str) -> list[str]:
    """Returns the names of subdirectories that are not links out of the cache."""

    def is_one(path: str) -> bool:
        return tf.io.gfile.isdir(path) and cache_files.is_inside(cache, path)

    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    return [name for name in names if is_one(os.path.join(directory, name))]


def _entries_of(directory: str, below: str, pending: bool) -> Iterator[Entry]:
    for name in sorted(tf.io.gfile.listdir(below)):
        path = os.path.join(below, name)
        signature, _, rest = name.partition(".")
        kind = PENDING if pending else "schedule"
        strategy = rest.removesuffix("json").rstrip(".") or DEFAULT_STRATEGY
        data: dict[str, Any] = {}
        age_s = None
        try:
            if modified_ns := tf.io.gfile.stat(path).mtime_nsec:
                age_s = time.time() - modified_ns / 1e9
            if name.endswith(".tmp"):
                kind, problem = "temporary", None
                # abs() is needed because the file's time is in the future if a clock
                # was set back.
                if age_s is None or abs(age_s) > _STALE_SECONDS:
                    problem = "a process that was killed left this temporary file"
            else:
                data = document.parse(cache_files.read(directory, path), "the file")
                problem = _check(name, data, pending)
        except tf.errors.NotFoundError:
            continue
        except (tf.errors.OpError, ValueError) as error:
            problem = first_line(error)
        if kind == "temporary" and not problem:
            continue  # a process is writing the file
        yield Entry(
            path,
            os.path.basename(below),
            kind,
            signature,
            "" if pending else strategy,
            data if isinstance(data, dict) else {},
            problem,
            age_s,
        )


def _check(name: str, data: Any, pending: bool) -> str | None:
    """Returns what is wrong with a file of this name and content, or None."""
    signature, _, rest = name.partition(".")
    strategies = {"json"} if pending else {"json", *(f"{s}.json" for s in STRATEGIES)}
    if rest not in strategies:
        return (
            f"{name!r} is not the name of an entry. Entries are named after the "
            "signature of their block: SIGNATURE.json or, for schedules, "
            "SIGNATURE.STRATEGY.json"
        )
    try:
        if pending:
            found = problem_of(data).signature
        else:
            schedule = Schedule.from_json(data)
            found = schedule.signature
            _check_stages(schedule)
    except ValueError as error:
        return first_line(error)
    if found != signature:
        return f"the file contains block {found[:12]!r}, but its name has another one"
    return None


def _check_stages(schedule: Schedule) -> None:
    # Only the operators are checked here. When the schedule is used, the engine checks
    # it against its block.
    operators = sorted(
        op for stage in schedule.stages for group in stage.groups for op in group
    )
    if not operators or operators != list(range(len(operators))):
        raise ValueError("the stages do not run every operator exactly once")
    for key in ("latency_ms", "sequential_ms"):
        value = schedule.metadata.get(key)
        if value is None or not value > 0:
            raise ValueError(f"{key} must be a positive number, not {value!r}")


def description(entry: Entry) -> str:
    lines = [entry.path]
    if entry.problem:
        return _joined([*lines, f"  ignored: {entry.problem}"])
    if entry.kind == PENDING:
        block = entry.data["block"]
        shapes = " ".join(str(shape) for shape in block["inputs"])
        lines.append(f"  pending, {block.get('dtype', 'float32')}, inputs {shapes}")
        lines += [
            f"  {i}: {op['type']} {op.get('name', '')} of {op['inputs']}"
            for i, op in enumerate(block["operators"])
        ]
        return _joined(lines)
    keys = "strategy", "micro_batches"
    for number, stage in enumerate(entry.data["stages"]):
        groups = " | ".join(" ".join(map(str, group)) for group in stage["groups"])
        how = " ".join(str(stage[key]) for key in keys if key in stage)
        lines.append(f"  stage {number}: {how}: {groups}")
    lines += [
        f"  {key}: {value}"
        for key, value in entry.data.items()
        if key not in ("stages", "version", "signature")
    ]
    return _joined(lines)


def _joined(lines: list[str]) -> str:
    return "\n".join(map(printable, lines))


def _write(directory: str, path: str, data: dict[str, Any]) -> None:
    try:
        cache_files.write(directory, path, json.dumps(data) + "\n")
    except tf.errors.OpError as error:
        raise UserError(f"{path}: cannot be written: {first_line(error)}") from error
