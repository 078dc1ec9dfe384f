"""Runs schedules at batch sizes and on devices that they were not optimised for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Record,
    Result,
    Table,
    paper_name,
    summary,
)
from benchmarks.network import Network
from benchmarks.network_search import transferred
from benchmarks.standalone import add_batch_sizes
from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import Schedule


class Specialization(Experiment):
    name = "specialization"
    help = "schedules run at batch sizes and on devices they were not made for"
    networks = ("models:inception_v3",)
    quick_networks = networks

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_batch_sizes(parser, "1,32,128; --quick: 1,4,16")
        parser.add_argument(
            "--other",
            action="append",
            default=[],
            metavar="FILE",
            help="specialization.json of another device; runs its schedules, too (may "
            "be repeated)",
        )

    def measure(self, context: Context) -> dict[str, Any]:
        here = engine.device_fingerprint(context.device)
        return {"device": here, **super().measure(context)}

    def measure_network(self, network: Network, context: Context) -> Any:
        others = [Record.read(path) for path in context.options.other]
        for record in others:
            if record.experiment != self.name:
                raise UserError(
                    f"--other must name results of {self.name}, not of "
                    f"{record.experiment}"
                )
        default = (1, 4, 16) if context.quick else (1, 32, 128)
        sizes = context.options.batch_sizes or default
        at = {size: network.with_batch(size) for size in sizes}
        found = {size: context.find_schedules(at[size]).schedules for size in sizes}
        rows = {}
        for size in sizes:
            candidates = {
                f"batch {other}": transferred(found[other], at[other], at[size])
                for other in sizes
            }
            for record in others:
                foreign = _schedules(record, network.name, size, at[size])
                if foreign:
                    candidates[record.device] = foreign
            latencies = context.interleaved_ms(at[size], list(candidates.values()))
            rows[str(size)] = {
                name: summary(latencies[i]) for i, name in enumerate(candidates)
            }
        return {
            "executed_at": rows,
            "schedules": {
                str(size): [found[size][s].to_json() for s in at[size].problems]
                for size in sizes
            },
        }

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        rows = found["executed_at"]
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        lines = []
        for size, row in rows.items():
            medians = {name: cell["median_ms"] for name, cell in row.items()}
            best = min(medians.values())
            cells = [
                f"{medians[name]:.2f} ({medians[name] / best:.3f})"
                if name in row
                else ""
                for name in columns
            ]
            lines.append([f"batch {size}", *cells])
        header = ["executed at", *(f"for {name}" for name in columns)]
        title = f"{result.title}, median ms (over the row's best)"
        of_paper = result.paper.get(f"specialization_{paper_name(result.network)}")
        tables = [Table(title, header, lines)]
        return tables + ([_paper_table(of_paper["batch"])] if of_paper else [])


def _schedules(
    record: Record, name: str, size: int, network: Network
) -> dict[str, Schedule]:
    """Returns another device's schedules of a network; empty if it has none."""
    searched = record.results["networks"].get(name, {}).get("schedules", {})
    if str(size) not in searched:
        return {}
    schedules = {}
    try:
        for text, problem in zip(
            searched[str(size)], network.problems.values(), strict=True
        ):
            schedule = Schedule.from_json(text)
            engine.check_schedule(problem.block, schedule.to_json())
            schedules[problem.signature] = schedule
    except (ValueError, engine.EngineError) as error:
        raise UserError(
            f"the schedules of {record.device} are for another network: {error}"
        ) from None
    return schedules


def _paper_table(published: Mapping[str, Any]) -> Table:
    names = [f"batch {size}" for size in published["sizes"]]
    return Table(
        "the paper's (V100), ms (over the row's best)",
        ["executed at", *(f"for {name}" for name in names)],
        [
            [name, *(f"{value:.2f} ({value / min(row):.3f})" for value in row)]
            for name, row in zip(names, published["latency"], strict=True)
        ],
    )
