"""What goes wrong on a machine with or without a GPU gives one clear line, and the
process lives on. A process opens the libraries once: most run in one of their own."""

import os
import subprocess
import sys
from pathlib import Path

import cuda_engine
import cuda_helpers
import numpy as np
import pytest

from ios_tf import engine

CONV = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 8}
BLOCK = {
    "version": 1,
    "name": "small",
    "inputs": [[1, 6, 5, 8]],
    "operators": [
        {**CONV, "inputs": [-1], "activation": "relu"},
        {"type": "pool", "kernel": [3, 3], "padding": "SAME", "inputs": [-1]},
        {"type": "add", "inputs": [0, 1]},
    ],
    "outputs": [2],
}
SCHEDULE = {
    "version": 1,
    "stages": [
        {"strategy": "concurrent", "groups": [[0], [1]]},
        {"strategy": "concurrent", "groups": [[2]]},
    ],
}
WEIGHTS = [np.full((3, 3, 8, 8), 0.01, np.float32)]
INPUTS = [np.ones((1, 6, 5, 8), np.float32)]

# Prints the error of the device named by the first argument, and what the CPU says.
_SCRIPT = """
import sys
import test_cuda_failures as test
from ios_tf import engine

try:
    test.run(sys.argv[1], sys.argv[2])
    print("no error")
except engine.EngineError as error:
    print(error)
print(float(test.run("cpu", "float32")[0][0, 0, 0, 0]))
"""


def run(device: str, dtype: str = "float32") -> list[np.ndarray]:
    program = engine.Program({**BLOCK, "dtype": dtype}, SCHEDULE, WEIGHTS, device)
    return program.run([cuda_engine.encode(x, dtype) for x in INPUTS])


def error_of(libraries: Path, options: str = "", arguments=("cuda", "float32")) -> str:
    """What a process says that has these libraries and options of the fakes."""
    tests = Path(__file__).resolve().parent
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": f"{tests.parent}:{tests}",
            "IOS_TF_CUDA_LIBRARIES": str(libraries),
            "FAKE_CUDA_OPTIONS": options,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout + done.stderr
    assert float(lines[1]) == pytest.approx(1.32)
    return lines[0]


@pytest.mark.parametrize("missing", cuda_helpers.LIBRARIES)
def test_a_missing_library_is_named(missing, tmp_path):
    fakes = cuda_helpers.build_fakes()
    for name in cuda_helpers.LIBRARIES:
        if name != missing:
            (tmp_path / name).symlink_to(fakes / name)
    message = error_of(tmp_path)
    assert f"cannot load {missing}" in message
    assert "install" in message


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("libcuda.so.1", "libcuda.so.1 has no cuInit: it is too old"),
        ("libnvrtc.so.12", "NVRTC has no nvrtcVersion: it is too old"),
        ("libcudnn.so.9", "cuDNN"),
    ],
)
def test_a_library_that_is_too_old(old, message, tmp_path):
    fakes = cuda_helpers.build_fakes()
    for name in cuda_helpers.LIBRARIES:
        if name != old:
            (tmp_path / name).symlink_to(fakes / name)
    source = tmp_path / "empty.c"
    source.write_text("")
    compiler = os.environ.get("CXX", "g++").split()
    subprocess.run(
        [*compiler, "-shared", "-x", "c", str(source), "-o", str(tmp_path / old)],
        check=True,
    )
    assert message in error_of(tmp_path)


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        (
            "capability=61",
            ("cuda", "float32"),
            "capability 6.1, 7.0 or above is needed",
        ),
        ("devices=0", ("cuda", "float32"), "cuInit failed"),
        ("devices=1", ("cuda:1", "float32"), "no GPU 1; this machine has 1"),
        ("", ("cuda:x", "float32"), "no device 'cuda:x'"),
        ("capability=75", ("cuda", "bfloat16"), "bfloat16"),
        ("capability=75", ("cuda", "float16"), "no error"),
        ("devices=2", ("cuda:1", "float16"), "no error"),
        ("nvrtc_error=1", ("cuda", "float32"), "injected"),
        ("cudnn_create_error=1", ("cuda", "float32"), "cuDNN"),
    ],
)
def test_a_gpu_that_does_not_do(options, arguments, message):
    assert message in error_of(cuda_helpers.build_fakes(), options, arguments)


def test_memory_may_run_out_at_any_time(gpu):
    """Wherever it does, the call fails, nothing leaks, and later calls work."""
    expected = run("cpu")
    run(cuda_engine.DEVICE)  # what lives as long as the process
    limit, failures = 0, 0
    while True:
        gpu.fake.set(memory_limit=limit)
        try:
            cuda_engine.assert_close(run(cuda_engine.DEVICE), expected, 1e-4)
            break
        except engine.EngineError as error:
            failures += 1
            assert "out of memory" in str(error)
            assert "\n" not in str(error)
        assert gpu.fake.report()["live"]["bytes"] == 0
        limit += 256
    assert failures > 4


def test_a_profiler_that_has_no_memory(gpu):
    profiler = engine.Profiler(BLOCK, cuda_engine.DEVICE)
    for stages in (SCHEDULE["stages"], SCHEDULE["stages"][:1]):
        schedule = {**SCHEDULE, "stages": stages}
        gpu.fake.set(memory_limit=1024)
        with pytest.raises(engine.EngineError, match="out of memory"):
            profiler.measure([schedule])
        gpu.fake.reset()
        assert profiler.measure([schedule]).min() > 0


def test_no_memory_for_another_context(gpu):
    """Callers then wait for the contexts that there are."""
    program = engine.Program(BLOCK, SCHEDULE, WEIGHTS, cuda_engine.DEVICE)
    expected = run("cpu")
    runs = [cuda_engine.DeviceRun(gpu, program, INPUTS, "float32") for _ in range(4)]
    gpu.fake.set(memory_limit=gpu.fake.report()["live"]["bytes"])
    for one in runs * 2:
        one.enqueue()
    for one in runs:
        cuda_engine.assert_close(one.results(), expected, 1e-4)
        one.close()


def test_memory_that_is_not_aligned_is_refused(gpu):
    program = engine.Program(BLOCK, SCHEDULE, WEIGHTS, cuda_engine.DEVICE)
    memory = gpu.allocate(2000)
    shape = BLOCK["inputs"][0]
    with pytest.raises(engine.EngineError, match="not aligned"):
        program.enqueue([(memory + 4, shape)], [memory + 4096])
    gpu("cuMemFree", memory)
