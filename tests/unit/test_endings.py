"""Signals that end a command, and exceptions that Python drops."""

import signal

import pytest

from ios_tf.cli.endings import ended_by_exception


class _Destroyed:
    """An object whose destructor calls a function."""

    def __init__(self, function):
        self._function = function

    def __del__(self):
        self._function()


def _fail():
    raise ValueError("a mistake of a destructor")


@pytest.fixture
def dropped(monkeypatch):
    """The exceptions of which Python would print the tracebacks."""
    found = []
    monkeypatch.setattr("sys.unraisablehook", lambda hook: found.append(hook.exc_type))
    return found


def test_a_signal_in_a_destructor_prints_nothing_and_ends_the_block(dropped):
    with pytest.raises(SystemExit), ended_by_exception():
        del [_Destroyed(lambda: signal.raise_signal(signal.SIGTERM))][0]
        signal.pause()  # until the exception is raised again
    assert dropped == []


def test_other_exceptions_of_destructors_are_printed(dropped):
    with ended_by_exception():
        del [_Destroyed(_fail)][0]
    assert dropped == [ValueError]
