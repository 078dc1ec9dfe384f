"""Reports with wrong, extreme or hostile values: an error of one line, or all forms."""

from __future__ import annotations

import copy
import html
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import report_documents as rd
import shared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ios_tf.errors import UserError
from ios_tf.report import comparison, document, page, summaries, text, view
from ios_tf.report.model_explorer import node_data

REPORT = rd.document()
EMPTY = rd.document(networks=[], signatures=[], batch_sizes={}, timelines=[])
VALUES: list[Any] = [
    *(None, True, False, [], {}, [0], [0, 0], [1.0], ["a", 1], [[]], {"": ""}),
    *(-1, 0, 1, 2, 1.0, 0.5, 5e-324, 1e-9, 1e12, 1e300, 2**30, 2**63, 2**64 - 1),
    *("", " ", "/", "//a", "$x^$", "__proto__", "a\r\nb", "\ud800", rd.HOSTILE),
    *("concurrent", "merge", "split", "copied", "undecided", "IOS001", "IOS999"),
]
# Part of a document: the keys and indices that lead to it.
Path_ = tuple[Any, ...]


def paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The paths to all values inside of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in items:
        yield (*path, key)
        if isinstance(one, (dict, list)):
            yield from paths(one, (*path, key))


PATHS = list(paths(REPORT))


@st.composite
def reports(draw: st.DrawFn) -> dict:
    """A report with one or two changes, anywhere in it."""
    report = copy.deepcopy(REPORT)
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from(PATHS))
        parent: Any = report
        try:
            for key in parents:
                parent = parent[key]
            how = draw(st.sampled_from(["replace", "replace", "drop", "add", "rename"]))
            if how == "replace":
                kind = type(parent[last])
                similar = [one for one in VALUES if type(one) is kind]
                values = draw(st.sampled_from([VALUES, similar or VALUES]))
                parent[last] = copy.deepcopy(draw(st.sampled_from(values)))
            elif how == "drop":
                del parent[last]
            elif how == "add" and isinstance(parent, list):
                parent.append(copy.deepcopy(parent[last]))
            elif how == "add":
                parent[draw(st.sampled_from(["", "name", "items"]))] = 7
            elif isinstance(parent, dict):
                parent[draw(st.sampled_from(["", "a\r", rd.HOSTILE]))] = parent[last]
        except (KeyError, IndexError, TypeError):  # an earlier change removed the part
            continue
    return report


def read(directory: Path, report: dict) -> dict | None:
    """The report as commands read it; None if it is refused in one line."""
    file = directory / "report.json"
    file.write_text(json.dumps(report))
    try:
        return document.read(str(file))
    except UserError as error:
        assert len(str(error).splitlines()) == 1
        return None


def make_all_forms(report: dict) -> None:
    shown = page.page(report)
    for data in re.findall(r'data-(?:rows|parts|kinds)="([^"]*)"', shown):
        json.loads(html.unescape(data), parse_constant=pytest.fail)
    pages = [shown, page.frame(report)]
    for pair in ((REPORT, report), (report, REPORT), (report, EMPTY)):
        pages.append(page.comparison_page(*pair))
        lines = comparison.text(comparison.compare(*pair))
        assert lines.replace("\n", "").isprintable()
    for one in pages:
        one.encode()
        assert rd.HOSTILE not in one
    assert text.text(report).replace("\n", "").isprintable()
    assert not any(math.isnan(value) for _, value in summaries.scalars(report))


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(report=reports())
def test_changed_reports(report, tmp_path_factory):
    found = read(tmp_path_factory.getbasetemp(), report)
    if found is not None:
        make_all_forms(found)


def changed(path: str, value: Any) -> dict:
    """The report with another value at a path, such as "networks.0.signature"."""
    report = copy.deepcopy(REPORT)
    *parents, last = path.split(".")
    parent: Any = report
    for key in parents:
        parent = parent[int(key) if isinstance(parent, list) else key]
    parent[last] = value
    return report


