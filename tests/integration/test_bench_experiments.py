"""The paper's experiments, each on a tiny network: tables and JSON."""

import argparse
import dataclasses
import json
import os
import signal
from typing import Any

import bench_helpers
import pytest

from benchmarks.__main__ import main
from benchmarks.experiments import batch, frameworks, utilization
from benchmarks.experiments.command import EXPERIMENTS
from benchmarks.experiments.experiment import (
    Context,
    Record,
    paper_name,
    ratio,
    summary,
)
from benchmarks.frameworks.peers import PEERS
from benchmarks.frameworks.runner import Target
from benchmarks.network import Network
from benchmarks.page import write_page
from benchmarks.worker import Worker
from ios_tf.cost import work
from ios_tf.errors import UserError
from ios_tf.native.engine import EngineError

_PAPER = {
    "schedules_batch_1": {
        "tiny": {
            "sequential": 4.0,
            "greedy": 3.0,
            "ios_merge": 3.5,
            "ios_parallel": 2.5,
            "ios_both": 2.0,
        }
    },
    "batch_sizes_tiny": {
        "1": {"sequential": 4.0, "tensorrt": 3.0, "ios_both": 2.0},
        "2": {"sequential": 5.0, "tensorrt": 4.0, "ios_both": 2.5},
    },
    "specialization_tiny": {
        "batch": {"sizes": [1, 2], "latency": [[2.0, 2.5], [4.0, 3.0]]}
    },
    "pruning_r_s": {"tiny": {"1,3": [3.0, 4], "3,8": [2.0, 30]}},
    "search_seconds": {"tiny": 44},
    "active_warps_gain": 1.58,
    "frameworks_batch_1": {"tiny": {"tensorflow": 6.0, "taso": 5.0, "tensorrt": 4.5}},
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("network") / "tiny.json"
    bench_helpers.tiny_network().write(path)
    return str(path)


@pytest.fixture
def measured(tiny, tmp_path, capsys):
    """Runs an experiment; gives its printed output and its record."""

    def run(name: str, *flags: str) -> tuple[str, Record]:
        paper = tmp_path / "paper.json"
        paper.write_text(json.dumps(_PAPER))
        words = [name, tiny, "--rounds=2", f"--output={tmp_path}", f"--paper={paper}"]
        assert main([*words, *flags]) == 0
        record = Record.read(tmp_path / f"{name}.json")
        assert record.command.startswith(f"python -m benchmarks {name}")
        assert record.experiment == name and record.versions["numpy"]
        return capsys.readouterr().out, record

    return run


# Results have five significant digits.
ROUNDED = 1e-4


def _rows(text: str) -> dict[str, str]:
    """The lines of a printed table by their first words."""
    return {line.split("  ")[0]: line for line in text.splitlines() if "  " in line}


def test_schedules(measured):
    out, record = measured("schedules")
    (rows,) = record.results["networks"].values()
    assert list(rows) == ["sequential", "greedy", "merge", "parallel", "auto"]
    assert rows["sequential"]["stages"] == 10  # operators
    assert rows["sequential"]["speedup"] == 1.0
    # Branches run concurrently: 0 | 1 2 4 | 3 5 | 6, then the head's three operators.
    assert rows["greedy"]["stages"] == 7
    assert all(row["samples"] == 2 for row in rows.values())
    assert rows["auto"]["measurements"] > rows["merge"]["measurements"] > 0
    assert _rows(out)["auto"].split()[-3:] == ["2.00", "2.00", "44"]  # the paper's


def test_frameworks(measured):
    peers = ["ios", "ios_sequential", "tensorflow", "onnxruntime", "openvino"]
    out, record = measured("frameworks", f"--peers={','.join([*peers, 'tensorrt'])}")
    (rows,) = record.results["networks"].values()
    assert list(rows) == [*peers, "tensorrt"]
    for peer in peers:
        name = PEERS[peer].name
        if PEERS[peer].missing():
            assert "not installed: " in _rows(out)[name]
        elif PEERS[peer].runs_saved_model:
            assert "needs a SavedModel, and this network is only" in _rows(out)[name]
        else:
            assert rows[peer]["difference"] < 1e-5
            assert rows[peer]["samples"] == 2
    assert rows["ios"]["over_ios"] == 1.0
    assert "does not run on cpu" in _rows(out)["TensorRT"]
    assert _rows(out)["TASO"].split()[-3:] == ["5.00", "paper", "only"]


def test_batch(measured):
    flags = ["--batch_sizes=1,2", "--peers=ios,ios_sequential,tensorrt"]
    out, record = measured("batch", *flags)
    assert record.command.endswith(" ".join(["--rounds=2", *flags]))
    (sizes,) = record.results["networks"].values()
    assert list(sizes) == ["1", "2"]
    lines = _rows(out)
    for column, size in enumerate(("1", "2"), 1):
        latency_ms = sizes[size]["ios"]["median_ms"]
        shown = float(lines[PEERS["ios"].name].split()[-3 + column])
        assert shown == pytest.approx(
            int(size) * 1e3 / latency_ms, rel=ROUNDED, abs=0.1
        )
    assert "does not run on cpu" in out
    assert lines["paper (V100): IOS, sequential"].split()[-2:] == ["250.0", "400.0"]


def test_what_was_measured_before_the_end_is_kept(tiny, tmp_path, monkeypatch):
    """Results are kept if the time is over and the process is ended."""
    compare = batch.compare

    def until(network, *arguments):
        if network.batch_size == 4:
            raise KeyboardInterrupt
        return compare(network, *arguments)

    monkeypatch.setattr(batch, "compare", until)
    flags = ["--batch_sizes=1,2,4", "--peers=ios_sequential", "--rounds=2"]
    with pytest.raises(KeyboardInterrupt):
        main(["batch", tiny, f"--output={tmp_path}", *flags])
    (sizes,) = Record.read(tmp_path / "batch.json").results["networks"].values()
    assert list(sizes) == ["1", "2"]
    assert sizes["2"]["ios_sequential"]["median_ms"] > 0


def test_results_of_earlier_networks_are_kept(tiny, monkeypatch):
    """The time is over at batch size 2 of the second network."""

    def compare(network, *_):
        if (network.name, network.batch_size) == ("second", 2):
            raise KeyboardInterrupt
        return {"ios": {"median_ms": network.batch_size}}

    monkeypatch.setattr(batch, "compare", compare)
    network = Network.read(tiny)
    networks = [dataclasses.replace(network, name=name) for name in ("first", "second")]
    options = argparse.Namespace(batch_sizes=[1, 2], peers=["ios"])
    kept: list[str] = []
    context = Context(
        networks,
        Target("cpu", "float32", 1, 1.0),
        2,
        True,
        options,
        print,
        lambda results: kept.append(json.dumps(results)),
    )
    with pytest.raises(KeyboardInterrupt):
        batch.Batch().measure(context)
    sizes = {str(size): {"ios": {"median_ms": size}} for size in (1, 2)}
    expected = {"first": sizes, "second": {"1": sizes["1"]}}
    assert json.loads(kept[-1]) == {"networks": expected}


def test_a_network_that_fails_costs_no_other(tiny, monkeypatch):
    def compare(network, *_):
        if network.name == "first":
            raise EngineError("no memory")
        return {"ios": {"median_ms": 1.0}}

    monkeypatch.setattr(frameworks, "compare", compare)
    network = Network.read(tiny)
    networks = [dataclasses.replace(network, name=n) for n in ("first", "second")]
    kept: list[Any] = []
    context = Context(
        networks,
        Target("cpu", "float32", 1, 1.0),
        2,
        True,
        argparse.Namespace(peers=["ios"]),
        print,
        kept.append,
    )
    with pytest.raises(UserError, match=r"^first: no memory$"):
        frameworks.Frameworks().measure(context)
    assert kept == [{"networks": {"second": {"ios": {"median_ms": 1.0}}}}]


def test_specialization(measured, tmp_path, tiny):
    out, record = measured("specialization", "--batch_sizes=1,2")
    (found,) = record.results["networks"].values()
    assert list(found["executed_at"]) == ["1", "2"]
    for row in found["executed_at"].values():
        assert list(row) == ["batch 1", "batch 2"]
    # Computed by hand: 4.0 / 3.0.
    assert "4.00 (1.333)" in out and "2.50 (1.250)" in out
    # The schedules of another device also run here.
    other = json.loads((tmp_path / "specialization.json").read_text())
    other["device"] = "another device"
    (tmp_path / "other.json").write_text(json.dumps(other))
    flags = ["--batch_sizes=1", f"--other={tmp_path / 'other.json'}"]
    _, record = measured("specialization", *flags)
    (found,) = record.results["networks"].values()
    assert list(found["executed_at"]["1"]) == ["batch 1", "another device"]


def test_schedules_of_another_network_are_refused(tiny, tmp_path, capsys):
    words = [tiny, "--rounds=2", "--batch_sizes=1", f"--output={tmp_path}"]
    assert main(["specialization", *words]) == 0
    path = tmp_path / "specialization.json"
    other = json.loads(path.read_text())
    (found,) = other["results"]["networks"].values()
    found["schedules"]["1"].reverse()
    path.write_text(json.dumps(other))
    capsys.readouterr()
    assert main(["specialization", *words, f"--other={path}"]) == 1
    assert "are for another network" in capsys.readouterr().err


def test_pruning(measured):
    out, record = measured("pruning")
    (rows,) = record.results["networks"].values()
    assert list(rows) == ["1,3", "1,8", "2,3", "2,8", "3,3", "3,8"]
    assert rows["1,3"]["measurements"] < rows["3,8"]["measurements"]
    assert _rows(out)["3,8"].split()[-2:] == ["2.00", "30"]


def test_blocks(measured):
    _, record = measured("blocks")
    (rows,) = record.results["networks"].values()
    assert [row["operators"] for row in rows] == [7, 3]
    assert [row["count"] for row in rows] == [1, 1]
    assert rows[1]["stages"] == 3  # a chain


def test_utilization(measured):
    out, record = measured("utilization", "--quick")
    (runs,) = record.results["networks"].values()
    sequential, both = runs["sequential"], runs["auto"]
    assert len(sequential["stages"]) == 10 >= len(both["stages"])
    assert record.results["quantity"] == "busy cores"
    total = sum(stage["ms"] for stage in sequential["stages"])
    assert sequential["ms"] == pytest.approx(total, rel=ROUNDED)
    assert 0 < sequential["busy"] <= record.results["most"] * 1.05
    # The work is the same, and the time may be shorter or longer.
    assert both["work_rate"] * both["ms"] == pytest.approx(
        sequential["work_rate"] * sequential["ms"], rel=ROUNDED
    )
    assert "1.58" in _rows(out)["paper (V100, warps)"]


@pytest.mark.parametrize(
    ("device", "visible", "number"),
    [("gpu", "", 0), ("gpu:2", "", 2), ("gpu:1,tf32=off", "5,3", 3), ("gpu", "7", 7)],
)
def test_nvml_counts_gpus_that_are_hidden(monkeypatch, device, visible, number):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert utilization._ordinal(device) == number


def test_roofline(measured):
    out, record = measured("roofline")
    peak = record.results["peak"]["gflop_per_s"]
    bandwidth = record.results["bandwidth"]["gb_per_s"]
    assert peak > 0 and bandwidth > 0
    (found,) = record.results["networks"].values()
    rows = {row["operator"]: row for row in found["operators"]}
    # Two of the ten operators are equal.
    assert [row["count"] for row in rows.values()] == [1, 1, 2, 1, 1, 1, 1, 1, 1]
    # By hand: 2 flops * 9 * 7 cells * 8 filters * 3 * 3 * 3.
    assert rows["conv2d_0"]["gflop"] == pytest.approx(27216e-9, rel=ROUNDED)
    assert rows["conv2d_0"]["mb"] == pytest.approx(4e-6 * 1391, rel=ROUNDED)
    assert rows["pool_4"]["gflop"] == rows["softmax_2"]["gflop"] == 0
    for row in rows.values():
        floor_ms = max(1e3 * row["gflop"] / peak, row["mb"] / bandwidth)
        if row["type"] == "concat":  # a concat may move nothing
            floor_ms = min(floor_ms, row["median_ms"])
        assert row["floor_ms"] == pytest.approx(floor_ms, rel=ROUNDED)
    lines = _rows(out)
    assert lines["conv2d 1x1"].split()[2] == "3"  # count
    assert lines["sum of operators"].split()[3] == "10"
    total_ms = sum(row["count"] * row["median_ms"] for row in rows.values())
    assert lines["sum of operators"].split()[6] == f"{total_ms:.3f}"
    for row in ("sequential", "best"):
        whole_ms = found[row]["median_ms"]
        assert lines[f"network, {row}"].split()[5] == f"{whole_ms:.3f}"
    assert f"tiny, floor at {peak:.1f} GFLOP/s and {bandwidth:.1f} GB/s" in out


def test_work_of_operators():
    sepconv = {"type": "sepconv", "kernel": [3, 3], "filters": 5, "multiplier": 2}
    sepconv |= {"padding": "SAME", "strides": [2, 2], "bias": True}
    operators = [
        {**sepconv, "inputs": [-1]},
        {"type": "binary", "inputs": [0, 0]},
        {"type": "conv2d", "kernel": [3, 3], "filters": 10, "groups": 5},
    ]
    operators[2] |= {"inputs": [1], "activation": "relu"}
    block = {"version": 1, "inputs": [[2, 6, 6, 4]], "outputs": [2]}
    block |= {"operators": operators, "dtype": "float16"}
    # The output has 3 * 3 cells. The operations are those of the depthwise and of the
    # pointwise part. The bytes are those of the weights, the input and the output.
    of_sepconv = work.Work(
        2 * 2 * 9 * 8 * 9 + 2 * 2 * 9 * 8 * 5,
        2 * (9 * 8 + 8 * 5 + 5 + 2 * 36 * 4 + 2 * 9 * 5),
    )
    of_square = work.Work(0, 2 * (90 + 90))  # the input counts once
    # With VALID padding one cell remains.
    of_groups = work.Work(2 * 2 * 10 * 9, 2 * (90 + 9 * 10 + 20))
    assert work.work_of(block) == [of_sepconv, of_square, of_groups]


def test_page(measured, tmp_path):
    results = tmp_path / "results"
    (results / "machine").mkdir(parents=True)
    page = tmp_path / "page.md"
    assert write_page(str(page), results) == 0
    _, record = measured("blocks")
    record.write(results / "machine" / "blocks.json")
    assert write_page(str(page), results) == 1
    text = page.read_text()
    assert "## machine" in text and f"`{record.command}`" in text
    assert record.date[:10] in text and record.device in text
    assert text.count("not run yet") == len(EXPERIMENTS) - 1
    (results / "machine" / "broken.json").write_text("{")
    with pytest.raises(UserError, match=r"broken\.json"):
        write_page(str(page), results)
    assert page.read_text() == text


def test_networks_for_other_batch_sizes_and_types(tiny):
    network = Network.read(tiny)
    other = network.with_batch(3).with_dtype("float16")
    assert network.batch_size == 1 and other.batch_size == 3
    for region, was in zip(other.regions, network.regions, strict=True):
        assert region.block["inputs"][0][1:] == was.block["inputs"][0][1:]
        assert region.block["dtype"] == "float16"
        for part in region.parts:
            assert other.problems[part.signature].shapes[0][0] == 3


def test_summaries():
    found = summary([3.0, 1.0, 2.0])
    assert (found["median_ms"], found["samples"]) == (2.0, 3)
    assert (found["p10_ms"], found["p90_ms"]) == pytest.approx((1.2, 2.8))
    # The ratio is taken within each round, because a slow round slows down both.
    assert ratio([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]) == 2.0
    assert paper_name("models:nasnet_a_large") == "nasnet_a"
    assert paper_name("/some/where/squeezenet.json") == "squeezenet"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nowhere.json"], "/nowhere.json: cannot be read"),
        (["--paper=/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_errors_are_one_line(words, message, tiny, tmp_path, capsys):
    networks = [] if words[0].endswith(".json") else [tiny]
    flags = [f"--output={tmp_path / 'out'}", *networks, *words]
    assert main(["schedules", *flags]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ") and message in lines[-1]
    assert not (tmp_path / "out" / "schedules.json").exists()


def test_a_broken_record_is_refused(tmp_path):
    path = tmp_path / "record.json"
    for text in ("{", "[]", '{"version": 0}', '{"version": 1}'):
        path.write_text(text)
        with pytest.raises(UserError, match="is not a valid result of a benchmark"):
            Record.read(path)


def test_a_peer_that_dies_is_a_row_of_its_own(tiny, monkeypatch):
    network = Network.read(tiny)
    peers = ["ios_sequential", "ios"]
    time = Worker.time

    def dies(worker):
        os.kill(worker._process.pid, signal.SIGKILL)
        return time(worker)

    class Dying(Worker):
        def __init__(self, peer, *arguments):
            super().__init__(peer, *arguments)
            if peer == "ios":
                self.time = lambda: dies(self)

    monkeypatch.setattr(frameworks, "Worker", Dying)
    said = []
    target = Target("cpu", "float32", 1, 1.0)
    options = argparse.Namespace(peer_python=[])
    context = Context([network], target, 2, True, options, said.append)
    rows = frameworks.compare(network, peers, context)
    assert rows["ios"] == {"note": "failed: the process ended: Killed"}
    assert rows["ios_sequential"]["samples"] == 2
    assert said[-1].endswith("Killed")
