"""Latency and search time against the pruning r, s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.experiment import (
    QUANTILES,
    Context,
    Experiment,
    Table,
    paper_name,
    quantile_cells,
    search_time,
    short_name,
    summary,
)
from benchmarks.network_search import find_schedules, interleaved_ms
from ios_tf.scheduler import Pruning

# The paper's (r, s): operators per group, groups per stage.
_GRID = ((1, 3), (1, 8), (2, 3), (2, 8), (3, 3), (3, 8))


class PruningExperiment(Experiment):
    name = "pruning"
    help = "latency and search time against pruning"
    networks = ("models:inception_v3", "models:nasnet_a_large")
    quick_networks = ("models:inception_v3",)

    def measure(self, context: Context) -> dict[str, Any]:
        networks = {}
        for network in context.networks:
            found = {}
            for r, s in _GRID:
                found[f"{r},{s}"] = find_schedules(
                    network,
                    "auto",
                    context.device,
                    Pruning(max_group_size=r, max_groups=s),
                    context.time_limit,
                )
                seconds = found[f"{r},{s}"].stats.seconds
                context.say(f"{network.name}, r = {r}, s = {s}: {seconds:.1f} s")
            latencies = interleaved_ms(
                network,
                [each.schedules for each in found.values()],
                context.device,
                context.rounds,
            )
            networks[network.name] = {
                key: {
                    **summary(latencies[i]),
                    **each.costs(),
                }
                for i, (key, each) in enumerate(found.items())
            }
        return {"networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        tables = []
        for network, rows in results["networks"].items():
            published = paper.get("pruning_r_s", {}).get(paper_name(network), {})
            lines = []
            for key, row in rows.items():
                line = [
                    key,
                    *quantile_cells(row),
                    search_time(row["search_seconds"], row["stopped_blocks"]),
                    str(row["measurements"]),
                ]
                if key in published:
                    line += [f"{published[key][0]:.2f}", str(published[key][1])]
                elif published:
                    line += ["", ""]
                lines.append(line)
            header = ["r,s", *QUANTILES, "search s", "measurements"]
            header += ["paper ms", "paper search s"] if published else []
            tables.append(Table(short_name(network), header, lines))
        return tables