BLOCK = "networks.0.regions.0.blocks.0"
OPERATOR = "networks.0.operators.0"
LATENCIES = "signatures.0.latencies"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{BLOCK}.operators", []),
        (f"{BLOCK}.operators", [1.0]),
        (f"{BLOCK}.stages", []),
        (f"{BLOCK}.stages.0.groups", []),
        (f"{BLOCK}.stages.0.groups", [[]]),
        (f"{BLOCK}.stages.1.group_ms", [0.1]),
        (f"{BLOCK}.stages.3.micro_batches", 2**30 + 1),
        ("machine.lanes", 2**31),
        (f"{LATENCIES}.1.tensorflow.ms", 0),
        (f"{LATENCIES}.1.converted.ms", 1e300),
        (f"{LATENCIES}.1.converted_speedup.estimate", 0),
        ("image_size", [224]),
        ("versions", {}),
        ("model", "a\ud800"),
    ],
)
def test_refused_values(tmp_path, path, value):
    assert read(tmp_path, changed(path, value)) is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{OPERATOR}.attributes", {"strides": ["a", 1], "kernel": [[], None]}),
        (f"{OPERATOR}.attributes", {"strides": [], "groups": True, "activation": 7}),
        (f"{OPERATOR}.name", ""),
        (f"{OPERATOR}.type", ""),
        (f"{OPERATOR}.ms", 5e-324),
        (f"{BLOCK}.stages.3.micro_batches", 2.0),
        (f"{LATENCIES}.1", {"tensorflow": rd.latency(5), "converted": rd.latency(2)}),
        (LATENCIES, {"": REPORT["signatures"][0]["latencies"]["1"]}),
        ("networks.0.regions", []),
        ("signatures.0.name", ""),
        ("decisions.0.code", "IOS999"),
        ("model", "/"),
        ("model", ""),
        ("options", {"strategy": {"a": [{}]}, "": "", "items": None}),
    ],
)
def test_accepted_values(tmp_path, path, value):
    found = read(tmp_path, changed(path, value))
    assert found is not None
    make_all_forms(found)


def test_ten_thousand_operators_in_one_block():
    network, other = rd.long_network(10_000), rd.long_network(10_000)
    (region,) = network["regions"]
    stages = [stage for block in region["blocks"] for stage in block["stages"]]
    region["blocks"] = [
        {**region["blocks"][0], "operators": list(range(10_000)), "stages": stages}
    ]
    for operator in other["operators"]:
        operator["ms"] *= 2
    # This takes less time than the deep copies of `rd.document(networks=...)`.
    before, after = (
        REPORT | {"networks": [one], "timelines": []} for one in (network, other)
    )
    assert document.check(before) == before
    shown = page.page(before)
    assert shown.count("<tr id=") == shown.count('class="op conv"') == 10_000
    assert text.text(before).startswith("InceptionV3")
    found = comparison.compare(before, after)
    assert len(found.networks[0].operators) == 10_000
    assert "operators that changed (10000)" in comparison.text(found)
    assert "Operators that changed: 10000" in page.comparison_page(before, after)
    (block,) = view.networks(before)[0]["blocks"]
    assert summaries.picture(block).shape == (260, 1000, 4)


def hostile() -> dict:
    """A report with hostile texts, formulas in labels, and very many groups."""
    report = rd.hostile(REPORT)
    (network,) = report["networks"]
    network["operators"][0]["attributes"]["activation"] = "$\\frac{$"
    network["operators"][1]["name"] = network["operators"][2]["name"] = ""
    block = network["regions"][0]["blocks"][0]
    block["stages"].append(rd.stage("concurrent", [[5]] * 2000, None))
    return report


def test_summaries(tmp_path):
    report = read(tmp_path, hostile())
    assert report is not None
    assert summaries.write(report, str(tmp_path / "logs")) == []


def test_node_data(tmp_path):
    pytest.importorskip(
        "ai_edge_model_explorer_adapter",
        reason="the adapter of Model Explorer is not installed",
    )
    report = read(tmp_path, hostile())
    assert report is not None
    with pytest.raises(UserError, match="has no node of the report"):
        node_data(report, shared.branches())
