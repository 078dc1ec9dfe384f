"""The comparison of two reports."""

import copy

import pytest
import report_documents as rd

from ios_tf.report import comparison, page


@pytest.fixture
def pair() -> tuple[dict, dict]:
    """Two reports that differ in a time, an algorithm, a strategy and an operator."""
    before = rd.document()
    after = copy.deepcopy(before)
    after["options"]["strategy"] = "merge"
    after["machine"]["device"] = "another_processor"
    latencies = after["signatures"][0]["latencies"]["1"]
    latencies["converted"] = rd.latency(1.25)
    latencies["converted_speedup"] = rd.speedup(4.0)
    (network,) = after["networks"]
    network["scheduled_ms"] = 0.7
    network["operators"][1] |= {"ms": 0.4, "algorithm": "gemm"}  # 0.2 ms before
    network["operators"][2]["ms"] *= 1.01  # noise
    (block,) = network["regions"][0]["blocks"]
    block["scheduled_ms"] = 0.7
    block["stages"][1:2] = [
        rd.stage("concurrent", [[1]], 0.1),
        rd.stage("concurrent", [[2]], 0.1),
    ]
    return before, after


def test_conditions(pair):
    found = comparison.compare(*pair)
    assert [(one.name, one.before, one.after) for one in found.conditions] == [
        ("device", "a_processor_2_cores", "another_processor"),
        ("--strategy", "auto", "merge"),
    ]


def test_times(pair):
    found = comparison.compare(*pair)
    ratios = {one.name: one.ratio for one in found.times}
    assert ratios == {
        "TensorFlow, batch 1": 1.0,
        "converted, batch 1": 0.5,
        "converted, without ios_tf, batch 1": 1.0,
    }


def test_blocks_and_operators(pair):
    (network,) = comparison.compare(*pair).networks
    assert network.title == "serving_default, batch 1"
    assert network.total.ratio == pytest.approx(0.5)
    (block,) = network.blocks
    assert block.name == (
        "0 (6 operators, 4 stages -> 5: 1 -> 3 sequential, 1 -> 0 concurrent)"
    )
    (operator,) = network.operators
    assert operator.name == "1"
    assert operator.ms.ratio == pytest.approx(2.0)
    assert operator.changes == ["winograd_4x4 -> gemm"]
    assert not network.only_before and not network.only_after


def test_equal_reports():
    found = comparison.compare(rd.document(), rd.document())
    assert found.conditions == []
    assert all(one.ratio == 1.0 for one in found.times)
    assert [network.operators for network in found.networks] == [[]]


def test_other_operators():
    after = rd.document(networks=[rd.network("other/{}/Conv2D")])
    (network,) = comparison.compare(rd.document(), after).networks
    assert len(network.only_before) == len(network.only_after) == 6
    assert network.blocks == network.operators == []


def test_networks_are_paired_by_batch_size():
    def sized(size: int) -> dict:
        return {**rd.network(), "batch_size": size}

    before = rd.document(networks=[sized(1), sized(8)])
    after = rd.document(networks=[sized(8), sized(16)])
    titles = [network.title for network in comparison.compare(before, after).networks]
    assert titles == ["serving_default, batch 8"]


def test_the_text(pair):
    lines = comparison.text(comparison.compare(*pair)).splitlines()
    assert lines[0].startswith("A: InceptionV3 is 2.00x faster")
    assert lines[1].startswith("B: InceptionV3 is 4.00x faster")
    assert "converted, batch 1                  2.50  1.25   0.50" in lines


def test_hostile_texts():
    before, after = rd.document(), rd.hostile(rd.document())
    text = comparison.text(comparison.compare(before, after))
    assert text.replace("\n", "").isprintable()
    shown = page.comparison_page(before, after)
    assert rd.HOSTILE not in shown
    assert "<script" not in shown and "<img" not in shown
