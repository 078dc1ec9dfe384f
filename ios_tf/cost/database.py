"""The latency database: one file with one line per measurement.

A line is written as soon as it is measured, so that a search that is killed loses only
the measurement in progress. Processes of one machine that share a database measure in
turn, because simultaneous measurements would disturb each other. Processes of different
machines measure at the same time, and write in turn. Each process reads the file again
before it measures, so that it does not repeat measurements of other processes.

Another user who may write into the directory may write anything into the file. So the
file is plain text instead of the file of a database library: nothing in it is executed,
it has no journal, and it is not mapped into memory. A line has one valid form; all
other lines are ignored.
"""

from __future__ import annotations

import contextlib
import errno
import functools
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

from ios_tf import file_locks
from ios_tf.cost.samples import Latency
from ios_tf.reasons import Decision, Reason

_logger = logging.getLogger("ios_tf")
# The version of the format of a line. Each line begins with its version, and a file may
# contain lines of several versions.
_VERSION = 1
# The largest size of a file that is read, enough for about 400,000 latencies.
_MAX_BYTES = 64 << 20
# The first two bytes of an incomplete line, or its only byte. The last line of a file
# may be incomplete, because a process is still writing it or was killed.
_BEGINNINGS = (b"%d" % _VERSION, b"%d " % _VERSION)
# A line: version, device, SHA-256 of the stage key, median in ms, spread, number of
# samples, time of the measurement in seconds since 1970.
_LINE = re.compile(
    rb"^%d ([A-Za-z0-9_.~%%-]{1,300}) ([0-9a-f]{64}) ([0-9.e+-]{1,24}) "
    rb"([0-9.e+-]{1,24}|inf) ([0-9]{1,9}) [0-9]{1,20}$" % _VERSION,
    re.MULTILINE,
)
# A process stops waiting for the lock if no new latency appears in the file for this
# long. This is far longer than a measurement takes.
_PATIENCE_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.01
# A lock is a range of bytes of the file. A process that writes locks the content. A
# process that measures locks a byte beyond the content, which depends on the machine.
_CONTENT = (0, _MAX_BYTES)
_MACHINES = 1 << 40
_BOOT_ID = "/proc/sys/kernel/random/boot_id"  # the same in all containers of a machine
_OPEN = os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LatencyDatabase:
    """The latencies of one device. Not thread-safe."""

    def __init__(self, path: str | None, device: str, fresh: bool = False) -> None:
        """Opens or creates a database.

        Args:
          path: the file's path; None keeps latencies in memory, for this process alone.
          device: fingerprint of the device.
          fresh: whether to ignore latencies that are already in the file.

        Raises:
          OSError: the file cannot be opened.
          ValueError: the file is not a database, or is too large.
        """
        self._path = path
        # Quotes spaces, which separate the words of a line.
        self._device = urllib.parse.quote(device, safe="")
        self._latencies: dict[str, Latency] = {}
        self._file: int | None = None
        self._whole = 0  # the file offset after the last line that was read
        self._size = 0  # the file's size when it was read
        self._lockable = True
        self._locked: set[tuple[int, int]] = set()  # locked parts of the file
        self._warned = False
        if path:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            self._file = _open(path)
            # The file stays open, so that it does not matter if the path later leads to
            # another file, or if the directory is removed.
            self._close = weakref.finalize(self, _closed, self._file)
            ignored = self._read(self._file)
            if ignored:
                _warn(f"{path} has {ignored} invalid lines, which are ignored")
            if fresh:
                self._latencies.clear()

    def get(self, stage: str) -> Latency | None:
        """The latency of the stage with this key, if it is known."""
        if self._file is not None:
            try:
                self._read(self._file)
            except (OSError, ValueError) as error:
                self._warn(error)
        return self._latencies.get(_hash(stage))

    def put(self, stage: str, latency: Latency) -> None:
        """Stores a latency, and writes it to the file before the call returns.

        If the file cannot be written (a full disk, for example), one warning is logged.
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
        with self._locking(_CONTENT):
            try:
                self._append(self._file, " ".join(map(str, words)) + "\n")
            except (OSError, ValueError) as error:
                self._warn(error)

    def __len__(self) -> int:
        """The number of known latencies of the device."""
        return len(self._latencies)

    def measuring(self) -> contextlib.AbstractContextManager[None]:
        """In the `with` block, no other process of this machine measures.

        The kernel releases the lock when the process ends, however it ends. If the
        filesystem has no locks, or if another process keeps the lock without measuring,
        this process logs one warning and measures without the lock.
        """
        return self._locking((_MACHINES + _machine(), 1))

    @contextlib.contextmanager
    def _locking(self, part: tuple[int, int]) -> Iterator[None]:
        """Locks a part of the file, given by its start and length."""
        if self._file is None or part in self._locked:
            yield
            return
        if self._lockable:
            try:
                self._lock(self._file, part)
            except OSError as error:
                self._lockable = False
                self._warn(error)
        self._locked.add(part)
        try:
            yield
        finally:
            self._locked.discard(part)
            with contextlib.suppress(OSError):
                file_locks.unlock(self._file, part)

    def _lock(self, file: int, part: tuple[int, int]) -> None:
        """Waits for the lock while other processes write latencies.

        The time is limited, because any process that may read the file can take a lock
        and keep it forever.
        """
        size, since = -1, 0.0
        while True:
            try:
                file_locks.lock(file, part)
                return
            except BlockingIOError:
                pass
            now, written = time.monotonic(), os.fstat(file).st_size
            if written != size:
                size, since = written, now
            elif now - since > _PATIENCE_SECONDS:
                raise OSError(
                    errno.EWOULDBLOCK,
                    "another process has kept the file locked for "
                    f"{_PATIENCE_SECONDS:.0f} seconds and has not written a latency. "
                    "If that process hangs, end it (`fuser FILE` lists the processes "
                    "that have the file open)",
                )
            time.sleep(_LOOK_AGAIN_SECONDS)

    def close(self) -> None:
        """Closes the file; afterwards, latencies are only kept in memory.

        Some filesystems report lost data only when the file is closed.
        """
        if self._file is not None:
            error = self._close()
            self._file = None
            if error:
                self._warn(error)

    def _read(self, file: int) -> int:
        """Reads the new lines; returns how many of them are not latencies."""
        size = os.fstat(file).st_size
        if size == self._size:
            return 0
        self._size = size
        self._whole = min(self._whole, size)  # the file may have been truncated
        if size > _MAX_BYTES:
            raise ValueError(f"the file has more than {_MAX_BYTES} bytes")
        data = os.pread(file, size - self._whole, self._whole)
        # The text after the last line end is incomplete: another process may be writing
        # the rest.
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
        """Appends a line. If locks work, no other process writes at the same time."""
        found = os.fstat(file)
        if not found.st_nlink:
            raise ValueError("the file was removed")
        self._read(file)
        # If the file ends with an incomplete line (of a process that was killed, or
        # because the disk was full), it must not become part of the new line.
        data = line.encode()
        if os.fstat(file).st_size > self._whole:
            if self._lockable:
                os.ftruncate(file, self._whole)
            else:
                data = b"\n" + data
        if self._whole + len(data) > _MAX_BYTES:
            raise ValueError(f"the file would have more than {_MAX_BYTES} bytes")
        if os.write(file, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            _warn(
                f"{self._path} cannot be used safely: {_why(error)}. New latencies may "
                "be lost"
            )
        self._warned = True


def _warn(text: str) -> None:
    decision = Decision(Reason.LATENCIES_NOT_KEPT, f"the latency database {text}")
    _logger.warning("%s", decision)


def clear_latencies(path: str) -> int:
    """Removes all latencies of a database, if it exists; returns their number.

    Raises:
      OSError: the file cannot be written.
      ValueError: the file is not a database.
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
    """Opens the database at `path`. If this fails, logs a warning and uses memory only.

    With `fresh`, the latencies that are already in the file are not used.
    """
    if path:
        try:
            return LatencyDatabase(path, device, fresh)
        except (OSError, ValueError) as error:
            text = f"{path} cannot be used: {_why(error)}. New latencies are not saved"
            _warn(text)
    return LatencyDatabase(None, device)


