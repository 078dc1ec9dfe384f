"""The engine's pool on simulated machines: callers share many cores."""

import dataclasses

import pytest
import shared

from benchmarks.callers_simulation import recorded, rows_table, sections_for
from benchmarks.callers_simulation import simulated_rows as rows_of
from benchmarks.simulated_cores import Load, build, ideal_calls_per_s, simulate
from ios_tf.errors import UserError

NETWORK = "MobileNetV3Small"


def _build(directory):
    build(directory)


@pytest.fixture(scope="module")
def program():
    return shared.made_once("callers_simulation", _build) / "callers"


def test_equal_runs_give_equal_results(program):
    sections = recorded()[NETWORK]["8"]
    load = Load(cores=8, callers=5, calls=60)
    assert simulate(program, sections, load) == simulate(program, sections, load)


def test_one_core_works_as_long_as_the_sections_say(program):
    # A caller spends 10 + 2 x 45 us in each call, and 20 us between calls.
    load = Load(cores=1, callers=1, calls=50, variation=0)
    found = simulate(program, [[10, 1, 90, 90]], load)
    assert found.calls_per_s == pytest.approx(1e6 / 120, rel=0.02)
    assert found.p50_ms == pytest.approx(0.1, rel=0.02)


def test_callers_without_a_core_wait(program):
    load = Load(cores=2, callers=4, calls=100, variation=0, outside_us=0)
    found = simulate(program, [[0, 1, 1000, 1000]], load)
    assert found.calls_per_s == pytest.approx(2000, rel=0.03)
    assert found.p50_ms == pytest.approx(2, rel=0.05)


def test_pieces_run_on_all_cores(program):
    load = Load(cores=4, callers=1, calls=50, variation=0)
    found = simulate(program, [[0, 4, 4000, 1000]], load)
    assert found.p50_ms == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("callers", [16, 64])
def test_many_callers_reach_the_ideal(program, callers):
    by_threads = recorded()[NETWORK]
    load = Load(cores=16, callers=callers, calls=4 * callers)
    found = simulate(program, by_threads["16"], load)
    assert found.calls_per_s >= 0.9 * ideal_calls_per_s(by_threads, load)
    assert found.p99_ms <= 3 * found.p50_ms
    alone = simulate(
        program, by_threads["16"], dataclasses.replace(load, calls=20, alone=True)
    )
    assert alone.calls_per_s < found.calls_per_s / 3


def test_few_callers_use_more_than_a_core_each(program):
    """A caller uses cores that other callers leave idle between their calls."""
    by_threads = recorded()[NETWORK]
    few = simulate(program, by_threads["16"], Load(cores=16, callers=4, calls=60))
    one = simulate(program, sections_for(by_threads, 1), Load(1, 1, calls=20))
    assert few.calls_per_s > 1.3 * 4 * one.calls_per_s


def test_one_caller_is_not_slower_on_more_cores(program):
    by_threads = recorded()[NETWORK]
    p50 = {
        cores: simulate(
            program, by_threads[str(cores)], Load(cores, 1, calls=20)
        ).p50_ms
        for cores in (2, 8, 64)
    }
    assert p50[8] < p50[2]
    assert p50[64] < 1.3 * p50[8]


def test_callers_that_wait_for_memory_leave_the_cores_to_others(program):
    """With two copies of a network, two calls have all eight cores."""
    sections = [[0, 8, 800, 100]] * 10
    load = Load(cores=8, callers=8, calls=40, copies=2, variation=0)
    found = simulate(program, sections, load)
    # Two calls run at a time. Each call has four cores, and so takes 2 ms.
    assert found.calls_per_s == pytest.approx(1000, rel=0.1)


def test_the_table_has_a_row_for_each_machine(program):
    rows = rows_of(program, {"tiny": {"2": [[1, 2, 60, 30]]}}, (1, 2), (1, 3))
    assert [(row.cores, row.callers) for row in rows] == [
        (1, 1),
        (1, 3),
        (2, 1),
        (2, 3),
    ]
    assert all(0.5 < row.share <= 1 for row in rows)
    assert len(rows_table(rows).splitlines()) >= 5


def test_a_network_without_sections_is_an_error(program):
    with pytest.raises(UserError, match="no sections"):
        simulate(program, [], Load(cores=2, callers=1, calls=1))
