"""Simulated devices: latencies computed by hand, and predictions for the paper's
GPUs."""

import dataclasses
import itertools
import math

import pytest
from predictions import SearchParts, rank_correlation
from scheduler_helpers import DATA, make_problem

from benchmarks.experiments.experiment import paper_results
from benchmarks.experiments.schedules import ORDER as STRATEGIES
from benchmarks.experiments.schedules import PAPER_STRATEGIES
from benchmarks.network import Network
from benchmarks.simulated_gpu import (
    DEVICES,
    Arithmetic,
    SimulatedCostModel,
    SimulatedDevice,
)
from ios_tf.native import engine
from ios_tf.scheduler import Problem, SearchOptions, Stage, Strategy, search

# A device of two multiprocessors. Each of them computes one step of a tile, which has
# 2 * 16 * 16 * 8 flops, in 1 ms, and has room for two CTAs (thread blocks). Memory and
# cache are so fast that they take no time.
_DEVICE = SimulatedDevice(
    single=Arithmetic(8192, ((16, 16),), depth=8, element_bytes=4),
    half=Arithmetic(2 * 8192, ((16, 16),), depth=8, element_bytes=2),
    bytes_per_ms=1e12,
    cache_bytes_per_ms=1e12,
    multiprocessors=2,
    launch_ms=0.25,
    stage_ms=0.125,
    accumulators=512,
    step_ms=0.5,
    contention=0.5,
    lanes=2,
)


def _changed(**changes):
    return dataclasses.replace(_DEVICE, **changes)


def _problem(operators, *inputs, dtype="float32"):
    block = {
        "version": 1,
        "name": "small",
        "dtype": dtype,
        "inputs": [list(shape) for shape in inputs],
        "operators": operators,
        "outputs": [len(operators) - 1],
    }
    return Problem.from_json(engine.problem(block))


def _conv(filters, kernel=(1, 1), **attributes):
    return {
        "type": "conv2d",
        "inputs": [-1],
        "filters": filters,
        "kernel": list(kernel),
        "padding": "SAME",
        **attributes,
    }


def _group_ms(model, problem, group):
    """The latency of a group that has the whole device."""
    return model.stage_latency(problem, Stage(Strategy.CONCURRENT, (group,)))


def _alone_ms(operator, *inputs, device=_DEVICE, dtype="float32"):
    """An operator's latency without the launch time."""
    problem = _problem([operator], *inputs, dtype=dtype)
    model = SimulatedCostModel(device)
    return _group_ms(model, problem, (0,)) - device.launch_ms


@pytest.mark.parametrize(
    "height, expected",
    [
        # A product over 16 channels takes two steps, after a first step that only loads
        # data. One or two CTAs each have their own multiprocessor: a step consists of
        # 0.5 ms of waiting and 1 ms of work.
        (1, 3 * 1.5),
        (2, 3 * 1.5),
        # Two CTAs share a multiprocessor: one computes while the other waits.
        (3, 3 * 2.0),
        (4, 3 * 2.0),
        # The first wave has four CTAs, and the second wave has one.
        (5, 3 * (2.0 + 1.5)),
        (16, 4 * 3 * 2.0),
    ],
)
def test_ctas_run_in_waves(height, expected):
    # A tile has 16 pixels, and so has a row of the image. Each row is thus one tile,
    # which one CTA computes.
    assert _alone_ms(_conv(16), (1, height, 16, 16)) == pytest.approx(expected)


def test_a_part_of_a_tile_or_of_a_step_takes_all_of_it():
    # 17 filters need two tiles, because a tile has 16 filters. A 3x3 window of one
    # channel needs two steps, because a step has 8 elements.
    assert _alone_ms(_conv(17), (1, 1, 16, 16)) == pytest.approx(3 * 1.5)
    assert _alone_ms(_conv(33), (1, 1, 16, 16)) == pytest.approx(3 * 2.0)
    assert _alone_ms(_conv(16, (3, 3)), (1, 1, 16, 1)) == pytest.approx(3 * 1.5)


def test_the_fastest_tile_is_taken():
    def taking(*tiles, **changes):
        single = dataclasses.replace(_DEVICE.single, tiles=tiles)
        device = _changed(single=single, **changes)
        return _alone_ms(_conv(16), (1, 8, 16, 16), device=device)

    # There are either 8 CTAs with small tiles, which run in two waves of four, or 4
    # CTAs with large tiles, which run in two waves of two: one on each multiprocessor.
    assert taking((16, 16)) == pytest.approx(3 * 2 * 2.0)
    assert taking((32, 16)) == pytest.approx(3 * 2 * 2.5)
    assert taking((32, 16), (16, 16)) == pytest.approx(3 * 2 * 2.0)
    # With a slow cache, small tiles are slower, because they read more. Each of the two
    # multiprocessors reads 256 bytes per ms. A step of a small tile reads
    # (16 + 16) * 8 * 4 bytes in 4 ms, and two tiles share a multiprocessor: 8 ms. A
    # step of a large tile waits for 0.5 ms and reads (32 + 16) * 8 * 4 bytes in 6 ms.
    slow = {"cache_bytes_per_ms": 512}
    assert taking((16, 16), **slow) == pytest.approx(3 * 2 * 8.0)
    assert taking((32, 16), **slow) == pytest.approx(3 * 2 * 6.5)
    assert taking((32, 16), (16, 16), **slow) == pytest.approx(3 * 2 * 6.5)


