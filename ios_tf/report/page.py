"""The report as one self-contained HTML page."""

from __future__ import annotations

import functools
import html
from pathlib import Path

import jinja2

from ios_tf.report import comparison, gain, view
from ios_tf.report.document import Document
from ios_tf.report.text import difference_text, divided_by
from ios_tf.tables import byte_count

_FOLDER = Path(__file__).parent
# Observable Plot draws the charts, and needs D3 (static/third_party/README.md).
_SCRIPTS = ("third_party/d3.min.js", "third_party/plot.umd.min.js", "report.js")


def page(report: Document) -> str:
    """The report as a self-contained HTML page."""
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            version=report["versions"]["ios_tf"],
            name=gain.model_name(report),
            headline=gain.headline(report),
            speedup=gain.speedup(report),
            arenas=gain.arena_bytes(report),
            signatures=view.signatures(report),
            reasons=view.reasons(report),
            networks=view.networks(report),
            style=_static("style.css"),
            scripts=[_static(name) for name in _SCRIPTS],
        )
    )


def comparison_page(before: Document, after: Document) -> str:
    """The changes between two reports as a self-contained HTML page."""
    return (
        _environment()
        .get_template("comparison.html")
        .render(
            change=comparison.compare(before, after),
            version=after["versions"]["ios_tf"],
            style=_static("style.css"),
        )
    )


def frame(report: Document) -> str:
    """The page in a frame, which keeps its styles and scripts apart from a notebook."""
    return (
        '<iframe sandbox="allow-scripts allow-downloads" '
        f'title="{html.escape(gain.headline(report))}" '
        'style="width:100%;height:80vh;border:1px solid #8888;border-radius:6px" '
        f'srcdoc="{html.escape(page(report))}"></iframe>'
    )


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,  # names of models, signatures and nodes are not trusted
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ms": view.milliseconds,
        "number": view.number,
        "size": byte_count,
        "difference": difference_text,
        "divided_by": divided_by,
        "value": comparison.value_text,
    }
    return environment


@functools.cache
def _static(name: str) -> str:
    return (_FOLDER / "static" / name).read_text()
