"""Measures in Chromium how fast the page of a report opens, and how it scrolls.

Each round opens the page in a new window, opens all blocks, and scrolls to the end in
steps. A frame is the time between two paintings while the page scrolls.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.chromium import chromium
from ios_tf.cli.arguments import add_whole
from ios_tf.report import document, page

# Returns times in milliseconds since the navigation began. Charts are drawn before the
# event `load` ends; the frame after the next one shows them.
_OPENED = """
() => new Promise((done) => {
  const finish = () => requestAnimationFrame(() => requestAnimationFrame(() => {
    const [navigation] = performance.getEntriesByType("navigation");
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    done({
      first_paint: paint ? paint.startTime : null,
      load: navigation.loadEventEnd,
      shown: performance.now(),
    });
  }));
  if (document.readyState === "complete") finish();
  else addEventListener("load", () => setTimeout(finish));
})
"""
# Scrolls by a part of the window in each frame; returns the durations of the frames.
_SCROLL = """
(part) => new Promise((done) => {
  const root = document.scrollingElement, frames = [];
  let before = null;
  const step = (now) => {
    if (before !== null) frames.push(now - before);
    before = now;
    const end = root.scrollHeight - innerHeight - 1;
    if (root.scrollTop >= end) return done({frames, height: root.scrollHeight});
    root.scrollBy({top: part * innerHeight, behavior: "instant"});
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""
_SIZE = {"width": 1280, "height": 900}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "report", metavar="REPORT", help="a converted SavedModel, or a report as JSON"
    )
    add_whole(parser, "rounds", 1, "default: 5", 5)


def run(options: argparse.Namespace) -> int:
    """Prints medians and the slowest round; returns an exit code."""
    text = page.page(document.read(options.report))
    rounds = []
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        file = Path(directory, "report.html")
        file.write_text(text, encoding="utf-8")
        with chromium() as browser:
            version = browser.version
            for _ in range(options.rounds):
                rounds.append(_round(browser, file.as_uri()))
    print(f"{len(text.encode()) / 1e3:.0f} kB, Chromium {version}")
    for name, label in (
        ("first_paint", "first paint"),
        ("load", "loaded"),
        ("shown", "shown with charts"),
        ("blocks", "all blocks opened"),
    ):
        times = [one[name] for one in rounds if one[name] is not None]
        print(
            f"{label}: {statistics.median(times):.0f} ms, at most {max(times):.0f} ms"
        )
    for name in ("closed", "open"):
        frames = sorted(x for one in rounds for x in one[name]["frames"])
        pixels = rounds[0][name]["height"]
        if not frames:
            print(f"scrolling, blocks {name}: the page fits into the window")
            continue
        print(
            f"scrolling, blocks {name}: {pixels} pixels, {len(frames)} frames, "
            f"median {statistics.median(frames):.1f} ms, 99 % within "
            f"{frames[int(0.99 * (len(frames) - 1))]:.1f} ms, longest "
            f"{frames[-1]:.1f} ms"
        )
    return 0


def _round(browser: Any, address: str) -> dict[str, Any]:
    shown = browser.new_page(viewport=_SIZE)
    shown.goto(address, wait_until="commit")
    found = shown.evaluate(_OPENED)
    found["closed"] = shown.evaluate(_SCROLL, 0.1)
    shown.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    found["blocks"] = shown.evaluate(
        """() => new Promise((done) => {
          const start = performance.now();
          document.querySelectorAll("details.block").forEach((b) => b.open = true);
          requestAnimationFrame(() => requestAnimationFrame(
            () => done(performance.now() - start)));
        })"""
    )
    found["open"] = shown.evaluate(_SCROLL, 0.1)
    shown.close()
    return found
