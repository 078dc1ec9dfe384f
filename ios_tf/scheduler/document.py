"""JSON that others wrote: parsed within limits, before anything is made of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

# Of blocks, problems and schedules (cc/core/document.h).
VERSION = 1
# As in cc/core/limits.h.
MAX_BYTES = 16 << 20
MAX_DEPTH = 32
# Of files that the user names, of many documents.
MAX_FILE_BYTES = 256 << 20
MAX_OPERATORS = 10_000

# No group is repeated: what it matches would be remembered, character by character.
_ESCAPES = re.compile(r"\\.", re.DOTALL)
_TOKENS = re.compile(r'"[^"]*(?:"|\Z)|[\[\]{}]')


def parse(data: str | bytes, what: str, max_bytes: int = MAX_BYTES) -> Any:
    """The value of a JSON text.

    Whole numbers fit into 64 bits and others are finite: whatever is computed with
    them, or written to a table, may rely on that.

    Args:
      data: the text.
      what: names it in errors.
      max_bytes: how long it may be.

    Raises:
      ValueError: one line that says why it is refused.
    """
    if len(data) > max_bytes:
        raise ValueError(f"{what} has {len(data)} bytes, which are too many")
    try:
        text = data if isinstance(data, str) else data.decode()
        if _depth(text) > MAX_DEPTH:
            raise ValueError("it is nested too deep")
        return json.loads(
            text, parse_int=_integer, parse_float=_real, parse_constant=_no_constant
        )
    except ValueError as error:
        raise ValueError(f"{what} is not JSON: {error}") from None


def read(path: str | os.PathLike[str]) -> Any:
    """The value of a JSON file that the user names, wherever it is: a pipe, say.

    Raises:
      OSError, ValueError: it cannot be read, or is refused.
    """
    with open(path, "rb") as file:
        return parse(file.read(MAX_FILE_BYTES + 1), "the file", MAX_FILE_BYTES)


def check_version(data: Mapping[str, Any], what: str) -> None:
    """Raises ValueError, one line, for another version than this package's."""
    if data.get("version") != VERSION:
        raise ValueError(
            f"{what} has version {data.get('version')!r}, expected {VERSION}"
        )


def _depth(text: str) -> int:
    depth = deepest = 0
    for token in _TOKENS.finditer(_ESCAPES.sub("", text)):
        if token[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
            if depth > MAX_DEPTH:
                break
        elif token[0] in "]}":
            depth -= 1
    return deepest


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
        raise ValueError(f"the number {text[:20]}… does not fit into 64 bits")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"the number {text[:20]} is infinite")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")
