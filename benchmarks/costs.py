"""Compares the time that users wait, and the memory it takes, with goals.

The cases are compiling the package, converting, counting schedules, comparing, and
loading a converted model:

    python -m benchmarks costs [--cases convert complexity bench compile load]

Every case except the last runs in its own process, which begins with an empty cache.
The goals are for two cores without AVX-512. If a goal is missed, the exit code is 1
and the last lines name the goal.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ios_tf.errors import UserError
from ios_tf.tables import table

_NETWORK = "keras:InceptionV3"
_LOAD = "load"
# The second network keeps the most transformed filters beside the original ones.
_LOADED = (_NETWORK, "keras:ResNet50")
_ANSWER, _RESIDENT = 1.20, 1.15  # ratios to the original


@dataclasses.dataclass(frozen=True)
class Case:
    """A command, and the most time and memory that it should take.

    Attributes:
      words: Python's arguments; OUT stands for a path that does not exist.
      seconds, megabytes: the goals; 0 megabytes means no goal for memory.
    """

    words: str
    seconds: int
    megabytes: int = 0


@dataclasses.dataclass(frozen=True)
class Figure:
    """A measured number, and its goal: an upper limit."""

    case: str
    what: str
    measured: float
    goal: float
    digits: int = 0

    @property
    def missed(self) -> bool:
        return self.measured > self.goal

    def row(self) -> list[str]:
        numbers = (f"{n:.{self.digits}f}" for n in (self.measured, self.goal))
        return [self.case, self.what, *numbers, "missed" if self.missed else ""]


_CASES = {
    "convert": Case(f"-m ios_tf convert {_NETWORK} OUT", 60, 1500),
    "complexity": Case("-m benchmarks complexity models:randwire", 15),
    "bench": Case(f"-m ios_tf bench {_NETWORK}", 120),
    "compile": Case("setup.py build_ext --inplace", 90),
}


def run_case(case: Case) -> tuple[float, float]:
    """Returns a case's seconds and its peak of resident memory in MB.

    Raises:
      UserError: the case fails, or it compiles and the sources are not available.
    """
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        compiles = case.words.startswith("setup.py")
        if compiles:
            copy_sources(Path.cwd(), Path(directory, "sources"))
        log = Path(directory, "log")
        start = time.monotonic()
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [
                    sys.executable,
                    *case.words.replace("OUT", f"{directory}/out").split(),
                ],
                cwd=f"{directory}/sources" if compiles else None,
                stdout=file,
                stderr=file,
                env={**os.environ, "IOS_TF_CACHE": f"{directory}/cache"},
            )
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            lines = log.read_text(errors="replace").strip().splitlines() or [""]
            raise UserError(f"{case.words}: {lines[-1]}")
    return seconds, usage.ru_maxrss * 1024 / 1e6


def copy_sources(checkout: Path, directory: Path) -> None:
    """Copies the files that compiling needs.

    Raises:
      UserError: the files do not exist.
    """
    if not (checkout / "setup.py").exists():
        raise UserError("compiling needs the sources; run this in a checkout")
    built = shutil.ignore_patterns("lib", "__pycache__")
    for name in ("cc", "ios_tf"):
        shutil.copytree(checkout / name, directory / name, ignore=built)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(checkout / name, directory)


def _figures(name: str, rounds: int) -> Iterator[Figure]:
    if name == _LOAD:
        for network in _LOADED:
            yield from _loading(network, rounds)
        return
    case = _CASES[name]
    seconds, megabytes = run_case(case)
    yield Figure(name, "seconds", seconds, case.seconds)
    if case.megabytes:
        yield Figure(name, "MB at most", megabytes, case.megabytes)


def _loading(network: str, rounds: int) -> Iterator[Figure]:
    """Yields ratios of the converted model to the original."""
    from benchmarks.loading import bench_loading, loading_table

    found = bench_loading(network, rounds=rounds)
    print(f"{network}\n{loading_table(found)}\n")
    original = found.pop("TensorFlow")
    for name, loading in found.items():
        answer = (loading.load + loading.first) / (original.load + original.first)
        resident = loading.resident / original.resident
        case = f"{network}, {name}"
        yield Figure(case, "seconds to the first answer, ratio", answer, _ANSWER, 2)
        yield Figure(case, "resident memory, ratio", resident, _RESIDENT, 2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="*", choices=[*_CASES, _LOAD])
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of processes that load a model"
    )


def run(options: argparse.Namespace) -> int:
    """Prints a table of all cases; returns 1 and names the goals if any is missed."""
    figures: list[Figure] = []
    for name in options.cases or [*_CASES, _LOAD]:
        print(f"{name} …", file=sys.stderr, flush=True)
        figures += _figures(name, options.rounds)
    print(table(["", "", "measured", "goal", ""], [one.row() for one in figures]))
    missed = [one for one in figures if one.missed]
    for one in missed:
        _, _, measured, goal, _ = dataclasses.replace(one, digits=one.digits + 1).row()
        print(
            f"missed: {one.case}: {one.what}: {measured}, goal {goal}", file=sys.stderr
        )
    return 1 if missed else 0
