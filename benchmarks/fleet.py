"""Search times on fleets of 1 to 64 devices, simulated.

    python -m benchmarks fleet [MODEL...] [--devices=1,4,16] [--json=FILE] [--plot=FILE]

The search, its threads and the dispatcher are real, and so is the processor time of the
search. The devices are simulated: their latencies are those of a simulated GPU, and a
measurement takes as long as on a real one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import plots
from benchmarks.experiments.experiment import short_name
from benchmarks.network import Network
from benchmarks.results import write_measured
from benchmarks.simulated_fleet import SimulatedConnection, SimulatedDevice
from benchmarks.simulated_gpu import DEVICES, SimulatedCostModel
from ios_tf.cost.cost_model import DEFAULT_MEASUREMENT, Measurement
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import Latency
from ios_tf.files import check_writable
from ios_tf.fleet.cost_model import FleetCostModel
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage
from ios_tf.tables import table
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings
from ios_tf.validation import as_argument, listed, whole

_NETWORKS = ("models:inception_v3", "models:squeezenet")
_DEVICE_COUNTS = (1, 2, 4, 8, 16, 32, 64)
# The time of a measurement besides its runs. On an AMD EPYC with 2 cores, NASNetMobile
# took 45 s for 2,061 measurements.
_SETUP_SECONDS = 0.02
# Runs per latency: the warm-up, and three samples of three runs.
_RUNS = DEFAULT_MEASUREMENT.warmup_runs + 9


class Latencies:
    """Latencies of a simulated GPU, for tasks and for searches. A BlockCostModel.

    Attributes:
      seconds: the time that a device takes for the measurements so far.
      measurements: the number of measurements so far.
    """

    lanes = 16
    lanes_divide_device = False
    measurement: Measurement = DEFAULT_MEASUREMENT

    def __init__(self, device: str) -> None:
        self.seconds = 0.0
        self.measurements = 0
        self._model = SimulatedCostModel(DEVICES[device])
        self._problems: dict[str, Problem] = {}

    def of_task(self, task: Mapping[str, Any]) -> list[float]:
        """The latencies of a task (ios_tf/fleet/device.py)."""
        key = task["signature"]
        if key not in self._problems:
            self._problems[key] = Problem.from_json(engine.problem(task["block"]))
        schedules = task["schedules"] if "schedules" in task else [task["stage"]]
        return [
            self._sum_ms(self._problems[key], Schedule.from_json(schedule).stages)
            for schedule in schedules
        ]

    def observe(self, problem: Problem, stage: Stage, lanes: int = 0) -> Latency:
        """The latency of one stage, on any number of lanes."""
        (ms,) = self.compare(problem, [[stage]])
        return Latency(ms, 0.0, self.measurement.sample_count)

    def compare(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The latencies of several schedules of a block."""
        found = [self._sum_ms(problem, stages) for stages in candidates]
        self.measurements += len(found)
        self.seconds += _SETUP_SECONDS + sum(found) * _RUNS / 1e3
        return found

    def release(self) -> None:
        """Does nothing."""

    def _sum_ms(self, problem: Problem, stages: Sequence[Stage]) -> float:
        return sum(self._model.stage_latency(problem, stage) for stage in stages)


@dataclasses.dataclass(frozen=True)
class Row:
    """The searches of a network's blocks.

    Attributes:
      network: the network.
      devices: the number of devices; 0 is a search without a fleet, on one device.
      seconds: the time of all searches.
      search_seconds: the part of `seconds` in which the search used the processor.
      measurements: the number of measurements of all devices.
      latency_ms: the sum of the latencies of the found schedules.
    """

    network: str
    devices: int
    seconds: float
    search_seconds: float
    measurements: int
    latency_ms: float


def alone(network: str, problems: Sequence[Problem], device: str = "h200") -> Row:
    """Searches without a fleet."""
    latencies = Latencies(device)
    start = time.process_time()
    schedules, _ = _searcher(latencies).schedule_all(problems)
    used = time.process_time() - start
    return Row(
        network,
        0,
        used + latencies.seconds,
        used,
        latencies.measurements,
        _total_ms(schedules),
    )


