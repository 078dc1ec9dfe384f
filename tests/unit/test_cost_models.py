"""Cost models: medians, and the reuse of latencies by stage key."""

import itertools
import math
import random

import pytest
from scheduler_helpers import make_problem, random_edges

from ios_tf.cost.cached import CachedCostModel, least_time
from ios_tf.cost.cost_model import Measurement, SampledCostModel
from ios_tf.cost.samples import Sample
from ios_tf.cost.stage_key import stage_key
from ios_tf.scheduler import Problem, Stage, Strategy, search


def _labelled(edges, keys, signature):
    """A problem whose operators read exactly their predecessors, or the input."""
    count = len(keys)
    data = make_problem(count, merge_classes=[], signature=signature)
    for op, operator in enumerate(data["block"]["operators"]):
        operator["inputs"] = sorted(u for u, v in edges if v == op) or [-1]
    data["operator_keys"] = keys
    return Problem.from_json(data)


def _whole(problem):
    return Stage.concurrent(problem, problem.all_operators)


def test_the_median_of_samples_is_the_latency():
    problem = Problem.from_edges(1, [])
    once = Measurement(max_spread=100.0)
    assert _Samples([3.0, 1.0, 100.0], once).stage_latency(
        problem, _whole(problem)
    ) == (3.0)


class _Samples(SampledCostModel):
    """Returns samples from a list, in the numbers that the measurement asks for."""

    def __init__(self, samples, measurement):
        super().__init__(measurement)
        self._samples = iter(samples)

    def sample(self, problem, stage, lanes):
        return [
            Sample(next(self._samples)) for _ in range(self.measurement.sample_count)
        ]


def test_noisy_samples_are_repeated_until_they_agree_or_the_budget_is_spent():
    problem = Problem.from_edges(1, [])
    stage = _whole(problem)

    def observe(samples, repeat=3, spread=0.05):
        model = _Samples(samples, Measurement(sample_count=repeat, max_spread=spread))
        return model.observe(problem, stage)

    assert observe([1.0, 1.0, 1.01]).samples == 3
    # The quartiles of 1, 2, 3 are 1.5 and 2.5; the quartiles of all six are 2 and 2.
    noisy = observe([1.0, 3.0, 2.0, 2.0, 2.0, 2.0])
    assert (noisy.samples, noisy.median_ms, noisy.spread) == (6, 2.0, 0.0)
    endless = observe([1.0, 2.0, 3.0] * 10)
    assert (endless.samples, endless.median_ms, endless.spread) == (12, 2.0, 1.0)
    assert observe([1.0] * 9, repeat=1).samples == 1
    assert math.isinf(observe([1.0] * 9, repeat=1).spread)


def test_equal_stages_are_measured_once():
    # Two towers of equal operators: 0 -> 1, 2 -> 3.
    towers = _labelled([(0, 1), (2, 3)], ["a", "b", "a", "b"], "towers")
    device = _Samples(itertools.repeat(1.0), Measurement(sample_count=1))
    device.lanes_divide_device = True
    cached = CachedCostModel(device)
    for groups in ([[0, 1]], [[2, 3]], [[0], [2]], [[0, 1], [2, 3]], [[2, 3], [0, 1]]):
        stage = Stage(Strategy.CONCURRENT, tuple(map(tuple, groups)))
        assert cached.stage_latency(towers, stage) == 1.0
    assert (cached.measured, cached.reused, device.measurements) == (3, 2, 3)

    result = search(towers, CachedCostModel(device))
    again = search(towers, cached)
    assert again.schedule == result.schedule
    assert cached.measured + cached.reused == 5 + again.stats.stages_asked
    assert cached.measured < again.stats.stages_asked


class _LaneDevice(SampledCostModel):
    """Groups of known work on a device of three lanes with an efficiency of 0.8."""

    lanes = 3
    lanes_divide_device = True

    def __init__(self, work):
        super().__init__(Measurement(sample_count=1))
        self._work = work
        self.asked = []

    def sample(self, problem, stage, lanes):
        if not lanes:
            raise AssertionError("a bound must not measure stages")
        (group,) = stage.groups
        self.asked.append((group, lanes))
        return [Sample(self._work[group] * lanes * 0.8)]


def test_bounds_are_the_longest_lane_or_the_work_of_all():
    wide = _labelled([(0, 1)], ["a", "b", "c", "d", "e"], "wide")
    device = _LaneDevice({(0, 1): 6.0, (2,): 1.0, (3,): 2.0, (4,): 3.0})
    cached = CachedCostModel(device)

    def bound(*groups):
        return cached.lower_bound(wide, Stage(Strategy.CONCURRENT, groups))

    # On two lanes, the first two groups take 9.6 and 1.6 ms. On three lanes, the groups
    # take 14.4, 2.4, 4.8 and 7.2 ms.
    assert bound((0, 1), (2,)) == pytest.approx(9.6)
    assert bound((0, 1), (2,), (3,)) == pytest.approx(14.4)
    # There are as many groups as operators, but only three lanes.
    assert bound((2,), (3,), (4,)) == pytest.approx(7.2)
    assert bound((0, 1), (2,), (3,), (4,)) == pytest.approx(14.4)
    # A single group gains at most a factor of three, the number of lanes.
    assert bound((4,)) == pytest.approx(2.4)
    assert len(device.asked) == len(set(device.asked)) == 6
    assert (cached.measured, cached.reused) == (6, 0)


