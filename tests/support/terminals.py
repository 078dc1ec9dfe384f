"""Programs on a terminal: pseudo-terminals of a given width, and what they show."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from typing import Any

import pyte

_ROWS = 24


def _take_terminal() -> None:
    """Makes the terminal send Ctrl-C to this process, and lets it have an effect.

    Programs that a shell starts in the background, such as CI, ignore the signal.
    """
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A process whose standard error, and usually output, is a terminal.

    Attributes:
      process: the process.
      written: the bytes that it has written to the terminal so far.
    """

    def __init__(
        self,
        command: Sequence[str],
        columns: int,
        stdout: int | None = None,
        echoes: bool = False,
        **options: Any,
    ) -> None:
        """Starts the process.

        Args:
          command: the program and its arguments.
          columns: the width of the terminal.
          stdout: replaces the terminal as standard output.
          echoes: whether the terminal shows what is typed.
          options: further arguments of `subprocess.Popen`.
        """
        self.columns = columns
        self.written = b""
        self._master, slave = pty.openpty()
        size = struct.pack("HHHH", _ROWS, columns, 0, 0)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        if not echoes:
            modes = termios.tcgetattr(slave)
            modes[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, modes)
        environment = {**os.environ, "TERM": "xterm", **options.pop("env", {})}
        for name in ("COLUMNS", "LINES"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            start_new_session=True,
            env=environment,
            preexec_fn=_take_terminal,
            **options,
        )
        os.close(slave)

    def type(self, text: bytes) -> None:
        """Types on the terminal's keyboard."""
        os.write(self._master, text)

    def read_until(self, condition: Callable[[bytes], bool], seconds: float) -> bool:
        """Reads until the written bytes fulfill a condition or the process has ended.

        Returns:
          Whether they fulfill it.
        """
        while not condition(self.written):
            if not self.read_more(seconds):
                return condition(self.written)
        return True

    def read_more(self, seconds: float) -> bool:
        """Waits for more bytes; false if the process has ended or the time is over."""
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            found = os.read(self._master, 65536)
        except OSError:  # the process has closed the terminal
            found = b""
        self.written += found
        return bool(found)

    def wait(self, seconds: float = 120.0) -> int:
        """Reads everything, and returns the exit code."""
        self.read_until(lambda written: False, seconds)
        return self.process.wait(seconds)

    def screen(self) -> list[str]:
        """The lines that the terminal shows now, without empty ones at the end."""
        screen = pyte.Screen(self.columns, _ROWS)
        pyte.ByteStream(screen).feed(self.written)
        lines = [line.rstrip() for line in screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def python(code: str) -> list[str]:
    """The command that runs a Python program."""
    return [sys.executable, "-c", code]
