"""Makes untrusted text printable.

Names, messages and paths may contain control sequences that a terminal executes, or
line ends that make one line look like several.
"""

from __future__ import annotations

import logging


def printable(text: str) -> str:
    """Escapes all characters that are not printable, as Python's literals do."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def only_printable(record: logging.LogRecord) -> bool:
    """A logging filter that makes each message one printable line."""
    record.msg, record.args = printable(record.getMessage()), None
    return True