def test_half_precision_has_its_own_arithmetic():
    latency = _alone_ms(_conv(16), (1, 1, 16, 16), dtype="float16")
    assert latency == pytest.approx(3 * (0.5 + 0.5))


def test_loads_ahead_shorten_the_wait():
    single = dataclasses.replace(_DEVICE.single, prefetched=2)
    latency = _alone_ms(_conv(16), (1, 1, 16, 16), device=_changed(single=single))
    assert latency == pytest.approx(3 * (0.25 + 1.0))


def test_slow_memory_is_the_limit():
    # The convolution reads 256 elements and 256 weights, and writes 256 elements.
    slow = _changed(bytes_per_ms=100)
    latency = _alone_ms(_conv(16), (1, 1, 16, 16), device=slow)
    assert latency == pytest.approx(3 * 256 * 4 / 100)


def test_what_computes_little_moves_bytes():
    slow = _changed(bytes_per_ms=1024)
    pool = {"type": "pool", "inputs": [-1], "kernel": [2, 2], "strides": [2, 2]}
    # The pool reads 4096 elements and writes 1024. It has one CTA, which gets only half
    # of the bandwidth.
    assert _alone_ms(pool, (1, 16, 16, 16), device=slow) == pytest.approx(5 * 4 * 2)
    # Each of two CTAs moves 1024 elements of each of the three tensors. Together they
    # take all of the bandwidth.
    add = {"type": "add", "inputs": [-1, -2]}
    shape = (1, 8, 16, 16)
    assert _alone_ms(add, shape, shape, device=slow) == pytest.approx(3 * 2 * 4)
    depthwise = _conv(16, (3, 3), groups=16)
    moved = 2 * 2048 + 9 * 16
    latency = _alone_ms(depthwise, shape, device=slow)
    assert latency == pytest.approx(moved * 4 / 1024)


def test_a_separable_convolution_is_two_kernels():
    problem = _problem([_conv(16, (3, 3), type="sepconv")], (1, 1, 16, 16))
    latency = _group_ms(SimulatedCostModel(_DEVICE), problem, (0,))
    assert latency == pytest.approx(2 * 0.25 + 3 * 1.5)


def test_grouped_convolutions_have_tiles_of_their_own():
    # Four products of 16 x 4 x 4 take one step, after a first step, which only loads
    # data.
    latency = _alone_ms(_conv(16, groups=4), (1, 1, 16, 16))
    assert latency == pytest.approx(2 * 2.0)


def test_a_concat_takes_nothing():
    operators = [_conv(16), {"type": "concat", "inputs": [0, -1]}]
    problem = _problem(operators, (1, 1, 16, 16))
    model = SimulatedCostModel(_DEVICE)
    assert model.stage_latency(problem, Stage.concurrent(problem, 2)) == 0.0
    assert _group_ms(model, problem, (0, 1)) == pytest.approx(0.25 + 3 * 1.5)


def _branches(count):
    """Convolutions of one CTA each that read the same image."""
    return _problem([_conv(16)] * count, (1, 1, 16, 16))


# A single branch takes 3 * 1.5 ms; four branches fill the device for 3 * 2 ms.
@pytest.mark.parametrize(
    "contention, beside", [(0.0, 1.5), (1.0, 4.5), (0.5, math.sqrt(1.5 * 4.5))]
)
def test_groups_share_multiprocessors(contention, beside):
    problem = _branches(2)
    stage = Stage.concurrent(problem, problem.all_operators)
    model = SimulatedCostModel(_changed(contention=contention))
    expected = 0.125 + 0.25 + 4.5 + beside
    assert model.stage_latency(problem, stage) == pytest.approx(expected)


def test_groups_share_bandwidth():
    # Each branch moves 3 * 256 * 4 bytes, which takes 30.72 ms with all of the
    # bandwidth.
    problem = _branches(2)
    stage = Stage.concurrent(problem, problem.all_operators)
    model = SimulatedCostModel(_changed(bytes_per_ms=100))
    expected = 0.125 + 0.25 + 2 * 30.72
    assert model.stage_latency(problem, stage) == pytest.approx(expected)


def test_more_groups_than_lanes_queue():
    problem = _branches(3)
    stage = Stage.concurrent(problem, problem.all_operators)
    model = SimulatedCostModel(_changed(contention=0.0))
    expected = 0.125 + 2 * (0.25 + 4.5) + 1.5
    assert model.stage_latency(problem, stage) == pytest.approx(expected)


def test_a_chain_needs_no_fork():
    problem = Problem.from_json(make_problem(flops=[2 * 64 * 16 * 16] * 4))
    model = SimulatedCostModel(_DEVICE)
    stage = Stage(Strategy.CONCURRENT, ((0, 1, 2),))
    # 64 pixels are four tiles, so each multiprocessor has two CTAs.
    assert model.stage_latency(problem, stage) == pytest.approx(3 * (0.25 + 3 * 2.0))


