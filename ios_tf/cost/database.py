"""The latency database: every measurement ever made, in one SQLite file.

A row is committed as soon as it is measured, so a search that is killed loses no more
than the measurement it was making. Processes that share a database measure in turn -
measurements at the same time would disturb each other - and each looks again before
it measures: none repeats what another one did.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import math
import os
import pathlib
import sqlite3
import stat
import time
from collections.abc import Iterator

from ios_tf.cost.cost_model import Latency

_logger = logging.getLogger("ios_tf")
_VERSION = 1
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS devices (
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS latencies (
  device INTEGER NOT NULL REFERENCES devices (id),
  key TEXT NOT NULL,        -- SHA-256 of the stage
  stage TEXT NOT NULL,      -- the stage key itself
  median_ms REAL NOT NULL,
  spread REAL,              -- NULL: a single sample
  samples INTEGER NOT NULL,
  measured_at REAL NOT NULL,  -- seconds since 1970
  PRIMARY KEY (device, key)
) WITHOUT ROWID;
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class LatencyDatabase:
    """The latencies of one device. Not for use by several threads."""

    def __init__(self, path: str | None, device: str) -> None:
        """Opens or makes a database.

        Args:
          path: of the file; None is in memory, for this process alone.
          device: fingerprint of the device.

        Raises:
          sqlite3.Error, OSError: it cannot be opened, or is no database.
          ValueError: it belongs to another version of this package.
        """
        self._path = path
        self._lock_path = f"{path}.lock" if path else None
        self._warned = False
        if path:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            _check_plain(path)
        # Autocommit: every statement is a transaction.
        self._connection = sqlite3.connect(
            path or ":memory:", timeout=60, isolation_level=None
        )
        # SQLite does not wait for others when it changes the journal's mode.
        with self.measuring():
            self._initialize(device)

    def _initialize(self, device: str) -> None:
        # Definitions in the file must not call functions that have effects.
        self._connection.execute("PRAGMA trusted_schema = OFF")
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise ValueError(f"it has version {version}, not {_VERSION}")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            self._connection.executescript(_SCHEMA)
        self._connection.execute(
            "INSERT OR IGNORE INTO devices (fingerprint) VALUES (?)", (device,)
        )
        (self._device,) = self._connection.execute(
            "SELECT id FROM devices WHERE fingerprint = ?", (device,)
        ).fetchone()

    def get(self, stage: str) -> Latency | None:
        """The latency of the stage with this key, if it is known."""
        try:
            row = self._connection.execute(
                "SELECT median_ms, spread, samples FROM latencies"
                " WHERE device = ? AND key = ?",
                (self._device, _hash(stage)),
            ).fetchone()
        except sqlite3.Error as error:
            self._warn(error)
            return None
        if row is None:
            return None
        median_ms, spread, samples = row
        spread = math.inf if spread is None else spread
        # Others may write the file, and SQLite keeps whatever it is given.
        if (
            not isinstance(median_ms, float)
            or not isinstance(spread, float)
            or not isinstance(samples, int)
            or not 0 < median_ms < math.inf
            or not spread >= 0
            or samples < 1
        ):
            return None
        return Latency(median_ms, spread, samples)

    def put(self, stage: str, latency: Latency) -> None:
        """Keeps a latency; committed when the call returns.

        A file that takes no more, on a full disk say, is one warning.
        """
        try:
            self._connection.execute(
                "INSERT OR REPLACE INTO latencies VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    self._device,
                    _hash(stage),
                    stage,
                    latency.median_ms,
                    latency.spread if math.isfinite(latency.spread) else None,
                    latency.samples,
                    time.time(),
                ),
            )
        except sqlite3.Error as error:
            self._warn(error)

    def _warn(self, error: sqlite3.Error) -> None:
        if not self._warned:
            _logger.warning(
                "the latency database %s fails: %s; what is measured now may not be "
                "known later",
                self._path,
                error,
            )
        self._warned = True

    def __len__(self) -> int:
        """How many latencies of the device are known."""
        (count,) = self._connection.execute(
            "SELECT COUNT(*) FROM latencies WHERE device = ?", (self._device,)
        ).fetchone()
        return int(count)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """While the block runs, no other process measures with this database.

        The kernel gives the lock back when a process ends, however it ends.
        """
        if self._lock_path is None:
            yield
            return
        # A link is not followed, and nothing that is there is changed.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(self._lock_path, flags, 0o666), "rb+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def close(self) -> None:
        self._connection.close()


def _check_plain(path: str) -> None:
    """SQLite follows links, and waits for who writes into a named pipe."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(path + suffix).st_mode):
                raise ValueError(f"{path}{suffix} is no regular file")


def known_devices(path: str) -> list[str]:
    """The fingerprints of the devices in a database; none if there is none."""
    try:
        _check_plain(path)
        uri = f"{pathlib.Path(path).absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as file:
            rows = file.execute("SELECT fingerprint FROM devices ORDER BY id")
            return [str(fingerprint) for (fingerprint,) in rows]
    except (OSError, ValueError, sqlite3.Error):
        return []


def open_database(path: str | None, device: str) -> LatencyDatabase:
    """A database at `path`, or with one warning one in memory if that cannot be.

    A file that is no database goes aside, to PATH.broken.
    """
    if path:
        try:
            return LatencyDatabase(path, device)
        except (sqlite3.OperationalError, OSError, ValueError) as error:
            _logger.warning(
                "the latency database %s cannot be used: %s; what is measured now will "
                "not be known later",
                path,
                error,
            )
        except sqlite3.DatabaseError as error:
            aside = f"{path}.broken"
            os.replace(path, aside)
            _logger.warning(
                "the latency database %s is ignored and now called %s: %s",
                path,
                aside,
                error,
            )
            return LatencyDatabase(path, device)
    return LatencyDatabase(None, device)


def _hash(stage: str) -> str:
    return hashlib.sha256(stage.encode()).hexdigest()
