"""ios_tf complexity, ios_tf explore: blocks without their device."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.scheduler import Pruning


def add_commands(commands: Any) -> None:
    """Adds them to the commands."""
    parser = arguments.command(
        commands,
        "complexity",
        _complexity,
        "count the schedules of a model's blocks (the paper's Table 1)",
        "Counts operators n, width d, states, the bound on transitions, transitions "
        "and schedules of every different block.",
    )
    _add_blocks(parser, max_groups=0, max_group_size=0)
    parser.add_argument(
        "--single_source",
        action="store_true",
        help="count only stages whose groups are all that follows one operator, as the "
        "paper's Table 1 does",
    )

    parser = arguments.command(
        commands,
        "explore",
        _explore,
        "compare strategies on a device that is not there",
        "Searches schedules without measuring: for a simulated device, or with the "
        "latencies measured before.",
    )
    _add_blocks(parser, max_groups=8, max_group_size=3)
    parser.add_argument(
        "--device",
        default="simulated:h200",
        metavar="DEVICE",
        help="simulated:NAME or measured:NAME; default: simulated:h200",
    )
    arguments.add_cache_dir(parser)
    arguments.add_strategies(parser)


def _add_blocks(parser: arguments.Parser, max_groups: int, max_group_size: int) -> None:
    """Options that choose a model and its blocks."""
    arguments.add_model(parser)
    arguments.add_batch_size(parser)
    arguments.add_pruning(parser, max_groups, max_group_size)
    arguments.add_patterns(parser)
    arguments.add_signature(parser)


def _complexity(options: argparse.Namespace) -> None:
    from ios_tf.conversion import explore

    pruning = Pruning(options.max_group_size, options.max_groups, options.single_source)
    print(explore.complexity_table(*_blocks(options, pruning, count_only=True)))


def _explore(options: argparse.Namespace) -> None:
    from ios_tf.conversion import explore

    # Fails now rather than after the model has been read.
    cost_model = explore.cost_model_of(options.device, options.cache_dir)
    blocks, pruning, patterns = _blocks(
        options, Pruning(options.max_group_size, options.max_groups)
    )
    print(
        explore.latency_table(blocks, cost_model, pruning, patterns, options.strategies)
    )


def _blocks(
    options: argparse.Namespace, pruning: Pruning, count_only: bool = False
) -> tuple[Any, Pruning, Any]:
    from ios_tf.conversion import explore
    from ios_tf.tuning.parts import Patterns

    patterns = Patterns(tuple(options.unit), tuple(options.border))
    blocks = explore.blocks_of(
        options.model,
        options.batch_size,
        pruning,
        patterns,
        options.signature,
        arguments.say,
        options.tags,
        count_only,
    )
    return blocks, pruning, patterns
