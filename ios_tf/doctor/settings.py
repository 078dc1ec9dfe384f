"""Findings about environment variables."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

from ios_tf.doctor.finding import OK, WARNING, Finding

# All variables of this package, with their effects.
OWN = {
    "IOS_TF_CACHE": "directory of schedules and latencies",
    "IOS_TF_CODE_CACHE": "directory of compiled GPU kernels; if empty, none are kept",
    "IOS_TF_CUDA_LIBRARIES": "directories of cuDNN and NVRTC, separated by colons",
    "IOS_TF_NUM_THREADS": "number of threads of the engine",
    "IOS_TF_PLAN_CACHE": "directory of cuDNN plans",
    "IOS_TF_REFRESH_SECONDS": "seconds between two looks for new schedules; 0: never",
}
# Variables of other software that change results, speed or devices.
OTHERS = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "number of the GPU's hardware queues",
    "CUDA_VISIBLE_DEVICES": "the GPUs that CUDA uses",
    "LD_LIBRARY_PATH": "directories where the loader looks first",
    "LD_PRELOAD": "libraries that are loaded first",
    "ONEDNN_MAX_CPU_ISA": "limits the instruction set",
    "TF_ENABLE_ONEDNN_OPTS": "whether TensorFlow uses its oneDNN",
    "TF_NUM_INTEROP_THREADS": "operations that TensorFlow runs at once",
    "TF_NUM_INTRAOP_THREADS": "threads of a TensorFlow operation",
    "TF_XLA_FLAGS": "whether TensorFlow compiles with XLA",
    "XDG_CACHE_HOME": "directory of the default cache",
}
_PREFIX = "IOS_TF_"


def environment_findings() -> Iterator[Finding]:
    """The variables that are set, and unknown variables that begin with IOS_TF_."""
    topic = "environment"
    found = False
    for name, effect in {**OWN, **OTHERS}.items():
        value = os.environ.get(name)
        if value is None:
            continue
        found = True
        advice = _problem_of(name, value)
        status = WARNING if advice else OK
        yield Finding(topic, name, f"{value} ({effect})", status, advice)
    for name, value in sorted(os.environ.items()):
        if not name.startswith(_PREFIX) or name in OWN:
            continue
        found = True
        similar = difflib.get_close_matches(name, OWN, 1)
        known = f"the known variables are {', '.join(OWN)}"
        instead = f"did you mean {similar[0]}?" if similar else known
        advice = f"ios_tf does not read {name}: {instead}"
        yield Finding(topic, name, f"{value} (unknown)", WARNING, advice)
    if not found:
        yield Finding(topic, "variables", "none is set")


def _problem_of(name: str, value: str) -> str:
    if name == "IOS_TF_REFRESH_SECONDS" and not _is_period(value):
        return f"{value!r} is ignored. Set a number of seconds, from 0 to 1,000,000"
    if name != "IOS_TF_NUM_THREADS":
        return ""
    cores = os.cpu_count() or 1
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        return f"{value!r} is ignored. Set a number from 1 to {cores}"
    if int(value) > cores:
        return f"the machine has {cores} cores, so a larger number has no effect"
    return ""


def _is_period(value: str) -> bool:
    try:
        return 0 <= float(value) <= 1e6
    except ValueError:
        return False
