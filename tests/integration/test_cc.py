"""The C++ unit tests beside their sources and the fuzzers, built against the installed
libraries.

`bazel test //...` runs the same unit tests.
"""

import os
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
import shared
import tensorflow as tf
from native_build import (
    CORPUS,
    ENGINE,
    ENGINE_TESTS,
    FUZZERS,
    GRAPH_TESTS,
    LANES_TEST,
    build,
    installed,
    linker,
)

MAIN = "tests/cc/main.cc"


def run(binary: Path, *arguments: str | Path) -> None:
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok " in done.stdout


def build_as_one(files: Iterable[str], directory: Path, flags: Sequence[str]) -> Path:
    """Builds one program, `tests`, from many files: parsing headers takes most time."""
    source = directory / "tests.cc"
    source.write_text("".join(f'#include "{file}"\n' for file in files))
    return build([source], directory, flags)


@pytest.fixture(scope="module")
def engine_tests() -> Path:
    return shared.made_once("engine_tests", _build_engine_tests) / "tests"


@pytest.mark.parametrize("name", ENGINE_TESTS)
def test_engine(name, engine_tests):
    run(engine_tests, ENGINE_TESTS[name])


@pytest.mark.parametrize("name", ["depthwise", "dispatch"])
@pytest.mark.parametrize("isa", ["AVX2", "SSE41"])
def test_other_instruction_sets(isa, name, engine_tests, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", isa)
    run(engine_tests, ENGINE_TESTS[name])


@pytest.fixture(scope="module")
def graph_tests() -> Path:
    return shared.made_once("graph_tests", _build_graph_tests) / "tests"


@pytest.mark.parametrize("name", GRAPH_TESTS)
def test_graph_optimizer(name, graph_tests):
    run(graph_tests, GRAPH_TESTS[name])


def _build_engine_tests(path: Path) -> None:
    build_as_one([*ENGINE_TESTS.values(), MAIN], path, ENGINE)


def _build_graph_tests(path: Path) -> None:
    directory = Path(tf.sysconfig.get_lib())
    flags = [f.replace("-I", "-isystem", 1) for f in tf.sysconfig.get_compile_flags()]
    flags += ["-l:libios_tf_ops.so", "-lios_engine", f"-Wl,-rpath,{directory}"]
    flags += [str(directory / f"libtensorflow_{x}.so.2") for x in ("cc", "framework")]
    build_as_one([*GRAPH_TESTS.values(), MAIN], path, [*flags, *linker()])


@pytest.mark.parametrize("name", FUZZERS)
def test_fuzzer(name, tmp_path):
    """The fuzzer accepts its corpus and a few mutations, which are always the same."""
    json_header = installed("nlohmann-json", "include/nlohmann/json.hpp")
    sources = [*FUZZERS[name], "tests/fuzz/replay.cc"]
    mutations = "200" if name == "engine" else "2000"
    corpus = sorted((CORPUS / name).iterdir())
    # In one file, the compiler knows that replay.cc has a mutator.
    flags = [f"-isystem{json_header.parents[1]}", "-Wno-address", *ENGINE]
    run(build_as_one(sources, tmp_path, flags), mutations, *corpus)


@pytest.mark.parametrize("flag", ["-O1", "-fsanitize=thread"])
def test_lanes(flag, tmp_path):
    """The pool, compiled from its sources, passes with delays at critical moments."""
    probe = tmp_path / "probe.cc"
    probe.write_text("int main() {}")
    command = [*shlex.split(os.environ.get("CXX", "g++")), flag, probe, "-o"]
    if any(
        subprocess.run(step, capture_output=True).returncode
        for step in ([*command, tmp_path / "probe"], [tmp_path / "probe"])
    ):
        pytest.skip(f"programs compiled with {flag} do not run here")
    threads = ("cores", "lanes", "system", "team", "waiting")
    sources = [f"cc/engine/cpu/threads/{name}.cc" for name in threads]
    sources.append("cc/engine/host/control_groups.cc")
    flags = ["-DIOS_TF_TEST_DELAYS", flag, "-pthread"]
    run(build([LANES_TEST, MAIN, *sources], tmp_path, flags))
