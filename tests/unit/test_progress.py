"""The progress on terminals of several widths, in pipes, and when it is off."""

from __future__ import annotations

import io
import re
import subprocess

import pytest
from commands import run_python
from terminals import Terminal, python

from ios_tf.tuning.progress import Progress

# The beginning of a program that shows a progress bar. The bar is drawn at each update.
# pause() rings the terminal's bell and waits for a line of input, so that the test can
# look at the terminal.
_BEGINNING = """
import logging, sys
from ios_tf.tuning import progress
progress._INTERVAL_SECONDS = 0.0
progress._LEAST_SECONDS = 0.0
shown = progress.Progress(True, {"load": 1.0, "search schedules": 3.0})
def pause():
    sys.__stderr__.write("\\x07")
    sys.__stderr__.flush()
    sys.stdin.readline()
"""
_SEARCH = (
    _BEGINNING
    + """
with shown.phase("load"):
    pass
with shown.phase("search schedules", measures=True):
    shown.best(1.234, "sequential")
    shown.update(0.5, "12 of 86 blocks")
    pause()
print("the result")
"""
)


def paused(terminal: Terminal, times: int = 1) -> None:
    """Waits until the program has called pause() this many times."""
    assert terminal.read_until(lambda text: text.count(b"\x07") >= times, 60)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_one_line_on_a_terminal(columns):
    with Terminal(python(_SEARCH), columns) as terminal:
        paused(terminal)
        (line,) = terminal.screen()
        assert len(line) <= columns
        if columns >= 60:
            assert line.startswith("search schedules ") and "1.23x" in line
            # Loading is a quarter of the work, and half of the search is done.
            assert " 62%" in line or " 63%" in line
            assert re.search(r" 0:00 left ", line)
        assert ("12 of 86 blocks" in line) == (columns >= 80)
        assert ("1.23x vs sequential" in line) == (columns >= 80)
        if columns >= 80:
            bar = re.search("━+", line.replace("╸", "━").replace("╺", "━"))
            assert bar and len(bar[0]) >= 8
        terminal.type(b"\n")
        assert terminal.wait() == 0
        # The bar is gone, and the terminal is as before.
        assert [text for text in terminal.screen() if text] == ["the result"]
        assert b"\x1b[?25l" not in terminal.written  # never hides the cursor
        assert b"\x1b[?1049h" not in terminal.written  # nor uses another screen


def test_messages_appear_above_the_bar():
    code = (
        _BEGINNING
        + """
with shown.phase("load"):
    print("a message")
    print("a warning", file=sys.stderr)
    shown.update(0.5)
    pause()
"""
    )
    with Terminal(python(code), 80) as terminal:
        paused(terminal)
        message, warning, bar = terminal.screen()
        assert (message, warning) == ("a message", "a warning")
        assert bar.startswith("load ")
        terminal.type(b"\n")
        assert terminal.wait() == 0


def test_output_to_a_pipe_stays_there():
    code = (
        _BEGINNING
        + """
with shown.phase("load"):
    print("a result")
    pause()
"""
    )
    pipe = subprocess.PIPE
    with Terminal(python(code), 80, stdout=pipe) as terminal:
        paused(terminal)
        assert not any("a result" in line for line in terminal.screen())
        terminal.type(b"\n")
        output, _ = terminal.process.communicate()
        assert output == b"a result\n"


def test_names_cannot_control_the_terminal():
    code = (
        _BEGINNING
        + """
with shown.phase("search \\x1b[2J[bold]x"):
    pause()
"""
    )
    with Terminal(python(code), 80) as terminal:
        paused(terminal)
        (line,) = terminal.screen()
        assert line.startswith("search \\x1b[2J[bold]x ")
        terminal.type(b"\n")
        terminal.wait()


def test_an_error_leaves_a_clean_terminal():
    code = _BEGINNING + "\nwith shown.phase('load'):\n    raise SystemExit('failed')"
    with Terminal(python(code), 80) as terminal:
        assert terminal.wait() == 1
        assert [text for text in terminal.screen() if text] == ["failed"]


def test_a_terminal_that_cannot_move_its_cursor_gets_lines():
    with Terminal(python(_SEARCH), 80, env={"TERM": "dumb"}) as terminal:
        paused(terminal)
        assert terminal.screen() == [
            "ios_tf: 0:00 load",
            "ios_tf: 0:00 search schedules",
        ]
        terminal.type(b"\n")
        terminal.wait()


def test_lines_in_a_pipe():
    """One line for each phase, however many updates there are."""
    stream = io.StringIO()
    progress = Progress(True, {"load": 1.0, "search": 1.0}, stream)
    with progress.phase("load"):
        for i in range(1000):
            progress.update(i / 1000, "some")
    with progress.phase("search"):
        progress.best(1.5, "sequential")
    with progress.phase("another\n"):
        pass
    lines = stream.getvalue().splitlines()
    assert [re.sub(r"\d+:\d\d", "TIME", line) for line in lines] == [
        "ios_tf: TIME load",
        "ios_tf: TIME search",
        r"ios_tf: TIME another\n (1.50x vs sequential)",
    ]


def test_nothing_is_shown_unless_asked():
    stream = io.StringIO()
    progress = Progress(False, {}, stream)
    with progress.phase("load"):
        progress.update(0.5, "some")
        progress.best(2.0, "TensorFlow")
    assert stream.getvalue() == ""


def test_rich_is_imported_for_a_terminal_only():
    code = (
        "import sys; from ios_tf.tuning.progress import Progress\n"
        "with Progress(True).phase('load'): pass\n"
        "assert 'rich' not in sys.modules"
    )
    assert run_python("-c", code).stderr == "ios_tf: 0:00 load\n"
