"""ios_tf convert: writes a SavedModel that runs faster."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ios_tf import old_names
from ios_tf.cli import arguments
from ios_tf.printable import printable
from ios_tf.strategies import STRATEGIES

# Exit codes by the verdict of a report. 1 means failure and 2 wrong usage.
EXIT_CODES = {"converted": 0, "copied": 3, "undecided": 4}


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "convert",
        _convert,
        "write a SavedModel that runs faster",
        "Finds schedules by measuring on this machine and writes a SavedModel that "
        "contains them.",
    )
    arguments.add_model(parser)
    parser.add_argument("output", metavar="OUTPUT", help="directory to write")
    arguments.add_batch_sizes(parser)
    arguments.add_image_size(parser)
    arguments.add_device(parser)
    arguments.add_weights(parser)
    parser.add_argument(
        "--strategy",
        type=arguments.as_argument(_strategy),
        choices=STRATEGIES,
        default="auto",
        help="search strategy; default: both",
    )
    arguments.add_pruning(parser)
    arguments.add_whole(
        parser,
        "time_limit",
        300,
        0,
        "search time limit in seconds; 0 means no limit",
    )
    arguments.add_winograd(parser)
    arguments.add_patterns(parser)
    arguments.add_measurement(parser)
    parser.add_argument(
        "--signature",
        action="append",
        metavar="NAME",
        help="convert only this signature (may be repeated); the others are kept as "
        "they are",
    )
    parser.add_argument(
        "--keep_slower",
        action="store_true",
        help="keep regions, and a model, that are not faster than TensorFlow here; for "
        "experiments",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="do not use the schedules and latencies that are in the cache",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace OUTPUT if it is a SavedModel"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="convert a model again that stayed undecided because the machine was "
        "busy: replaces OUTPUT, reuses good measurements and repeats disturbed ones",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document with the verdict, times, ratios, differences, "
        "notes and load, instead of the table",
    )
    parser.add_argument(
        "--exit_code",
        action="store_true",
        help="exit with 0 if the model was converted, 3 if it was copied, and 4 if the "
        "measurements did not decide whether it became faster",
    )
    parser.add_argument(
        "--samples",
        metavar="PATH",
        help="real inputs to compare and time the model with: a .npz file with an "
        "array for each input, a directory of such files or of images, or a .tfrecord "
        "file of "
        "tf.Examples or PredictionLogs; default: the model's own warmup requests, or "
        "random inputs",
    )
    arguments.add_cache_dir(parser)


def _strategy(name: str) -> str:
    old_names.check_value("strategy", name)
    return name


def _convert(options: argparse.Namespace) -> int:
    from ios_tf.conversion.convert import convert

    report = convert(
        options.model,
        options.output,
        batch_size=options.batch_size,
        image_size=options.image_size,
        device=options.device,
        strategy=options.strategy,
        max_groups=options.max_groups,
        max_group_size=options.max_group_size,
        time_limit=options.time_limit,
        group_patterns=options.group,
        block_end_patterns=options.block_end,
        cache_dir=options.cache_dir,
        warmup_runs=options.warmup_runs,
        runs=options.runs,
        sample_count=options.sample_count,
        signatures=options.signature,
        tags=options.tags,
        weights=options.weights,
        samples=options.samples,
        keep_slower=options.keep_slower,
        winograd=options.winograd == "on",
        fresh=options.fresh,
        overwrite=options.overwrite,
        again=options.again,
        progress=True,
        log=_say_aside if options.json else arguments.say,
    )
    print(json.dumps(report.to_json()) if options.json else report.table())
    return EXIT_CODES[report.verdict] if options.exit_code else 0


def _say_aside(line: str) -> None:
    """Prints a line on standard error."""
    print(printable(line), file=sys.stderr)
