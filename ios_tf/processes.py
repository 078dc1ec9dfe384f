"""Child processes that answer one request at a time, as lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ios_tf.errors import UserError

# Times in seconds for `wait_until_idle`: the largest CPU time of the wait, and the
# duration of a check.
_REST, _LOOK = 0.5, 0.005


class ChildError(RuntimeError):
    """A child process cannot answer a request; the message is one line."""


class RequestProcess:
    """A child process that runs `answer_requests`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request and waits for its answer.

        Raises:
          ChildError: the process has ended, or the request failed.
        """
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise ChildError(f"the process ended: {self._why()}")
        result: dict[str, Any] = json.loads(answer)
        if "error" in result:
            raise ChildError(result["error"])
        return result

    def ask_arrays(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Like `ask`, but returns arrays.

        The process writes the arrays to a .npz file, whose path is the request's entry
        `arrays`.
        """
        import numpy as np

        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            self.ask({**request, "arrays": file.name})
            with np.load(file.name) as arrays:
                return dict(arrays)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # the process has already ended
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _why(self) -> str:
        """Returns why the process ended: signal, last error line, or exit code."""
        code = self._process.wait()
        if code < 0:
            return signal.strsignal(-code) or f"signal {-code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:200] if said else f"exit code {code}"


def answer_requests(answer: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Answers the requests of a `RequestProcess` until standard input ends."""
    # Redirects stdout to stderr, so that lines that frameworks print do not mix with
    # the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        result: Mapping[str, Any]
        try:
            result = answer(json.loads(line))
        except Exception as error:
            text = " ".join(str(error).split())
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            result = {"error": (kind + text)[:300]}
        answers.write(json.dumps(result) + "\n")
        answers.flush()


def wait_until_idle() -> None:
    """Waits until no thread is busy, but at most for `_REST` seconds of CPU time.

    Threads of some pools poll for work long after their last task; ONNX Runtime's
    threads poll for 35 ms.
    """
    end = time.process_time() + _REST
    while (busy := time.process_time()) < end:
        time.sleep(_LOOK)
        rests = time.process_time() - busy < _LOOK / 10
        if rests and not _other_threads_run():
            return


def _other_threads_run() -> bool:
    """Returns whether another thread of the process runs, or waits for a core."""
    own = threading.get_native_id()
    for thread in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
            if state == "R" and thread.name != str(own):
                return True
    return False
