"""Checks that showing the documentation loads nothing from a network:
python tests/check_site.py DIRECTORY"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

# Elements that load something without a click. (A link loads nothing until a reader
# follows it.)
_LOADING = {
    "audio": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "script": "src",
    "source": "src",
    "video": "src",
}
_REMOTE = re.compile(r"\s*(https?:)?//")
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^)"']*""")


class _Loads(HTMLParser):
    """Collects what a page loads from other servers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(_LOADING.get(tag, ""))
        # The theme loads a library for drawings of this class.
        if "mermaid" in (values.get("class") or "").split():
            self.found.append("a drawing of Mermaid")
        if address and _REMOTE.match(address) and values.get("rel") != "canonical":
            self.found.append(address)


def main(directory: str) -> None:
    pages = sorted(Path(directory).rglob("*.html"))
    if len(pages) < 50:
        sys.exit(f"{directory} has only {len(pages)} pages. Run `mkdocs build` first.")
    problems = []
    for page in pages:
        loads = _Loads()
        text = page.read_text()
        loads.feed(text)
        problems += [f"{page} loads {what}" for what in loads.found]
    for style in (*pages, *Path(directory).rglob("*.css")):
        problems += [f"{style} loads {u}" for u in _IN_STYLE.findall(style.read_text())]
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(pages)} pages load nothing from a network")


if __name__ == "__main__":
    main(*sys.argv[1:])
