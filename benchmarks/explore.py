"""Compares strategies on a device that this machine does not have.

    python -m benchmarks explore MODEL [--device=simulated:h200]

Searches for schedules without measuring: for a simulated device, or with latencies from
earlier measurements.
"""

from __future__ import annotations

import argparse

from benchmarks import model_blocks
from ios_tf.cli import arguments
from ios_tf.options import BenchOptions, ConvertOptions
from ios_tf.strategies import SLOWEST_FIRST


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_blocks.add_block_options(parser, max_groups=8, max_group_size=3)
    parser.add_argument(
        "--device",
        default="simulated:h200",
        metavar="DEVICE",
        help="simulated:NAME or measured:NAME; default: simulated:h200",
    )
    arguments.add_options(parser, ConvertOptions, "cache_dir")
    arguments.add_options(parser, BenchOptions, "strategies")


def run(options: argparse.Namespace) -> int:
    # Make the cost model first, so that a wrong device fails before the model is read.
    cost_model = model_blocks.cost_model_of(options.device, options.cache_dir)
    blocks = model_blocks.blocks_of_options(options)
    strategies = options.strategies or SLOWEST_FIRST
    print(model_blocks.latency_table(blocks, cost_model, strategies))
    return 0
