"""ios_tf bench: measures a model on stock TensorFlow and on the engine."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.errors import UserError
from ios_tf.files import check_writable, write_json
from ios_tf.options import CallersOptions, ConvertOptions


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "bench",
        _bench,
        "measure a model on stock TensorFlow and with each strategy",
        "Measures a model on stock TensorFlow and on the engine under each strategy. "
        "All variants run in one process and take turns. With --callers, the command "
        "measures many callers at once instead, in each installed framework.",
    )
    arguments.add_model(parser)
    arguments.add_batch_size(parser)
    arguments.add_options(parser, ConvertOptions, "device", "weights", "cache_dir")
    arguments.add_signature(
        parser, "signature to call; default: serving_default or the only one"
    )
    arguments.add_input(parser)
    arguments.add_strategies(parser)
    arguments.add_whole(parser, "rounds", 10, 1, "rounds of measurements")
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")
    arguments.add_options(parser, CallersOptions)


def _bench(options: argparse.Namespace) -> None:
    from ios_tf.native import devices

    callers = CallersOptions(**arguments.chosen_options(CallersOptions, options))
    if options.json:
        check_writable(options.json)  # fails before the measurements, not after them
    if callers.callers is not None:
        _bench_callers(options, callers)
        return
    from ios_tf.conversion.bench import bench

    result = bench(
        options.model,
        device=devices.choose(options.device, arguments.say).kind,
        strategies=options.strategies,
        **_common(options),
    )
    arguments.say(f"{options.model}, batch size {options.batch_size}, {result.device}")
    print(result.table())
    if options.json:
        write_json(options.json, result.to_json())


def _bench_callers(options: argparse.Namespace, callers: CallersOptions) -> None:
    from ios_tf.callers.bench import bench_callers

    if options.strategies != arguments.SLOWEST_FIRST:
        raise UserError(
            "--strategies cannot be used with --callers; leave out --strategies"
        )
    result = bench_callers(
        options.model, callers, device=options.device, **_common(options)
    )
    arguments.say(f"{options.model}, batch size {result.batch_size}, {result.device}")
    print(result.table())
    for note in result.notes():
        arguments.say(note)
    if options.json:
        write_json(options.json, result.to_json())


def _common(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of both kinds of measurements."""
    from ios_tf.model.inputs import parse_inputs

    return {
        "inputs": parse_inputs(options.input),
        "batch_size": options.batch_size,
        "rounds": options.rounds,
        "signature": options.signature,
        "tags": options.tags,
        "weights": options.weights,
        "cache_dir": options.cache_dir,
        "progress": True,
        "log": arguments.say,
    }
