"""The examples run and report equal results."""

import os
import re
import subprocess
import sys
from pathlib import Path

import networks
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(script: str, *arguments: object, cache: Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *map(str, arguments)],
        env={**os.environ, "IOS_TF_CACHE": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def difference(output: str) -> float:
    return float(re.search(r"largest relative difference (\S+)", output)[1])


def test_keras_networks(tmp_path):
    path = tmp_path / "branches.keras"
    networks.branches().save(path)
    output = run("convert_and_compare.py", path, tmp_path, cache=tmp_path)
    assert difference(output) < 1e-4
    # The model's schedules are in the cache now.
    output = run("optimize_keras_model.py", path, cache=tmp_path)
    assert difference(output) < 1e-4
    assert float(re.search(r"optimized +(\S+) ms", output)[1]) > 0


def test_run_with_onnxruntime(tmp_path):
    pytest.importorskip("tf2onnx", reason="pip install 'ios-tf[onnx]'")
    output = run("run_with_onnxruntime.py", tmp_path, cache=tmp_path)
    assert difference(output) < 1e-4
    assert (tmp_path / "model.onnx").stat().st_size > 10_000
