"""Checks programs in another process, which may crash or hang.

A crash counts as TensorFlow's own if its optimizers alone make the process end.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection

from random_graphs.check import check_program, run_stock
from random_graphs.differences import Difference, Result
from random_graphs.program import Program

_SECONDS = 600.0  # limit for one phase of a check, even on a busy machine
_MOST_PROGRAMS = 300  # limit for one process, which bounds its memory
# In these phases TensorFlow works alone, so a crash there is not a difference.
_OWN_PHASES = ("", "trace", "original", "stock")

Say = Callable[[str], None]
Check = Callable[[Program, Say], Result]


class IsolatedChecker:
    """Checks programs in a process, and starts a new process if that one dies.

    Args:
      onednn: enables TensorFlow's oneDNN in the process.
      check: the function that checks a program.
    """

    def __init__(self, onednn: bool = True, check: Check = check_program) -> None:
        self._onednn = onednn
        self._check = check
        self._process: multiprocessing.process.BaseProcess | None = None
        self._log = tempfile.NamedTemporaryFile(prefix="ios_tf_random_")  # noqa: SIM115

    def __call__(self, program: Program) -> Result:
        """The result of a check; a crash is a difference."""
        if self._process is None or self._checked == _MOST_PROGRAMS:
            self.close()
            self._start()
        self._checked += 1
        phase = ""
        try:
            self._connection.send(program)
            while self._connection.poll(_SECONDS):
                found = self._connection.recv()
                if isinstance(found, Result):
                    return found
                phase = found
            kind, got = "hangs", f"no answer in {_SECONDS:.0f} s"
        except (EOFError, ConnectionError):
            self._process.join(_SECONDS)
            kind, got = "crashes", self._last_words()
        self.close()
        if phase in _OWN_PHASES or self._stock_ends(program):
            return Result(skipped=1)
        return Result([Difference(phase, kind, {}, "", got)])

    def _stock_ends(self, program: Program) -> bool:
        """True if the graph also ends a process of TensorFlow without this package."""
        if self._check is run_stock:
            return False
        stock = IsolatedChecker(self._onednn, run_stock)
        try:
            return stock(program).skipped > 0
        finally:
            stock.close()

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(there, self._log.name, self._check), daemon=True
        )
        self._checked = 0
        # TensorFlow reads this variable when it is loaded.
        before = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = str(int(self._onednn))
        try:
            self._process.start()
        finally:
            if before is None:
                del os.environ["TF_ENABLE_ONEDNN_OPTS"]
            else:
                os.environ["TF_ENABLE_ONEDNN_OPTS"] = before
        there.close()

    def _last_words(self) -> str:
        code = self._process.exitcode if self._process else 0
        name = signal.Signals(-code).name if code and code < 0 else f"exit code {code}"
        with open(self._log.name, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if "Check failed" in line]
        return " ".join([name, *lines[-1:]])


def _serve(connection: Connection, log: str, check: Check) -> None:
    """Checks programs from the connection until it is closed."""
    # The log gets the message that TensorFlow prints when it aborts.
    descriptor = os.open(log, os.O_WRONLY | os.O_TRUNC)
    os.dup2(descriptor, 2)
    gc.collect()
    gc.freeze()  # every optimizer run collects garbage; skip TensorFlow's objects
    while True:
        try:
            program = connection.recv()
        except EOFError:
            return
        connection.send(check(program, connection.send))
