"""ios_tf trace: records calls of a converted model, operator by operator."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.files import check_writable
from ios_tf.options import BenchOptions
from ios_tf.printable import printable
from ios_tf.tables import counted
from ios_tf.validation import measured_runs


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "trace",
        _trace,
        "record when each operator of a converted model runs",
        "Calls a converted model, and records when each operator ran and on which lane "
        "(threads that together compute one operator at a time). The file opens in "
        "https://ui.perfetto.dev and chrome://tracing.",
    )
    arguments.add_model(parser, arguments.CONVERTED)
    parser.add_argument("output", metavar="FILE", help="JSON file to write")
    text = "recorded calls; default: 10"
    arguments.add_whole(parser, "runs", 1, text, 10, measured_runs)
    arguments.add_options(parser, BenchOptions, "batch_size", "inputs", "signature")
    arguments.add_json(parser)


def _trace(options: argparse.Namespace) -> None:
    from ios_tf import trace_files
    from ios_tf.conversion.trace import trace_model
    from ios_tf.model.inputs import parse_inputs

    check_writable(options.output)  # fails before the calls, not after them
    recorded = trace_model(
        options.model,
        runs=options.runs,
        batch_size=options.batch_size,
        signature=options.signature,
        tags=options.tags,
        inputs=parse_inputs(options.inputs or ()),
    )
    trace_files.write(options.output, recorded)
    lanes = len({piece.lane for piece in recorded.slices()})
    notes = list(trace_files.notes(recorded))
    document = {
        "file": options.output,
        "calls": options.runs,
        "operator_runs": len(recorded),
        "lanes": lanes,
        "notes": notes,
    }
    text = (
        f"{options.output} has {len(recorded)} runs of operators, in "
        f"{counted(options.runs, 'call', 'calls')} on "
        f"{counted(lanes, 'lane', 'lanes')}. Open it in https://ui.perfetto.dev or "
        "chrome://tracing"
    )
    arguments.print_result(options, document, "\n".join(map(printable, [text, *notes])))
