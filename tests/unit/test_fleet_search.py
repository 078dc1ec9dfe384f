"""Searches on a simulated fleet find schedules as good as a search on one device."""

import json
from pathlib import Path

import pytest

from benchmarks import fleet
from benchmarks.__main__ import main
from benchmarks.network import Network
from ios_tf.cost.cached import CachedCostModel
from ios_tf.scheduler import Bounds, search

DATA = Path(__file__).parents[1] / "support" / "data"


@pytest.fixture(scope="module")
def squeezenet():
    problems = Network.read(DATA / "squeezenet.json").problems
    return list(problems.values())


@pytest.mark.parametrize("devices", [1, 3, 16])
def test_a_fleet_finds_as_good_schedules(squeezenet, devices):
    alone = fleet.alone("squeezenet", squeezenet)
    found = fleet.on_fleet("squeezenet", squeezenet, devices)
    # Each search finds schedules that are at most 2 % slower than the fastest ones.
    assert 0.98 * found.latency_ms <= alone.latency_ms <= found.latency_ms / 0.98
    assert found.measurements <= 1.3 * alone.measurements
    if devices > 1:
        # The time of the search itself is excluded, because it depends on this machine.
        assert found.seconds - found.search_seconds < alone.seconds / 2


@pytest.mark.parametrize("devices", [2, 16, 64])
def test_without_a_tolerance_a_fleet_finds_the_same_latency(squeezenet, devices):
    for problem in squeezenet:
        latencies = fleet.Latencies("h200")
        alone = CachedCostModel(latencies)
        best = search(problem, alone, bounds=Bounds(alone.lower_bound))
        with fleet.simulated_fleet(latencies, devices) as (model, _), model.turn():
            cached = CachedCostModel(model)
            bounds = Bounds(cached.lower_bound, forecast=cached.forecast)
            found = search(problem, cached, bounds=bounds)
        assert found.latency_ms == pytest.approx(best.latency_ms, rel=1e-12)


def test_the_command_writes_its_rows(tmp_path, capfd):
    model, result = str(DATA / "squeezenet.json"), tmp_path / "fleet.json"
    assert main(["fleet", model, "--devices=2", f"--json={result}"]) == 0
    rows = json.loads(result.read_text())["rows"]
    assert [row["devices"] for row in rows] == [0, 2]
    assert capfd.readouterr().out.count("squeezenet") == 2
