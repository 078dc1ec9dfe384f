"""Processes of benchmarks: steps with a time limit, and Python programs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from benchmarks import python_line
from ios_tf.cli.endings import handled

_GRACE_SECONDS = 5  # between the request to end and the kill


def run_for(
    seconds: float,
    command: Sequence[str],
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Runs a command in its own process group, and ends the group afterwards.

    In the main thread, SIGTERM also ends the group, and then this process.

    Args:
      seconds: time limit.
      command: the program and its arguments.
      output: file for both of its output streams.
      environment: environment variables; by default those of this process.

    Returns:
      The exit code, negative for a signal, or None if the time limit was reached.
    """
    numbers: list[int] = []  # of the signals so far
    process: subprocess.Popen[bytes] | None = None

    def exit_if_asked(number: int = 0, _: object = None) -> None:
        if number:
            numbers.append(number)
        # While Popen starts the process, nobody could end it.
        if numbers and process:
            sys.exit(128 + numbers[0])

    try:
        with handled(exit_if_asked, signal.SIGTERM):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
            exit_if_asked()
            return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL) if process else ():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)


def run_python(program: str, *arguments: str, variables: Mapping[str, str] = {}) -> Any:
    """Runs a program of `python_line`; returns the JSON in the last line it prints.

    `variables` are added to the environment.

    Raises:
      RuntimeError: the program failed; the message is its last line or its signal.
    """
    command = python_line(program, *arguments)
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit code {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def memory_mib(field: str) -> float:
    """Returns memory of this process: "VmRSS" is resident, "VmHWM" is its peak.

    The peak that getrusage returns may be the parent's.
    """
    with open("/proc/self/status", encoding="ascii") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines[field].split()[0]) / 1024
