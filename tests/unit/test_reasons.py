"""The reasons with codes: their list, their page and `ios_tf explain`."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path

import pytest
from commands import run_python

from ios_tf.cli.main import main
from ios_tf.reasons import Decision, Reason, find, page

ROOT = Path(__file__).resolve().parents[2]
# Codes are in logs, scripts and documents of users: a code never changes its meaning,
# and is never removed or used again. New reasons get new numbers.
SLUGS = {
    1: "node-type",
    2: "unknown-shape",
    3: "data-type",
    4: "type-on-gpu-only",
    5: "other-device",
    6: "layout",
    7: "operand-not-constant",
    8: "attribute",
    9: "dimension",
    10: "channels",
    11: "fused-operation",
    12: "output-size",
    13: "statistics-are-read",
    14: "training",
    15: "equation",
    16: "reshape",
    17: "transpose",
    18: "slice",
    19: "rejected-sizes",
    20: "channels-vary",
    21: "shapes-disagree",
    22: "outside-regions",
    23: "part-of-operator",
    24: "pattern",
    25: "conditional",
    26: "fed",
    27: "tensor-size",
    101: "no-convolution",
    102: "convolution-type",
    103: "inside-function",
    104: "slow-region",
    105: "region-not-timed",
    106: "slow-signature",
    107: "no-fast-region",
    108: "nothing-timed",
    109: "copied",
    110: "original-runs",
    111: "changes-variable",
    112: "no-outputs",
    113: "tensorflow-fails",
    114: "optimizers-change-outputs",
    115: "share-of-nan",
    116: "direct-convolutions",
    117: "sequential",
    118: "fixed-batch-size",
    119: "other-network",
    120: "lost-function",
    121: "not-requested",
    122: "slow-without-package",
    123: "full-precision-operators",
    124: "full-precision-signature",
    125: "other-image-size",
    201: "inputs-rejected",
    202: "strings",
    203: "samples-rejected",
    204: "input-type",
    205: "not-repeatable",
    206: "stateful",
    207: "constant-output",
    208: "all-nan",
    209: "after-regions",
    210: "rounding",
    211: "no-onnx-runtime",
    301: "regions-only",
    302: "not-timed",
    303: "undecided",
    304: "cut",
    305: "little-memory",
    306: "time-limit",
    307: "busy",
    308: "latencies-missing",
    309: "no-timeline",
    310: "framework-failed",
    311: "framework-missing",
    401: "no-library",
    402: "graph-not-lowered",
    403: "unusable-gpu",
    404: "invalid-region",
    405: "invalid-schedule",
    406: "missing-schedule",
    407: "search-failed",
    408: "cache-file-ignored",
    409: "cache-not-written",
    410: "cache-not-opened",
    411: "other-plugin",
    412: "graphs-not-frozen",
    413: "no-schedule",
    414: "no-cuda-graph",
    415: "passes-stay-on",
    416: "not-searched",
    417: "latencies-not-kept",
}

# The reasons that no test provokes, and why not.
NOT_PROVOKED = {
    "type-on-gpu-only": "only earlier versions gave it",
    "invalid-region": "a region of more than 10,000 operators takes too long to plan",
    "cache-not-opened": "the GPU must fail between two calls of the same function",
    "other-plugin": "the tests have no second library with a plugin for TensorFlow",
}


def provoked() -> set[str]:
    """The names of the reasons that other tests assert."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Reason":
                found.add(node.attr)
    return found


def test_every_reason_is_provoked_by_a_test():
    """Tests assert reasons as members of the class."""
    tested = provoked()
    untested = {reason.slug for reason in Reason if reason.name not in tested}
    assert untested == set(NOT_PROVOKED)


def test_codes_never_change():
    assert {one.value: one.slug for one in Reason} == SLUGS


def test_codes_are_in_order():
    numbers = [one.value for one in Reason]
    assert numbers == sorted(numbers)
    assert len({one.slug for one in Reason}) == len(numbers)


