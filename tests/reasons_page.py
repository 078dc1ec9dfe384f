"""Writes docs/reference/reasons.md: python -m tests.reasons_page"""

import re
import textwrap
from pathlib import Path

from ios_tf import reasons

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/reasons.md"

_INTRODUCTION = """\
# Reasons

Each decision in a report or a log ends with a code, such as `[IOS012]`. This page says
what each code means and what you can do. `ios_tf explain IOS012` prints the same text.
In the document of `ios_tf convert --json`, each entry of `decisions` has these fields:

| field | content |
|---|---|
| `code` | the code, which never changes its meaning |
| `sentence` | what was decided, with names and values |
| `nodes`, `types` | the nodes that the decision is about, and their types with counts |
| `count` | the number of nodes, or 1 |

`python -m tests.reasons_page` generates this page from `ios_tf/reasons`.
"""


def page() -> str:
    """The text of the page."""
    lines = [_INTRODUCTION]
    for heading, group in reasons.GROUPS.items():
        lines.append(f"## {heading}\n")
        for reason in group:
            lines += [
                f"### {reason.code}\n",
                f"**{reason.title}** (`{reason.slug}`)\n",
                _wrapped(f"{reason.meaning}\n"),
                _wrapped(f"*What you can do:* {reason.remedy}\n"),
            ]
    # Texts name documents by their paths in the repository.
    return re.sub(r"docs/(\S+\.md)", r"[docs/\1](../\1)", "\n".join(lines))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_on_hyphens=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
