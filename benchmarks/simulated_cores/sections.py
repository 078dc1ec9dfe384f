"""Sections of a network: measured durations of their pieces, for the simulation.

A section is a parallel loop of the engine. The engine compiles each operator for a
number of threads, and its sections have at most as many pieces. One thread runs all
pieces one after another, so a machine with few cores can measure the sections of a
machine with many.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import native
from benchmarks.frameworks.runner import data_of
from benchmarks.network import Network
from benchmarks.network_search import find_schedules
from benchmarks.processes import run_python
from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import Schedule

# Other processes disturb some runs, so the shortest time of each piece is used.
_RUNS = 100
_WARMUP_RUNS = 5
_CHILD = """
from benchmarks.simulated_cores import sections
sections.record_in_child(*sys.argv[1:])
"""


def record(network: Network, threads: Sequence[int]) -> dict[str, Any]:
    """Measures the sections of a network's sequential schedule.

    Args:
      network: the network; its convolutions get the fastest algorithms of this machine.
      threads: numbers of threads to compile for.

    Returns:
      For each number of threads, a list of sections: the microseconds before the
      section, the number of its pieces, and the sum and the maximum of their
      microseconds. The last section is the time after all loops.

    Raises:
      UserError: the recorder cannot be compiled or run.
    """
    found = find_schedules(network, "sequential", "cpu").schedules
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        library = native.build_library(
            Path(directory, "recorder.so"),
            "benchmarks/simulated_cores/record_sections.cc",
        )
        network_file = os.path.join(directory, "network.json")
        schedules_file = Path(directory, "schedules.json")
        network.write(network_file)
        schedules = {name: found[name].json_object() for name in found}
        schedules_file.write_text(json.dumps(schedules))
        return {
            str(count): _record(library, network_file, schedules_file, count)
            for count in threads
        }


def _record(
    library: Path, network: str, schedules: Path, threads: int
) -> list[list[float]]:
    words = [str(library), network, str(schedules), str(threads)]
    variables = {"LD_PRELOAD": str(library), "RECORD_THREADS": str(threads)}
    try:
        return run_python(_CHILD, *words, variables=variables)
    except RuntimeError as error:
        raise UserError(f"the recorder failed: {error}") from None


def record_in_child(library: str, network: str, schedules: str, threads: str) -> None:
    """Prints the sections as JSON. The recorder must be preloaded into this process."""
    recorder = ctypes.CDLL(library)
    found: Mapping[str, Schedule] = {
        name: Schedule.from_json(json.dumps(schedule))
        for name, schedule in json.loads(Path(schedules).read_text()).items()
    }
    loaded = Network.read(network)
    calls = []
    for region, data in zip(loaded.regions, data_of(loaded, "float32"), strict=True):
        program = engine.Program(
            data.block, region.schedule(found).json_object(), data.flat_weights()
        )
        inputs = [np.ascontiguousarray(x, np.float32) for x in data.inputs]
        shapes = program.output_shapes([x.shape for x in inputs])
        calls.append(program.bind(inputs, [np.empty(s, np.float32) for s in shapes]))
    for _ in range(_WARMUP_RUNS):
        for call in calls:
            call()
    counts = []
    for _ in range(_RUNS):
        recorder.record_run()
        for call in calls:
            call()
        counts.append(recorder.end_run())
    print(json.dumps(_shortest(recorder, min(counts), int(threads))))


def _shortest(recorder: ctypes.CDLL, sections: int, threads: int) -> list[list[float]]:
    before = ctypes.c_int64()
    pieces = (ctypes.c_int64 * threads)()
    found = []
    for section in range(sections):
        samples = []
        for run in range(_RUNS):
            count = recorder.section_of_run(run, section, ctypes.byref(before), pieces)
            samples.append([before.value, *pieces[:count]])
        gap, *times = np.min(samples, axis=0) / 1e3
        found.append([gap, len(times), sum(times), max(times)])
    return [[round(float(value), 2) for value in section] for section in found]
