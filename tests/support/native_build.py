"""Compiles the engine (without its GPU backend) and the graph optimizer with given
flags, for the sanitizers and the fuzzers."""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ios_tf.native import plugin

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = plugin.LIBRARIES


def _tests(*folders: str) -> dict[str, str]:
    """The C++ tests in these folders, by name. A test is beside the code that it
    tests."""
    files = sorted(path for f in folders for path in (ROOT / f).rglob("*_test.cc"))
    return {f.stem.removesuffix("_test"): f.relative_to(ROOT).as_posix() for f in files}


# The tests of the engine, the tests of the graph optimizer, which need TensorFlow, and
# the test of the thread pool, which is compiled with delays.
ENGINE_TESTS = _tests("cc/core", "cc/engine")
LANES_TEST = ENGINE_TESTS.pop("lanes")
GRAPH_TESTS = _tests("cc/tensorflow")
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
_MUTATOR = "tests/fuzz/json_mutator.cc"
# The fuzzers by name, with their sources.
FUZZERS = {
    "block": ["tests/fuzz/block_fuzzer.cc", _MUTATOR],
    "schedule": ["tests/fuzz/schedule_fuzzer.cc", _MUTATOR],
    "program": [
        "tests/fuzz/program_fuzzer.cc",
        _MUTATOR,
        "cc/tensorflow/ops/program_json.cc",
    ],
    "engine": [
        "tests/fuzz/engine_fuzzer.cc",
        "tests/fuzz/random_block.cc",
        "tests/fuzz/reference.cc",
    ],
}
# This file is not under test, and instrumenting it would take half of the time.
_UNCHECKED = (ROOT / "tests/fuzz/reference.cc",)
GRAPH_FUZZER = {"graph": ["tests/fuzz/graph_fuzzer.cc"]}
# These patterns include the tests.
ENGINE_SOURCES = (
    "cc/core/**/*.cc",
    *(
        f"cc/engine/{folder}*.cc"
        for folder in ("", "backend/", "host/", "trace/", "cpu/**/")
    ),
)
_OPTIMIZER = ("cc/tensorflow/**/*.cc",)
_TENSORFLOW = ("cc", "framework")
# The flags with which TensorFlow is compiled. With other flags, some types in its
# headers have another memory layout.
_TENSORFLOW_FLAGS = (
    *("-DNDEBUG", "-DNDEBUG_SANITIZER"),
    "-DEIGEN_MAX_ALIGN_BYTES=64",
)


class NativeBuild:
    """Compiles the engine and programs that use it, with one compiler and its flags.

    Each build has its own directory for object files. With `tensorflow`, the build
    includes the graph optimizer. Files that are up to date are not compiled again.
    """

    def __init__(
        self,
        compiler: Sequence[str],
        flags: Sequence[str],
        directory: Path,
        tensorflow: bool = False,
    ):
        self.directory = directory
        self._link = [*compiler, *flags]
        self._compile = [
            *self._link,
            *("-O2", "-g", "-Wall", "-Wno-psabi", "-Wno-unknown-pragmas"),
            *reading_flags(),
        ]
        libraries = [LIBRARIES / "libios_dnnl.so"]
        patterns = ENGINE_SOURCES
        if tensorflow:
            package = _tensorflow()
            self._compile += [f"-isystem{package}/include", *_TENSORFLOW_FLAGS]
            libraries += [package / f"libtensorflow_{n}.so.2" for n in _TENSORFLOW]
            patterns += _OPTIMIZER
        self._libraries = [
            word
            for library in libraries
            for word in (str(library), f"-Wl,-rpath,{library.parent}")
        ]
        self._shared = [
            source
            for pattern in patterns
            for source in sorted(ROOT.glob(pattern))
            if not source.name.endswith("_test.cc")
        ]
        self._shared.append(ROOT / "tests/fuzz/no_cuda.cc")
        directory.mkdir(parents=True, exist_ok=True)

    def programs(
        self, sources: dict[str, list[str]], jobs: int, link: Sequence[str] = ()
    ) -> dict[str, Path]:
        """Builds programs from shared sources and sources of each; returns the
        paths."""
        own = {name: [ROOT / file for file in files] for name, files in sources.items()}
        every = dict.fromkeys([*self._shared, *(s for f in own.values() for s in f)])
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self._object, every))
        return {name: self._program(name, files, link) for name, files in own.items()}

    def _program(self, name: str, files: list[Path], link: Sequence[str]) -> Path:
        target = self.directory / name
        command = [*self._link, *link, "-o", str(target)]
        command += [str(self._target(source)) for source in [*files, *self._shared]]
        command += self._libraries
        _run([*command, "-rdynamic", "-lpthread", "-ldl"], f"linking {name}")
        return target

    def _target(self, source: Path) -> Path:
        name = source.relative_to(ROOT).as_posix().replace("/", "_")
        return (self.directory / name).with_suffix(".o")

    def _object(self, source: Path) -> None:
        target = self._target(source)
        dependencies = target.with_suffix(".d")
        if target.exists() and dependencies.exists():
            used = dependencies.read_text().replace("\\\n", " ").split()[1:]
            built = target.stat().st_mtime
            paths = [ROOT / name for name in used]
            if all(p.exists() and p.stat().st_mtime <= built for p in paths):
                return
        relative = source.relative_to(ROOT)
        print(f"compiling {relative}", flush=True)
        command = [*self._compile, "-MMD", "-MF", str(dependencies)]
        if source in _UNCHECKED:
            command.append("-fno-sanitize=all")
        command += ["-o", str(target), "-c", str(relative)]
        _run(command, f"compiling {relative}")


def reading_flags() -> list[str]:
    """The flags that a compiler needs to parse a source of the engine."""
    json_header = installed("nlohmann-json", "include/nlohmann/json.hpp")
    dnnl_header = installed("onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.hpp")
    return [
        *("-std=c++17", "-I."),
        f"-isystem{json_header.parents[1]}",
        f"-isystem{dnnl_header.parents[2]}",
    ]


def linker() -> list[str]:
    """Flags for a linker that needs 1 s, not 10 s, for TensorFlow's libraries."""
    return ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


def _run(command: list[str], what: str) -> None:
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SystemExit(f"{what} failed")


def _tensorflow() -> Path:
    """The package's directory, found without an import, which would take seconds."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("tensorflow is missing: install it")
    return Path(found.submodule_search_locations[0])


def installed(distribution: str, name: str) -> Path:
    try:
        files = importlib.metadata.files(distribution)
    except importlib.metadata.PackageNotFoundError:
        files = None
    for file in files or []:
        if file.as_posix().endswith(name):
            return Path(file.locate()).resolve()
    raise SystemExit(f"{name} is missing: install the wheel {distribution}")


# Flags that link a program with the engine.
ENGINE = ["-lios_engine", "-Wl,--allow-shlib-undefined"]


def build(sources: Sequence[str | Path], directory: Path, flags: Sequence[str]) -> Path:
    binary = directory / Path(sources[0]).stem
    command = shlex.split(os.environ.get("CXX", "g++"))
    command += ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]
    command += ["-DNDEBUG", "-I.", "-o", str(binary)]
    command += [*map(str, sources), "-Wl,--no-as-needed"]
    command += [f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", *flags]
    subprocess.run(command, cwd=ROOT, check=True)
    return binary