@pytest.mark.parametrize("reason", Reason, ids=lambda one: one.slug)
def test_every_reason_has_sentences(reason):
    assert not reason.title.endswith(".")
    for text in (reason.meaning, reason.remedy):
        assert text.endswith((".", ").")) and "  " not in text
        assert "*" not in text  # terminals do not show emphasis
    assert reason.slug.replace("-", "").isalpha() and reason.slug.islower()


def test_the_page_has_one_section_for_each_reason():
    text = page.PAGE.read_text()
    codes = [reason.code for reason in Reason]
    assert re.findall("^### (.+)$", text, re.MULTILINE) == codes
    sections = page.sections()
    assert [*sections] == codes  # all sections are complete
    assert [one.slug for one in sections.values()] == [one.slug for one in Reason]


def test_the_page_has_only_headings_beside_the_sections():
    _, *groups = page.PAGE.read_text().split("\n## ")
    for group in groups:
        _, _, sections = group.partition("\n")
        assert not page.SECTION.sub("", sections).strip()


PAGES = {
    "none": None,
    "an empty page": b"",
    "another encoding": "# Gründe\n".encode("latin1"),
    "a section that ends early": b"\n## Nodes\n\n### IOS012\n\n**Title** (`slug`)\n",
}


@pytest.mark.parametrize("content", PAGES.values(), ids=PAGES.keys())
def test_a_damaged_page_is_not_an_error(content, tmp_path, monkeypatch, capsys):
    path = tmp_path / "reasons.md"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setattr(page, "sections", functools.partial(page.read, path))
    assert main(["explain"]) == main(["explain", "IOS012"]) == 0
    printed = capsys.readouterr().out
    assert "IOS012 (output-size): Output size\n\nThe explanation is missing" in printed


def test_a_decision():
    names = ("conv_1", "conv_2")
    decision = Decision(Reason.LAYOUT, "2 nodes stay", names, {"Conv2D": 2})
    assert str(decision) == "2 nodes stay [IOS006]"
    assert json.loads(json.dumps(decision.to_json())) == {
        "code": "IOS006",
        "sentence": "2 nodes stay",
        "nodes": ["conv_1", "conv_2"],
        "types": {"Conv2D": 2},
        "count": 2,
    }
    assert Decision(Reason.LAYOUT, "it stays").count == 1


@pytest.mark.parametrize(
    "text",
    ["IOS012", "ios012", "IOS12", "12", "[IOS012]", "output-size", "Output-Size"],
)
def test_a_reason_is_found(text):
    assert find(text) is Reason.OUTPUT_SIZE


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ISO012", "Did you mean IOS012?"),
        ("output_size", "Did you mean output-size?"),
        ("IOS999", "ios_tf explain lists all codes"),
        ("", "ios_tf explain lists all codes"),
        ("²", "ios_tf explain lists all codes"),
    ],
)
def test_an_unknown_code_is_one_line(text, hint, capsys):
    assert main(["explain", text]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert repr(text) in line and hint in line


def test_explain(capsys):
    assert main(["explain", "IOS012"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (Reason.OUTPUT_SIZE.title, Reason.OUTPUT_SIZE.meaning):
        assert part in text
    assert f"What you can do: {Reason.OUTPUT_SIZE.remedy}" in text


def test_explain_lists_all_codes(capsys):
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("IOS")]
    assert listed == [one.code for one in Reason]
    assert all(len(line) <= 80 for line in lines)


def test_explain_as_json(capsys):
    assert main(["explain", "IOS012", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["code"], found["slug"]) == ("IOS012", "output-size")
    assert main(["explain", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(Reason)


def test_imports_do_not_read_the_page():
    program = (
        "import ios_tf, ios_tf.cli.main, ios_tf.report.page; "
        "from ios_tf.reasons import page; assert not page.sections.cache_info().misses"
    )
    run_python("-c", program)


def test_explain_does_not_import_tensorflow():
    program = (
        "import sys; from ios_tf.cli.main import main; main(['explain', 'IOS012']); "
        "assert not {'tensorflow', 'keras', 'numpy'} & {*sys.modules}"
    )
    done = run_python("-c", program)
    assert done.stdout.startswith("IOS012 (output-size)") and not done.stderr
