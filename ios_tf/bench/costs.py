"""The time that users wait, and the memory it takes, beside the goals: compiling the
package, converting, counting schedules, comparing, and loading a converted model.

    python -m ios_tf.bench.costs [--cases convert complexity bench compile load]

Every case but the last is a process of its own that begins with an empty cache. The
goals are those of two cores without AVX-512.
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

from ios_tf.bench.standalone import exit_code
from ios_tf.errors import UserError
from ios_tf.tables import table

_NETWORK = "keras:InceptionV3"
_LOAD = "load"


@dataclasses.dataclass(frozen=True)
class Case:
    """A command, and what it should take at most.

    Attributes:
      words: Python's arguments; OUT stands for a path that is not there.
      seconds, megabytes: the goals; no goal for memory if 0.
    """

    words: str
    seconds: int
    megabytes: int = 0


_CASES = {
    "convert": Case(f"-m ios_tf.cli convert {_NETWORK} OUT", 60, 1500),
    "complexity": Case("-m ios_tf.cli complexity models:randwire", 15),
    "bench": Case(f"-m ios_tf.cli bench {_NETWORK}", 120),
    "compile": Case("setup.py build_ext --inplace", 90),
}


def run(case: Case) -> tuple[float, float]:
    """The seconds and the peak of resident memory in MB that a case takes.

    Raises:
      UserError: it fails, or compiles and the sources are not at hand.
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
    """Copies what compiling needs.

    Raises:
      UserError: it is not there.
    """
    if not (checkout / "setup.py").exists():
        raise UserError("compiling needs the sources: run this in a checkout")
    built = shutil.ignore_patterns("lib", "__pycache__")
    for name in ("cc", "ios_tf"):
        shutil.copytree(checkout / name, directory / name, ignore=built)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(checkout / name, directory)


def _rows(name: str, rounds: int) -> Iterator[list[str]]:
    if name == _LOAD:
        yield from _loading(rounds)
        return
    case = _CASES[name]
    seconds, megabytes = run(case)
    yield [name, "seconds", f"{seconds:.0f}", str(case.seconds)]
    if case.megabytes:
        yield [name, "MB at most", f"{megabytes:.0f}", str(case.megabytes)]


def _loading(rounds: int) -> Iterator[list[str]]:
    """Of the converted model, over the original."""
    from ios_tf.bench.loading import bench_loading

    found = bench_loading(_NETWORK, rounds=rounds)
    original = found.pop("TensorFlow")
    for name, loading in found.items():
        answer = (loading.load + loading.first) / (original.load + original.first)
        resident = loading.resident / original.resident
        yield [name, "seconds to the first answer, ratio", f"{answer:.2f}", "1.20"]
        yield [name, "resident memory, ratio", f"{resident:.2f}", "1.15"]


def main(options: argparse.Namespace) -> int:
    """Prints a table of all cases; gives 0."""
    rows = []
    for name in options.cases or [*_CASES, _LOAD]:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += _rows(name, options.rounds)
    print(table(["", "", "measured", "goal"], rows))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ios_tf.bench.costs")
    parser.add_argument("--cases", nargs="*", choices=[*_CASES, _LOAD])
    parser.add_argument("--rounds", type=int, default=3, help="processes that load")
    return parser


if __name__ == "__main__":
    sys.exit(exit_code(main, _parser().parse_args()))
