"""ios_tf show and ios_tf export-onnx: print or export a converted model."""

from __future__ import annotations

import argparse
from typing import Any

from ios_tf.cli import arguments
from ios_tf.options import BenchOptions
from ios_tf.printable import printable


def add_commands(commands: Any) -> None:
    """Adds the commands `show` and `export-onnx`."""
    parser = arguments.command(
        commands,
        "show",
        _show,
        "print the schedule of a converted model, stage by stage",
    )
    arguments.add_model(parser, arguments.CONVERTED)
    parser.add_argument(
        "--signature",
        metavar="NAME",
        help="the signature to show; default: all signatures",
    )
    arguments.add_json(parser, "print blocks and schedules as one JSON document")

    parser = arguments.command(
        commands,
        "export-onnx",
        _export_onnx,
        "write a converted model, with its merged convolutions, as an ONNX file",
        "Writes the rewritten graph of a converted model as an ONNX file and compares "
        "ONNX Runtime's outputs with TensorFlow's.",
    )
    arguments.add_model(parser, arguments.CONVERTED)
    parser.add_argument("output", metavar="FILE", help="file to write")
    arguments.add_options(parser, BenchOptions, "batch_size", "inputs", "signature")
    text = "version of the ONNX operators; default: 17"
    arguments.add_whole(parser, "opset", 13, text, 17)
    arguments.add_json(parser)


def _show(options: argparse.Namespace) -> None:
    from ios_tf.conversion.show import converted_regions, text_of

    graphs = converted_regions(options.model, options.signature, options.tags)
    arguments.print_result(options, graphs, text_of(graphs))


def _export_onnx(options: argparse.Namespace) -> None:
    from ios_tf.conversion.onnx_export import export_onnx
    from ios_tf.model.inputs import parse_inputs

    exported = export_onnx(
        options.model,
        options.output,
        inputs=parse_inputs(options.inputs or ()),
        batch_size=options.batch_size,
        signature=options.signature,
        tags=options.tags,
        opset=options.opset,
    )
    lines = [
        f"{options.output} contains signature {exported.signature!r} with "
        f"{exported.merged} merged convolutions",
        *map(str, exported.decisions),
    ]
    if exported.difference is not None:
        lines.append(
            "ONNX Runtime's outputs differ from TensorFlow's by "
            f"{exported.difference:.1e} (relative)"
        )
    text = "\n".join(map(printable, lines))
    arguments.print_result(options, exported.to_json(), text)
