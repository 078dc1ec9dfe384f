"""Many callers on machines with 1 to 128 cores, simulated.

    python -m benchmarks callers_simulation [--json=FILE] [--plot=FILE]
    python -m benchmarks callers_simulation --record MODEL [MODEL...]

The first form simulates all numbers of cores and callers for the recorded networks.
The second form measures networks on this machine and writes their sections (durations
of parallel loops, see simulated_cores/sections.py), from which the first form starts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.results import write_measured, write_results
from benchmarks.simulated_cores import (
    Load,
    Result,
    build,
    ideal_calls_per_s,
    simulate,
)
from ios_tf.files import check_writable
from ios_tf.tables import table

_FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results"
SECTIONS = _FOLDER / "callers_sections.json"
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
CALLERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_LEAST_CALLS = 100
_CALLS_OF_CALLER = 4
_ALONE_CALLS = 30  # these are enough, because all of them take the same time


@dataclasses.dataclass(frozen=True)
class Row:
    """One machine with its callers.

    Attributes:
      network, cores, callers: the network, and the numbers of cores and callers.
      shared: the engine, whose callers share the cores.
      alone_calls_per_s: throughput if one call runs at a time, on all cores.
      ideal_calls_per_s: throughput of an ideal machine.
    """

    network: str
    cores: int
    callers: int
    shared: Result
    alone_calls_per_s: float
    ideal_calls_per_s: float

    @property
    def share(self) -> float:
        """The share of the ideal throughput that the engine reaches."""
        return self.shared.calls_per_s / self.ideal_calls_per_s


def recorded() -> dict[str, dict[str, list[list[float]]]]:
    """Returns the recorded networks: name -> number of threads -> sections."""
    return json.loads(SECTIONS.read_text())["networks"]


def sections_for(
    by_threads: Mapping[str, list[list[float]]], cores: int
) -> list[list[float]]:
    """Returns the sections of a network that is compiled for a number of cores.

    There is no recording for one core. So one thread runs both pieces of the sections
    that were recorded for two threads.
    """
    if cores > 1:
        return by_threads[str(cores)]
    return [[before, 1, us, us] for before, _, us, _ in by_threads["2"]]


def simulated_rows(
    program: Path,
    networks: Mapping[str, Mapping[str, list[list[float]]]],
    cores: Sequence[int] = CORES,
    callers: Sequence[int] = CALLERS,
    log: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Simulates each network for all numbers of cores and callers."""
    rows = []
    for network, by_threads in networks.items():
        for count in cores:
            sections = sections_for(by_threads, count)
            # Only one call runs at a time. With two callers, the next call is always
            # waiting, so the machine is never idle.
            load = Load(count, 2, _ALONE_CALLS, alone=True)
            alone = simulate(program, sections, load).calls_per_s
            for k in callers:
                load = Load(count, k, max(_LEAST_CALLS, _CALLS_OF_CALLER * k))
                row = Row(
                    network,
                    count,
                    k,
                    simulate(program, sections, load),
                    alone,
                    ideal_calls_per_s(by_threads, load),
                )
                rows.append(row)
                log(f"{network}, {count} cores, {k} callers: {row.share:.2f} of ideal")
    return rows


def rows_table(rows: Sequence[Row]) -> str:
    """Returns the rows as a table."""
    header = ("network", "cores", "callers", "calls/s", "of ideal", "p50", "p99")
    header += ("one at a time: calls/s",)
    cells = [
        (
            row.network,
            str(row.cores),
            str(row.callers),
            f"{row.shared.calls_per_s:.0f}",
            f"{row.share:.2f}",
            f"{row.shared.p50_ms:.2f}",
            f"{row.shared.p99_ms:.2f}",
            f"{row.alone_calls_per_s:.0f}",
        )
        for row in rows
    ]
    return table(header, cells)


def plot(rows: Sequence[Row], path: str) -> None:
    """Draws throughput against cores, with as many callers as cores.

    Raises:
      UserError: matplotlib is not installed.
    """
    networks = list(dict.fromkeys(row.network for row in rows))
    figure, axes = plots.pyplot().subplots(
        1, len(networks), figsize=(4 * len(networks), 3.6)
    )
    for axis, network in zip(_flat(axes), networks, strict=True):
        equal = [r for r in rows if r.network == network and r.cores == r.callers]
        cores = [row.cores for row in equal]
        lines = (
            ("k--", "ideal", [row.ideal_calls_per_s for row in equal]),
            ("C0o-", "shared cores", [row.shared.calls_per_s for row in equal]),
            ("C3s-", "one call at a time", [row.alone_calls_per_s for row in equal]),
        )
        for style, label, values in lines:
            axis.loglog(cores, values, style, base=2, label=label, markersize=4)
        axis.set_title(network)
        axis.set_xlabel("cores = callers")
    _flat(axes)[0].set_ylabel("calls per second")
    _flat(axes)[0].legend(fontsize=8)
    plots.save(figure, path)


def _flat(axes: Any) -> list[Any]:
    return list(axes.flat) if hasattr(axes, "flat") else [axes]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--record", nargs="+", metavar="MODEL", help="measure the sections of models"
    )
    parser.add_argument("--json", metavar="FILE", help="file for the results")
    parser.add_argument("--plot", metavar="FILE.svg", help="file for a plot")


def run(options: argparse.Namespace) -> int:
    for path in filter(None, (options.json, options.plot)):
        check_writable(path)
    if options.record:
        _record(options)
        return 0
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        rows = simulated_rows(build(Path(directory)), recorded(), log=print)
    print(rows_table(rows))
    if options.json:
        write_results(options.json, {"rows": [dataclasses.asdict(r) for r in rows]})
    if options.plot:
        plot(rows, options.plot)
    return 0


def _record(options: argparse.Namespace) -> None:
    from benchmarks.export_blocks import network_of
    from benchmarks.simulated_cores.sections import record

    networks = {}
    for model in options.record:
        name = os.path.basename(model).rpartition(":")[2]
        networks[name] = record(network_of(model), CORES[1:])
    write_measured(SECTIONS, options, networks=networks)
