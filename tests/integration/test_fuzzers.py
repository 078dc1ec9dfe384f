"""The fuzzing and sanitizer commands report missing tools."""

import pytest
from commands import run_python


def test_without_clang_one_line_says_so(tmp_path):
    done = run_python("-m", "tests.fuzz.run", status=1, PATH=tmp_path, FUZZ_CXX="")
    assert "apt-get install clang" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["tests.fuzz.run", "tests.cc.sanitize"])
def test_names_that_do_not_exist(command):
    assert "nonsense" in run_python("-m", command, "nonsense", status=2).stderr
