"""Five schedules of each network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.experiment import (
    QUANTILES,
    Context,
    Experiment,
    Table,
    ms,
    paper_name,
    quantile_cells,
    ratio,
    search_time,
    short_name,
    summary,
)
from benchmarks.network_search import (
    find_schedules,
    interleaved_ms,
    sum_of_stages_ms,
)

ORDER = ("sequential", "greedy", "merge", "parallel", "auto")
# The paper's names.
PAPER_STRATEGIES = {
    "merge": "ios_merge",
    "parallel": "ios_parallel",
    "auto": "ios_both",
}


class Schedules(Experiment):
    name = "schedules"
    help = "five schedules of each network, on the engine"

    def measure(self, context: Context) -> dict[str, Any]:
        networks = {}
        for network in context.networks:
            found = {}
            for strategy in ORDER:
                found[strategy] = find_schedules(
                    network, strategy, context.device, time_limit=context.time_limit
                )
                stats = found[strategy].stats
                context.say(
                    f"{network.name}, {strategy}: {stats.seconds:.1f} s, "
                    f"{stats.measured} measurements"
                )
            latencies = interleaved_ms(
                network,
                [found[strategy].schedules for strategy in ORDER],
                context.device,
                context.rounds,
            )
            sums = [
                sum_of_stages_ms(
                    network, found[strategy].schedules, context.device, context.rounds
                )
                for strategy in ORDER
            ]
            networks[network.name] = {
                strategy: {
                    **summary(latencies[i]),
                    "sum_of_stages_ms": sums[i],
                    "speedup": ratio(latencies[0], latencies[i]),
                    "stages": found[strategy].stages(network),
                    **found[strategy].costs(),
                }
                for i, strategy in enumerate(ORDER)
            }
            context.keep({"networks": networks})
        return {"networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        tables = []
        for network, rows in results["networks"].items():
            published = paper.get("schedules_batch_1", {}).get(paper_name(network), {})
            searched = paper.get("search_seconds", {}).get(paper_name(network), "")
            lines = []
            for strategy, row in rows.items():
                line = [
                    strategy,
                    *quantile_cells(row),
                    f"{row['speedup']:.3f}",
                    str(row["stages"]),
                    ms(row["sum_of_stages_ms"]) if "sum_of_stages_ms" in row else "",
                    search_time(row["search_seconds"], row["stopped_blocks"]),
                    str(row["measurements"]),
                ]
                if published:
                    found = published[PAPER_STRATEGIES.get(strategy, strategy)]
                    speedup = published["sequential"] / found
                    line += [f"{found:.2f}", f"{speedup:.2f}"]
                    line.append(str(searched) if strategy == "auto" else "")
                lines.append(line)
            header = ["", *QUANTILES, "speedup", "stages", "their sum ms"]
            header += ["search s", "measurements"]
            if published:
                header += ["paper ms", "paper speedup", "paper search s"]
            tables.append(Table(short_name(network), header, lines))
        return tables
