"""One network at growing batch sizes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Table,
    paper_name,
    short_name,
)
from benchmarks.experiments.frameworks import add_peers, compare, peers_of
from benchmarks.frameworks.peers import PEERS

_PEERS = (
    "ios",
    "ios_sequential",
    "torch_channels_last",
    "onnxruntime",
    "openvino",
    "tensorrt",
)
_PAPER_PEERS = {
    "ios_both": "ios",
    "sequential": "ios_sequential",
    "tensorrt": "tensorrt",
}


class Batch(Experiment):
    name = "batch"
    help = "one network at growing batch sizes"
    networks = ("models:inception_v3",)
    quick_networks = networks

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_batch_sizes(parser, "1,16,32,64,128; --quick: 1,4,16")
        add_peers(parser, _PEERS)

    def measure(self, context: Context) -> dict[str, Any]:
        default = (1, 4, 16) if context.quick else (1, 16, 32, 64, 128)
        sizes = context.options.batch_sizes or default
        networks: dict[str, Any] = {network.name: {} for network in context.networks}
        for network in context.networks:
            for size in sizes:
                networks[network.name][str(size)] = compare(
                    network.with_batch(size), peers_of(context, _PEERS), context
                )
                context.keep({"networks": networks})
        return {"networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        tables = []
        for network, sizes in results["networks"].items():
            lines = []
            for peer in _peers(sizes):
                rows = [sizes[size][peer] for size in sizes]
                line = [PEERS[peer].name]
                for size, row in zip(sizes, rows, strict=True):
                    line.append(_throughput(int(size), row.get("median_ms")))
                if "median_ms" not in rows[0]:
                    line[0] += f" ({rows[0]['note']})"
                lines.append(line)
            published = _published(paper, network)
            for key, peer in _PAPER_PEERS.items():
                if published:
                    line = [f"paper (V100): {PEERS[peer].name}"]
                    for size in sizes:
                        ms = published.get(size, {}).get(key)
                        line.append(_throughput(int(size), ms))
                    lines.append(line)
            header = ["images / s", *(f"batch {size}" for size in sizes)]
            tables.append(Table(short_name(network), header, lines))
        return tables


def add_batch_sizes(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds --batch_sizes."""

    def sizes(text: str) -> tuple[int, ...]:
        words = text.split(",")
        if not all(word.isdecimal() and int(word) for word in words):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a list of numbers above 0"
            )
        return tuple(map(int, words))

    parser.add_argument(
        "--batch_sizes", type=sizes, metavar="A,B", help=f"default: {default}"
    )


def _peers(sizes: Mapping[str, Any]) -> Sequence[str]:
    return list(next(iter(sizes.values())))


def _throughput(size: int, latency_ms: float | None) -> str:
    return "" if latency_ms is None else f"{size * 1e3 / latency_ms:.1f}"


def _published(paper: Mapping[str, Any], network: str) -> Mapping[str, Any]:
    return paper.get(f"batch_sizes_{paper_name(network)}", {})
