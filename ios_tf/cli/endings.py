"""Signals that ask a command to end, as exceptions in its main thread."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# Within this time, what a signal raises has usually come to where it is handled.
_AGAIN_SECONDS = 0.3


@contextlib.contextmanager
def ended_by_exception() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end what runs here as an exception does: what it has
    begun is removed.

    TensorFlow's native code calls Python in places, and forgets what is raised there,
    or makes another error of it. So it is raised again until something handles it, and
    comes out of this block in place of other errors.
    """
    raised: list[BaseException] = []

    def end(number: int, frame: Any) -> None:
        interrupt = number == signal.SIGINT
        raised.append(KeyboardInterrupt() if interrupt else SystemExit(128 + number))
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS, _AGAIN_SECONDS)
        raise raised[-1]

    def end_again(number: int, frame: Any) -> None:
        # While an exception is handled, something may be tidying up.
        if raised and sys.exc_info()[1] is None:
            raise raised[-1]

    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    with handled(end_again, signal.SIGALRM), handled(end, *signals):
        try:
            yield
        except Exception as error:
            if raised:
                raise raised[-1] from error
            raise
        finally:
            # Twice: it may be raised once more before the first is done.
            try:
                _stop(raised)
            finally:
                _stop(raised)


def _stop(raised: list[BaseException]) -> None:
    if raised:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def handled(
    handler: Callable[[int, Any], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Signals that are not ignored, as by nohup, are handled so in the main thread.

    Python handles none in others.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old or signal.SIG_DFL)
