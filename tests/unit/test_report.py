"""The headline, the parts of the gain and the text of reports."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import report_documents as rd

from ios_tf.reasons import Reason
from ios_tf.report import document, gain, page
from ios_tf.report.text import text

STATIC = Path(page.__file__).parent / "static"


def with_latencies(*latencies: tuple[str, float, float]) -> dict:
    """A report with (batch size, TensorFlow's ms, ours) of one signature."""
    found = rd.document()
    (signature,) = found["signatures"]
    signature["latencies"] = {
        size: {
            "tensorflow": rd.latency(tensorflow),
            "converted": rd.latency(ours),
            "converted_speedup": rd.speedup(tensorflow / ours),
        }
        for size, tensorflow, ours in latencies
    }
    return found


def test_the_synthetic_reports_are_valid():
    for found in (rd.document(), rd.hostile(rd.document())):
        assert document.check(found) == found


def test_headlines():
    one = with_latencies(("1", 32.86, 17.79))
    assert gain.headline(one) == (
        "InceptionV3 is 1.85x faster: 32.9 -> 17.8 ms at batch 1; outputs equal to 2e-7"
    )
    two = with_latencies(("1", 32.0, 16.0), ("8", 240.0, 200.0))
    assert gain.headline(two) == (
        "InceptionV3 is up to 2.00x faster: 32.0 -> 16.0 ms at batch 1, "
        "240 -> 200 ms at batch 8; outputs equal to 2e-7"
    )
    slow = with_latencies(("1", 2.0, 2.5))
    assert gain.headline(slow).startswith("InceptionV3 is 1.25x slower: 2.00 -> 2.50")
    untimed = with_latencies()
    assert "it was not timed" in gain.headline(untimed)
    copied = rd.document(
        verdict="copied", signatures=[], networks=[], model="a/b/unet/"
    )
    assert gain.headline(copied) == "unet is left to TensorFlow"


def test_a_busy_machine_has_no_milliseconds_in_the_headline():
    found = with_latencies(("1", 60.0, 180.0))
    latencies = found["signatures"][0]["latencies"]["1"]
    latencies["converted_speedup"] = rd.speedup(1.39, by_processor_time=True)
    assert gain.headline(found) == (
        "InceptionV3 is 1.39x faster (processor time at batch 1, because the machine "
        "was busy); outputs equal to 2e-7"
    )
    assert gain.speedup(found) == pytest.approx(1.39)


@pytest.mark.parametrize("reason", [Reason.AFTER_REGIONS, Reason.ROUNDING])
def test_the_headline_does_not_call_outputs_equal_that_differ(reason):
    note = {
        "code": reason.code,
        "sentence": "signature 'serving_default': outputs differ",
        "nodes": [],
        "types": {},
        "count": 1,
    }
    found = with_latencies(("1", 5.0, 2.5))
    found["decisions"].append(note)
    (signature,) = found["signatures"]
    for difference, amount in ((0.69, " by up to 7e-1"), (0.0, ""), (None, "")):
        signature["difference"] = difference
        line = gain.headline(document.check(found))
        assert line.endswith(f"; outputs differ{amount} [{reason.code}]")
    signature["kept"] = False
    assert "differ" not in gain.headline(found)


def test_the_speedup_is_a_geometric_mean():
    found = with_latencies(("1", 4.0, 1.0), ("8", 1.0, 1.0))
    assert gain.speedup(found) == pytest.approx(2.0)


def test_parts_of_a_gain():
    """2.5 ms are saved: 1 by algorithms, 0.6 by the schedule, the rest by the engine.

    The 0.6 ms are divided in proportion to the time that stages save compared with
    their operators: 0.2 ms by concurrency, 0.3 ms by a merge and 0.2 ms by a split.
    """
    parts = gain.gains(rd.document(), "serving_default", "1")
    found = {part.kind: part.ms for part in parts}
    assert found == pytest.approx(
        {
            "algorithms": 1.0,
            "engine": 0.9,
            "merge": 0.6 * 3 / 7,
            "concurrent": 0.6 * 2 / 7,
            "split": 0.6 * 2 / 7,
        }
    )
    assert sum(part.share for part in parts) == pytest.approx(1.0)


def test_there_are_no_parts_without_a_gain():
    slow = with_latencies(("1", 2.0, 2.5))
    assert gain.gains(slow, "serving_default", "1") == []
    unmeasured = rd.document(networks=[])
    assert gain.gains(unmeasured, "serving_default", "1") == []


def test_the_text():
    lines = text(rd.document()).splitlines()
    assert lines[0].startswith("InceptionV3 is 2.00x faster")
    assert lines[1] == "2.50 ms saved at batch 1:"
    assert lines[2] == (
        "   40 %  6 of 6 convolutions and products use a faster algorithm"
    )
    rows = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines[7:-1])
    assert rows["converted"] == "2.50 ms (2.00x as fast as TensorFlow)"
    assert rows["scheduled"] == "1.40 ms (2.14x as fast as sequential)"
    assert any(line.endswith("Cumsum x2 [IOS001]") for line in lines)
    assert lines[-1] == "to explain a code: ios_tf explain IOS001"


