"""Compares the times that users wait, and the memory use, with goals.

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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import run_python
from ios_tf.errors import UserError
from ios_tf.tables import table

_NETWORK = "keras:InceptionV3"
_LOAD = "load"
# For the second network, the engine keeps the most transformed copies of filters.
_LOADED = (_NETWORK, "keras:ResNet50")
_ANSWER, _RESIDENT = 1.20, 1.15  # goals: ratios to the original


# Loads and calls a model. Arguments: the model's directory, "plugin" or "stock".
_LOADER = """
import json, sys, time
import tensorflow as tf
from benchmarks.processes import memory_mib

model, plugin = sys.argv[1], sys.argv[2] == "plugin"
times = [time.perf_counter()]
if plugin:
    import ios_tf
function = tf.saved_model.load(model).signatures["serving_default"]
inputs = {
    name: tf.cast(
        tf.random.uniform(
            [size or (224 if i else 1) for i, size in enumerate(spec.shape)]
        ),
        spec.dtype,
    )
    for name, spec in function.structured_input_signature[1].items()
}
times.append(time.perf_counter())
for _ in range(2):
    [output.numpy() for output in function(**inputs).values()]
    times.append(time.perf_counter())
memory = [memory_mib(name) for name in ("VmRSS", "VmHWM")]
print(json.dumps([b - a for a, b in zip(times, times[1:])] + memory))
"""


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
            raise UserError(f"python {case.words} failed: {lines[-1]}")
    return seconds, usage.ru_maxrss * 1024 / 1e6


def copy_sources(checkout: Path, directory: Path) -> None:
    """Copies the files that compiling needs.

    Raises:
      UserError: the files do not exist.
    """
    if not (checkout / "setup.py").exists():
        raise UserError("compiling needs the sources. Run the command in a checkout")
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
    found = measure_loading(network, rounds)
    print(f"{network}\n{loading_table(found)}\n")
    original = found.pop("TensorFlow")
    for name, loading in found.items():
        answer = (loading.load + loading.first) / (original.load + original.first)
        resident = loading.resident / original.resident
        case = f"{network}, {name}"
        yield Figure(case, "seconds to the first answer, ratio", answer, _ANSWER, 2)
        yield Figure(case, "resident memory, ratio", resident, _RESIDENT, 2)


class Loading(NamedTuple):
    """Medians for one way to load a model.

    Attributes:
      load: seconds until the signature can be called, with the import of this package
        but not of TensorFlow.
      first, second: seconds of the first two calls. In the first call, TensorFlow
        optimises the graph and the engine compiles its regions.
      resident, peak: memory of the process in MiB, after these calls and at its peak.
    """

    load: float
    first: float
    second: float
    resident: float
    peak: float


def measure_loading(model: str, rounds: int) -> dict[str, Loading]:
    """Loads the original and the converted model, each in `rounds` processes, in turn.

    Returns:
      "TensorFlow" (the original), "converted, TensorFlow" (without the plugin) and
      "converted, plugin".

    Raises:
      UserError: as for `ios_tf.convert`.
    """
    from ios_tf.conversion.convert import convert

    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        original, converted = f"{directory}/original", f"{directory}/converted"
        _write_original(model, original)
        convert(original, converted, keep_slower=True)
        variants = {
            "TensorFlow": (original, "stock"),
            "converted, TensorFlow": (converted, "stock"),
            "converted, plugin": (converted, "plugin"),
        }
        found: dict[str, list[list[float]]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, arguments in variants.items():
                found[name].append(run_python(_LOADER, *arguments))
    return {
        name: Loading(*map(statistics.median, zip(*times, strict=True)))
        for name, times in found.items()
    }


def _write_original(model: str, path: str) -> None:
    """Writes a model as it is served without this package: as Keras exports it."""
    from ios_tf.model import keras2
    from ios_tf.model.loading import keras_model_of, saved_model

    keras_model = keras_model_of(model)
    if keras_model is None:
        with saved_model(model) as source:
            shutil.copytree(source, path)
        return
    quiet = {} if keras2.is_model(keras_model) else {"verbose": False}
    keras_model.export(path, **quiet)


def loading_table(found: Mapping[str, Loading]) -> str:
    """Returns the result of `measure_loading` as a table."""
    digits = (2, 2, 3, 0, 0)
    rows = [
        [name, *(f"{value:.{n}f}" for value, n in zip(loading, digits, strict=True))]
        for name, loading in found.items()
    ]
    columns = ["load s", "first call s", "second call s", "resident MiB", "peak MiB"]
    return table(["", *columns], rows)


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
            f"missed: {one.case}: {one.what}: {measured}, the goal is at most {goal}",
            file=sys.stderr,
        )
    return 1 if missed else 0
