"""Prints the paper's Table 1: the largest block of each of its four networks.

    python -m benchmarks table1 [NETWORK...]

As in the paper, only groups of a single source are counted. `python -m benchmarks
complexity MODEL` prints all blocks of a model.
"""

from __future__ import annotations

import argparse

from benchmarks import model_blocks
from benchmarks.experiments.experiment import (
    FOUR_NETWORKS,
    paper_name,
    paper_results,
    short_name,
)
from ios_tf.scheduler import Pruning
from ios_tf.tables import table

_NOTE = """note: RandWire's graphs are random, and these are not the authors'.
note: NASNet-A has the blocks of keras.applications, which differ from the authors'."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "networks",
        metavar="NETWORK",
        nargs="*",
        default=FOUR_NETWORKS,
        help=f"a model as for ios_tf convert; default: {', '.join(FOUR_NETWORKS)}",
    )


def run(options: argparse.Namespace) -> int:
    pruning = Pruning(0, 0, single_source=True)
    published = paper_results()["table_1"]
    rows = []
    for network in options.networks:
        blocks = model_blocks.blocks_of(network, 1, pruning, count_only=True)
        counted, _ = model_blocks.count(blocks)
        largest = max((counts for _, _, counts in counted), key=lambda c: c.transitions)
        paper = published.get(paper_name(network), {})
        rows.append(
            [
                short_name(network),
                *model_blocks.columns(largest),
                *(paper.get(name, "") for name in ("transitions", "schedules")),
            ]
        )
    paper_header = ("paper: transitions", "schedules")
    print(table(("network", *model_blocks.COLUMNS, *paper_header), rows))
    print(_NOTE)
    return 0