@pytest.mark.parametrize("seed", range(40))
def test_no_assignment_of_jobs_to_lanes_beats_the_bound(seed):
    rng = random.Random(seed)
    lanes = rng.randrange(1, 4)
    jobs = [rng.choice([1.0, 1.5, 2.0, 5.0]) for _ in range(rng.randrange(1, 7))]
    least = min(
        max(
            sum(job for job, lane in zip(jobs, chosen, strict=True) if lane == i)
            for i in range(lanes)
        )
        for chosen in itertools.product(range(lanes), repeat=len(jobs))
    )
    assert max(max(jobs), sum(jobs) / lanes) <= least_time(jobs, lanes) <= least


def test_bounds_where_lanes_share_the_device():
    wide = _labelled([(0, 1)], ["a", "b", "c"], "wide")
    device = _LaneDevice({(0, 1): 6.0, (2,): 1.0})
    device.lanes_divide_device = False
    cached = CachedCostModel(device)
    both = Stage(Strategy.CONCURRENT, ((0, 1), (2,)))
    assert cached.lower_bound(wide, both) == pytest.approx(6.0 * 0.8)
    # The latency of a single group has already been measured.
    alone = Stage(Strategy.CONCURRENT, ((0, 1),))
    assert cached.stage_latency(wide, alone) == pytest.approx(6.0 * 0.8)
    assert device.asked == [((0, 1), 1), ((2,), 1)]
    with pytest.raises(AssertionError, match="must not measure stages"):
        cached.stage_latency(wide, both)


def test_the_sum_of_the_work_bounds_many_groups():
    wide = _labelled([], ["a", "b", "c", "d", "e", "f"], "six")
    device = _LaneDevice({(op,): 1.0 for op in range(6)})
    cached = CachedCostModel(device)
    stage = Stage(Strategy.CONCURRENT, tuple((op,) for op in range(6)))
    assert cached.lower_bound(wide, stage) == pytest.approx(6 * 2.4 / 3)


def test_keys_tell_different_work_apart():
    chain = _labelled([(0, 1)], ["a", "a"], "chain")
    pair = _labelled([], ["a", "a"], "pair")
    other = _labelled([], ["a", "b"], "other")
    half = Problem.from_json(
        {
            **make_problem(2, merge_classes=[], operator_keys=["a", "a"]),
            "block": {**make_problem(2)["block"], "dtype": "float16"},
        }
    )
    merge = Stage(Strategy.MERGE, ((0, 1),))
    keys = [stage_key(p, _whole(p)) for p in (chain, pair, other, half)]
    keys.append(stage_key(pair, merge))
    keys.append(stage_key(pair, Stage(Strategy.CONCURRENT, ((0,),))))
    assert len(set(keys)) == len(keys)


def test_the_place_of_an_input_matters():
    # The last input of a convolution is its residual, so the order of inputs matters.
    data = make_problem(2, merge_classes=[], operator_keys=["a", "b"])
    keys = []
    for inputs in ([0, -1], [-1, 0]):
        data["block"]["operators"][1]["inputs"] = inputs
        data["signature"] = str(inputs)
        problem = Problem.from_json(data)
        keys.append(stage_key(problem, _whole(problem)))
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("latencies", "samples"),
    [
        ((10.0,), (7,)),
        ((10.0, 12.0, 14.0), (7, 7, 3)),
        ((10.0, 14.0, 20.0), (3, 3, 3)),
        ((60.0, 70.0), (3, 3)),
        ((60.0, 90.0), (1, 1)),
    ],
)
def test_schedules_are_compared_until_their_order_is_certain(latencies, samples):
    counts = dict.fromkeys(latencies, 0)

    def sample(candidate, measurement):
        counts[candidate] += 1
        return Sample(candidate)

    model = _Samples([], Measurement())
    assert model._compare(latencies, sample, math.inf) == list(latencies)
    assert tuple(counts.values()) == samples


