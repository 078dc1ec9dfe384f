"""One network at growing batch sizes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Result,
    Table,
    paper_name,
)
from benchmarks.experiments.frameworks import add_peers, compare, peers_of
from benchmarks.frameworks.peers import PEERS
from benchmarks.network import Network
from benchmarks.standalone import add_batch_sizes

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

    def measure_network(self, network: Network, context: Context) -> Any:
        default = (1, 4, 16) if context.quick else (1, 16, 32, 64, 128)
        rows: dict[str, Any] = {}
        for size in context.options.batch_sizes or default:
            peers = peers_of(context, _PEERS)
            rows[str(size)] = compare(network.with_batch(size), peers, context)
            context.keep(rows)
        return rows

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        lines = []
        for peer in next(iter(found.values())):
            latencies = {
                size: row[peer].get("median_ms") for size, row in found.items()
            }
            first, *_ = (row[peer] for row in found.values())
            note = "" if "median_ms" in first else f" ({first['note']})"
            lines.append([PEERS[peer].name + note, *_throughputs(latencies)])
        of_paper = result.paper.get(f"batch_sizes_{paper_name(result.network)}", {})
        for key, peer in _PAPER_PEERS.items() if of_paper else ():
            latencies = {size: of_paper.get(size, {}).get(key) for size in found}
            name = f"paper (V100): {PEERS[peer].name}"
            lines.append([name, *_throughputs(latencies)])
        header = ["images / s", *(f"batch {size}" for size in found)]
        return [Table(result.title, header, lines)]


def _throughputs(latencies_ms: Mapping[str, float | None]) -> list[str]:
    return [
        "" if ms is None else f"{int(size) * 1e3 / ms:.1f}"
        for size, ms in latencies_ms.items()
    ]
