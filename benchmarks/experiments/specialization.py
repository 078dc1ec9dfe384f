"""Runs schedules at batch sizes and on devices that they were not optimised for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.batch import add_batch_sizes
from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Record,
    Table,
    paper_name,
    short_name,
    summary,
)
from benchmarks.network_search import find_schedules, interleaved_ms, transferred
from ios_tf.errors import UserError
from ios_tf.model.network import Network
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
        others = [Record.read(path) for path in context.options.other]
        for record in others:
            if record.experiment != self.name:
                raise UserError(f"a result of {record.experiment} has no schedules")
        default = (1, 4, 16) if context.quick else (1, 32, 128)
        sizes = context.options.batch_sizes or default
        here = engine.device_fingerprint(context.device)
        networks = {}
        for network in context.networks:
            at = {size: network.with_batch(size) for size in sizes}
            found = {}
            for size in sizes:
                found[size] = find_schedules(
                    at[size], "auto", context.device, time_limit=context.time_limit
                )
                seconds = found[size].stats.seconds
                context.say(f"{network.name}, batch {size}: {seconds:.1f} s")
            rows = {}
            for size in sizes:
                made = {
                    f"batch {other}": transferred(
                        found[other].schedules, at[other], at[size]
                    )
                    for other in sizes
                }
                for record in others:
                    foreign = _schedules(record, network.name, size, at[size])
                    if foreign:
                        made[record.device] = foreign
                latencies = interleaved_ms(
                    at[size], list(made.values()), context.device, context.rounds
                )
                rows[str(size)] = {
                    name: summary(latencies[i]) for i, name in enumerate(made)
                }
            networks[network.name] = {
                "executed_at": rows,
                "schedules": {
                    str(size): [
                        found[size].schedules[signature].to_json()
                        for signature in at[size].problems
                    ]
                    for size in sizes
                },
            }
        return {"device": here, "networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        tables = []
        for network, found in results["networks"].items():
            columns = _columns(found["executed_at"])
            lines = []
            for size, row in found["executed_at"].items():
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
            title = f"{short_name(network)}, median ms (over the row's best)"
            tables.append(Table(title, header, lines))
            published = _published(paper, network)
            if published:
                tables.append(_paper_table(published["batch"]))
        return tables


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
            f"schedules of {record.device} belong to another network: {error}"
        ) from None
    return schedules


def _columns(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows.values() for name in row))


def _published(paper: Mapping[str, Any], network: str) -> Mapping[str, Any]:
    return paper.get(f"specialization_{paper_name(network)}", {})


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
