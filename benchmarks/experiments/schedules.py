"""Compares searches of whole networks: five strategies, and pruning by r and s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.experiments.experiment import (
    QUANTILES,
    Context,
    Experiment,
    Result,
    Table,
    ms,
    quantile_cells,
    ratio,
    search_time,
    summary,
)
from benchmarks.network import Network
from benchmarks.network_search import Found, sum_of_stages_ms
from ios_tf.scheduler import Pruning

ORDER = ("sequential", "greedy", "merge", "parallel", "auto")
# The paper's names of the strategies.
PAPER_STRATEGIES = {
    "merge": "ios_merge",
    "parallel": "ios_parallel",
    "auto": "ios_both",
}
# The paper's (r, s): operators per group, groups per stage.
_GRID = ((1, 3), (1, 8), (2, 3), (2, 8), (3, 3), (3, 8))


class Schedules(Experiment):
    name = "schedules"
    help = "five schedules of each network, on the engine"

    def measure_network(self, network: Network, context: Context) -> Any:
        found = {s: context.find_schedules(network, s) for s in ORDER}
        latencies = _latencies(network, found, context)
        return {
            strategy: {
                **summary(latencies[strategy]),
                "sum_of_stages_ms": sum_of_stages_ms(
                    network, each.schedules, context.device, context.rounds
                ),
                "speedup": ratio(latencies["sequential"], latencies[strategy]),
                "stages": each.stages(network),
                **each.costs(),
            }
            for strategy, each in found.items()
        }

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        latencies = result.published("schedules_batch_1")
        searched = result.published("search_seconds") or ""
        lines = []
        for strategy, row in found.items():
            line = [
                strategy,
                *quantile_cells(row),
                f"{row['speedup']:.3f}",
                str(row["stages"]),
                ms(row["sum_of_stages_ms"]) if "sum_of_stages_ms" in row else "",
                *_search_cells(row),
            ]
            if latencies:
                paper_ms = latencies[PAPER_STRATEGIES.get(strategy, strategy)]
                speedup = latencies["sequential"] / paper_ms
                line += [f"{paper_ms:.2f}", f"{speedup:.2f}"]
                line.append(str(searched) if strategy == "auto" else "")
            lines.append(line)
        header = ["", *QUANTILES, "speedup", "stages", "their sum ms"]
        header += ["search s", "measurements"]
        if latencies:
            header += ["paper ms", "paper speedup", "paper search s"]
        return [Table(result.title, header, lines)]


class PruningExperiment(Experiment):
    name = "pruning"
    help = "latency and search time against pruning"
    networks = ("models:inception_v3", "models:nasnet_a_large")
    quick_networks = ("models:inception_v3",)

    def measure_network(self, network: Network, context: Context) -> Any:
        found = {
            f"{r},{s}": context.find_schedules(network, pruning=Pruning(r, s))
            for r, s in _GRID
        }
        latencies = _latencies(network, found, context)
        return {
            key: {**summary(latencies[key]), **each.costs()}
            for key, each in found.items()
        }

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        of_paper = result.published("pruning_r_s")
        lines = []
        for key, row in found.items():
            line = [key, *quantile_cells(row), *_search_cells(row)]
            if key in of_paper:
                line += [f"{of_paper[key][0]:.2f}", str(of_paper[key][1])]
            elif of_paper:
                line += ["", ""]
            lines.append(line)
        header = ["r,s", *QUANTILES, "search s", "measurements"]
        header += ["paper ms", "paper search s"] if of_paper else []
        return [Table(result.title, header, lines)]


def _latencies(
    network: Network, found: Mapping[str, Found], context: Context
) -> dict[str, np.ndarray]:
    """Measures a network under the schedules of several searches, in turn."""
    measured = context.interleaved_ms(
        network, [each.schedules for each in found.values()]
    )
    return dict(zip(found, measured, strict=True))


def _search_cells(row: Mapping[str, Any]) -> list[str]:
    seconds = search_time(row["search_seconds"], row["stopped_blocks"])
    return [seconds, str(row["measurements"])]
