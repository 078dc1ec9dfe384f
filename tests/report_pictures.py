"""Makes the pictures in docs/reference/report.md, in Chromium.

python -m tests.report_pictures CONVERTED PICTURE.png ...
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from ios_tf.report import document, page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
# Maps each file to the width of the page, the height of the picture, the color scheme,
# and the element at the top of the picture.
PICTURES = {
    "report_result.png": (1180, 880, "light", "#result"),
    "report_network.png": (1180, 860, "light", "#network"),
    "report_timeline.png": (1180, 370, "dark", "#timeline"),
}


def main(converted: str, *names: str) -> None:
    """Writes pictures. The second block of the network is open in them."""
    browser_path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as driver:
        file = Path(directory) / "report.html"
        file.write_text(page.page(document.read(converted)))
        browser = driver.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox"]
        )
        for name in names or PICTURES:
            width, height, scheme, element = PICTURES[name]
            shown = browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion="reduce",
            )
            shown.goto(file.as_uri())
            shown.evaluate("document.getElementById('b0-0').open = false")
            shown.evaluate("document.getElementById('b0-1').open = true")
            shown.locator(element).evaluate("one => one.scrollIntoView()")
            shown.screenshot(path=FOLDER / name)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
