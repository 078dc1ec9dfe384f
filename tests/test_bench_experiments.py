"""The paper's experiments, each on a tiny network: tables, JSON, figures."""

import json
import sys

import bench_helpers
import pytest

from ios_tf.bench.experiments import command
from ios_tf.bench.experiments.experiment import Record, paper_name, ratio, summary
from ios_tf.bench.frameworks.runners import PEERS
from ios_tf.bench.network import Network
from ios_tf.errors import UserError

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
        assert command.main([*words, *flags]) == 0
        record = Record.read(tmp_path / f"{name}.json")
        assert record.command.startswith(f"ios_tf bench {name}")
        assert record.experiment == name and record.versions["numpy"]
        if "matplotlib" in sys.modules:
            assert (tmp_path / f"{name}.svg").stat().st_size > 1000
            assert (tmp_path / f"{name}.png").stat().st_size > 1000
        return capsys.readouterr().out, record

    return run


def _rows(text: str) -> dict[str, str]:
    """The lines of a printed table by their first words."""
    return {line.split("  ")[0]: line for line in text.splitlines() if "  " in line}


def test_schedules(measured):
    out, record = measured("schedules")
    (rows,) = record.results["networks"].values()
    assert list(rows) == ["sequential", "greedy", "merge", "parallel", "both"]
    assert rows["sequential"]["stages"] == 10  # operators
    assert rows["sequential"]["speedup"] == 1.0
    # The branches run side by side: 0 | 1 2 4 | 3 5 | 6, and the head's three.
    assert rows["greedy"]["stages"] == 7
    assert all(len(row["latencies_ms"]) == 2 for row in rows.values())
    assert rows["both"]["measurements"] > rows["merge"]["measurements"] > 0
    assert _rows(out)["both"].split()[-2:] == ["2.00", "2.00"]  # the paper's


def test_frameworks(measured):
    peers = ["ios", "ios_sequential", "tensorflow", "onnxruntime", "openvino"]
    out, record = measured("frameworks", f"--peers={','.join([*peers, 'tensorrt'])}")
    (rows,) = record.results["networks"].values()
    assert list(rows) == [*peers, "tensorrt"]
    for peer in peers:
        name = PEERS[peer].name
        if PEERS[peer].missing():
            assert "not installed: " in _rows(out)[name]
            assert "median_ms" not in rows[peer]
        else:
            assert rows[peer]["difference"] < 1e-5
            assert len(rows[peer]["latencies_ms"]) == 2
    assert rows["ios"]["over_ios"] == 1.0
    assert rows["tensorflow"]["versions"]["tensorflow"] == record.versions["tensorflow"]
    assert "does not run on cpu" in _rows(out)["TensorRT"]
    assert _rows(out)["TASO"].split()[-3:] == ["5.00", "paper", "only"]


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
    assert (found["median_ms"], found["latencies_ms"]) == (2.0, [3.0, 1.0, 2.0])
    assert (found["p10_ms"], found["p90_ms"]) == pytest.approx((1.2, 2.8))
    # Each round's own ratio: what slows a round slows both.
    assert ratio([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]) == 2.0
    assert paper_name("models:nasnet_a_large") == "nasnet_a"
    assert paper_name("/some/where/squeezenet.json") == "squeezenet"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["/nowhere.json"], "/nowhere.json: cannot be read"),
        (["--device=tpu"], "there is no device 'tpu'"),
        (["--paper=/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_errors_are_one_line(words, message, tiny, tmp_path, capsys):
    networks = [] if words[0].endswith(".json") else [tiny]
    flags = [f"--output={tmp_path / 'out'}", *networks, *words]
    assert command.main(["schedules", *flags]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ") and message in lines[-1]
    assert not (tmp_path / "out" / "schedules.json").exists()


def test_a_broken_record_is_refused(tmp_path):
    path = tmp_path / "record.json"
    for text in ("{", "[]", '{"version": 0}', '{"version": 1}'):
        path.write_text(text)
        with pytest.raises(UserError, match="no result of a benchmark"):
            Record.read(path)
