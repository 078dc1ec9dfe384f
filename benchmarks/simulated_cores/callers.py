"""Callers on a simulated machine, and on an ideal one."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import native
from ios_tf.errors import UserError

_SOURCES = (
    *(f"benchmarks/simulated_cores/{name}.cc" for name in ("callers", "machine")),
    *(f"cc/engine/cpu/threads/{name}.cc" for name in ("lanes", "team", "waiting")),
    "cc/engine/host/fork_guard.cc",
)
_SYSTEM = '"benchmarks/simulated_cores/virtual_system.h"'
_SHOWN = 3  # number of places that are shown: those where threads wait longest

# A section is a parallel loop, whose pieces run on several threads: the microseconds
# before it, the number of its pieces, and the sum and maximum of their microseconds.
Section = Sequence[float]


@dataclasses.dataclass(frozen=True)
class Load:
    """A machine and its callers, which call a network again and again.

    Attributes:
      cores: number of cores.
      callers: number of callers.
      calls: number of measured calls of all callers together.
      alone: whether only one call runs at a time, on all cores.
      copies: the largest number of copies of the network's memory. A call needs one.
      nodes: number of NUMA nodes that the cores are divided into.
      outside_us: time that a caller's thread works between two calls.
      variation: pieces take up to this share more or less time.
      far_work: factor for the time of a piece that runs on another NUMA node than its
        call.
    """

    cores: int
    callers: int
    calls: int
    alone: bool = False
    copies: int = 256
    nodes: int = 1
    outside_us: float = 20.0
    variation: float = 0.05
    far_work: float = 1.0


@dataclasses.dataclass(frozen=True)
class Result:
    """Throughput, percentiles of a call's milliseconds, and waits for cache lines.

    Attributes:
      waits: source line of the engine -> microseconds per call for which threads wait
        there for a cache line; the largest come first.
    """

    calls_per_s: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    waits: Mapping[str, float]


def build(directory: Path) -> Path:
    """Compiles the simulation; returns the program.

    Raises:
      UserError: the simulation does not compile.
    """
    # Fortified libraries refuse longjmp() to the stack of another fiber.
    flags = ["-Wall", "-Wextra", "-U_FORTIFY_SOURCE", f"-DIOS_TF_SYSTEM={_SYSTEM}"]
    return native.build(directory / "callers", _SOURCES, [*flags, "-pthread"])


def simulate(program: Path, sections: Sequence[Section], load: Load) -> Result:
    """Simulates callers of a network.

    Args:
      program: the result of `build`.
      sections: the network, compiled for the machine's number of cores.
      load: the machine and its callers.

    Raises:
      UserError: the program failed.
    """
    fields = dataclasses.asdict(load)
    fields["copies"] = min(load.copies, load.cores)
    fields["warmup"] = 2 * load.callers + 20
    lines = [f"{name} {float(value):g}" for name, value in fields.items()]
    lines += ["sections", *(" ".join(map(str, section)) for section in sections)]
    text = "\n".join(lines) + "\n"
    done = subprocess.run([program], input=text, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"the simulation failed: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return Result(
        found["calls_per_s"],
        *(found[f"p{share}_ms"] for share in (50, 90, 99)),
        dict(list(found["waits_us_per_call"].items())[:_SHOWN]),
    )


def ideal_calls_per_s(by_threads: Mapping[str, Sequence[Section]], load: Load) -> float:
    """Returns the throughput of a machine on which nothing but the work takes time.

    Each caller has the same number of cores. The network is compiled for the number of
    threads with which a call is shortest, but at most for the caller's number of cores.

    Args:
      by_threads: number of threads -> the network, compiled for this number.
      load: the machine and its callers; `alone` is ignored.
    """
    running = min(load.callers, load.cores)
    threads = max(1, load.cores // running)
    fastest = min(
        _call_us(sections, min(int(count), threads))
        for count, sections in by_threads.items()
        if int(count) <= max(threads, 2)
    )
    by_callers = load.callers / (fastest + load.outside_us)
    by_cores = load.cores / (_call_us(by_threads["2"], 1) + load.outside_us)
    return 1e6 * min(by_callers, by_cores)


def _call_us(sections: Sequence[Section], threads: int) -> float:
    """Returns the microseconds of a call on some threads, without any overhead."""
    return sum(
        before + (all_us if threads == 1 else max(longest, all_us / threads))
        for before, _, all_us, longest in sections
    )
