"""Tables and paragraphs of text, which fit into the terminal.

In a pipe or a file, tables and lines are as wide as their content, so that each row is
one line.
"""

from __future__ import annotations

import io
import math
import shutil
import sys
import textwrap
from collections.abc import Sequence

from ios_tf.printable import printable

# Longer lines are hard to read.
_WIDEST = 88
# The width of texts that go to a file or a pipe.
_OF_FILES = 80


def _terminal_width() -> int | None:
    """The width of the terminal; None if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(20, shutil.get_terminal_size().columns)


def rounded(value: float) -> str:
    """A number with three significant digits, and all digits before the point."""
    if not value or not math.isfinite(value):
        return f"{value:.2f}"
    # Rounding may add a digit before the point: 9.999 becomes 10.0.
    exponent = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    digits = 2 - exponent
    return f"{value:.{max(digits, 0)}f}"


def counted(count: int, singular: str, plural: str) -> str:
    """A number with its noun: 1 stage, 2 stages."""
    return f"{count} {singular if count == 1 else plural}"


def byte_count(count: float) -> str:
    """A number of bytes with a decimal prefix: 1.23 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def age(seconds: float) -> str:
    """A time span in the largest unit that fits, rounded down: 12 min, 5 h, 3 days."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def wrapped(text: str, first: str = "", indent: int = 0) -> str:
    """A paragraph that begins with `first`; its other lines are indented."""
    width = min(_terminal_width() or _OF_FILES, _WIDEST)
    return _filled(text, width, first, " " * indent)


def fitted(text: str) -> str:
    """Lines of text; lines that are wider than the terminal continue indented."""
    width = _terminal_width()
    if width is None:
        return text
    return "\n".join(_folded(line, width) for line in text.split("\n"))


def _folded(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    return _filled(text, width, indent, indent[: width // 2] + "    ")


def _filled(text: str, width: int, first: str, others: str) -> str:
    """A paragraph; names that are wider than the terminal stay whole."""
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )


def two_columns(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of a name and a value, aligned."""
    rows = [(printable(name), printable(value)) for name, value in rows]
    names = max(len(name) for name, _ in rows)
    width = _terminal_width()
    indent = " " * (names + 2)
    lines = []
    for name, value in rows:
        if width is not None and len(indent) + len(value) > width:
            value = _filled(value, width, indent, indent)[len(indent) :]
        lines.append(f"{name:<{names}}  {value}".rstrip())
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    available = _terminal_width()
    if available is not None and sum(widths) + 2 * len(widths) - 2 > available:
        return _narrow_table(lines, available)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _narrow_table(lines: Sequence[Sequence[str]], width: int) -> str:
    """A table whose cells continue below where the terminal is too narrow."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, cell in enumerate(lines[0]):
        found.add_column(Text(cell), justify="right" if i else "left", overflow="fold")
    for line in lines[1:]:
        found.add_row(*map(Text, line))
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(found)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())
