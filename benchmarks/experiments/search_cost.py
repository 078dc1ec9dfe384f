"""The cost of finding schedules: dynamic programming time and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Table,
    paper_name,
    search_time,
    short_name,
)
from benchmarks.network_search import find_schedules

_STRATEGIES = ("merge", "parallel", "auto")


class Search(Experiment):
    name = "search"
    help = "time and measurements of each network's search"

    def measure(self, context: Context) -> dict[str, Any]:
        networks = {}
        for network in context.networks:
            rows = {}
            for strategy in _STRATEGIES:
                found = find_schedules(
                    network, strategy, context.device, time_limit=context.time_limit
                )
                stats = found.stats
                rows[strategy] = {
                    "seconds": stats.seconds,
                    "measuring_seconds": found.measuring_seconds,
                    "measurements": stats.measured,
                    "reused": stats.reused,
                    "bounded": stats.bounded,
                    "blocks": stats.blocks,
                    "cuts": sum(stats.cut.values()),
                    "gaps": stats.stopped,
                }
                context.say(f"{network.name}, {strategy}: {stats.seconds:.1f} s")
            networks[network.name] = rows
        return {"networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        published = paper.get("search_seconds", {})
        lines = []
        for network, rows in results["networks"].items():
            for strategy, row in rows.items():
                line = [
                    f"{short_name(network)}, {strategy}",
                    str(row["blocks"]),
                    search_time(row["seconds"], row["gaps"]),
                    f"{row['measuring_seconds']:.1f}",
                    f"{row['seconds'] - row['measuring_seconds']:.1f}",
                    str(row["measurements"]),
                    str(row["reused"]),
                    str(row["bounded"]),
                ]
                if published:
                    seconds = published.get(paper_name(network), "")
                    line.append(str(seconds) if strategy == "auto" else "")
                lines.append(line)
        header = ["", "blocks", "search s", "measuring s", "program s"]
        header += ["measurements", "reused", "not needed"]
        header += ["paper s"] if published else []
        return [Table("searches (*: stopped by --time_limit)", header, lines)]
