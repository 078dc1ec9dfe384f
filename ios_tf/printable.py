"""Text of others made printable: names, messages and paths may hold what a terminal
obeys, and line ends that make one line look like several."""

from __future__ import annotations

import logging


def printable(text: str) -> str:
    """The text with everything escaped that is not seen, as Python writes it."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def printable_lines(text: str) -> str:
    """The same for text whose lines are ours."""
    return "\n".join(map(printable, text.split("\n")))


def only_printable(record: logging.LogRecord) -> bool:
    """A filter of a logger: each message is one line."""
    record.msg, record.args = printable(record.getMessage()), None
    return True
