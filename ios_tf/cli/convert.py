"""ios_tf convert: writes a SavedModel that runs faster."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.cli.report import check_page, write_page
from ios_tf.options import ConvertOptions

# The exit code for each verdict of a report. Other exit codes are 1 (failure) and 2
# (wrong usage).
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
    arguments.add_model_path(parser)
    parser.add_argument("output", metavar="OUTPUT", help="directory to write")
    arguments.add_json(parser)
    parser.add_argument(
        "--exit_code",
        action="store_true",
        help=(
            "exit with code 0 if the model was converted, 3 if it was copied "
            "unchanged, and 4 if the measurements did not decide whether it became "
            "faster"
        ),
    )
    parser.add_argument(
        "--report",
        metavar="FILE.html",
        help="also write the report as an HTML page (see ios_tf report)",
    )
    arguments.add_options(parser, ConvertOptions)
    arguments.add_quiet(parser)


def _convert(options: argparse.Namespace) -> int:
    from ios_tf.conversion.convert import convert

    if options.report:
        check_page(options.report)  # fails before the search, not after it
    report = convert(
        options.model,
        options.output,
        **arguments.chosen_options(ConvertOptions, options),
        **arguments.messages(options, aside=options.json),
    )
    if options.report:
        write_page(options.report, report.to_json())
    arguments.print_result(options, report.to_json(), report.table())
    return EXIT_CODES[report.verdict] if options.exit_code else 0
