"""ios_tf bench: measures a model on stock TensorFlow and on the engine."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.files import check_writable, write_json
from ios_tf.options import BenchOptions


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
        "framework computes if many threads call the model at once.",
    )
    arguments.add_model_path(parser)
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    arguments.add_options(parser, BenchOptions)
    arguments.add_quiet(parser)


def _bench(flags: argparse.Namespace) -> None:
    options = BenchOptions(
        **arguments.chosen_options(BenchOptions, flags),
        **arguments.messages(flags),
    )
    if flags.json:
        check_writable(flags.json)  # fails before the measurements, not after them
    if options.callers is None:
        from ios_tf.conversion.bench import bench
    else:
        from ios_tf.callers.bench import bench
    result = bench(flags.model, options)
    arguments.say(f"{flags.model}, batch size {result.batch_size}, {result.device}")
    print(result.table())
    for note in result.notes():
        arguments.say(note)
    if flags.json:
        write_json(flags.json, result.to_json())
