"""A TensorFlow device "GPU" on the fake CUDA driver. It needs a separate process.

TensorFlow's own kernels for GPUs would call the real CUDA. All ops except those of this
package must therefore be placed on the CPU.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
from pathlib import Path

import cuda_helpers
import native_build
import tensorflow as tf

_SOURCE = Path(__file__).resolve().parent / "fake_gpu_device" / "device.cc"


def _build(fakes: Path) -> Path:
    """Returns the library that registers the device; builds it if it is outdated."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    includes = [
        "-isystem" + flag[2:] if flag.startswith("-I") else flag
        for flag in tf.sysconfig.get_compile_flags()
    ]
    external = Path(tf.sysconfig.get_include()) / "external"
    includes += [
        f"-isystem{external / name / 'include'}"
        for name in ("cuda_cudart", "cuda_nvcc")
    ]
    flags = ["-std=c++17", "-O1", "-Wall", "-fPIC", "-shared", *includes]
    link = [f"-L{fakes}", "-l:libcuda.so.1", f"-Wl,-rpath,{fakes}"]
    link += [*tf.sysconfig.get_link_flags(), f"-Wl,-rpath,{tf.sysconfig.get_lib()}"]
    link += native_build.linker()
    text = repr([compiler, flags, link]).encode() + _SOURCE.read_bytes()
    digest = hashlib.sha256(text).hexdigest()[:16]
    target = cuda_helpers.ROOT / "build" / "fake_cuda" / f"device.{digest}.so"
    if not target.exists():
        building = target.with_suffix(f".{os.getpid()}")
        command = [*compiler, *flags, str(_SOURCE), "-o", str(building), *link]
        subprocess.run(command, check=True)
        building.rename(target)
    return target


class GpuDevice:
    """The TensorFlow device, and the fake driver that it uses."""

    def __init__(self) -> None:
        self.cuda = cuda_helpers.fake_cuda()
        path = str(_build(self.cuda.directory))
        tf.load_library(path)
        self._library = ctypes.CDLL(path)
        self._library.fake_gpu_device_taken.restype = ctypes.c_int64
        self._library.fake_gpu_device_allocated.restype = ctypes.c_int64

    def misalign(self, count: int) -> None:
        """Places new tensors on the GPU `count` bytes behind an aligned address."""
        self._library.fake_gpu_device_misalign(count)

    def taken(self) -> int:
        """The bytes of the GPU's memory that TensorFlow's allocator has taken."""
        return self._library.fake_gpu_device_taken()

    def allocated(self) -> int:
        """The bytes of all allocations of TensorFlow's allocator until now."""
        return self._library.fake_gpu_device_allocated()


@functools.cache
def load() -> GpuDevice:
    """Registers the device. Call it before TensorFlow looks for devices."""
    return GpuDevice()
