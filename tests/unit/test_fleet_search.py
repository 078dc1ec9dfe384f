"""Searches on a simulated fleet find what a search on one device finds."""

from pathlib import Path

import numpy as np
import pytest
from scheduler_helpers import problem_of

from benchmarks import fleet
from benchmarks.network import Network
from ios_tf.scheduler import Pruning
from ios_tf.scheduler.dynamic_programming import cheapest_with, solve
from ios_tf.scheduler.state_space import build_state_space

DATA = Path(__file__).parents[1] / "support" / "data"


@pytest.fixture(scope="module")
def squeezenet():
    problems = Network.read(DATA / "squeezenet.json").problems
    return list(problems.values())


@pytest.mark.parametrize("devices", [1, 3, 16])
def test_a_fleet_finds_the_same_latency(squeezenet, devices):
    alone = fleet.alone("squeezenet", squeezenet)
    found = fleet.on_fleet("squeezenet", squeezenet, devices)
    assert found.latency_ms == pytest.approx(alone.latency_ms, rel=1e-12)
    assert found.measurements <= 1.3 * alone.measurements
    if devices > 1:
        # Without the time of the search itself, which depends on this machine.
        assert found.seconds - found.search_seconds < alone.seconds / 2


@pytest.mark.parametrize("seed", range(40))
def test_cheapest_way_with_each_stage(seed):
    problem, _, _ = problem_of(seed, 2 + seed % 6)
    space = build_state_space(problem, Pruning(0, 0))
    stage_ms = np.random.default_rng(seed).uniform(0.5, 2.0, space.stages.shape[1])
    found = cheapest_with(space, stage_ms)
    chosen, least = solve(space, stage_ms)
    assert found[chosen] == pytest.approx([least] * len(chosen))
    for stage in range(len(stage_ms)):
        # A stage that costs nothing, less a large number, is in the cheapest schedule.
        cheap = stage_ms.copy()
        cheap[stage] -= 100.0
        _, with_stage = solve(space, cheap)
        assert found[stage] == pytest.approx(with_stage + 100.0)
