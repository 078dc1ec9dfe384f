"""The latency database: every measurement ever made, one a line of one file.

A line is written as soon as it is measured, so a search that is killed loses no more
than the measurement it was making. Processes that share a database measure in turn -
measurements at the same time would disturb each other - and each looks again before
it measures: none repeats what another one did.

Whoever may write into the directory may write anything into the file. So it has no
definitions that could run, nothing beside it that would be played back, and is not
mapped into memory: a line has one form, and what has another is ignored.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import math
import os
import re
import stat
import time
import urllib.parse
import weakref
from collections.abc import Iterator

from ios_tf.cost.samples import Latency

_logger = logging.getLogger("ios_tf")
# Begins each line. Lines of other versions may be in the same file.
_VERSION = 1
# Some 400,000 latencies.
_MAX_BYTES = 64 << 20
# Of a line that somebody is writing, or was when it was killed.
_BEGINNINGS = (b"%d" % _VERSION, b"%d " % _VERSION)
# Version, device, SHA-256 of the stage key, median ms, spread, samples, seconds since
# 1970.
_LINE = re.compile(
    rb"^%d ([A-Za-z0-9_.~%%-]{1,300}) ([0-9a-f]{64}) ([0-9.e+-]{1,24}) "
    rb"([0-9.e+-]{1,24}|inf) ([0-9]{1,9}) [0-9]{1,20}$" % _VERSION,
    re.MULTILINE,
)
# For the lock while nobody writes a latency: far more than a measurement takes.
_PATIENCE_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.01
_OPEN = os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LatencyDatabase:
    """The latencies of one device. Not for use by several threads."""

    def __init__(self, path: str | None, device: str) -> None:
        """Opens or makes a database.

        Args:
          path: of the file; None is in memory, for this process alone.
          device: fingerprint of the device.

        Raises:
          OSError: it cannot be opened.
          ValueError: it is no file of ours.
        """
        self._path = path
        self._device = _quoted(device)
        self._latencies: dict[str, Latency] = {}
        self._file: int | None = None
        self._whole = 0  # where the lines end that have been read
        self._size = 0  # of the file, when it was read
        self._lockable = True
        self._locked = False
        self._warned = False
        if path:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = _open(path)
            # Open for as long as this is used: what its name leads to later, and
            # whether the directory is still there, changes nothing.
            self._close = weakref.finalize(self, _closed, self._file)
            ignored = self._read(self._file)
            if ignored:
                _logger.warning(
                    "the latency database %s has %d lines that are no latencies; they "
                    "are ignored",
                    path,
                    ignored,
                )

    def get(self, stage: str) -> Latency | None:
        """The latency of the stage with this key, if it is known."""
        if self._file is not None:
            try:
                self._read(self._file)
            except (OSError, ValueError) as error:
                self._warn(error)
        return self._latencies.get(_hash(stage))

    def put(self, stage: str, latency: Latency) -> None:
        """Keeps a latency; in the file when the call returns.

        A file that takes no more, on a full disk say, is one warning.
        """
        key = _hash(stage)
        self._latencies[key] = latency
        if self._file is None:
            return
        words = (
            _VERSION,
            self._device,
            key,
            float(latency.median_ms),
            float(latency.spread),
            latency.samples,
            int(abs(time.time())),
        )
        with self.measuring():
            try:
                self._append(self._file, " ".join(map(str, words)) + "\n")
            except (OSError, ValueError) as error:
                self._warn(error)

    def forget(self) -> None:
        """Nothing is known afterwards but what is measured from now on."""
        self._latencies.clear()

    def __len__(self) -> int:
        """How many latencies of the device are known."""
        return len(self._latencies)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """While the block runs, no other process measures with this database.

        The kernel gives the lock back when a process ends, however it ends. Where
        there are no locks, or somebody keeps it who measures nothing, processes
        measure at the same time, after one warning.
        """
        if self._file is None or self._locked:
            yield
            return
        if self._lockable:
            try:
                self._lock(self._file)
            except OSError as error:
                self._lockable = False
                self._warn(error)
        self._locked = True
        try:
            yield
        finally:
            self._locked = False
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _lock(self, file: int) -> None:
        """Waits as long as those who have the lock write latencies.

        Whoever may read the file may have its lock, for ever.
        """
        size, since = -1, 0.0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
            now, written = time.monotonic(), os.fstat(file).st_size
            if written != size:
                size, since = written, now
            elif now - since > _PATIENCE_SECONDS:
                raise OSError(
                    errno.EWOULDBLOCK,
                    f"another process has kept its lock for {_PATIENCE_SECONDS:.0f} "
                    "seconds without measuring anything",
                )
            time.sleep(_LOOK_AGAIN_SECONDS)

    def close(self) -> None:
        """Nothing is known or kept afterwards but in memory.

        Some filesystems say only now that they have not kept what was written.
        """
        if self._file is not None:
            error = self._close()
            self._file = None
            if error:
                self._warn(error)

    def _read(self, file: int) -> int:
        """Reads what has been written since; gives how many lines are no latencies."""
        size = os.fstat(file).st_size
        if size == self._size:
            return 0
        self._size = size
        self._whole = min(self._whole, size)  # somebody may have made it shorter
        if size > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        data = os.pread(file, size - self._whole, self._whole)
        # Somebody may be writing the rest.
        end = data.rfind(b"\n") + 1
        data, rest = data[:end], data[end:]
        self._whole += end
        ignored = data.count(b"\n") + (rest[:2] not in (b"", *_BEGINNINGS))
        device = self._device.encode()
        for line in _LINE.finditer(data):
            latency = _latency(line)
            if latency is None:
                continue
            ignored -= 1
            if line[1] == device:
                self._latencies[line[2].decode()] = latency
        return ignored

    def _append(self, file: int, line: str) -> None:
        """Nobody else writes if there are locks."""
        found = os.fstat(file)
        if not found.st_nlink:
            raise ValueError("it has been removed")
        self._read(file)
        # Bytes after the last line are of a process that was killed, or of a disk that
        # was full. Without them the next line is whole.
        data = line.encode()
        if os.fstat(file).st_size > self._whole:
            if self._lockable:
                os.ftruncate(file, self._whole)
            else:
                data = b"\n" + data
        if self._whole + len(data) > _MAX_BYTES:
            raise ValueError(f"it would have more than {_MAX_BYTES} bytes")
        if os.write(file, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            _logger.warning(
                "the latency database %s fails: %s; what is measured now may not be "
                "known later",
                self._path,
                _why(error),
            )
        self._warned = True


def known_devices(path: str) -> list[str]:
    """The fingerprints of the devices in a database; none if there is none."""
    try:
        file = _open(path, may_write=False)
        try:
            size = os.fstat(file).st_size
            data = os.pread(file, size, 0) if size <= _MAX_BYTES else b""
        finally:
            os.close(file)
    except (OSError, ValueError):
        return []
    names = dict.fromkeys(line[1].decode() for line in _LINE.finditer(data))
    return [urllib.parse.unquote(name) for name in names]


def clear_latencies(path: str) -> int:
    """Removes all latencies of a database, if there is one; gives their number.

    Raises:
      OSError: the file cannot be written.
      ValueError: it is no file of ours.
    """
    if not os.path.lexists(path):
        return 0
    file = _open(path)
    try:
        count = len(_LINE.findall(os.pread(file, _MAX_BYTES, 0)))
        os.ftruncate(file, 0)
    finally:
        os.close(file)
    return count


def open_database(
    path: str | None, device: str, fresh: bool = False
) -> LatencyDatabase:
    """A database at `path`, or with one warning one in memory if that cannot be.

    With `fresh` it does not know what the file holds now.
    """
    if path:
        try:
            database = LatencyDatabase(path, device)
            if fresh:
                database.forget()
            return database
        except (OSError, ValueError) as error:
            _logger.warning(
                "the latency database %s cannot be used: %s; what is measured now will "
                "not be known later",
                path,
                _why(error),
            )
    return LatencyDatabase(None, device)


def _closed(file: int) -> OSError | None:
    """Closes a descriptor; gives the error, if there is one."""
    try:
        os.close(file)
    except OSError as error:
        return error
    return None


def _open(path: str, may_write: bool = True) -> int:
    """A descriptor of a regular file that has no other name.

    Whoever may write into the directory could have a link, or another name of the same
    file, lead to what is not theirs.
    """
    with contextlib.suppress(FileNotFoundError):
        _check_plain(os.lstat(path))  # opening a device does things
    if may_write:
        try:
            file = os.open(path, _OPEN | os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            # Others' latencies are of use where none can be kept, too.
            try:
                file = os.open(path, _OPEN | os.O_RDONLY)
            except OSError:
                raise error from None
    else:
        file = os.open(path, _OPEN | os.O_RDONLY)
    try:
        _check_plain(os.fstat(file))
    except ValueError:
        os.close(file)
        raise
    return file


def _check_plain(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_nlink > 1:
        raise ValueError("the file has another name, too")


def _latency(line: re.Match[bytes]) -> Latency | None:
    """Of a line that looks like one; None if its numbers are none."""
    try:
        median_ms, spread, samples = float(line[3]), float(line[4]), int(line[5])
    except ValueError:
        return None
    if not 0 < median_ms < math.inf or not spread >= 0 or samples < 1:
        return None
    return Latency(median_ms, spread, samples)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


def _quoted(device: str) -> str:
    """Without spaces, which separate words."""
    return urllib.parse.quote(device, safe="")


def _hash(stage: str) -> str:
    return hashlib.sha256(stage.encode()).hexdigest()
