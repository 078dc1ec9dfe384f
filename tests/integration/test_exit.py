"""Programs of the engine's C API that exit while other threads are inside calls."""

import json
import subprocess

import pytest
from native_build import ENGINE, ROOT, build

CONVOLUTION = {"type": "conv2d", "padding": "SAME", "filters": 16, "activation": "relu"}
KERNELS = [[3, 3], [1, 1], [5, 5], [1, 7], [7, 1], [2, 2]]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("exit")
    block = {
        "version": 1,
        "name": "exit",
        "inputs": [[1, 64, 64, 16]],
        "operators": [
            *({**CONVOLUTION, "kernel": k, "inputs": [-1]} for k in KERNELS),
            {"type": "pool", "inputs": [-1], "kernel": [3, 3], "padding": "SAME"}
            | {"pool": "max"},
            {"type": "softmax", "inputs": [-1]},
            {"type": "add", "inputs": list(range(len(KERNELS) + 2))},
        ],
        "outputs": [len(KERNELS) + 2],
    }
    operators = range(len(block["operators"]))
    stages = [{"strategy": "concurrent", "groups": [[i]]} for i in operators]
    sizes = [16 * 16 * height * width for height, width in KERNELS]
    (directory / "block").write_text(json.dumps(block))
    (directory / "schedule").write_text(json.dumps({"version": 1, "stages": stages}))
    (directory / "sizes").write_text(" ".join(map(str, sizes)))
    binary = build(
        [ROOT / "tests/cc/exit_in_calls.cc"], directory, [*ENGINE, "-pthread"]
    )
    return [binary, *(directory / name for name in ("block", "schedule", "sizes"))]


@pytest.mark.parametrize("how", ["return", "exit", "handlers"])
def test_exit_while_calls_run(how, program):
    for _ in range(6):
        done = subprocess.run([*program, how], capture_output=True, timeout=60)
        assert done.returncode == 0, done