def test_a_merge_pays_for_the_padded_kernel():
    # Windows of 1x3 and 3x1 with 8 channels are padded to 3x3. This takes 9 steps,
    # after a first step, which only loads data, in 2 CTAs.
    problem = _problem([_conv(16, (1, 3)), _conv(8, (3, 1))], (1, 1, 16, 8))
    latency = SimulatedCostModel(_DEVICE).stage_latency(problem, Stage.merge(0b11))
    assert latency == pytest.approx(0.25 + 10 * 1.5)
    # The merge reads its 128 input elements once, reads 9 * 8 * 24 weights, and writes
    # 16 * 24 elements.
    slow = SimulatedCostModel(_changed(bytes_per_ms=10))
    latency = slow.stage_latency(problem, Stage.merge(0b11))
    assert latency == pytest.approx(0.25 + (128 + 1728 + 384) * 4 / 10)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_larger_batches_take_longer_and_less_an_image(name, dtype):
    latencies = []
    for batch in (1, 4, 16, 64, 256):
        operators = [_conv(128, (3, 3)), _conv(64)]
        problem = _problem(operators, (batch, 17, 17, 192), dtype=dtype)
        stage = Stage.concurrent(problem, problem.all_operators)
        model = SimulatedCostModel(DEVICES[name])
        latencies.append((batch, model.stage_latency(problem, stage)))
    for (small, first_ms), (large, second_ms) in itertools.pairwise(latencies):
        assert first_ms < second_ms < first_ms * large / small


@pytest.mark.parametrize("name", DEVICES)
def test_groups_bound_their_stages(name):
    """A stage takes at least as long as each of its groups. CachedCostModel assumes
    this."""
    operators = [_conv(n, (k, k)) for n in (16, 64, 384) for k in (1, 3, 5)]
    problem = _problem(operators, (1, 17, 17, 192))
    model = SimulatedCostModel(DEVICES[name])
    alone = [_group_ms(model, problem, (op,)) for op in range(len(operators))]
    for first in range(len(operators)):
        for second in range(first):
            both = 1 << first | 1 << second
            least = max(alone[first], alone[second])
            concurrent = Stage.concurrent(problem, both)
            assert model.stage_latency(problem, concurrent) > least
            assert model.stage_latency(problem, Stage.merge(both)) >= least


def test_a_search_uses_concurrency_where_operators_are_small():
    problem = Problem.from_json(make_problem(flops=[2 * 64 * 16 * 1600] * 4))
    model = SimulatedCostModel(DEVICES["v100"])
    best = search(problem, model, SearchOptions("parallel"))
    assert (
        best.latency_ms < search(problem, model, SearchOptions("sequential")).latency_ms
    )
    assert max(len(stage.groups) for stage in best.schedule.stages) == 2


def _full_size(name, divisor, image):
    """The full-size network of a small data file; see make_network_data.py."""
    (region,) = Network.read(DATA / f"{name}.json").regions
    operators = [
        {**op, "filters": op["filters"] * divisor}
        if "filters" in op and op["type"] != "matmul"
        else op
        for op in region.block["operators"]
    ]
    block = {**region.block, "inputs": [[1, image, image, 3]], "operators": operators}
    return SearchParts(Network.of(Problem.from_json(engine.problem(block))))


# The errors are those in docs/benchmarks/simulated.md, rounded up.
@pytest.mark.parametrize(
    "name, small, divisor, image, largest_error",
    [
        ("squeezenet", "squeezenet", 8, 224, 0.07),
        ("inception_v3", "inception", 16, 299, 0.07),
    ],
)
def test_the_simulated_v100_orders_schedules_as_the_paper_did(
    name, small, divisor, image, largest_error
):
    published = paper_results()["schedules_batch_1"][name]
    parts = _full_size(small, divisor, image)
    device = DEVICES["v100"]
    predicted, paper = {}, {}
    for strategy in STRATEGIES:
        schedules = parts.schedules(device, strategy)
        predicted[strategy] = parts.latency_ms(device, schedules)
        paper[strategy] = published[PAPER_STRATEGIES.get(strategy, strategy)]
    rounded = [round(latency_ms, 2) for latency_ms in predicted.values()]
    assert rank_correlation(rounded, list(paper.values())) == pytest.approx(1.0)
    for strategy in STRATEGIES:
        speedup = predicted["sequential"] / predicted[strategy]
        expected = paper["sequential"] / paper[strategy]
        assert abs(speedup / expected - 1) < largest_error


def test_rank_correlations_by_hand():
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # By Spearman's formula, the result is 1 - 6 * (0 + 1 + 1) / (3 * 8).
    assert rank_correlation([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5)
    # Ranks 0, 1.5, 1.5 and 0, 1, 2 have a covariance of 1.5 and variances of 1.5 and 2.
    tied = rank_correlation([5, 7, 7], [1, 2, 3])
    assert tied == pytest.approx(1.5 / math.sqrt(1.5 * 2))
    assert math.isnan(rank_correlation([1, 1], [1, 2]))
