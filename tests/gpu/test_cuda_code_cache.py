"""Compiled code for the GPU is stored for later processes, in a directory to which no
other user may write. A wrong file only makes the process compile again."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import cuda_helpers
import numpy as np
import pytest

from ios_tf.native import engine

pytestmark = pytest.mark.one_core

SHAPE = [1, 4, 3, 8]
X = 8 * np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
ACTIVATIONS = {"relu": np.maximum(X, 0), "relu6": np.clip(X, 0, 6)}


def run(activation: str) -> np.ndarray:
    operator = {"type": "activation", "activation": activation, "inputs": [-1]}
    block = {"version": 1, "inputs": [SHAPE], "operators": [operator], "outputs": [0]}
    schedule = {"version": 1, "stages": [{"strategy": "concurrent", "groups": [[0]]}]}
    return engine.Program(block, schedule, [], "gpu").run([X])[0]


# Prints the result and what the fake GPU counted.
RUN_ONCE = """
import json, sys
import cuda_helpers
fake = cuda_helpers.fake_cuda()
import test_cuda_code_cache as test
result = test.run(sys.argv[1])
report = fake.report()
print(json.dumps([result.tolist(), report["counts"], report["violations"]]))
"""


def run_in_process(directory: Path | None, activation="relu") -> tuple[int, str]:
    """Runs a process; returns the number of compiled kernels and the printed text."""
    result, counts, printed = cuda_helpers.run_apart(
        RUN_ONCE, activation, IOS_TF_CODE_CACHE=str(directory or "")
    )
    np.testing.assert_array_equal(np.float32(result), ACTIVATIONS[activation])
    assert counts["cuModuleLoadData"] == 1
    return counts.get("nvrtcCompileProgram", 0), printed


def only_file(directory: Path) -> Path:
    (file,) = directory.iterdir()  # no temporary file is left
    return file


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """The code cache that a process has created for one kernel. Tests use copies."""
    cuda_helpers.build_fakes()
    directory = tmp_path_factory.mktemp("code_cache") / "new" / "code"
    compiled, errors = run_in_process(directory)
    assert compiled == 1
    assert errors == ""
    return directory


@pytest.fixture
def filled(original, tmp_path) -> Path:
    """A code cache with one kernel."""
    return shutil.copytree(original, tmp_path / "code")


def test_a_kernel_is_compiled_once(filled):
    assert filled.stat().st_mode & 0o777 == 0o700
    assert only_file(filled).stat().st_mode & 0o777 == 0o600
    compiled, errors = run_in_process(filled)
    assert compiled == 0
    assert errors == ""


def test_without_a_directory_nothing_is_kept(tmp_path):
    cuda_helpers.build_fakes()
    for _ in range(2):
        compiled, errors = run_in_process(None)
        assert compiled == 1
        assert errors == ""


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _changed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)


def _writable(file: Path) -> None:
    """Makes the file writable for other users, one of whom may then have written it."""
    file.chmod(0o666)


def _link(file: Path) -> None:
    target = file.parent.parent / "elsewhere"
    file.rename(target)
    file.symlink_to(target)


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _large(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(1 << 40)  # a sparse file


@pytest.mark.parametrize(
    "damage", [_cut, _empty, _changed, _writable, _link, _pipe, _large]
)
def test_a_file_that_is_not_what_was_written_is_replaced(filled, damage):
    file = only_file(filled)
    right = file.read_bytes()
    damage(file)
    compiled, _ = run_in_process(filled)
    assert compiled == 1
    assert not file.is_symlink() and only_file(filled).read_bytes() == right
    assert file.stat().st_mode & 0o777 == 0o600


def _shared_with_others(directory: Path) -> None:
    directory.chmod(0o777)


def _shared_with_a_group(directory: Path) -> None:
    directory.chmod(0o770)


def _linked(directory: Path) -> None:
    directory.rename(directory.parent / "elsewhere")
    directory.symlink_to(directory.parent / "elsewhere")


@pytest.mark.parametrize(
    ("share", "why"),
    [
        (_shared_with_others, "other users may write to it"),
        (_shared_with_a_group, "other users may write to it"),
        (_linked, "it is not a directory, or it is a symbolic link"),
    ],
)
def test_a_directory_that_others_may_fill_is_not_used(filled, share, why):
    before = only_file(filled).read_bytes()
    share(filled)
    compiled, errors = run_in_process(filled)
    assert compiled == 1
    (line,) = errors.splitlines()
    assert f"the code cache {filled} is not used: {why}" in line
    assert only_file(filled).read_bytes() == before


def test_a_directory_that_cannot_be_created_is_not_used():
    """The message has the error of creating the directory."""
    cuda_helpers.build_fakes()
    directory = Path("/sys/ios_tf_code")  # nobody can create directories in /sys
    with pytest.raises(OSError) as refusal:
        directory.mkdir()
    why = os.strerror(refusal.value.errno)
    compiled, errors = run_in_process(directory)
    assert compiled == 1
    (line,) = errors.splitlines()
    assert f"the code cache {directory} is not used: {why}" in line


def test_other_options_are_other_code(filled):
    for compiled_now in (1, 0):
        compiled, _ = run_in_process(filled, "relu6")
        assert compiled == compiled_now
    assert len(list(filled.iterdir())) == 2
    assert run_in_process(filled) == (0, "")


def test_code_that_the_driver_does_not_take_is_compiled_again(filled):
    """Code that was compiled for another driver may be refused, for example."""
    file = only_file(filled)
    right = file.read_bytes()
    code = b"FAKE CUBIN of another kind"
    begin = right.index(b"\n") + 1
    file.write_bytes(
        right[:begin] + hashlib.sha256(code).hexdigest().encode() + b"\n" + code
    )
    compiled, _ = run_in_process(filled)
    assert compiled == 1
    assert only_file(filled).read_bytes() == right
