"""Compiles the C++ files of the benchmarks."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ios_tf.errors import UserError
from ios_tf.native import engine

ROOT = Path(__file__).resolve().parents[1]


def build(output: Path, sources: Sequence[str], flags: Sequence[str]) -> Path:
    """Compiles a program; returns its path.

    Args:
      output: the file to write.
      sources: paths in the checkout.
      flags: flags of the compiler besides those that all programs have.

    Raises:
      UserError: a source does not compile.
    """
    command = shlex.split(os.environ.get("CXX", "g++"))
    command += ["-std=c++17", "-O2", "-I.", "-o", str(output), *sources, *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"{sources[0]} does not compile: {done.stderr.strip()}")
    return output


def build_library(output: Path, source: str) -> Path:
    """Compiles a shared library that uses the engine; returns its path.

    Raises:
      UserError: the source does not compile.
    """
    folder = engine.LIBRARIES
    flags = ["-shared", "-fPIC", f"-L{folder}", f"-Wl,-rpath,{folder}"]
    return build(output, [source], [*flags, "-lios_engine", "-ldl"])
