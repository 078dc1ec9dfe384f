"""Turns signals that ask a command to end into exceptions in its main thread."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

# If a signal's exception has not ended the block after this time, it was probably lost
# and is raised again.
_AGAIN_SECONDS = 0.3


@contextlib.contextmanager
def ended_by_exception() -> Iterator[None]:
    """Ends the block with an exception on SIGINT, SIGTERM or SIGHUP.

    Because of the exception, the block can remove unfinished results. If the signal
    arrives while TensorFlow's native code calls Python, TensorFlow may drop the
    exception or turn it into another error. So the exception is raised again until it
    is handled. It also replaces other errors that leave this block.
    """
    raised: list[BaseException] = []

    def end(number: int, frame: Any) -> None:
        interrupt = number == signal.SIGINT
        raised.append(KeyboardInterrupt() if interrupt else SystemExit(128 + number))
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS, _AGAIN_SECONDS)
        raise raised[-1]

    def end_again(number: int, frame: Any) -> None:
        # Waits while another exception is being handled, because a cleanup may be
        # running.
        if raised and sys.exc_info()[1] is None:
            raise raised[-1]

    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    with (
        _not_printed(raised),
        handled(end_again, signal.SIGALRM),
        handled(end, *signals),
    ):
        try:
            yield
        except Exception as error:
            if raised:
                raise raised[-1] from error
            raise
        finally:
            # _stop is called twice, because the exception may be raised again during
            # the first call.
            try:
                _stop(raised)
            finally:
                _stop(raised)


@contextlib.contextmanager
def _not_printed(raised: list[BaseException]) -> Iterator[None]:
    """Prints no traceback if Python drops one of these exceptions.

    Python drops exceptions that destructors raise, and prints their tracebacks. These
    exceptions are raised again, so the tracebacks would only confuse the user.
    """
    before = sys.unraisablehook

    def hook(dropped: Any) -> None:
        if not any(dropped.exc_value is error for error in raised):
            before(dropped)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _stop(raised: list[BaseException]) -> None:
    if raised:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def handled(
    handler: Callable[[int, Any], object], *numbers: signal.Signals
) -> Iterator[None]:
    """Calls `handler` for these signals inside the block.

    Signals that are ignored, as under nohup, stay ignored. Outside the main thread this
    does nothing, because Python handles signals only there.
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
