"""Builds, loads and controls the fake CUDA libraries in fake_cuda."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "fake_cuda"
LIBRARIES = {
    "libcuda.so.1": [
        "machine.cc",
        "cache.cc",
        "timeline.cc",
        "kernel_runner.cc",
        "driver.cc",
    ],
    "libnvrtc.so.13": ["nvrtc.cc"],
    "libnvToolsExt.so.1": ["nvtx.cc"],
    "libcudnn.so.9": [
        "cudnn.cc",
        "descriptor.cc",
        "engines.cc",
        "recordings.cc",
        "graph.cc",
        "graph_text.cc",
    ],
}


def include_directories() -> list[Path]:
    """The directories of the headers of CUDA, NVRTC and cuDNN in TensorFlow's wheel."""
    for wheel in ("tensorflow", "tensorflow-cpu"):
        try:
            package = importlib.metadata.distribution(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
        external = Path(str(package.locate_file("tensorflow/include/external")))
        return [
            external / name / "include"
            for name in ("cuda_cudart", "cuda_nvcc", "cuda_nvrtc", "cuda_cudnn")
        ]
    raise RuntimeError("no TensorFlow: the fakes need the CUDA headers of its wheel")


@functools.cache
def build_fakes() -> Path:
    """Returns the directory of the libraries; builds them if a source has changed."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    flags = ["-std=c++17", "-O2", "-Wall", "-fPIC", f'-DFAKE_CUDA_SOURCES="{SOURCES}"']
    flags += [f"-isystem{directory}" for directory in include_directories()]
    text = repr([compiler, flags, LIBRARIES]).encode()
    for source in sorted(SOURCES.iterdir()):
        text += source.name.encode() + b"\0" + source.read_bytes()
    digest = hashlib.sha256(text).hexdigest()[:16]
    target = ROOT / "build" / "fake_cuda" / digest
    target.parent.mkdir(parents=True, exist_ok=True)
    # Other processes wait, because compiling the same sources would take longer.
    with open(target.with_name("lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _compile_fakes([*compiler, *flags], target)
    return target


def _compile_fakes(compiler: list[str], target: Path) -> None:
    building = target.with_name(f"{target.name}.{os.getpid()}")
    building.mkdir()
    try:
        jobs = {
            name: subprocess.Popen(
                [*compiler, "-c", str(SOURCES / name), "-o", f"{name}.o"],
                cwd=building,
            )
            for names in LIBRARIES.values()
            for name in names
        }
        failed = [name for name, job in jobs.items() if job.wait() != 0]
        if failed:
            raise RuntimeError(f"cannot compile {', '.join(failed)}")
        for library, names in LIBRARIES.items():
            objects = [f"{name}.o" for name in names]
            link = ["-shared", f"-Wl,-soname,{library}", "-o", library, *objects]
            if library != "libcuda.so.1":
                link += ["-L.", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"]
            subprocess.run([*compiler, *link, "-ldl"], cwd=building, check=True)
        building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


class FakeCuda:
    """The fake GPU of this process."""

    def __init__(self, directory: Path):
        self.directory = directory
        # The engine opens the libraries in this directory, so each library is loaded
        # only once. It finds the driver by its name, because the driver is loaded
        # below.
        os.environ["IOS_TF_CUDA_LIBRARIES"] = str(directory)
        # Caches are kept in memory only, because plans that were timed on the fake GPU
        # must not be used elsewhere.
        os.environ.setdefault("IOS_TF_PLAN_CACHE", "")
        os.environ.setdefault("IOS_TF_CODE_CACHE", "")
        self.library = ctypes.CDLL(str(directory / "libcuda.so.1"), ctypes.RTLD_GLOBAL)
        self.library.fake_cuda_report.restype = ctypes.c_char_p
        self.library.fake_cuda_set.argtypes = [ctypes.c_char_p, ctypes.c_int64]
        self.library.fake_cuda_plant.argtypes = [ctypes.c_char_p, ctypes.c_int]

    def report(self) -> dict:
        """The violations, the counts of calls, and the numbers of existing objects."""
        return json.loads(self.library.fake_cuda_report())

    def take_violations(self) -> list[str]:
        violations = self.report()["violations"]
        self.library.fake_cuda_reset()
        return violations

    def reset(self) -> None:
        """Removes violations, counts, planted mistakes and options."""
        self.library.fake_cuda_reset()
        self.library.fake_cuda_clear_options()

    def set(self, **options: int) -> None:
        for name, value in options.items():
            self.library.fake_cuda_set(name.encode(), value)

    def plant(self, what: str, n: int = 0) -> None:
        """Makes the fake GPU make a mistake; see fake_cuda_plant() in machine.cc."""
        self.library.fake_cuda_plant(what.encode(), n)


@functools.cache
def fake_cuda() -> FakeCuda:
    """Loads the fake GPU. Call it before the engine first opens the device "gpu"."""
    return FakeCuda(build_fakes())


def zero_weights(block: dict[str, Any]) -> list[np.ndarray]:
    """Weights of zeros for a block, for tests in which the values do not matter."""
    from ios_tf.native import engine  # the fakes must be loaded before the engine

    shapes = engine.problem(block)["weight_shapes"]
    return [np.zeros(s, np.float32) for of_operator in shapes for s in of_operator]


def run_apart(program: str, argument: str, **environment: str) -> tuple[Any, Any, str]:
    """Runs Python code in a separate process.

    The last line of its output must be JSON: a result, the fake GPU's counts, and the
    fake GPU's violations. Asserts that there are no violations.

    Returns:
      The result, the counts, and the process's standard error.
    """
    from commands import run_python  # programs that use this module lack tests/support

    done = run_python("-c", program, argument, **environment)
    result, counts, violations = json.loads(done.stdout.splitlines()[-1])
    assert violations == []
    return result, counts, done.stderr