def test_a_change_of_the_machines_speed_does_not_decide_a_comparison():
    # The machine becomes slow in round 5, and something disturbs one sample of the
    # second candidate. The medians of the samples are 10 and 13.52.
    slowness = [1.0, 1.0, 1.0, 1.0, 1.3, 1.3, 1.3]
    counts = dict.fromkeys((10.0, 10.4), 0)

    def sample(candidate, measurement):
        number = counts[candidate]
        counts[candidate] += 1
        disturbance = 1.5 if (candidate, number) == (10.4, 1) else 1.0
        return Sample(candidate * slowness[number] * disturbance)

    first, second = _Samples([], Measurement())._compare(list(counts), sample, math.inf)
    assert second / first == pytest.approx(1.04)
    assert list(counts.values()) == [7, 7]


@pytest.mark.parametrize(
    ("noise", "seconds", "samples"),
    [
        # Ratios of 1.05 to 1.10: the second candidate is certainly slower.
        ((1.05, 1.08, 1.1), math.inf, 7),
        # Ratios that differ by less than 2 %.
        ((0.995, 1.0, 1.005), math.inf, 7),
        ((0.95, 1.0, 1.05), math.inf, 21),
        ((0.95, 1.0, 1.05), 0.0, 7),
    ],
)
def test_a_comparison_lasts_until_the_ratio_is_known(noise, seconds, samples):
    counts = {"first": 0, "second": 0}

    def sample(candidate, measurement):
        counts[candidate] += 1
        factor = noise[counts[candidate] % 3] if candidate == "second" else 1.0
        return Sample(10 * factor)

    _Samples([], Measurement())._compare(list(counts), sample, seconds)
    assert list(counts.values()) == [samples, samples]


def test_merge_keys_do_not_depend_on_the_order_of_operators():
    pair = _labelled([], ["a", "b"], "pair")
    swapped = _labelled([], ["b", "a"], "swapped")
    merge = Stage(Strategy.MERGE, ((0, 1),))
    assert stage_key(pair, merge) == stage_key(swapped, merge)


def test_merge_keys_say_who_reads_the_parts():
    """The key of a merge depends on the operators that read its parts.

    The readers decide whether the parts must be copied.
    """
    merge = Stage(Strategy.MERGE, ((0, 1),))
    keys = [
        stage_key(_labelled(edges, ["a", "a", *readers], name), merge)
        for name, edges, readers in [
            ("one", [(0, 2), (1, 3)], ["b", "c"]),
            ("other", [(1, 2), (0, 3)], ["b", "c"]),
            ("else", [(0, 2), (1, 3)], ["b", "b"]),
        ]
    ]
    assert keys[0] == keys[1] != keys[2]
    concurrent = Stage(Strategy.CONCURRENT, ((0,), (1,)))
    assert stage_key(
        _labelled([(0, 2)], ["a", "a", "b"], "one"), concurrent
    ) == stage_key(_labelled([], ["a", "a", "b"], "none"), concurrent)


def _renumbered(rng, edges, keys):
    """The same graph with its operators in another topological order."""
    waiting, order = set(range(len(keys))), []
    while waiting:
        ready = [
            v for v in waiting if not any(w == v and u in waiting for u, w in edges)
        ]
        order.append(rng.choice(sorted(ready)))
        waiting.remove(order[-1])
    place = {op: i for i, op in enumerate(order)}
    return [(place[u], place[v]) for u, v in edges], [keys[op] for op in order]


@pytest.mark.parametrize("seed", range(200))
def test_renumbered_groups_have_equal_keys(seed):
    rng = random.Random(seed)
    count = rng.randrange(2, 6)
    edges = random_edges(rng, count, 0.5)
    # All operators have different keys. Otherwise, renumbering could swap two inputs of
    # an operator that come from equal operators, and the order of inputs matters.
    keys = rng.sample("abcdef", count)
    inputs = {v: [u for u, w in edges if w == v] for v in range(count)}
    if any(len(refs) > 1 for refs in inputs.values()):
        edges = [(refs[0], v) for v, refs in inputs.items() if refs]
    if seed % 2:
        keys = [rng.choice("ab") for _ in range(count)]
    first = _labelled(edges, keys, "first")
    second = _labelled(*_renumbered(rng, edges, keys), "second")
    assert stage_key(first, _whole(first)) == stage_key(second, _whole(second))


def test_equal_keys_are_isomorphic_groups():
    rng = random.Random(0)
    by_key = {}
    for number in range(600):
        count = rng.randrange(2, 5)
        edges = random_edges(rng, count, 0.5)
        keys = [rng.choice("ab") for _ in range(count)]
        problem = _labelled(edges, keys, str(number))
        key = stage_key(problem, _whole(problem))
        by_key.setdefault(key, []).append((set(edges), keys))
    assert 30 < len(by_key) < 300
    for same in by_key.values():
        edges, keys = same[0]
        for other_edges, other_keys in same[1:]:
            assert any(
                [keys[op] for op in order] == other_keys
                and {(order.index(u), order.index(v)) for u, v in edges} == other_edges
                for order in itertools.permutations(range(len(keys)))
            )
