"""Files of results: short enough for version control, and easy to compare."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ios_tf.errors import UserError
from ios_tf.files import utc_now, write_text
from ios_tf.native import engine
from ios_tf.scheduler import document

_DIGITS = 5  # significant digits; measurements have fewer
_LONGEST_LINE = 400


def read_json(path: str | os.PathLike[str]) -> Any:
    """Returns the content of a JSON file.

    Raises:
      UserError: the file cannot be read.
    """
    try:
        return document.read(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{os.fspath(path)}: cannot be read: {error}") from None


def write_measured(
    path: str | os.PathLike[str], options: argparse.Namespace, **content: Any
) -> None:
    """Writes results with the command line, the date and the device.

    The device is `options.device`, or the CPU if the command has no such option.
    """
    described = {
        "command": options.command,
        "date": utc_now(),
        "device": engine.device_fingerprint(getattr(options, "device", "cpu")),
    }
    write_results(path, {**described, **content})


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], left: int
) -> str:
    """Returns a Markdown table: `left` columns of text, then columns of numbers."""
    marks = ["---" if i < left else "---:" for i in range(len(header))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, marks, *rows))


def write_results(path: str | os.PathLike[str], content: Any) -> None:
    """Writes JSON with rounded numbers and a line for each record.

    Raises:
      UserError: the file cannot be written.
    """
    write_text(path, _text(_rounded(content)) + "\n")


def _rounded(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _rounded(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_rounded(value) for value in content]
    return float(f"{content:.{_DIGITS}g}") if isinstance(content, float) else content


def _text(content: Any, depth: int = 0) -> str:
    line = json.dumps(content)
    nested = isinstance(content, (dict, list)) and bool(content)
    if not nested or (len(line) < _LONGEST_LINE and _is_record(content)):
        return line
    indent = "\n" + " " * (depth + 1)
    end = "\n" + " " * depth
    if isinstance(content, dict):
        parts = [f"{json.dumps(k)}: {_text(v, depth + 1)}" for k, v in content.items()]
        return "{" + indent + ("," + indent).join(parts) + end + "}"
    parts = [_text(value, depth + 1) for value in content]
    return "[" + indent + ("," + indent).join(parts) + end + "]"


def _is_record(content: Any) -> bool:
    """Returns whether no value is a JSON object, or a list with JSON objects."""
    values = content.values() if isinstance(content, dict) else content
    return not any(
        isinstance(value, dict)
        or (isinstance(value, list) and any(isinstance(one, dict) for one in value))
        for value in values
    )
