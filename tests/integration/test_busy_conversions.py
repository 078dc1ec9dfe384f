"""The benchmark of conversions beside busy processes, and its goals."""

import shared

from benchmarks import busy_conversions
from benchmarks.busy_conversions import Conversion
from ios_tf.cost.verdict import Ratio


def conversion(busy, seconds, verdict="converted"):
    return Conversion("network", busy, seconds, verdict, {})


def test_goals_that_are_missed():
    found = [conversion(0, 10.0), conversion(2, 30.0), conversion(4, 29.0)]
    good = {2: Ratio.exactly(1.2), 4: Ratio.exactly(1.04)}
    assert list(busy_conversions.missed_goals(found, good)) == []
    found = [*found, conversion(8, 31.0, "copied")]
    assert list(busy_conversions.missed_goals(found, {4: Ratio.exactly(1.06)})) == [
        "network: verdicts converted, copied",
        "network beside 8: 3.1 times as long",
        "network: the model converted beside 4 is 6 % slower",
    ]


def test_a_conversion_beside_a_busy_process(tmp_path):
    output = tmp_path / "converted"
    found = busy_conversions.convert("cells", str(shared.cells()), str(output), 1)
    assert found.verdict in ("converted", "copied", "undecided")
    assert found.report["output"] == str(output)
    assert (output / "saved_model.pb").exists()
    assert found.report["load"]["samples"] > 0
