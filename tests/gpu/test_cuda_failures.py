"""Failures on a machine with or without a GPU give an error message of one line, and
the process continues. Most tests run in a separate process, because a process keeps the
libraries that it has loaded."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import cuda_engine
import cuda_helpers
import numpy as np
import pytest
from commands import run_python

from ios_tf.native import engine

pytestmark = pytest.mark.one_core

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

# Prints the error of the device that the first argument names, and the error of the
# CPU.
_SCRIPT = """
import sys
import test_cuda_failures as test
from ios_tf.native import engine

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


def output_of(
    script: str, driver: Path, *arguments: str, **environment: str
) -> list[str]:
    """The lines of a process that finds the driver in the directory `driver`.

    By default, the process finds the other libraries in the same directory.
    """
    paths = filter(None, [str(driver), os.environ.get("LD_LIBRARY_PATH")])
    variables = {
        "LD_LIBRARY_PATH": os.pathsep.join(paths),
        "IOS_TF_CUDA_LIBRARIES": str(driver),
        **environment,
    }
    return run_python("-c", script, *arguments, **variables).stdout.splitlines()


def error_of(libraries: Path, options: str = "", arguments=("gpu", "float32")) -> str:
    """The error of a process that uses these libraries and options of the fake GPU."""
    error, value = output_of(_SCRIPT, libraries, *arguments, FAKE_CUDA_OPTIONS=options)
    assert float(value) == pytest.approx(1.32)
    return error


def link_fakes(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).symlink_to(cuda_helpers.build_fakes() / name)
    return directory


FINGERPRINT = (
    "from ios_tf.native import engine; print(engine.device_fingerprint('gpu'))"
)


def test_libraries_where_pip_puts_them(tmp_path):
    """The engine finds libraries in all directories that Python imports from.

    No environment variable is needed.
    """
    site = tmp_path / "site: packages [all]"
    link_fakes(site / "nvidia/cuda_nvrtc/lib", "libnvrtc.so.13")
    link_fakes(site / "nvidia/cu13/lib", "libcudnn.so.9")
    driver = link_fakes(tmp_path / "driver", "libcuda.so.1")
    script = "import os, sys; del os.environ['IOS_TF_CUDA_LIBRARIES']\n"
    script += f"sys.path.insert(0, {str(site)!r})\n{FINGERPRINT}"
    (name,) = output_of(script, driver)
    assert name.startswith("Fake GPU, ")


def test_libraries_in_several_directories_of_a_list(tmp_path):
    nvrtc = link_fakes(tmp_path / "nvrtc", "libnvrtc.so.13")
    cudnn = link_fakes(tmp_path / "cudnn", "libcudnn.so.9")
    driver = link_fakes(tmp_path / "driver", "libcuda.so.1")
    libraries = f":/nowhere:{nvrtc}:{cudnn}:"
    (name,) = output_of(FINGERPRINT, driver, IOS_TF_CUDA_LIBRARIES=libraries)
    assert name.startswith("Fake GPU, ")


_NVRTC = f"""{FINGERPRINT}
import re
maps = open("/proc/self/maps").read()
print(*set(re.findall(r"libnvrtc[.]so[.][0-9]+", maps)))
"""


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ("capability=70", 12),
        ("capability=75", 13),
        ("capability=90", 13),
        ("capability=90,driver_version=12080", 12),
    ],
)
def test_nvrtc_compiles_for_the_gpu(tmp_path, options, version):
    """An older NVRTC is used for the oldest GPUs, which NVRTC 13 does not support, and
    for older drivers, which do not load the code of NVRTC 13.
    """
    fakes = link_fakes(tmp_path, *cuda_helpers.LIBRARIES)
    shutil.copy(fakes / "libnvrtc.so.13", fakes / "libnvrtc.so.12")
    _, opened = output_of(_NVRTC, fakes, FAKE_CUDA_OPTIONS=options)
    assert opened == f"libnvrtc.so.{version}"


# Makes calls that fail because a library is missing, and repeats them with the library.
_LATER = """
import os, sys
from ios_tf.native import engine

for _ in range(2):
    try:
        engine.device_fingerprint("gpu")
    except engine.EngineError as error:
        print(error)
os.symlink(*sys.argv[1:])
print(engine.device_fingerprint("gpu"))
"""


def test_a_library_that_comes_later_is_found(tmp_path):
    link_fakes(tmp_path, "libcuda.so.1", "libnvrtc.so.13")
    cudnn = str(cuda_helpers.build_fakes() / "libcudnn.so.9")
    arguments = (cudnn, str(tmp_path / "libcudnn.so.9"))
    first, second, name = output_of(_LATER, tmp_path, *arguments)
    assert first == second
    assert "cannot load libcudnn.so.9" in first
    assert name.startswith("Fake GPU, ")


# The profiler's library is optional.
REQUIRED = [name for name in cuda_helpers.LIBRARIES if "nvToolsExt" not in name]


@pytest.mark.parametrize("missing", REQUIRED)
def test_a_missing_library_is_named(missing, tmp_path):
    link_fakes(tmp_path, *(n for n in cuda_helpers.LIBRARIES if n != missing))
    message = error_of(tmp_path)
    assert re.search(rf"cannot load [\w. ]*\b{re.escape(missing)} \(", message)
    assert "Install" in message


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("libcuda.so.1", "libcuda.so.1 has no function cuInit: the library is too old"),
        (
            "libnvrtc.so.13",
            "NVRTC has no function nvrtcVersion: the library is too old",
        ),
        ("libcudnn.so.9", "cuDNN"),
    ],
)
def test_a_library_that_is_too_old(old, message, tmp_path):
    link_fakes(tmp_path, *(n for n in cuda_helpers.LIBRARIES if n != old))
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
            ("gpu", "float32"),
            "capability 6.1, but IOS-TF needs 7.0 or above",
        ),
        ("devices=0", ("gpu", "float32"), "cuInit failed"),
        ("devices=1", ("gpu:1", "float32"), "no GPU 1. GPUs are numbered from 0"),
        ("", ("gpu:x", "float32"), "no device 'gpu:x'"),
        ("capability=75", ("gpu", "bfloat16"), "bfloat16"),
        ("capability=75", ("gpu", "float16"), "no error"),
        ("devices=2", ("gpu:1", "float16"), "no error"),
        ("capability=70", ("gpu", "float32"), "invalid value for --gpu-architecture"),
        # NVRTC is older than the GPU, so the driver compiles PTX from NVRTC.
        ("capability=120,nvrtc_newest=90", ("gpu", "float32"), "no error"),
        # NVRTC knows newer GPUs, but not this one.
        ("capability=103,nvrtc_lacks=103", ("gpu", "float32"), "no error"),
        ("nvrtc_error=1", ("gpu", "float32"), "injected"),
        ("cudnn_create_error=1", ("gpu", "float32"), "cuDNN"),
    ],
)
def test_a_gpu_that_does_not_do(options, arguments, message):
    assert message in error_of(cuda_helpers.build_fakes(), options, arguments)


def test_memory_may_run_out_at_any_time(gpu):
    """If any allocation fails, the call fails, nothing leaks, and later calls work."""
    expected = run("cpu")
    run(cuda_engine.DEVICE)  # allocates what exists until the process ends
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
            profiler.sample([schedule])
        gpu.fake.reset()
        assert profiler.sample([schedule])[0].min() > 0


def test_no_memory_for_another_instance(gpu):
    """If there is no memory for another instance, callers wait for existing ones."""
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
        program.bind_device([(memory + 4, shape)], [memory + 4096])()
    gpu("cuMemFree", memory)
