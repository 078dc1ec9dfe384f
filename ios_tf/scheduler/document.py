"""Parses untrusted JSON documents within limits."""

from __future__ import annotations

import json
import os
import re
from typing import Any

# The version of blocks, problems and schedules (cc/core/document.h).
VERSION = 1
# Limits, which are equal to those of cc/core/limits.h.
MAX_BYTES = 16 << 20
MAX_DEPTH = 32
# The limit for files that the user names, which may contain many documents.
MAX_FILE_BYTES = 256 << 20
MAX_OPERATORS = 10_000
MAX_DIMENSION = 2**30

# The patterns do not repeat a group, because `re` needs memory for every repetition.
_ESCAPES = re.compile(r"\\.", re.DOTALL)
# Matches the escape of half a character (a surrogate), which UTF-8 cannot encode alone.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TOKENS = re.compile(r'"[^"]*(?:"|\Z)|[\[\]{}]')


def parse(data: str | bytes, what: str, max_bytes: int = MAX_BYTES) -> Any:
    """Parses a JSON text.

    All whole numbers in the result fit into 64 bits, and all other numbers are finite.
    UTF-8 can encode all texts in the result.

    Args:
      data: the text.
      what: the document's name in errors.
      max_bytes: the longest text that is accepted.

    Raises:
      ValueError: the text is refused; one line says why.
    """
    if len(data) > max_bytes:
        raise ValueError(f"{what} has more than {max_bytes} bytes")
    try:
        text = data if isinstance(data, str) else data.decode()
        if _depth(text) > MAX_DEPTH:
            raise ValueError(f"the document is nested deeper than {MAX_DEPTH} levels")
        found = json.loads(
            text, parse_int=_integer, parse_float=_real, parse_constant=_no_constant
        )
        if _SURROGATE.search(text) and not _is_utf8(found):
            raise ValueError("a text contains half of a surrogate pair")
        return found
    except ValueError as error:
        raise ValueError(f"{what} cannot be parsed as JSON: {error}") from None


def read(path: str | os.PathLike[str]) -> Any:
    """Parses a JSON file that the user names; it may also be a pipe, for example.

    Raises:
      OSError, ValueError: the file cannot be read, or is refused.
    """
    with open(path, "rb") as file:
        return parse(file.read(MAX_FILE_BYTES + 1), "the file", MAX_FILE_BYTES)


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


def _is_utf8(found: Any) -> bool:
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
        raise ValueError(f"the number {text[:20]}… does not fit into 64 bits")
    return int(text)


def _real(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a valid JSON number")
