"""Findings about NVIDIA's driver and libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence

from ios_tf.doctor.finding import NOTE, WARNING, Finding
from ios_tf.native import engine

_TOPIC = "GPU"
_DRIVER = "libcuda.so.1"
_CUDNN = ("libcudnn.so.9",)
_NVRTC = ("libnvrtc.so.13", "libnvrtc.so.12")
_INSTALL = "pip install 'tensorflow[and-cuda]'"


def gpu_findings() -> Iterator[Finding]:
    """Whether the engine can use a GPU, and where its libraries are.

    Without NVIDIA's driver, missing libraries are notes only.
    """
    driver = _loaded(_DRIVER)
    if driver is None:
        advice = "install NVIDIA's driver if you want to use a GPU of this machine"
        yield Finding(_TOPIC, "driver", f"{_DRIVER} not found", NOTE, advice)
    else:
        yield Finding(_TOPIC, "driver", driver)
    missing = NOTE if driver is None else WARNING
    for name, names in (("cuDNN", _CUDNN), ("NVRTC", _NVRTC)):
        path = _find(names)
        if path is None:
            advice = f"{_INSTALL}, or name its directory in IOS_TF_CUDA_LIBRARIES"
            yield Finding(_TOPIC, name, f"{names[0]} not found", missing, advice)
        else:
            yield Finding(_TOPIC, name, path)
    if driver is not None:
        yield _device()


def _device() -> Finding:
    try:
        return Finding(_TOPIC, "device", engine.device_fingerprint("gpu"))
    except engine.EngineError as error:
        advice = "fix the cause that the message gives. Until then, use --device=cpu"
        return Finding(_TOPIC, "device", str(error), WARNING, advice)


def _find(names: Sequence[str]) -> str | None:
    """The path of the first library that the engine would find."""
    listed = os.environ.get("IOS_TF_CUDA_LIBRARIES", "")
    only = [directory for directory in listed.split(":") if directory]
    for name in names:
        for directory in only or engine.cuda_directories():
            path = os.path.join(directory, name)
            if os.path.exists(path):
                return path
    return None if only else next(filter(None, map(_loaded, names)), None)


def _loaded(name: str) -> str | None:
    """The path of a library of the system; None if it cannot be loaded."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return None
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            path = line.rstrip("\n").partition("/")[2]
            if os.path.basename(path).startswith(name.partition(".so")[0] + ".so"):
                return f"/{path}"
    return name