def _machine() -> int:
    """A number below 2^31 that is the same in all processes of a machine."""
    try:
        with open(_BOOT_ID, "rb") as file:
            name = file.read()
    except OSError:
        name = os.uname().nodename.encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big") >> 1


def _closed(file: int) -> OSError | None:
    """Closes a descriptor. Returns the error, or None on success."""
    try:
        os.close(file)
    except OSError as error:
        return error
    return None


def _open(path: str) -> int:
    """Opens a regular file that has only one name, and returns its descriptor.

    The checks are needed because any user who may write into the directory could create
    a symbolic or hard link there, so that this process would write to another file.
    """
    with contextlib.suppress(FileNotFoundError):
        _check_plain(os.lstat(path))  # opening a device has side effects
    try:
        file = os.open(path, _OPEN | os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        # A file that cannot be written is opened for reading, because its latencies are
        # useful, too.
        try:
            file = os.open(path, _OPEN | os.O_RDONLY)
        except OSError:
            raise error from None
    try:
        _check_plain(os.fstat(file))
    except ValueError:
        os.close(file)
        raise
    return file


def _check_plain(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("the path is not a regular file")
    if found.st_nlink > 1:
        raise ValueError("the file has more than one hard link")


def _latency(line: re.Match[bytes]) -> Latency | None:
    """The latency in a matching line; None if its numbers are not valid."""
    try:
        median_ms, spread, samples = float(line[3]), float(line[4]), int(line[5])
    except ValueError:
        return None
    if not 0 < median_ms < math.inf or not spread >= 0 or samples < 1:
        return None
    return Latency(median_ms, spread, samples)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


@functools.lru_cache(1 << 12)
def _hash(stage: str) -> str:
    return hashlib.sha256(stage.encode()).hexdigest()
