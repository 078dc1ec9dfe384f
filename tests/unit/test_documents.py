"""Links between documents, and to files and headings, have targets."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub derives from a document's headings."""
    found = set()
    for title in re.findall(r"^#+ (.+)$", without_code(path.read_text()), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links(path):
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text()))
    for link in links:
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert ROOT in target.parents, link
        if anchor:
            assert anchor in anchors(target), link
