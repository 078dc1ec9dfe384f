"""The fuzzing and sanitizer commands report missing tools."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_without_clang_one_line_says_so(tmp_path):
    done = run("tests.fuzz.run", PATH=str(tmp_path), FUZZ_CXX="")
    assert done.returncode == 1
    assert "apt-get install clang" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["tests.fuzz.run", "tests.cc.sanitize"])
def test_names_that_do_not_exist(command):
    done = run(command, "nonsense")
    assert done.returncode == 2
    assert "nonsense" in done.stderr
