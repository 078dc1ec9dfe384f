"""ios_tf bench: measures a model on stock TensorFlow and on the engine."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.options import BenchOptions
from ios_tf.printable import printable


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "bench",
        _bench,
        "measure a model on stock TensorFlow and with each strategy",
        "Measures a model on stock TensorFlow and on the engine with the schedules "
        "of each strategy. All variants run in one process and take turns. With "
        "--callers, measures instead how many images per second each installed "
        "framework processes if many threads call the model at once.",
    )
    arguments.add_model_path(parser)
    arguments.add_options(parser, BenchOptions)
    arguments.add_json(parser)
    arguments.add_quiet(parser)


def _bench(flags: argparse.Namespace) -> None:
    options = BenchOptions(
        **arguments.chosen_options(BenchOptions, flags),
        **arguments.messages(flags, aside=flags.json),
    )
    if options.callers is None:
        from ios_tf.conversion.bench import bench
    else:
        from ios_tf.callers.bench import bench
    result = bench(flags.model, options)
    notes = result.notes()
    head = f"{flags.model}, batch size {result.batch_size}, {result.device}"
    text = "\n".join([printable(head), result.table(), *map(printable, notes)])
    arguments.print_result(flags, {**result.to_json(), "notes": notes}, text)
