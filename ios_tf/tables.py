"""Tables of text."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from ios_tf.printable import printable

# Longer lines are hard to read.
_WIDEST = 88
# The width of texts that go to a file or a pipe.
_OF_FILES = 80


def text_width() -> int:
    """The width of running text: the terminal's, but at most what is easy to read."""
    if not sys.stdout.isatty():
        return _OF_FILES
    return max(20, min(shutil.get_terminal_size().columns, _WIDEST))


def wrapped(text: str, first: str = "", indent: int = 0) -> str:
    """A paragraph that begins with `first`; its other lines are indented."""
    return textwrap.fill(
        text,
        text_width(),
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def two_columns(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of a name and a value, aligned."""
    rows = [(printable(name), printable(value)) for name, value in rows]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
