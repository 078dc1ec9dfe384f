"""Reads the texts of the reasons from their page in the documentation."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

# A link to docs/reference/reasons.md. Wheels contain a copy of that page.
PAGE = Path(__file__).with_name("reasons.md")
SECTION = re.compile(
    r"^### (IOS\d{3})\n\n"
    r"\*\*(.+)\*\* \(`(.+)`\)\n\n"
    r"((?:.+\n)+)\n"
    r"\*What you can do:\* ((?:.+\n)+)",
    re.MULTILINE,
)
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


class Section(NamedTuple):
    """The section about one reason, as plain text.

    Attributes:
      group: the heading above this section and others.
      title: what was decided, in a few words.
      slug: the short name of the reason.
      meaning: what the reason means, in sentences.
      remedy: what the user can do, in sentences.
    """

    group: str
    title: str
    slug: str
    meaning: str
    remedy: str


@functools.cache
def sections() -> dict[str, Section]:
    """Code -> the section of the page."""
    return read(PAGE)


def read(path: Path) -> dict[str, Section]:
    """The sections of a page, without those that are damaged."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for part in text.split("\n## ")[1:]:
        group, _, rest = part.partition("\n")
        for code, *texts in SECTION.findall(rest):
            found[code] = Section(group, *map(_plain, texts))
    return found


def _plain(text: str) -> str:
    """A paragraph of Markdown in one line, without the addresses of links."""
    return " ".join(_LINK.sub(r"\1", text).split())
