"""Tables and lines of text on terminals of several widths, and in pipes."""

import io
import sys

import pytest

from ios_tf import tables

HEADER = ("block", "strategy", "sequential ms", "scheduled ms")
ROWS = [
    ("inception_v3/mixed_3/conv2d", "auto", "12.3", "4.56"),
    ("a", "parallel", "0.000360", "0.000360"),
]


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes standard output a terminal of a width."""

    def make(columns: int) -> None:
        output = io.StringIO()
        output.isatty = lambda: True
        monkeypatch.setattr(sys, "stdout", output)
        monkeypatch.setenv("COLUMNS", str(columns))

    return make


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_tables_fit_into_the_terminal(terminal, columns):
    piped = tables.table(HEADER, ROWS)
    terminal(columns)
    found = tables.table(HEADER, ROWS)
    assert all(len(line) <= columns for line in found.split("\n"))
    assert sorted("".join(found.split())) == sorted("".join(piped.split()))
    assert (found == piped) == (columns >= 80)


def test_tables_in_pipes_have_one_line_per_row():
    name = "name" * 40
    lines = tables.table(HEADER, [(name, *ROWS[0][1:])]).split("\n")
    assert [line.split() for line in lines[1:]] == [[name, *ROWS[0][1:]]]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_lines_continue_below_their_beginning(terminal, columns):
    text = "head\n    stage 1  " + " > ".join(["conv2d_1/convolution"] * 5)
    assert tables.fitted(text) == text
    terminal(columns)
    first, second, *others = tables.fitted(text).split("\n")
    assert first == "head"
    assert second.startswith("    stage 1  conv2d_1")
    assert others and all(line.startswith(" " * 8) for line in others)
    assert all(len(line) <= columns for line in (second, *others))
    assert " ".join([second.strip(), *map(str.strip, others)]) == text[5:].strip()


def test_values_stay_in_their_column(terminal):
    rows = [("device", "a_name_that_is_wider_than_the_terminal"), ("b", "two words")]
    terminal(20)
    assert tables.two_columns(rows).split("\n") == [
        f"device  {rows[0][1]}",
        "b       two words",
    ]
    terminal(16)  # at least 20 columns are used
    assert tables.two_columns([("key", "three short words")]).split("\n") == [
        "key  three short",
        "     words",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.00036, "0.000360"),
        (0.9996, "1.00"),
        (9.999, "10.0"),
        (12.345, "12.3"),
        (99.96, "100"),
        (1234.5, "1234"),
        (-0.5, "-0.500"),
    ],
)
def test_numbers_have_three_significant_digits(value, text):
    assert tables.rounded(value) == text


def test_counts_have_the_right_number():
    assert tables.counted(1, "entry", "entries") == "1 entry"
    assert tables.counted(0, "entry", "entries") == "0 entries"