@contextlib.contextmanager
def simulated_fleet(
    latencies: Latencies, devices: int
) -> Iterator[tuple[FleetCostModel, SimulatedConnection]]:
    """A cost model with this number of identical devices, and its connection."""
    connection = SimulatedConnection(
        [
            SimulatedDevice(
                f"device {i}",
                latencies.of_task,
                runs=_RUNS,
                setup_seconds=_SETUP_SECONDS,
            )
            for i in range(devices)
        ],
        {
            "fingerprint": "simulated",
            "lanes": latencies.lanes,
            "lanes_divide_device": latencies.lanes_divide_device,
        },
    )
    model = FleetCostModel(connection, DEFAULT_MEASUREMENT)
    connection.start(lambda: model.waits)
    try:
        yield model, connection
    finally:
        model.close()
        connection.end()


def on_fleet(
    network: str, problems: Sequence[Problem], devices: int, device: str = "h200"
) -> Row:
    """Searches with a fleet of identical devices."""
    with simulated_fleet(Latencies(device), devices) as (model, connection):
        schedules, _ = _searcher(model).schedule_all(problems)
    return Row(
        network,
        devices,
        connection.seconds,
        connection.busy,
        connection.dispatcher.measured,
        _total_ms(schedules),
    )


def _searcher(model: Any) -> Searcher[Any]:
    return Searcher(model, SearchSettings(), None, LatencyDatabase(None, ""))


def _total_ms(schedules: Mapping[str, Schedule]) -> float:
    return sum(schedule.metadata["latency_ms"] for schedule in schedules.values())


def rows_table(rows: Sequence[Row]) -> str:
    """A table with the efficiency of each fleet."""
    first = {row.network: row for row in rows if row.devices == 0}
    header = ["network", "devices", "s", "of it search", "speedup", "efficiency"]
    header += ["measurements", "/ alone", "latency / alone"]
    lines = []
    for row in rows:
        base = first[row.network]
        speedup = base.seconds / row.seconds
        lines.append(
            [
                row.network,
                str(row.devices or "alone"),
                f"{row.seconds:.1f}",
                f"{row.search_seconds:.1f}",
                f"{speedup:.2f}",
                f"{speedup / max(row.devices, 1):.2f}",
                str(row.measurements),
                f"{row.measurements / base.measurements:.2f}",
                f"{row.latency_ms / base.latency_ms:.3f}",
            ]
        )
    return table(header, lines)


def plot(rows: Sequence[Row], path: str) -> None:
    """Draws speedups against numbers of devices.

    Raises:
      UserError: matplotlib is not installed.
    """
    figure, axis = plots.pyplot().subplots(figsize=(5, 4))
    first = {row.network: row for row in rows if row.devices == 0}
    counts = sorted({row.devices for row in rows} - {0})
    axis.loglog(counts, counts, "k--", base=2, label="ideal")
    for network, base in first.items():
        found = [row for row in rows if row.network == network and row.devices]
        axis.loglog(
            [row.devices for row in found],
            [base.seconds / row.seconds for row in found],
            "o-",
            base=2,
            label=network,
            markersize=4,
        )
    axis.set_xlabel("devices")
    axis.set_ylabel("times as fast as one device")
    axis.legend(fontsize=8)
    plots.save(figure, path)


def _network(model: str) -> Network:
    if model.endswith(".json"):
        return Network.read(model)
    from benchmarks.export_blocks import network_of

    return network_of(model)


def _counts(text: str) -> list[int]:
    return [whole("devices", int(word)) for word in listed("devices", text)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        default=_NETWORKS,
        help="a model, or a file that export_blocks wrote; default: "
        + ", ".join(_NETWORKS),
    )
    parser.add_argument(
        "--devices",
        type=as_argument(_counts),
        default=_DEVICE_COUNTS,
        metavar="N,M",
        help="numbers of devices; default: 1,2,4,8,16,32,64",
    )
    parser.add_argument(
        "--gpu",
        choices=sorted(DEVICES),
        default="h200",
        help="the simulated GPU; default: h200",
    )
    parser.add_argument("--json", metavar="FILE", help="file for the results")
    parser.add_argument("--plot", metavar="FILE.svg", help="file for a plot")


def run(options: argparse.Namespace) -> int:
    for path in filter(None, (options.json, options.plot)):
        check_writable(path)
    rows: list[Row] = []
    for model in options.models:
        problems = list(_network(model).problems.values())
        name = short_name(model)
        rows.append(alone(name, problems, options.gpu))
        for count in options.devices:
            rows.append(on_fleet(name, problems, count, options.gpu))
            print(f"{name}, {count} devices", file=sys.stderr, flush=True)
    print(rows_table(rows))
    if options.json:
        write_measured(
            options.json, options, rows=[dataclasses.asdict(r) for r in rows]
        )
    if options.plot:
        plot(rows, options.plot)
    return 0
