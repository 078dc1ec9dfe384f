"""Processes of a benchmark's steps, which end with all their children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

_GRACE_SECONDS = 5  # between the request to end and the kill


def run_for(
    seconds: float,
    command: Sequence[str],
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Runs a command in its own process group, and ends the group afterwards.

    Args:
      seconds: time limit.
      command: the program and its arguments.
      output: file for both of its output streams.
      environment: environment variables; by default those of this process.

    Returns:
      The exit code, negative for a signal, or None if the time limit was reached.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment,
    )
    with process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_SECONDS)
