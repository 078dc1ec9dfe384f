"""Split stages, which process the images of a batch concurrently."""

import dataclasses

import networks
import pytest
import stock
import tensorflow as tf
from batch_sizes import Stopwatch, freeze, original, stages, write
from shared import FAST

import ios_tf
from ios_tf.cli import main
from ios_tf.conversion import network_check
from ios_tf.cost.cost_model import Measurement, SampledCostModel
from ios_tf.cost.samples import Sample
from ios_tf.model import graph_optimizer
from ios_tf.native import engine
from ios_tf.scheduler import (
    Problem,
    Schedule,
    Stage,
    Strategy,
    greedy_schedule,
    sequential_schedule,
    split_schedules,
)
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture(scope="module")
def network(saved):
    return original(saved)


def split_into(micro_batches: int):
    def schedule(problem: Problem) -> Schedule:
        stage = Stage.split(problem.all_operators, micro_batches)
        return Schedule((stage,), problem.signature)

    return schedule


@pytest.mark.parametrize(
    ("batch_size", "lanes", "counts"),
    [
        (1, 2, []),
        (2, 2, [2]),
        (3, 2, [2, 3]),
        (8, 2, [2, 4, 8]),
        (8, 1, [2, 4, 8]),
        (8, 16, [8]),
        (128, 16, [16, 32, 64, 128]),
    ],
)
def test_the_ways_to_split(batch_size, lanes, counts):
    problem = Problem.from_edges(2, [(0, 1)])
    problem = dataclasses.replace(problem, block={"inputs": [[batch_size, 8]]})
    found = split_schedules(problem, lanes)
    assert [s.stages[0].micro_batches for s in found] == counts
    assert all(s.stages[0].groups == ((0, 1),) for s in found)


# Batch sizes: 1 runs with the schedule for 1, the others with the schedule for 8.
BATCHES = (1, 2, 3, 5, 8, 9)


@pytest.mark.parametrize("micro_batches", [2, 3, 100])
def test_every_batch_gives_the_same(micro_batches, network, saved, tmp_path):
    forms = {1: sequential_schedule, 8: split_into(micro_batches)}
    model = write(saved, forms, str(tmp_path / "converted"))
    function = tf.saved_model.load(model).signatures["serving_default"]
    for batch in BATCHES:
        images = networks.smooth_images(batch, 17, seed=7)
        found = function(images)["output_0"].numpy()
        assert networks.relative_difference(found, network(images).numpy()) < 1e-4
    images = networks.smooth_images(9, 17, seed=7)
    found = stock.serve(model, images, tmp_path)
    assert networks.relative_difference(found, network(images).numpy()) < 1e-4


def test_the_attributes_say_it(saved, tmp_path, capsys):
    forms = {1: greedy_schedule, 8: split_into(4)}
    model = write(saved, forms, str(tmp_path / "converted"))
    # The blocks' stages stay separate; the engine runs them as one.
    assert stages(freeze(model)) == {
        1: ["concurrent 3", "concurrent 3"],
        8: ["split 5", "split 5", "split 2"],
    }
    assert main.main(["show", model]) == 0
    shown = capsys.readouterr().out
    one, eight = shown.index("batch size 1: "), shown.index("batch size 8: ")
    assert "split into 4 micro-batches" in shown[eight:]
    assert "split" not in shown[one:eight]


def test_conversion(network, saved, tmp_path):
    output = str(tmp_path / "converted")
    report = ios_tf.convert(saved, output, batch_size=[1, 6], **FAST)
    assert report.sizes[1].split == 0
    function = tf.saved_model.load(output).signatures["serving_default"]
    images = networks.smooth_images(6, 17, seed=7)
    found = function(images)["output_0"].numpy()
    assert networks.relative_difference(found, network(images).numpy()) < 1e-4


class Latencies(SampledCostModel):
    """A cost model: schedules of one split stage have given latencies, others 1 ms."""

    lanes = 2

    def __init__(self, latency_ms, lanes_divide_device=True):
        super().__init__(Measurement(sample_count=1))
        self.latency_ms = latency_ms
        self.lanes_divide_device = lanes_divide_device

    def sample(self, problem, stage, lanes):
        return [Sample(0.0 if lanes else 1.0 / len(problem))]

    def compare(self, problem, candidates, seconds):
        self.measurements += len(candidates)
        return [self.latency_ms.get(c[0].micro_batches, 1.0) for c in candidates]

    def release(self):
        pass


@pytest.fixture(params=["a chain", "branches"])
def problem(request):
    sources = {"a chain": [-1, 0, 1], "branches": [-1, -1, 1]}[request.param]
    operator = {"type": "activation", "activation": "relu"}
    operators = [{**operator, "inputs": [source]} for source in sources]
    block = {
        "version": 1,
        "inputs": [[8, 4, 4, 16]],
        "operators": operators,
        "outputs": [0, 2],
    }
    return Problem.from_json(engine.problem(block))


@pytest.mark.parametrize(
    ("latency_ms", "options", "chosen"),
    [
        ({4: 0.5, 8: 0.6}, {}, 4),
        ({4: 0.99}, {}, 1),  # gains too little
        ({4: 0.5}, {"strategy": "parallel"}, 1),
        ({4: 0.5}, {"strategy": "sequential"}, 1),
        ({4: 0.5}, {"lanes_divide_device": False}, 1),
    ],
)
def test_a_search_finds_splits(latency_ms, options, chosen, problem):
    options = {"strategy": "auto", "lanes_divide_device": True, **options}
    cost_model = Latencies(latency_ms, options["lanes_divide_device"])
    searcher = Searcher(cost_model, SearchSettings(options["strategy"]))
    schedules, _ = searcher.schedule_all([problem])
    first = schedules[problem.signature].stages[0]
    assert first.micro_batches == chosen
    assert (first.strategy is Strategy.SPLIT) == (chosen > 1)


class DividedStopwatch(Stopwatch):
    lanes_divide_device = True
    lanes = 2


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([9, 8, 7, 5, 6], ["split 5", "split 5", "split 2"]),
        ([9, 3, 7, 5, 6], ["concurrent 3", "concurrent 3"]),
        ([2, 3, 7, 5, 6], []),
    ],
)
def test_the_network_decides_whether_all_blocks_are_split(latencies, expected, saved):
    """The latencies are: sequential, as found, and split into 2, 4 and 8."""
    frozen = freeze(saved)
    collected = {8: graph_optimizer.collect(frozen, 8)}
    schedules = {s: greedy_schedule(p) for s, p in collected[8].problems.items()}
    searcher = Searcher(DividedStopwatch({8: latencies}), SearchSettings())
    checked = network_check.check(frozen, collected, schedules, searcher)
    graph_def = graph_optimizer.rewrite(frozen, checked.schedules, [8])
    kept = dataclasses.replace(frozen, graph_def=graph_def)
    assert stages(kept) == {8: expected}
    size = checked.sizes[8]
    assert (size.sequential_ms, size.scheduled_ms) == (latencies[0], min(latencies))
    assert size.fell_back == (expected == [])
    (program,) = graph_optimizer.lowered_programs(kept)
    counts = {
        stage.get("micro_batches", 1)
        for stage in program["schedules"][0]["schedule"]["stages"]
    }
    assert counts == ({4} if expected[:1] == ["split 5"] else {1})
