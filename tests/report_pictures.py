"""Makes the pictures in docs/reference/report.md, in Chromium.

python -m tests.report_pictures NAME=CONVERTED ...

A name is one of inception, nasnet, unet and copied. The pictures of the other models
are kept.
"""

from __future__ import annotations

import dataclasses
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from benchmarks.chromium import chromium
from ios_tf.report import document, page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A part of a page. The explanation of the first reason is open.

    Attributes:
      report: the name of the model.
      element: the element at the top of the picture.
      height: the height in pixels.
      scheme: the color scheme.
      block: the number of the block that is open, counted from 1.
    """

    report: str
    element: str
    height: int
    scheme: str = "light"
    block: int = 1


PICTURES = {
    "report_result.png": Picture("inception", "#result", 880),
    "report_network.png": Picture("inception", "#network", 1500, block=11),
    "report_timeline.png": Picture("inception", "#timeline", 480, "dark"),
    "report_nasnet.png": Picture("nasnet", "#network", 1400, block=10),
    "report_reasons.png": Picture("unet", "#reasons", 790),
    "report_copied.png": Picture("copied", "#result", 700),
}
_WIDTH = 1180


def main(*words: str) -> None:
    """Writes the pictures of the given models."""
    reports = dict(word.split("=", 1) for word in words)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, chromium() as browser:
        for name, picture in PICTURES.items():
            if picture.report not in reports:
                continue
            file = Path(directory) / "report.html"
            file.write_text(page.page(document.read(reports[picture.report])))
            shown = browser.new_page(
                viewport={"width": _WIDTH, "height": picture.height},
                color_scheme=picture.scheme,
                reduced_motion="reduce",
            )
            shown.goto(file.as_uri())
            shown.evaluate(
                "number => document.querySelectorAll('details.block').forEach("
                "(block, i) => { block.open = i === number - 1 })",
                picture.block,
            )
            shown.evaluate(
                "document.querySelector('#reasons details')?.setAttribute('open', '')"
            )
            shown.locator(picture.element).evaluate("one => one.scrollIntoView()")
            pixels = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
            # 256 colors make the files smaller, and change no value by more than 7.
            pixels.quantize(
                256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
            ).save(FOLDER / name, optimize=True)
            shown.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
