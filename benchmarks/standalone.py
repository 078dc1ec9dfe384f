"""What several commands share: models, parsers and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ios_tf.errors import UserError

if TYPE_CHECKING:
    from benchmarks.model_blocks import Blocks
    from ios_tf.scheduler import Pruning
    from ios_tf.tuning.parts import Patterns


def exit_code(
    run: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Returns the result of `run`, or prints the line of a UserError and returns 1."""
    try:
        return run(options)
    except UserError as error:
        print(f"ios_tf: error: {error}", file=sys.stderr)
        return 1


@contextlib.contextmanager
def saved_model_of(name: str) -> Iterator[str]:
    """Yields the SavedModel of a network of the zoo, or of a model of `convert`."""
    from benchmarks.zoo.registry import networks
    from ios_tf.model.loading import KERAS_PREFIX, saved_model

    build = networks().get(name)
    if not build or name.startswith(KERAS_PREFIX):
        with saved_model(name) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        build().save(directory)
        yield directory


def add_block_options(
    parser: argparse.ArgumentParser, max_groups: int, max_group_size: int
) -> None:
    """Adds the options that choose a model and its blocks."""
    from ios_tf.cli import arguments
    from ios_tf.options import ConvertOptions

    arguments.add_model(parser)
    arguments.add_batch_size(parser)
    arguments.add_options(
        parser,
        ConvertOptions,
        *("max_groups", "max_group_size", "group_patterns", "block_end_patterns"),
        max_groups=max_groups,
        max_group_size=max_group_size,
    )
    arguments.add_signature(parser)


def blocks_of_options(
    options: argparse.Namespace, pruning: Pruning, count_only: bool = False
) -> tuple[Blocks, Patterns]:
    """Returns the blocks that `add_block_options` selects, and the name patterns.

    `count_only` is as for `model_blocks.blocks_of`.
    """
    from benchmarks import model_blocks
    from ios_tf.tuning.parts import Patterns

    patterns = Patterns(
        tuple(options.group_patterns or ()), tuple(options.block_end_patterns or ())
    )
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
