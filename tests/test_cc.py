"""The C++ unit tests in tests/cc, built against the installed libraries.

`bazel test //...` runs the same ones.
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf
from native_build import ENGINE_TESTS, ROOT

from ios_tf import _native

LIBRARIES = _native.LIBRARIES


def run(source: str, directory: Path, flags: list[str]) -> None:
    binary = directory / Path(source).stem
    command = shlex.split(os.environ.get("CXX", "g++"))
    command += ["-std=c++17", "-O0", "-Wall", "-DNDEBUG", "-I.", "-o", str(binary)]
    command += [f"tests/cc/{source}", "tests/cc/main.cc", "-Wl,--no-as-needed"]
    command += [f"-L{LIBRARIES}", f"-Wl,-rpath,{LIBRARIES}", *flags]
    subprocess.run(command, cwd=ROOT, check=True)
    done = subprocess.run([binary], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok " in done.stdout


@pytest.mark.parametrize("name", ENGINE_TESTS)
def test_engine(name, tmp_path):
    run(f"{name}_test.cc", tmp_path, ["-lios_engine", "-Wl,--allow-shlib-undefined"])


@pytest.mark.parametrize("flag", ["-O1", "-fsanitize=thread"])
def test_lanes(flag, tmp_path):
    """The pool, from its sources, with delays at the worst of moments."""
    probe = tmp_path / "probe.cc"
    probe.write_text("int main() {}")
    command = [*shlex.split(os.environ.get("CXX", "g++")), flag, probe, "-o"]
    if any(
        subprocess.run(step, capture_output=True).returncode
        for step in ([*command, tmp_path / "probe"], [tmp_path / "probe"])
    ):
        pytest.skip(f"programs compiled with {flag} do not run here")
    sources = [f"cc/engine/cpu/{n}.cc" for n in ("cores", "lanes", "team", "waiting")]
    run("lanes_test.cc", tmp_path, ["-DIOS_TF_TEST_DELAYS", flag, "-pthread", *sources])


def test_lower(tmp_path):
    directory = Path(tf.sysconfig.get_lib())
    flags = [f.replace("-I", "-isystem", 1) for f in tf.sysconfig.get_compile_flags()]
    flags += ["-l:libios_tf_ops.so", "-lios_engine", f"-Wl,-rpath,{directory}"]
    flags += [str(directory / f"libtensorflow_{x}.so.2") for x in ("cc", "framework")]
    run("lower_test.cc", tmp_path, flags)
