"""The benchmark behind the rule of `enable` for small regions, and its output."""

import pytest

from benchmarks import small_regions
from benchmarks.small_regions import Case, Found
from ios_tf.conversion import timing


@pytest.mark.parametrize(
    ("case", "flops", "left"),
    [
        (Case("1x1", 1, False, 4, 8, 1), 2 * 16 * 64, True),
        (Case("3x3", 2, False, 4, 8, 1), 2 * 2 * 16 * 9 * 64, True),
        (Case("3x3", 2, False, 14, 8, 1), 2 * 2 * 196 * 9 * 64, False),
        (Case("1x1", 1, False, 4, 8, 8), 2 * 8 * 16 * 64, True),
        (Case("depthwise", 1, False, 4, 8, 1), 2 * 16 * 9 * 8, False),
    ],
)
def test_a_region_and_what_the_plugin_does_with_it(
    case, flops, left, tmp_path, monkeypatch
):
    monkeypatch.setattr(timing, "latencies", lambda turns: [2.0, 1.0])
    found = small_regions.measure(case, str(tmp_path))
    assert found == Found(case, flops, 2.0, 1.0, left)
    assert not found.slower


def test_cases_are_different_ones():
    everything = small_regions.cases()
    assert len(set(everything)) == len(everything) > 300
    assert small_regions.cases(7) == everything[::7]


def test_report_names_what_is_slower():
    left = Found(Case("1x1", 1, False, 4, 8, 1), 2048, 0.100, 0.118, True)
    kept = Found(Case("3x3", 2, True, 56, 32, 8), 10**8, 2.0, 1.0, False)
    lines = small_regions.report([kept, left]).splitlines()
    assert " ".join(lines[-1].split()) == "1 1x1, 1x4x4x8 2048 0.100 0.118 1.18 left"
    assert any("left to TensorFlow" in line and "1.18" in line for line in lines)
    assert "and a pool" not in lines[-1]
