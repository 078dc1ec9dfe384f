"""The benchmark of conversion costs measures its cases and reports failed ones."""

import argparse

import pytest
from native_build import ROOT

from benchmarks import costs
from ios_tf.errors import UserError


def test_a_case_takes_seconds_and_memory():
    seconds, megabytes = costs.run_case(costs.Case("-c pass", 1))
    assert seconds > 0
    assert megabytes > 1


def test_a_case_that_fails_is_one_line():
    with pytest.raises(UserError, match=r"-m no\.such failed: .*No module named 'no'"):
        costs.run_case(costs.Case("-m no.such", 1))


def options(*cases: str) -> argparse.Namespace:
    return argparse.Namespace(cases=list(cases), rounds=1)


@pytest.mark.parametrize(
    ("seconds", "megabytes", "missed"),
    [
        (1000, 0, []),
        (0, 100_000, ["nothing: seconds"]),
        (0, 1, ["nothing: seconds", "nothing: MB at most"]),
    ],
)
def test_a_goal_that_is_missed_is_named(
    seconds, megabytes, missed, monkeypatch, capsys
):
    case = costs.Case("-c pass", seconds, megabytes)
    monkeypatch.setattr(costs, "_CASES", {"nothing": case})
    assert costs.run(options("nothing")) == bool(missed)
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("missed: ")]
    assert [line[8:].rpartition(": ")[0] for line in lines] == missed
    assert printed.out.count("missed") == len(missed)


def test_loading_is_beside_the_original(monkeypatch, capsys):
    found = {
        "keras:InceptionV3": (1.0, 1.0, 800.0),
        "keras:ResNet50": (2.0, 1.3, 1000.0),
    }

    def measure_loading(network, rounds):
        load, first, resident = found[network]
        return {
            "TensorFlow": costs.Loading(2.0, 1.0, 0.1, 868.0, 900.0),
            "converted, plugin": costs.Loading(load, first, 0.1, resident, resident),
        }

    monkeypatch.setattr(costs, "measure_loading", measure_loading)
    assert costs.run(options("load")) == 1
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "missed" in one]
    where = "keras:ResNet50, converted, plugin: resident memory, ratio"
    assert line == f"missed: {where}: 1.152, the goal is at most 1.150"


def test_the_sources_are_what_compiles(tmp_path):
    costs.copy_sources(ROOT, tmp_path / "sources")
    assert (tmp_path / "sources" / "cc" / "core" / "ir" / "block.cc").exists()
    assert not (tmp_path / "sources" / "ios_tf" / "lib").exists()
    with pytest.raises(UserError, match="Run the command in a checkout"):
        costs.copy_sources(tmp_path, tmp_path / "others")
