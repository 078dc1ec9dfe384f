"""Counts the schedules of all blocks of a model.

    python -m benchmarks complexity MODEL [--single_source]

Prints the operators n, width d, states, bound on transitions, transitions and schedules
of every distinct block.
"""

from __future__ import annotations

import argparse

from benchmarks import model_blocks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_blocks.add_block_options(parser, max_groups=0, max_group_size=0)
    parser.add_argument(
        "--single_source",
        action="store_true",
        help="count only groups that hold one operator and all its successors in the "
        "state, as the paper's Table 1 (python -m benchmarks table1) does",
    )


def run(options: argparse.Namespace) -> int:
    blocks = model_blocks.blocks_of_options(options, options.single_source, True)
    print(model_blocks.complexity_table(blocks))
    return 0
