"""Loops of callers count each call once, and measure latencies from arrivals."""

import itertools
import random
import statistics
import threading

import pytest

from ios_tf.callers import loops
from ios_tf.callers.loops import Measurement


class VirtualTime:
    """A clock that only sleep() and calls advance."""

    def __init__(self):
        self.now = 0.0

    def clock(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds

    def function(self, service):
        """A function that takes `service` seconds."""
        return lambda: self.sleep(service)


def test_figures():
    latencies = [random.Random(0).uniform(1, 50) for _ in range(357)]
    figures = Measurement(latencies, seconds=2.0, cpu_seconds=3.57).figures(8)
    percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
    assert figures == pytest.approx(
        {
            "images_per_second": 1428.0,
            "p50_ms": percentiles[49],
            "p90_ms": percentiles[89],
            "p99_ms": percentiles[98],
            "cpu_ms": 10.0,
        }
    )


def test_closed_loop_of_one_caller():
    time = VirtualTime()
    found = loops.closed_loop([time.function(0.125)], 0.9, time.clock)
    assert found.latencies_ms == [125.0] * 8
    assert (found.seconds, found.unanswered) == (1.0, 0)


def test_a_caller_calls_at_least_once():
    time = VirtualTime()
    found = loops.closed_loop([time.function(8.0)], 0.5, time.clock)
    assert found.latencies_ms == [8000.0]
    found = loops.open_loop([time.function(8.0)], [0.5], time.clock, time.sleep)
    assert found.latencies_ms == [8000.0]


def test_open_loop_counts_the_time_in_the_queue():
    time = VirtualTime()
    arrivals = [1.0, 1.25, 1.5, 4.0, 4.5]
    found = loops.open_loop([time.function(0.5)], arrivals, time.clock, time.sleep)
    # The calls end at 1.5, 2, 2.5, 4.5 and 5 s.
    assert found.latencies_ms == pytest.approx([500, 750, 1000, 500, 500])
    assert (found.seconds, found.unanswered) == (5.0, 0)


def test_open_loop_is_a_queue_with_one_server():
    service, waits, end = 0.01, [], 0.0
    arrivals = loops.arrival_times(80, 5, seed=1)
    for arrival in arrivals:
        end = max(end, arrival) + service
        waits.append((end - arrival) * 1e3)
    time = VirtualTime()
    found = loops.open_loop([time.function(service)], arrivals, time.clock, time.sleep)
    # The loop starts at another time, after warmup calls, so sums round differently.
    assert found.latencies_ms == pytest.approx(waits)


def test_too_high_a_rate_leaves_calls_unanswered():
    time = VirtualTime()
    arrivals = [number / 8 for number in range(1, 65)]  # the last one is at 8
    found = loops.open_loop([time.function(1.0)], arrivals, time.clock, time.sleep)
    # Calls begin at 1/8 s, 9/8 s and so on; none begins after 16 s.
    assert len(found.latencies_ms) == 16
    assert found.unanswered == 48
    assert found.latencies_ms == sorted(found.latencies_ms)


def test_every_arrival_is_answered_once():
    counter = itertools.count()
    arrivals = [1e-5 * number for number in range(1, 1001)] + [10.0]
    callers = [lambda: next(counter)] * 4
    found = loops.open_loop(callers, arrivals, sleep=lambda seconds: None)
    assert len(found.latencies_ms) == len(arrivals)
    assert next(counter) == len(arrivals) + 4 * loops._WARMUP_CALLS


def test_callers_call_at_the_same_time():
    barrier = threading.Barrier(3)
    # A call returns only when all three callers are in a call at the same time.
    callers = [lambda: barrier.wait(timeout=60)] * 3
    found = loops.open_loop(callers, [1e-6] * 3)
    assert len(found.latencies_ms) == 3


def test_arrivals_repeat_and_have_the_rate():
    times = loops.arrival_times(200, 5, seed=3)
    assert times == loops.arrival_times(200, 5, seed=3)
    assert times != loops.arrival_times(200, 5, seed=4)
    assert len(times) == 1000
    assert times == sorted(times)
    assert times[-1] == pytest.approx(5, rel=0.1)
    # In a Poisson process, the gaps' standard deviation equals their mean.
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)
    assert len(loops.arrival_times(0.1, 2, seed=0)) == 1


@pytest.mark.parametrize("good_calls", [0, loops._WARMUP_CALLS])
def test_an_error_of_one_caller_ends_the_loop(good_calls):
    counter = itertools.count()

    def fail():
        if next(counter) >= good_calls:
            raise ValueError("no answer")

    with pytest.raises(ValueError, match="no answer"):
        loops.closed_loop([lambda: None, fail, lambda: None], 1e-3)