def test_blocks_of_several_batch_sizes_are_not_counted_among_those_of_one():
    found = rd.document()
    found["search"]["different_blocks"] = 2
    assert "  1 (2 different, 0 from cache)" in text(found)
    found["batch_sizes"]["8"] = found["batch_sizes"]["1"]
    assert "  1 (2 different over all batch sizes, 0 from cache)" in text(found)


def test_control_characters_do_not_reach_the_terminal():
    assert text(rd.hostile(rd.document())).replace("\n", "").isprintable()


def test_hostile_texts_do_not_leave_their_place_in_the_page():
    shown = page.page(rd.hostile(rd.document()))
    assert rd.HOSTILE not in shown
    assert "<img" not in shown
    # The page has only its own four scripts.
    assert len(re.findall(r"<script", shown)) == 4
    assert shown.count("</script>") == 4


def test_the_page_loads_nothing():
    shown = page.page(rd.document())
    assert "default-src 'none'" in shown
    assert not re.search(
        r"<(link|img|iframe)\b|@import|url\(", shown.split("<script")[0]
    )
    frame = page.frame(rd.document())
    assert frame.startswith("<iframe sandbox=")
    assert "<script" not in frame


def test_third_party_scripts_are_the_published_ones():
    listed = dict(
        re.findall(
            r"\| `([\w.]+\.js)` .* `([0-9a-f]{64})` \|",
            (STATIC / "third_party" / "README.md").read_text(),
        )
    )
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (STATIC / "third_party").glob("*.js")
    }
    assert listed == found


def test_a_report_of_a_newer_version_is_read(tmp_path):
    report = rd.document()
    (network,) = report["networks"]
    (block,) = network["regions"][0]["blocks"]
    objects = [
        *(report, report["machine"], report["machine"]["load"], report["memory"]),
        *(report["decisions"][0], report["signatures"][0], network, block),
        *(network["operators"][0], network["regions"][0], block["stages"][0]),
        report["signatures"][0]["latencies"]["1"]["converted"],
    ]
    for one in objects:
        one["added_later"] = {"values": [1, None]}
        with pytest.raises(ValueError, match="added_later"):
            document.check(report)
        del one["added_later"]
    for one in objects:
        one["added_later"] = {"values": [1, None]}
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report))
    found = document.read(str(file))
    assert found == report
    assert text(found) == text(rd.document())
    assert len(page.page(found)) > len(page.page(rd.document()))


@pytest.mark.parametrize("change", ["index", "member", "type"])
def test_damaged_reports_are_refused(change):
    found = rd.document()
    block = found["networks"][0]["regions"][0]["blocks"][0]
    if change == "index":
        block["stages"][0]["groups"] = [[6]]
    elif change == "member":
        del block["stages"]
    else:
        block["scheduled_ms"] = "1"
    with pytest.raises(ValueError):
        document.check(found)
