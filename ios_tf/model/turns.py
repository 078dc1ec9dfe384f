"""Lets a limited number of threads work at the same time, in order of arrival."""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Turns:
    """Lets at most `most` threads work at the same time.

    The thread that has waited longest begins next, unlike with `threading.Semaphore`. A
    turn is a lock that its thread can acquire as soon as the turn begins. A signal, or
    an exception that another thread raises in this one, may interrupt a thread at any
    place. Its turn then ends at the latest when the lock is freed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Reentrant, because a signal handler may call `run` while its thread holds the
        # lock.
        self._lock = threading.RLock()
        # The same as a WeakSet, whose methods are slower because they are in Python.
        self._active: set[weakref.ref[threading.Lock]] = set()
        self._waiting: collections.deque[threading.Lock] = collections.deque()

    @property
    def waiting(self) -> int:
        """The number of threads that wait."""
        return len(self._waiting)

    def run(self, work: Callable[[], _T]) -> _T:
        """Waits for this thread's turn, and returns the result of `work`."""
        turn = threading.Lock()
        turn.acquire()
        try:
            with self._lock:
                self._waiting.append(turn)
                self._begin()
            turn.acquire()
            return work()
        finally:
            with self._lock:
                active = weakref.ref(turn)
                if active in self._active:
                    self._active.remove(active)
                elif turn in self._waiting:  # the thread was interrupted
                    self._waiting.remove(turn)
                self._begin()

    def _begin(self) -> None:
        """Starts waiting threads up to the limit. The caller holds the lock."""
        while self._waiting and len(self._active) < self._most:
            turn = self._waiting.popleft()
            self._active.add(weakref.ref(turn, self._active.discard))
            turn.release()
