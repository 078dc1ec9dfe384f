"""Starts Chromium, for commands that measure or query pages."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ios_tf.errors import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Yields a browser without a window.

    Raises:
      UserError: Chromium or playwright is missing.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        raise UserError("there is no Chromium on the PATH. Install Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError(
            "playwright is not installed. Run pip install playwright"
        ) from None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
