"""ios_tf report: shows the report of a converted model, or compares two."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ios_tf.cli import arguments
from ios_tf.errors import UserError
from ios_tf.files import check_writable, write_json, write_text

_PAGES = (".html", ".htm")


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "report",
        _report,
        "show what a conversion did to a model, as text or as an HTML page",
        "Shows the report that a conversion wrote into its result. With FILE.html, "
        "writes one HTML page that needs no network: the schedule, the slowest "
        "operators, and what was left to TensorFlow and why. With two models, shows "
        "what changed from the first to the second.",
    )
    parser.add_argument(
        "converted",
        metavar="CONVERTED",
        help="a converted SavedModel, or the JSON file of a report",
    )
    parser.add_argument(
        "others",
        metavar="OTHER | FILE.html",
        nargs="*",
        help="another converted SavedModel to compare with, and the page to write; "
        "default: print text",
    )
    arguments.add_json(parser)
    parser.add_argument(
        "--logdir",
        action=_Logdir,
        metavar="DIR",
        help="also write the numbers, tables and pictures of the blocks as summaries "
        "for TensorBoard",
    )
    parser.add_argument(
        "--format",
        choices=("page", "model_explorer"),
        default="page",
        help="page writes the HTML page. model_explorer writes a directory with node "
        "data for Model Explorer instead: the times, stages, lanes and algorithms of "
        "the original model's nodes; default: page",
    )
    parser.add_argument(
        "--original",
        metavar="MODEL",
        help="for model_explorer: the SavedModel that was converted; default: the "
        "model that the report names",
    )
    parser.set_defaults(needs_tensorflow=False)


class _Logdir(argparse.Action):
    """Stores the directory. Only with this flag does the command need TensorFlow."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        namespace.logdir = values
        namespace.needs_tensorflow = True


def _report(options: argparse.Namespace) -> None:
    paths = [options.converted, *options.others]
    if options.format == "model_explorer":
        _write_node_data(options, paths)
        return
    file = paths.pop() if _is_page(paths[-1]) else None
    if not 1 <= len(paths) <= 2:
        raise UserError(
            "give one or two converted models, and optionally the name of the page to "
            f"write, which must end with .html. You gave {len(paths)} models"
        )
    if file:
        check_page(file)
    if len(paths) == 2 and options.logdir:
        raise UserError("--logdir takes one converted model, not two")
    if len(paths) == 2:
        _compare(options, paths[0], paths[1], file)
    else:
        _show(options, paths[0], file)


def _show(options: argparse.Namespace, path: str, file: str | None) -> None:
    from ios_tf.report import document, text

    found = document.read(path)
    if file:
        write_page(file, found)
    if options.logdir:
        _write_summaries(options.logdir, found)
    if options.json or not (file or options.logdir):
        arguments.print_result(options, found, text.text(found))
    elif file:
        _say_written(file)


def _write_summaries(directory: str, found: Mapping[str, Any]) -> None:
    from ios_tf.report import summaries

    notes = summaries.write(found, directory)
    arguments.say_aside(
        f"{directory} contains the summaries. Show them with: tensorboard "
        f"--logdir={directory}"
    )
    for note in notes:
        arguments.say_aside(note)


def _compare(
    options: argparse.Namespace, before: str, after: str, file: str | None
) -> None:
    from ios_tf.report import comparison, document

    pair = document.read(before), document.read(after)
    if file:
        from ios_tf.report.page import comparison_page

        write_text(file, comparison_page(*pair))
    found = comparison.compare(*pair)
    if options.json or not file:
        arguments.print_result(
            options, dataclasses.asdict(found), comparison.text(found)
        )
    else:
        _say_written(file)


def _say_written(file: str) -> None:
    arguments.say(f"{file} was written. Open it in a browser")


def _write_node_data(options: argparse.Namespace, paths: Sequence[str]) -> None:
    from ios_tf.report import document
    from ios_tf.report.model_explorer import node_data

    if len(paths) != 2:
        raise UserError(
            f"--format=model_explorer takes two paths, not {len(paths)}. Give a "
            "converted model and the directory for the node data"
        )
    found = document.read(paths[0])
    original = options.original or found["model"]
    if not original:
        raise UserError(
            f"{paths[0]} does not contain the path of the original model. Give the "
            "path with --original=DIR"
        )
    if not os.path.isdir(original):
        raise UserError(
            f"the original model {original!r} is not a directory. Give the directory "
            "of the original SavedModel with --original=DIR"
        )
    files = node_data(found, original)
    try:
        os.makedirs(paths[1], exist_ok=True)
    except OSError as error:
        raise UserError(f"{paths[1]}: cannot be written: {error.strerror}") from None
    written = [os.path.join(paths[1], name) for name in files]
    for path, content in zip(written, files.values(), strict=True):
        write_json(path, content)
    arguments.print_result(options, {"files": written}, "\n".join(written))


def _is_page(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in _PAGES


def check_page(path: str) -> None:
    """Checks that an HTML page can be written to a path.

    Raises:
      UserError: the name does not end with .html, or the file cannot be written.
    """
    if not _is_page(path):
        raise UserError(f"{path}: the name of the page must end with .html")
    check_writable(path)


def write_page(path: str, found: Any) -> None:
    """Writes the HTML page of a report."""
    from ios_tf.report.page import page

    write_text(path, page(found))
