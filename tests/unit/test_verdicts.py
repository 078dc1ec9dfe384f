"""Comparisons of two latencies, checked by brute force over known distributions."""

import itertools
import math
import random
import statistics

import pytest

from ios_tf.cost.samples import Latency, LoadRecorder, MachineLoad, Sample
from ios_tf.cost.verdict import (
    Ratio,
    Verdict,
    by_estimate,
    interval_of_median,
    judge,
    ratio_of,
    slower_sizes,
)


@pytest.mark.parametrize("count", range(1, 13))
def test_intervals_hold_the_median_as_often_as_they_say(count):
    """An interval's coverage is at least its confidence, and it is not too wide.

    All sequences of values below and above the median are equally likely.
    """
    confidence = 0.9
    held = 0
    for signs in itertools.product((-1.0, 1.0), repeat=count):
        # Distinct values; each sign says on which side of the median, 0, a value is.
        values = [sign * (1 + i / 100) for i, sign in enumerate(signs)]
        low, high = interval_of_median(values, confidence)
        held += low < 0 < high or (low, high) == (0.0, math.inf)
    assert held >= confidence * 2**count
    # The next shorter interval of order statistics would have too little coverage.
    low, high = interval_of_median(list(map(float, range(1, count + 1))), confidence)
    if high < math.inf:
        inner = sum(
            low + 1 <= signs.count(-1) <= high - 2
            for signs in itertools.product((-1, 1), repeat=count)
        )
        assert inner < confidence * 2**count


def test_intervals_of_few_values_say_nothing():
    assert interval_of_median([1.0] * 6) == (0.0, math.inf)
    assert interval_of_median([1.0] * 7) == (1.0, 1.0)  # 2 / 2**7 is below 2 %


def exactly(ratio):
    return Ratio(ratio, ratio, ratio)


def ratio(estimate, low, high, disturbed):
    return Ratio(estimate, low, high, pairs=20, disturbed=disturbed)


@pytest.mark.parametrize(
    ("ratios", "verdict", "faster"),
    [
        ({}, Verdict.NOT_FASTER, False),
        ({1: exactly(1.5)}, Verdict.FASTER, True),
        ({1: exactly(1.005)}, Verdict.NOT_FASTER, False),
        # On a calm machine, the interval's uncertainty does not change the verdict.
        ({1: ratio(1.02, 0.99, 1.04, 0)}, Verdict.FASTER, True),
        # On a busy machine, the verdict is certain only if the interval excludes 1.
        ({1: ratio(1.3, 1.1, 1.4, 20)}, Verdict.FASTER, True),
        ({1: ratio(1.3, 0.9, 1.4, 20)}, Verdict.UNDECIDED, True),
        ({1: ratio(0.9, 0.8, 1.4, 20)}, Verdict.UNDECIDED, False),
        ({1: ratio(0.9, 0.8, 0.95, 20)}, Verdict.NOT_FASTER, False),
        ({1: Ratio(1.5, 0.0, math.inf, 3, 3)}, Verdict.UNDECIDED, True),
        # One slower batch size is enough for this verdict, however fast the others are.
        (
            {1: ratio(3.0, 2.9, 3.1, 20), 8: ratio(0.9, 0.8, 0.95, 20)},
            Verdict.NOT_FASTER,
            False,
        ),
        (
            {1: ratio(3.0, 2.9, 3.1, 20), 8: ratio(0.99, 0.9, 1.1, 20)},
            Verdict.UNDECIDED,
            True,
        ),
    ],
)
def test_verdicts(ratios, verdict, faster):
    assert judge(ratios) is verdict
    assert by_estimate(ratios) == faster


def test_sizes_that_lose():
    ratios = {1: exactly(0.99), 2: exactly(0.97), 4: exactly(2.0)}
    assert slower_sizes(ratios) == [2]


def calls(ms, cpu_ms, loads, rng):
    """Samples of work that shares its time with other processes."""
    return [
        Sample(
            ms * load * rng.uniform(0.95, 1.05),
            load > 1.05,
            cpu_ms * rng.uniform(0.9, 1.1),
        )
        for load in loads
    ]


def test_undisturbed_pairs_are_compared_by_wall_time():
    rng = random.Random(0)
    loads = [1.0] * 15 + [6.0] * 10
    rng.shuffle(loads)
    # The second work takes more processor time but less wall time, because it uses
    # more cores.
    found = ratio_of(calls(3.0, 3.0, loads, rng), calls(2.0, 4.0, loads, rng))
    assert not found.by_processor_time
    assert (found.pairs, found.disturbed) == (25, 10)
    assert found.low < 1.5 < found.high and abs(found.estimate - 1.5) < 0.1
    assert judge({1: found}) is Verdict.FASTER


def test_disturbed_pairs_are_compared_by_processor_time():
    """Disturbed pairs are compared by processor time, even if wall times say otherwise.

    While other processes run, a process that sleeps more gets its cores back sooner.
    """
    rng = random.Random(0)
    first = calls(60.0, 100.0, [rng.uniform(2, 3) for _ in range(20)], rng)
    second = calls(35.0, 62.5, [rng.uniform(5, 6) for _ in range(20)], rng)
    assert statistics.median(s.ms for s in first) < statistics.median(
        s.ms for s in second
    )
    found = ratio_of(first, second)
    assert found.by_processor_time and found.disturbed == 20
    assert abs(found.estimate - 1.6) < 0.1
    assert judge({1: found}) is Verdict.FASTER
    # Processor time does not include a GPU's work.
    assert not ratio_of(first, second, on_cpu=False).by_processor_time


def test_latencies_are_of_the_undisturbed_samples():
    calm = [Sample(1.0), Sample(1.02), Sample(1.04)]
    assert Latency.of([*calm, Sample(30.0, True), Sample(40.0, True)]) == Latency.of(
        calm
    )
    one = Latency.of([Sample(1.0), Sample(1.2, True), *[Sample(30.0, True)] * 3])
    assert one.disturbed and one.median_ms == 1.2  # the lower quartile
    assert Latency.of([Sample(5.0, True)]) == Latency(5.0, math.inf, 1, True)
    # With only two undisturbed samples, a large difference counts as a disturbance,
    # even if no counter shows one.
    assert Latency.of([Sample(1.0), Sample(1.5), Sample(9.0, True)]).disturbed
    assert not Latency.of([Sample(1.0), Sample(1.5), Sample(2.0)]).disturbed


def test_the_load_of_some_measurements():
    recorder = LoadRecorder()
    recorder.add([Sample(1.0, True)] * 5)
    with recorder.watched() as load:
        recorder.add([Sample(1.0), Sample(1.0, True)])
        with recorder.watched() as inner:
            recorder.add([Sample(1.0)] * 2)
    assert (load[0].samples, load[0].disturbed, load[0].busy) == (4, 1, True)
    assert (inner[0].samples, inner[0].busy) == (2, False)
    assert str(MachineLoad(9.31, 100, 41)) == "load 9.3, 41 % of samples disturbed"
    assert not MachineLoad().busy
