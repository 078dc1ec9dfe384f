"""Parsers and exit codes of the benchmarks that are run as modules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ios_tf.errors import UserError

if TYPE_CHECKING:
    from benchmarks.model_blocks import Blocks
    from ios_tf.scheduler import Pruning
    from ios_tf.tuning.parts import Patterns

_Result = TypeVar("_Result")


def model_parser(description: str, rounds: int) -> argparse.ArgumentParser:
    """Returns a parser for a model to measure; `rounds` is the default number."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--cache_dir", metavar="DIR")
    parser.add_argument("--json", metavar="FILE")
    return parser


def measured(bench: Callable[..., _Result], options: argparse.Namespace) -> _Result:
    """Runs `bench` on the model in the options of a `model_parser`."""
    return bench(
        options.model,
        batch_size=options.batch_size,
        rounds=options.rounds,
        cache_dir=options.cache_dir,
        progress=True,
        log=print,
    )


def exit_code(
    run: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Returns the result of `run`, or prints the line of a UserError and returns 1."""
    try:
        return run(options)
    except UserError as error:
        print(f"ios_tf: error: {error}", file=sys.stderr)
        return 1


def add_block_options(
    parser: argparse.ArgumentParser, max_groups: int, max_group_size: int
) -> None:
    """Adds the options that choose a model and its blocks."""
    from ios_tf.cli import arguments

    arguments.add_model(parser)
    arguments.add_batch_size(parser)
    arguments.add_pruning(parser, max_groups, max_group_size)
    arguments.add_patterns(parser)
    arguments.add_signature(parser)


def blocks_of_options(
    options: argparse.Namespace, pruning: Pruning, count_only: bool = False
) -> tuple[Blocks, Patterns]:
    """Returns the blocks that `add_block_options` selects, and the name patterns.

    `count_only` is as for `model_blocks.blocks_of`.
    """
    from benchmarks import model_blocks
    from ios_tf.tuning.parts import Patterns

    patterns = Patterns(tuple(options.group), tuple(options.block_end))
    blocks = model_blocks.blocks_of(
        options.model,
        options.batch_size,
        pruning,
        patterns,
        options.signature,
        print,
        options.tags,
        count_only,
    )
    return blocks, patterns
