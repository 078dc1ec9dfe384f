"""Runs Python in separate processes, and the command line in this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import prepared_python

from ios_tf.cli import main


def run_python(
    *arguments: object,
    status: int | None = 0,
    python: str = "",
    **environment: str | os.PathLike,
) -> subprocess.CompletedProcess[str]:
    """Runs Python with these arguments, and checks its exit status.

    The process finds the same modules as this process.

    Args:
      arguments: for example "-c" and code.
      status: the expected exit status, or None if any is expected.
      python: the path of the interpreter; by default, that of this process.
      environment: variables to set.
    """
    done = subprocess.run(
        [python or sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert status in (None, done.returncode), (
        f"exit status {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done


def run_prepared(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Like `run_python`, but the process has imported TensorFlow already."""
    return run_python(*arguments, python=prepared_python.path(), **options)


def run(capfd, *arguments: str) -> tuple[int, str, str]:
    """Runs a command; returns its exit code, standard output and standard error.

    Lines that show the progress are removed.
    """
    capfd.readouterr()
    try:
        code = main.main(arguments)
    except SystemExit as exit:
        code = exit.code
    captured = capfd.readouterr()
    error = re.sub(r"^ios_tf: \d+:\d\d .*\n", "", captured.err, flags=re.M)
    return code, captured.out, error
