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


def program() -> str | None:
    """The path of Chromium; None if it is not installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Yields a browser without a window.

    Raises:
      UserError: Chromium or playwright is missing.
    """
    path = program()
    if path is None:
        raise UserError("Chromium is not on the PATH. Install Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError(
            "playwright is not installed. Run pip install playwright"
        ) from None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
