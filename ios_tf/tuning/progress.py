"""Progress on standard error: counts, elapsed time, estimated time left."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from ios_tf.printable import printable


class Progress:
    """Rewrites one line on a terminal. Elsewhere, writes a line now and then."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._interval = 0.2 if self._terminal else 10.0
        self._start = self._shown = time.monotonic()

    def update(self, done: float, counts: str) -> None:
        """Shows counts and the time left, but not more often than the interval allows.

        Args:
          done: the completed fraction, 0 to 1.
          counts: text that describes the work done so far.
        """
        now = time.monotonic()
        if now - self._shown < self._interval:
            return
        self._shown = now
        elapsed = now - self._start
        left = f", {_time(elapsed * (1 - done) / done)} left" if done else ""
        self._write(f"{self._label} {counts}, {_time(elapsed)}{left}")

    def close(self, line: str) -> None:
        """Shows a last line in place of the progress."""
        self._write(f"{self._label} {line}, {_time(time.monotonic() - self._start)}")
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def _write(self, line: str) -> None:
        line = printable(line)
        self._stream.write(f"\r\x1b[K{line}" if self._terminal else line + "\n")
        self._stream.flush()


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
