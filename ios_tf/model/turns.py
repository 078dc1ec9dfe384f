"""Limits how many threads do something at the same time, in order of arrival."""

from __future__ import annotations

import collections
import threading
from typing import Any


class Turns:
    """A context manager that at most `most` threads enter at the same time.

    Of the threads that wait, the one that has waited longest enters next.
    `threading.Semaphore` does not keep this order. The main thread never waits, because
    a signal could interrupt it there.
    """

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._free = most
        self._waiting: collections.deque[threading.Lock] = collections.deque()

    @property
    def waiting(self) -> int:
        """The number of threads that wait."""
        return len(self._waiting)

    def __enter__(self) -> None:
        if _is_main_thread():
            return
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()

    def __exit__(self, *error: Any) -> None:
        if _is_main_thread():
            return
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident
