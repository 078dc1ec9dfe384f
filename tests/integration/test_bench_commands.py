"""The benchmarks complexity, explore and export_blocks."""

import json

import foreign_models
import keras
import pytest
import shared
import tensorflow as tf
from keras import layers

from benchmarks.__main__ import main
from benchmarks.network import Network
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import Latency


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> str:
    """Two concurrent convolutions that may merge, and a concat of both."""
    path = str(tmp_path_factory.mktemp("network") / "model")
    inputs = keras.Input((9, 9, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu", name="left")(inputs)
    b = layers.Conv2D(4, 1, padding="same", activation="relu", name="right")(inputs)
    keras.Model(inputs, layers.Concatenate()([a, b])).export(path, verbose=False)
    return path


def _run(capfd, *arguments: str) -> tuple[int, list[str], str]:
    capfd.readouterr()
    code = main(arguments)
    captured = capfd.readouterr()
    return code, captured.out.splitlines(), captured.err


def test_complexity_counts_by_hand(capfd, network):
    # The edges are 0 -> 2 <- 1. The states 0, 1 and 01 have 1, 1 and 3 endings. The
    # state 012 has the endings 2, 02, 12 and 012.
    code, lines, _ = _run(capfd, "complexity", network)
    assert code == 0
    header = ["n", "d", "states", "bound", "transitions", "schedules"]
    assert lines[0].split()[1:] == header
    # State 01 has 3 schedules. State 012 has 3 + 1 + 1 + 1 schedules: as many as the
    # states that its endings leave.
    assert lines[1].split()[-6:] == ["3", "2", "4", "19", "9", "6"]
    assert lines[-1].startswith("largest: ")
    _, lines, _ = _run(capfd, "complexity", network, "--single_source")
    assert lines[1].split()[-2:] == ["8", "5"]
    _, lines, _ = _run(capfd, "complexity", network, "--max_groups=1")
    assert lines[1].split()[-2:] == ["8", "5"]


def test_table_1_has_the_largest_block_of_each_network(capfd, network):
    code, lines, _ = _run(capfd, "table1", network, "models:squeezenet")
    assert code == 0
    assert lines[1].split()[1:] == ["3", "2", "4", "19", "8", "5"]
    # The last two numbers are from the paper, which prints 131 as 1.3e2.
    assert lines[2].split()[-4:] == ["51", "131", "51", "1.3e2"]


def test_complexity_of_units_and_borders(capfd, network):
    _, lines, _ = _run(capfd, "complexity", network, "--group=left|right")
    assert lines[1].split()[-6:-4] == ["2", "1"]
    _, lines, _ = _run(capfd, "complexity", network, "--block_end=left")
    assert len(lines) == 4
    code, _, error = _run(capfd, "complexity", network, "--group=(")
    assert code == 2
    assert "'(' is not a regular expression" in error


def test_explore_compares_strategies(capfd, network, tmp_path):
    cache = f"--cache_dir={tmp_path}"
    code, lines, _ = _run(capfd, "explore", network, "--strategies=auto,sequential")
    assert code == 0
    assert lines[0].split() == ["block", "sequential", "auto"]
    assert lines[-1].split()[:3] == ["/", "sequential", "1.000"]
    assert 0 < float(lines[-1].split()[-1]) < 1
    code, _, error = _run(capfd, "explore", network, "--device=simulated:h300", cache)
    assert code == 1
    message = "there is no device 'simulated:h300'. The devices are simulated:h200"
    assert message in error


def test_explore_says_what_was_never_measured(capfd, network, tmp_path):
    LatencyDatabase(str(tmp_path / "latencies.txt"), "some_gpu").put(
        "another stage", Latency(1.0, 0.0, 3)
    )
    device = ("--device=measured:some_gpu", f"--cache_dir={tmp_path}")
    code, lines, _ = _run(capfd, "explore", network, *device)
    assert code == 0
    assert set(lines[-1].split()[2:]) == {"?"}
    code, _, error = _run(capfd, "explore", network, "--device=measured:cpu", device[1])
    assert code == 1
    assert "measured:some_gpu" in error


def test_export_of_blocks(capfd, network, tmp_path):
    path = tmp_path / "blocks.json"
    code, lines, _ = _run(capfd, "export_blocks", network, str(path))
    assert code == 0
    assert lines[-1] == f"{path}: 3 operators in 1 regions, 1 different blocks"
    (region,) = Network.read(str(path)).regions
    assert len(region.block["operators"]) == 3


def test_overhead_is_what_the_other_times_leave(capfd):
    model = shared.converted_cells()
    code, lines, _ = _run(capfd, "overhead", model, "--rounds=3", "--calls=3")
    assert code == 0
    times = [float(line.split()[-2]) for line in lines[:5]]
    assert [line.split()[-1] for line in lines[:5]] == ["ms"] * 5
    assert times[0] > times[1] > 0  # the call contains the engine's work
    assert times[4] > 0
    variables = tf.saved_model.load(model).signatures["serving_default"].captured_inputs
    assert lines[5].endswith(f": {len(variables)}")


def test_overhead_of_a_model_that_is_not_converted(capfd, network):
    code, _, error = _run(capfd, "overhead", network)
    assert code == 1
    assert "runs on the engine" in error


def test_all_commands_have_one_line_of_help(capfd):
    code, lines, _ = _run(capfd, "--help")
    assert code == 0
    names = [line.split()[0] for line in lines[2:]]
    assert names == sorted(names)
    assert {"complexity", "frameworks", "gpu_day", "table1", "zoo"} <= {*names}
    assert all(len(line.split()) > 2 for line in lines[2:])


def test_experiment_of_one_of_several_meta_graphs(capfd, tmp_path):
    model = str(tmp_path / "model")
    foreign_models.tf1_two_meta_graphs(model)
    words = ["specialization", model, "--batch_sizes=1,2", "--rounds=2"]
    words += ["--time_limit=1", f"--output={tmp_path}"]
    code, _, error = _run(capfd, *words)
    assert code == 1
    assert "Select one with --tags=serve or --tags=gpu,serve" in error
    code, _, _ = _run(capfd, *words, "--tags=gpu,serve")
    assert code == 0
    record = json.loads((tmp_path / "specialization.json").read_text())
    assert "--tags=gpu,serve" in record["command"]
