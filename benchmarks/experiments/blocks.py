"""Speedup of each block of a network."""

from __future__ import annotations

import collections
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Result,
    Table,
    layer_name,
    ms,
    quantile_cells,
    ratio,
    summary,
)
from benchmarks.network import Network
from ios_tf.scheduler import PAPER_PRUNING, sequential_schedule
from ios_tf.tuning.parts import parts_of

_HEADER = ("block", "count", "operators", "stages", "sequential ms")
_HEADER += ("best ms", "10 %", "90 %", "speedup")


class Blocks(Experiment):
    name = "blocks"
    help = "speedup of each block of a network over its sequential schedule"
    networks = ("models:inception_v3",)
    quick_networks = networks

    def measure_network(self, network: Network, context: Context) -> Any:
        counts: collections.Counter[str] = collections.Counter()
        blocks = {}
        for region in network.regions:
            for part in region.parts:
                for block in parts_of(network.problems[part.signature], PAPER_PRUNING)[
                    0
                ]:
                    counts[block.problem.signature] += 1
                    blocks[block.problem.signature] = block.problem
        rows = []
        for signature, problem in blocks.items():
            alone = Network.of(problem)
            found = context.find_schedules(alone, share=1 / len(blocks))
            sequential, best = context.interleaved_ms(
                alone, [{signature: sequential_schedule(problem)}, found.schedules]
            )
            rows.append(
                {
                    "block": problem.names[0],
                    "count": counts[signature],
                    "operators": len(problem),
                    "stages": found.stages(alone),
                    "sequential": summary(sequential),
                    "best": summary(best),
                    "speedup": ratio(sequential, best),
                }
            )
        return rows

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        lines = [
            [
                layer_name(row["block"]),
                str(row["count"]),
                str(row["operators"]),
                str(row["stages"]),
                ms(row["sequential"]["median_ms"]),
                *quantile_cells(row["best"]),
                f"{row['speedup']:.3f}",
            ]
            for row in found
        ]
        return [Table(result.title, _HEADER, lines)]
