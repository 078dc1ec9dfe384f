"""The HTML page of a report as people see it: in Chromium, without a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import report_documents as rd

from benchmarks import chromium
from ios_tf.report import page

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed"
)
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe is not installed"
)
pytestmark = pytest.mark.skipif(
    chromium.program() is None, reason="Chromium is not on the PATH"
)
PHONE, DESKTOP = (390, 844), (1280, 900)

Open = Callable[..., "playwright.Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with chromium.chromium() as found:
        yield found


@pytest.fixture
def show(browser, tmp_path) -> Iterator[Open]:
    """Opens the page of a report; fails if the page has an error or loads anything."""
    problems: list[str] = []

    def opened(
        report: dict, size=DESKTOP, scheme="light", other: dict | None = None
    ) -> playwright.Page:
        file = tmp_path / "report.html"
        pages = page.comparison_page(report, other) if other else page.page(report)
        file.write_text(pages)
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        found = context.new_page()
        found.on(
            "console",
            lambda message: (
                problems.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )
        found.on("pageerror", lambda error: problems.append(str(error)))
        found.on("dialog", lambda dialog: problems.append(dialog.message))
        found.on("request", lambda request: problems.append(request.url))
        found.goto(file.as_uri())
        problems.remove(file.as_uri())
        return found

    yield opened
    assert problems == []


def open_all(found: playwright.Page) -> None:
    found.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    # The page fills a timeline's table when it is opened.
    for one in found.locator("#timelines details").all():
        one.locator("tbody tr").first.wait_for()


def rows_of(section: playwright.Locator) -> list[list[str]]:
    """The cells of the table that has just been opened in `section`."""
    rows = section.locator("tbody tr")
    rows.first.wait_for()
    return [row.inner_text().split("\t") for row in rows.all()]


def serious_violations(found: playwright.Page) -> list[tuple[str, str, str]]:
    return [
        (one["id"], node["html"], node["failureSummary"])
        for one in axe.Axe().run(found).response["violations"]
        for node in one["nodes"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_desktop(show, scheme):
    found = show(rd.document(), scheme=scheme)
    assert found.title().startswith("InceptionV3 is 2.00x faster")
    assert found.locator("h1").inner_text().endswith("outputs equal to 2e-7")
    # Latencies, parts of the gain, roofline, timeline.
    assert found.locator("svg[role=img], figure[role=img]").count() == 4
    background = found.evaluate("getComputedStyle(document.documentElement).background")
    lightness = int(re.search(r"rgb\((\d+)", background)[1])
    assert lightness > 200 if scheme == "light" else lightness < 50
    found.get_by_role("button", name="Switch between").click()
    changed = found.evaluate("getComputedStyle(document.documentElement).background")
    assert changed != background


def test_stages_show_how_they_run(show):
    found = show(rd.document())
    stages = found.locator(".stage")
    assert stages.count() == 4
    concurrent, merge, split = stages.nth(1), stages.nth(2), stages.nth(3)
    assert "2 groups side by side" in concurrent.inner_text()
    lanes = concurrent.locator(".lane")
    first, second = lanes.nth(0).bounding_box(), lanes.nth(1).bounding_box()
    assert first["x"] == second["x"] and first["y"] < second["y"]
    assert "2 convolutions merged" in merge.inner_text()
    assert "batch split into 2 parts" in split.inner_text()
    # The third stage takes 0.6 ms and the first one 0.1 ms.
    widths = [stages.nth(i).locator(".exact i").bounding_box()["width"] for i in (0, 2)]
    assert widths[1] == pytest.approx(6 * widths[0], rel=0.02)


def test_the_recorded_timeline(show):
    found = show(rd.document())
    section = found.locator("#timeline")
    assert "One real run" in section.inner_text()
    assert section.locator("svg[aria-label*='6 operators on 2 lanes']").count() == 1
    # Without a pointer, the slices can be read in a table.
    section.locator("summary").focus()
    found.keyboard.press("Enter")
    rows = rows_of(section)
    assert len(rows) == 6
    assert rows[2] == ["net/2/Conv2D", "conv2d", "2", "0.1 ms", "0.3 ms"]
    assert rows[3][0] == "net/3/Conv2D+net/4/Conv2D"


def test_a_computed_timeline(show):
    found = show(rd.document(timelines=[]))
    section = found.locator("#timeline")
    assert "Computed from the measured times" in section.inner_text()
    section.locator("summary").click()
    rows = rows_of(section)
    # A single operator and merged ones have all lanes. Each part of a split has one.
    assert [row[2] for row in rows] == ["all", "1", "2", "all", "1", "2"]
    assert rows[0][3:] == ["0 µs", "0.1 ms"] and rows[3][3:] == ["0.4 ms", "0.6 ms"]


def test_sections_of_a_phone(show):
    """The links to sections are in one line, which scrolls."""
    found = show(rd.document(), PHONE)
    found.emulate_media(reduced_motion="reduce")  # the page does not scroll smoothly
    link = found.get_by_role("link", name="Conditions")
    link.focus()
    box = link.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE[0]
    found.keyboard.press("Enter")
    assert found.url.endswith("#conditions")
    tops = [one.bounding_box()["y"] for one in found.locator(".top nav a").all()]
    assert len(tops) == 7 and len(set(tops)) == 1
    for name in ("Timeline", "Result"):
        found.get_by_role("link", name=name, exact=True).click()
        header = found.locator(".top").bounding_box()
        heading = found.locator(f"#{name.lower()}").bounding_box()
        assert header["y"] == 0
        assert header["height"] <= heading["y"] <= PHONE[1] / 2
    assert found.evaluate("document.documentElement.scrollWidth") == PHONE[0]


def test_a_phone(show):
    found = show(rd.document(networks=[rd.network(), rd.long_network(60)]), PHONE)
    open_all(found)
    assert found.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert found.locator("#find").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_accessibility(show, scheme, size):
    left = rd.network()
    left["regions"][0]["kept"] = False
    found = show(rd.document(networks=[rd.network(), left]), size, scheme)
    open_all(found)
    found.locator(".slices td").first.wait_for()  # the page makes it when it is opened
    assert serious_violations(found) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_comparison(show, scheme):
    other = rd.network()
    other["operators"][1]["ms"] = 0.5
    found = show(rd.document(), PHONE, scheme, rd.document(networks=[other]))
    open_all(found)
    assert "2.50 (slower)" in found.locator("main").inner_text()
    assert found.evaluate("document.documentElement.scrollWidth") == PHONE[0]
    assert serious_violations(found) == []


def test_the_keyboard_is_enough(show):
    found = show(rd.document(networks=[rd.long_network(60)]))
    found.keyboard.press("Tab")  # the link that skips the menu
    assert found.evaluate("document.activeElement.className") == "skip"
    found.locator("#find").focus()
    found.keyboard.type("conv_40")
    assert found.get_by_role("status").inner_text() == "1 operator"
    row = found.locator("#o0-40")
    assert not row.is_visible()  # its block is closed
    found.keyboard.press("ArrowDown")
    found.keyboard.press("Enter")
    assert row.is_visible()
    assert found.evaluate("document.activeElement.id") == "o0-40"
    assert found.url.endswith("#o0-40")


def test_all_blocks_open_and_close(show):
    found = show(rd.document(networks=[rd.long_network(60)]))
    blocks = "document.querySelectorAll('details.block[open]').length"
    assert found.evaluate(blocks) == 1
    found.get_by_role("button", name="Open all blocks").click()
    assert found.evaluate(blocks) == 5
    found.get_by_role("button", name="Close all blocks").click()
    assert found.evaluate(blocks) == 0


def test_a_printed_page_shows_closed_blocks(show):
    found = show(rd.document(networks=[rd.long_network(240)]))
    pages = re.findall(rb"/Type\s*/Page\b", found.pdf())
    # A page has room for about twenty operators and as many stages.
    assert len(pages) > 8


def test_hostile_texts_are_harmless(show):
    found = show(rd.hostile(rd.document()))
    open_all(found)
    assert found.title() != "owned"
    assert found.locator("img").count() == 0
    found.locator("#find").fill("</script>")
    assert found.get_by_role("status").inner_text() == "6 operators"


def test_a_copied_model(show):
    empty = {"signatures": [], "networks": [], "batch_sizes": {}, "operators": 0}
    found = show(rd.document(verdict="copied", blocks=0, **empty))
    assert found.locator("h1").inner_text() == "InceptionV3 is left to TensorFlow"
    assert found.locator("#network").count() == 0


def test_nothing_was_measured(show):
    network = rd.network()
    for operator in network["operators"]:
        operator["ms"] = operator["floor_ms"] = None
    (block,) = network["regions"][0]["blocks"]
    block["scheduled_ms"] = block["sequential_ms"] = None
    for stage in block["stages"]:
        stage["ms"] = stage["group_ms"] = None
    found = show(rd.document(networks=[network], timelines=[]))
    assert "No times of stages are known" in found.locator("#timeline").inner_text()


def test_many_operators(show):
    networks = [rd.long_network(10_000)]
    found = show(rd.document(networks=networks, timelines=[]))
    found.locator("#find").fill("conv_9999")
    assert found.get_by_role("status").inner_text() == "1 operator"
    assert found.locator("#timelines svg[role=img]").count() == 1


def test_extreme_numbers(show):
    """The largest values that the schema accepts, which would need much memory."""
    network = rd.network()
    (block,) = network["regions"][0]["blocks"]
    block["stages"][3]["micro_batches"] = 2**30
    network["operators"][0] |= {"ms": 5e-324, "operations": 2**64 - 1, "bytes": 1}
    network["operators"][1]["ms"] = 1e12
    latencies = rd.document()["signatures"][0]["latencies"]["1"]
    report = rd.document(networks=[network], timelines=[])
    # HTML replaces these characters in attributes.
    report["signatures"][0]["latencies"] = {"1\r\0": latencies}
    report["machine"]["lanes"] = 4096
    found = show(report)
    assert "Only the first 20000 slices" in found.locator("#timeline").inner_text()
    assert "cannot be drawn" not in found.locator("main").inner_text()
    found.locator("#find").fill("net/3")
    assert found.get_by_role("status").inner_text() == "1 operator"
    before = found.evaluate("getComputedStyle(document.documentElement).background")
    found.get_by_role("button", name="Switch between").click()
    after = found.evaluate("getComputedStyle(document.documentElement).background")
    assert before != after
    with found.expect_download() as download:
        found.get_by_role("button", name="Save the data as JSON").click()
    assert download.value.suggested_filename == "ios_tf_report.json"


def test_a_notebook(show, browser, tmp_path: Path):
    file = tmp_path / "notebook.html"
    file.write_text(f"<!DOCTYPE html><p>before</p>{page.frame(rd.document())}")
    found = browser.new_page()
    found.goto(file.as_uri())
    inside = found.frame_locator("iframe")
    assert inside.locator("h1").inner_text().startswith("InceptionV3 is 2.00x faster")
    assert inside.locator("svg").count() > 0
