"""Decisions of reports, comparisons and the optimizer, with their reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import foreign_models as fm
import graph_helpers as gh
import numpy as np
import pytest
import shared
import tensorflow as tf

import ios_tf
from ios_tf import reasons
from ios_tf.conversion import networks, notes, region_check
from ios_tf.conversion.inner_tensors import InnerTensor
from ios_tf.conversion.reference import Reference
from ios_tf.conversion.report import Report
from ios_tf.conversion.samples import samples_of
from ios_tf.cost.work import work_of
from ios_tf.model import frozen_graphs
from ios_tf.model.not_converted import NotConvertedError
from ios_tf.native import tracing
from ios_tf.reasons import Reason
from ios_tf.report import document, page
from ios_tf.tuning.block_search import SearchStats
from ios_tf.tuning.on_the_fly import Status
from ios_tf.tuning.searcher import Searcher

NUMBERS = tf.TensorSpec([None, 4], name="x")


def test_searches_that_ended_early():
    stats = SearchStats(
        cut={"a": 2}, stopped={"0": 0.25, "1": 0.1}, too_large={"c", "b"}
    )
    report = notes.search(Report(None, "cpu", {}), stats)
    assert shared.reasons(report) == [
        Reason.CUT,
        Reason.LITTLE_MEMORY,
        Reason.TIME_LIMIT,
    ]
    cut, memory, limit = report.decisions
    assert "block a " in cut.sentence and "3 parts" in cut.sentence
    assert memory.nodes == ("b", "c")
    assert limit.sentence.startswith("2 searches ") and "25%" in limit.sentence
    assert shared.reasons(notes.search(report, SearchStats())) == [
        Reason.CUT,
        Reason.LITTLE_MEMORY,
        Reason.TIME_LIMIT,
    ]


@pytest.mark.parametrize(("width", "taken"), [(2**15 - 1, 2), (2**15, 1)])
def test_tensors_of_two_to_the_31_elements(width, taken):
    """The engine on a GPU refuses a tensor of 2^31 elements, but not one of 2^31 -
    2^16.

    Nothing is computed. The first convolution writes the tensor.
    """

    def network(x):
        x = tf.nn.conv2d(x, np.ones((1, 1, 1, 2), np.float32), 1, "VALID")
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        return tf.nn.conv2d(x, np.ones((1, 1, 2, 1), np.float32), 1, "VALID")

    # The graph is frozen only once, because this takes seconds and 4 GiB of memory.
    graph = gh.opened(gh.freeze(network, [1, 2**15, width, 1]))
    for device, convolutions in (("cpu", 2), ("gpu", taken)):
        report = graph.blocks(1, device)["report"]
        assert report["operators"].get("conv2d", 0) == convolutions
        refused = [
            one
            for one in report["left_to_tensorflow"]
            if one["code"] == Reason.TENSOR_SIZE.code
        ]
        # The pool is also refused, because it reads the tensor.
        assert len(refused) == 2 * (2 - convolutions)
        assert all("2147483648 elements" in one["text"] for one in refused)


@pytest.mark.parametrize("cause", ["time", "memory"])
def test_latencies_that_the_report_lacks(tmp_path, monkeypatch, cause):
    def fail(*arguments):
        raise MemoryError

    if cause == "time":
        monkeypatch.setattr(networks, "_MOST_SECONDS", 0.0)
        why = "would take longer than 0 s"
    else:
        monkeypatch.setattr(Searcher, "stage_latency", fail)
        monkeypatch.setattr(Searcher, "group_latency", fail)
        why = "too little memory was free"
    options = {"strategy": "greedy", **shared.FAST}
    report = ios_tf.convert(shared.branches(), tmp_path / "out", **options)
    (missing,) = (
        one for one in report.decisions if one.reason is Reason.LATENCIES_MISSING
    )
    found = document.read(str(tmp_path / "out"))
    (network,) = found["networks"]
    stages = [
        stage
        for region in network["regions"]
        for block in region["blocks"]
        for stage in block["stages"]
    ]
    groups = [one for stage in stages for one in stage["group_ms"] or ()]
    latencies = [*(one["ms"] for one in (*network["operators"], *stages)), *groups]
    assert set(latencies) == {None} and groups
    wanted = len(latencies)
    assert f"lacks {wanted} of {wanted} latencies" in missing.sentence
    assert why in missing.sentence
    assert page.page(found)


def test_the_largest_blocks_are_measured_first(tmp_path, monkeypatch):
    operations = []
    measure = Searcher.stage_latency

    def record(searcher, problem, stage):
        operations.append(sum(one.flop for one in work_of(problem.block)))
        return measure(searcher, problem, stage)

    monkeypatch.setattr(Searcher, "stage_latency", record)
    options = {"strategy": "greedy", **shared.FAST}
    ios_tf.convert(shared.branches(), tmp_path / "out", **options)
    assert len(set(operations)) > 1
    assert operations == sorted(operations, reverse=True)


def test_a_conversion_while_a_trace_is_recorded():
    def double(x):
        return {"y": 2.0 * x}

    concrete = tf.function(double, [NUMBERS]).get_concrete_function()
    frozen = frozen_graphs.freeze("f", concrete)
    reference = Reference("f", concrete, frozen, "cpu")
    with tracing.record():
        comparison = reference.compare(concrete, frozen.graph_def, [1], [1])
    assert comparison.traces == {}
    assert shared.reasons(comparison) == [Reason.NO_TIMELINE]


def test_a_signature_that_is_not_requested(tmp_path):
    network = fm.Network()
    serve = tf.function(lambda x: {"y": network(x)}, [fm.image_spec()])
    other = tf.function(lambda x: {"y": 2.0 * network(x)}, [fm.image_spec()])
    source = str(tmp_path / "model")
    tf.saved_model.save(network, source, {"serve": serve, "other": other})
    options = {"strategy": "sequential", **shared.FAST}
    report = ios_tf.convert(source, tmp_path / "out", signatures="serve", **options)
    (left,) = (one for one in report.decisions if one.reason is Reason.NOT_REQUESTED)
    assert "'other'" in left.sentence
    assert [one["code"] for one in report.to_json()["decisions"]] == [
        one.code for one in report.decisions
    ]


def compared(function: Callable, *specs: tf.TensorSpec, samples=None) -> list[Reason]:
    """The reasons why a function is not compared with itself."""
    concrete = tf.function(function, specs).get_concrete_function()
    frozen = frozen_graphs.freeze("f", concrete)
    reference = Reference("f", concrete, frozen, "cpu")
    if samples is not None:
        reference.use_samples(samples_of(samples))
    comparison = reference.compare(concrete, frozen.graph_def, [1])
    assert comparison.difference is None
    return shared.reasons(comparison)


def rejecting(x):
    with tf.control_dependencies([tf.debugging.assert_greater(x, 1e9)]):
        return {"y": tf.identity(x)}


def test_inputs_that_a_function_rejects():
    assert compared(rejecting, NUMBERS) == [Reason.INPUTS_REJECTED]
    samples = {"x": np.zeros((2, 4), np.float32)}
    assert compared(rejecting, NUMBERS, samples=samples) == [Reason.SAMPLES_REJECTED]


def test_an_input_without_numbers():
    def function(x, handle):
        return {"y": x + tf.raw_ops.TensorListLength(input_handle=handle)}

    handle = tf.TensorSpec([], tf.variant, "handle")
    x = tf.TensorSpec([None, 4], tf.int32, "x")
    assert compared(function, x, handle) == [Reason.INPUT_TYPE]


def test_a_function_with_state():
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)

    def function(x):
        table.insert(tf.constant(0, tf.int64), x[0, 0])
        return {"y": x + table.lookup(tf.constant(0, tf.int64))}

    assert compared(function, NUMBERS) == [Reason.STATEFUL]


def test_a_region_that_cannot_be_timed(tmp_path, monkeypatch):
    source = str(tmp_path / "model")
    fm.records(source)
    measure = region_check.measure_made_up

    def first_only(*arguments):
        return [
            dataclasses.replace(one, latencies={1: shared.exactly(2.0, 1.0)})
            for one in measure(*arguments)[:1]
        ]

    monkeypatch.setattr(region_check, "measure_made_up", first_only)
    options = {**shared.FAST, "keep_slower": False}
    report = ios_tf.convert(source, tmp_path / "out", **options)
    (untimed,) = (
        one for one in report.decisions if one.reason is Reason.REGION_NOT_TIMED
    )
    assert untimed.nodes and untimed.sentence.startswith("1 region ")


def test_another_share_of_nan(monkeypatch):
    """An operator after the regions gives NaN. The results of the regions are equal."""

    concrete = tf.function(
        lambda x: {"y": tf.sqrt(x)}, [NUMBERS]
    ).get_concrete_function()
    frozen = frozen_graphs.freeze("f", concrete)
    reference = Reference("f", concrete, frozen, "cpu")

    def without_numbers(x):
        return {"y": tf.where(x > 0.3, np.nan, tf.sqrt(x))}

    equal = InnerTensor("region 1 of 1", True, 0.0, 1e-5, True)
    monkeypatch.setattr(reference, "_compare_inside", lambda graph, case: [equal])
    with pytest.raises(NotConvertedError) as error:
        reference.compare(without_numbers, frozen.graph_def, [1])
    assert error.value.decision.reason is Reason.SHARE_OF_NAN


def test_the_decisions_of_a_process():
    names = ("annotated_graphs", "scheduled_graphs", "passed_graphs", "regions")
    names += ("blocks_cached", "blocks_greedy", "blocks_searched", "blocks_missed")
    counts = dict.fromkeys(names, 0)
    counts |= {"graphs_not_frozen": 0, "failed_captures": 0, "warnings": 0}
    assert Status(None, True, True, counts=counts).decisions() == []
    counts |= {"blocks_missed": 4, "graphs_not_frozen": 3, "failed_captures": 2}
    counts["warnings"] = 1
    status = Status(None, True, True, counts=counts, not_off=["remapping"])
    found = {one.reason: one.count for one in status.decisions()}
    assert found == {
        Reason.NO_SCHEDULE: 4,
        Reason.GRAPHS_NOT_FROZEN: 3,
        Reason.NO_CUDA_GRAPH: 2,
        Reason.CACHE_FILE_IGNORED: 1,
        Reason.PASSES_STAY_ON: 1,
    }
    text = str(status)
    assert all(f"[{reason.code}]" in text for reason in found)
    (problem,) = Status("no library", False, False).decisions()
    assert problem.reason is Reason.NO_LIBRARY


def test_the_reasons_of_nodes_are_grouped():
    def function(x):
        y = tf.cumsum(tf.nn.conv2d(x, gh.constant(3, 3, 4, 4), 1, "SAME"), 1)
        y = tf.nn.conv2d(y, tf.reshape(y[0, :1, :4], [1, 1, 4, 4]), 1, "SAME")
        return tf.sort(tf.cumsum(y, 2))

    model = tf.function(function, [tf.TensorSpec([None, 4, 4, 4], name="x")])
    report = ios_tf.optimize(model, strategy="sequential", **shared.FAST).report
    by_code = {one.code: one for one in report.decisions}
    dynamic = by_code["IOS007"]
    assert dynamic.types == {"Conv2D": 1} and len(dynamic.nodes) == 1
    assert dynamic.sentence.startswith("1 convolution (Conv2D) is left to TensorFlow")
    types = by_code["IOS001"]
    assert types.types["Cumsum"] == 2 and types.count == sum(types.types.values())
    # The table counts nodes, and names only convolutions.
    assert str(dynamic) in report.notes and str(types) not in report.notes
    (row,) = (
        line for line in report.table().splitlines() if line.startswith("left to Tens")
    )
    assert "Conv2D x1 [IOS007]" in row and "Cumsum x2" in row and "[IOS001]" in row
    assert report.left_to_tensorflow["Conv2D"] == 1
    assert {reasons.BY_CODE[code] for code in by_code} == {
        one.reason for one in report.decisions
    }
