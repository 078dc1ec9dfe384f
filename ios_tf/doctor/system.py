"""Findings about versions, the processor and its cores. None needs TensorFlow."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator

import ios_tf
from ios_tf.doctor.finding import ERROR, NOTE, OK, WARNING, Finding
from ios_tf.errors import NativeLibraryError
from ios_tf.native import engine, platforms, plugin
from ios_tf.packages import version_of

_SUPPORTED = "Linux on x86_64 with glibc, such as Debian"
# Converting a large network, such as NASNet-A large, needs about this much.
_ENOUGH_MEMORY = 4 << 30
# Packages that install another TensorFlow under the import name `tensorflow`.
_OTHER_TENSORFLOWS = ("tensorflow-cpu", "tf-nightly", "intel-tensorflow", "zentf")


def version_findings() -> Iterator[Finding]:
    """The versions of IOS-TF, of its libraries, and of the packages it needs."""
    topic = "versions"
    yield Finding(topic, "ios_tf", ios_tf.__version__)
    yield Finding(topic, "Python", platform.python_version())
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    library = " ".join(platform.libc_ver()).strip() or "unknown"
    for name, value, reason in (
        ("system", system, platforms.unsupported_machine()),
        ("C library", library, platforms.unsupported_c_library()),
    ):
        advice = f"{reason}. Use {_SUPPORTED}" if reason else ""
        yield Finding(topic, name, value, ERROR if reason else OK, advice)
    yield from _tensorflow(topic)
    for package in ("keras", "numpy"):
        if version := version_of(package):
            yield Finding(topic, package, version)
        else:
            advice = f"pip install {package}, which ios_tf and TensorFlow need"
            yield Finding(topic, package, "not installed", ERROR, advice)


def _tensorflow(topic: str) -> Iterator[Finding]:
    installed = version_of("tensorflow")
    try:
        built = plugin.built_against()
    except NativeLibraryError as error:
        yield Finding(topic, "native library", "missing", ERROR, str(error))
        return
    if installed is None:
        yield Finding(
            topic,
            "TensorFlow",
            f"not installed; ios_tf is built for {built}",
            ERROR,
            f"pip install 'tensorflow~={plugin.minor(built)}.0'",
        )
    elif mismatch := plugin.version_mismatch(installed, built):
        yield Finding(topic, "TensorFlow", installed, ERROR, mismatch)
    else:
        yield Finding(topic, "TensorFlow", f"{installed}, ios_tf is built for {built}")
    others = [f"{p} {v}" for p in _OTHER_TENSORFLOWS if (v := version_of(p))]
    if others:
        yield Finding(
            topic,
            "other TensorFlow",
            ", ".join(others),
            WARNING,
            "uninstall all of them and tensorflow, and then install tensorflow: these "
            "packages overwrite each other's files",
        )


def version_lines() -> list[str]:
    """The versions that results depend on, one per line."""
    installed = version_of("tensorflow") or "not installed"
    lines = [f"ios_tf {ios_tf.__version__}", f"TensorFlow {installed}"]
    try:
        lines[1] += f" (ios_tf is built for {plugin.built_against()})"
        described = engine.cpu_description()
    except (NativeLibraryError, engine.EngineError) as error:
        return [*lines, f"no oneDNN: {error}"]
    return [
        *lines,
        f"oneDNN {described['oneDNN']}",
        f"instruction set {described['instruction set']}",
    ]


def processor_findings() -> Iterator[Finding]:
    """The engine's processor, instruction set and cores, and the machine's load."""
    topic = "processor"
    try:
        described = engine.cpu_description()
    except engine.EngineError as error:
        advice = (
            "fix the cause that the message gives, or reinstall ios-tf. Until then, "
            "converted models run as plain TensorFlow"
        )
        yield Finding(topic, "engine", str(error), ERROR, advice)
        return
    yield Finding(topic, "name", described["processor"])
    yield _instruction_set(topic, described["instruction set"])
    yield Finding(topic, "oneDNN", described["oneDNN"])
    yield _cores(topic, engine.lane_count("cpu"))
    yield _load(topic)
    yield _memory(topic)


def _instruction_set(topic: str, name: str) -> Finding:
    if limit := os.environ.get("ONEDNN_MAX_CPU_ISA"):
        advice = (
            "unset ONEDNN_MAX_CPU_ISA, which may limit oneDNN and all other kernels"
        )
        value = f"{name}, ONEDNN_MAX_CPU_ISA={limit}"
        return Finding(topic, "instruction set", value, WARNING, advice)
    if not name.startswith("AVX"):
        advice = "use a processor with AVX2 or AVX-512, where convolutions are faster"
        return Finding(topic, "instruction set", name, WARNING, advice)
    return Finding(topic, "instruction set", name)


def _cores(topic: str, usable: int) -> Finding:
    machine, affinity = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    value = f"{usable} of {machine}"
    if wanted := os.environ.get("IOS_TF_NUM_THREADS"):
        value += f", IOS_TF_NUM_THREADS={wanted}"
        advice = "unset IOS_TF_NUM_THREADS to use all cores that the process may use"
    elif usable < affinity:
        value += ", limited by a quota of processor time"
        advice = (
            "raise the CPU limit of the container (docker run --cpus, Kubernetes "
            "resources.limits.cpu), or convert under the limit that the server has"
        )
    elif usable < machine:
        value += ", limited by the affinity of the process"
        advice = "convert under the same affinity (taskset, cpuset) that the server has"
    else:
        return Finding(topic, "cores", value)
    return Finding(topic, "cores", value, NOTE, advice)


def _load(topic: str) -> Finding:
    average, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    value = f"{average:.1f} threads want to run on {cores} cores"
    if average <= cores:
        return Finding(topic, "load", value)
    advice = "convert when the machine is idle, because conversions measure latencies"
    return Finding(topic, "load", value, WARNING, advice)


def _memory(topic: str) -> Finding:
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        free = min(free, limit)
    value = f"{free / (1 << 30):.1f} GiB available"
    if free >= _ENOUGH_MEMORY:
        try:
            engine.check_memory(_ENOUGH_MEMORY)
            return Finding(topic, "memory", value)
        except engine.EngineMemoryError:
            value += ", but less than 4 GiB in this container or control group"
    advice = (
        "large networks need 4 GiB. Free memory, or raise the limit (ulimit -v, docker "
        "run --memory, Kubernetes resources.limits.memory)"
    )
    return Finding(topic, "memory", value, WARNING, advice)
