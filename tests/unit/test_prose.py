"""Comments, messages and documents follow the rules of docs/internals/style.md that a
regular expression can check."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PATTERNS = {
    "is not a": r"(?<![Tt]here )\b(is|are|was|were) no "
    r"(?!longer\b|more\b|less\b|fewer\b|larger\b|smaller\b|faster\b|slower\b|one\b)\w+",
    "words of the field": r"\b(anew|mended|to be had|likewise|thereof|so many)\b",
    "whole sentences": r"(//|(?<!#)#) Of (?!course\b)[a-z]",
    "subject first": r"(//|(?<!#)#|\"\"\") ?What (is|are|was|were|nobody)\b[^?]*$",
}
# Tables and results that commands generate.
_GENERATED = ("docs/benchmarks/paper.md", "docs/benchmarks/models.md")


def _files() -> list[Path]:
    texts = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("ios_tf/**/*.py"),
    ]
    sources = [*ROOT.glob("cc/**/*.h"), *ROOT.glob("cc/**/*.cc")]
    excluded = (*_GENERATED, "docs/internals/style.md")
    return [
        path
        for path in (*texts, *sources)
        if path.relative_to(ROOT).as_posix() not in excluded
    ]


def test_style():
    files = _files()
    assert len(files) > 300
    found = [
        f"{path.relative_to(ROOT)}:{number}: {rule}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for rule, pattern in _PATTERNS.items()
        if re.search(pattern, line)
    ]
    assert found == []
