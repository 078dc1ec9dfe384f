"""Untrusted text is printed as one line without terminal control characters."""

import logging

import pytest

from ios_tf.errors import first_line
from ios_tf.printable import printable
from ios_tf.tables import table, two_columns

_EVIL = "\x1b]0;title\x07\x1b[2J\r\n\x9b31m\u202eabc\u2028\udcff\x7f\0"


@pytest.mark.parametrize("text", ["", "a name", "größe × 2 …", "\\n", "模型"])
def test_what_is_printable_stays(text):
    assert printable(text) == text


def test_everything_else_is_seen():
    assert printable("a\nb\x1b[2J\u202e\udcff") == "a\\nb\\x1b[2J\\u202e\\udcff"


@pytest.mark.parametrize(
    "made",
    [
        lambda: table([_EVIL, "b"], [["1", "2"]]),
        lambda: table(["a", "b"], [["1", _EVIL]]),
        lambda: two_columns([("a", "b"), ("c", _EVIL)]),
        lambda: first_line(ValueError("so: \x1b[2J\x9b31m")),
    ],
)
def test_tables_and_errors(made):
    lines = made().split("\n")
    assert len(lines) <= 2 and all(line.isprintable() for line in lines)
    assert "\\x1b" in "".join(lines)


def test_warnings(caplog):
    logging.getLogger("ios_tf").warning("%s is ignored: %s", "x.json", _EVIL)
    (record,) = caplog.records
    assert record.getMessage() == f"x.json is ignored: {printable(_EVIL)}"


def test_messages_are_without_tensorflows_own_names():
    device = "_device_/job:localhost/replica:0/task:0/device:CPU:0"
    for shown, text in (
        (
            "/out; No space left",
            f"{{{{function_node __wrapped__SaveV2{device}}}}} /out; No space left "
            "[Op:SaveV2]",
        ),
        ("3 vs 4", "{{function_node f}} {{node a/b}} 3 vs 4 [Op:Conv2D] name: "),
        ("no such value", "no such value\n\t [[{{node x}}]] [Op:__inference_f_7]"),
        ("not [[1, 2], [3]] in {}", "not [[1, 2], [3]] in {}"),
    ):
        assert first_line(ValueError(text)) == shown
