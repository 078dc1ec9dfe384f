"""ios_tf report: shows the report of a converted model."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from ios_tf.cli import arguments
from ios_tf.errors import UserError
from ios_tf.files import check_writable, write_text

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
        "operators, and what was left to TensorFlow and why.",
    )
    parser.add_argument(
        "converted",
        metavar="CONVERTED",
        help="a converted SavedModel, or the JSON file of a report",
    )
    parser.add_argument(
        "file",
        metavar="FILE.html",
        nargs="?",
        help="page to write; default: print the report as text",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the JSON document instead of text"
    )
    parser.set_defaults(needs_tensorflow=False)


def _report(options: argparse.Namespace) -> None:
    from ios_tf.report import document, text

    if options.file:
        check_page(options.file)
    found = document.read(options.converted)
    if options.file:
        write_page(options.file, found)
    if options.json:
        print(json.dumps(found))
    elif not options.file:
        print(text.text(found))


def check_page(path: str) -> None:
    """Checks that an HTML page can be written to a path.

    Raises:
      UserError: the name does not end with .html, or the file cannot be written.
    """
    if os.path.splitext(path)[1].lower() not in _PAGES:
        raise UserError(f"{path}: the name of the page must end with .html")
    check_writable(path)


def write_page(path: str, found: Any) -> None:
    """Writes the HTML page of a report."""
    from ios_tf.report.page import page

    write_text(path, page(found))
