"""The choice of an algorithm for each convolution, from given latencies."""

import pytest
from scheduler_helpers import assert_valid

from ios_tf.cost.cost_model import Measurement, SampledCostModel
from ios_tf.cost.samples import Sample
from ios_tf.native import engine
from ios_tf.scheduler import (
    Problem,
    Schedule,
    Stage,
    Strategy,
    computed_by_readers,
    sequential_schedule,
)
from ios_tf.tuning.algorithms import allowed, choose, with_algorithms, with_products
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings

WINOGRAD = ("winograd_2x2", "winograd_4x4")


def numbered(operators):
    """Names the operators by their indices, so that parts can identify operators."""
    return [{**op, "name": str(i)} for i, op in enumerate(operators)]


def chain() -> Problem:
    """A chain of convolutions: 3x3, 1x1, 3x3 with stride 2, 3x3, 3x3 to 4 filters."""
    conv = {"type": "conv2d", "padding": "SAME", "filters": 16}
    operators = [
        {**conv, "inputs": [-1], "kernel": [3, 3]},
        {**conv, "inputs": [0], "kernel": [1, 1]},
        {**conv, "inputs": [1], "kernel": [3, 3], "strides": [2, 2]},
        {**conv, "inputs": [2], "kernel": [3, 3], "filters": 24},
        {**conv, "inputs": [3], "kernel": [3, 3], "filters": 4},
    ]
    block = {
        "version": 1,
        "name": "chain",
        "dtype": "float32",
        "inputs": [[1, 12, 12, 8]],
        "operators": numbered(operators),
        "outputs": [4],
    }
    return Problem.from_json(engine.problem(block))


class Table(SampledCostModel):
    """A cost model with given latencies of (operator, algorithm); the default is 1
    ms."""

    lanes = 1
    lanes_divide_device = True

    def __init__(self, latencies):
        super().__init__(Measurement(sample_count=1))
        self.latencies = latencies
        self.compared = []

    def sample(self, problem, stage, lanes):
        ((op,),) = stage.groups
        algorithm = problem.block["operators"][op].get("algorithm", "direct")
        return [Sample(self.latencies.get((int(problem.names[op]), algorithm), 1.0))]

    def compare(self, problem, candidates, seconds):
        self.compared.append(problem)
        return [1.0] * len(candidates)

    def release(self):
        pass


def test_only_some_convolutions_have_a_choice():
    # The last convolution has too few filters.
    assert chain().algorithms == (WINOGRAD, ("gemm",), (), WINOGRAD, ())


def test_only_some_algorithms_may_be_chosen():
    assert allowed("cpu") == (*WINOGRAD, "gemm", "rows")
    assert allowed("cpu", winograd=False) == ("gemm", "rows")
    assert allowed("gpu") == ()
    table = Table({(0, "winograd_4x4"): 0.5, (1, "gemm"): 0.5})
    assert choose(chain(), table, ["gemm"]) == ({1: "gemm"}, True)
    assert choose(chain(), table, allowed("cpu"))[0] == {0: WINOGRAD[1], 1: "gemm"}


@pytest.mark.parametrize(
    ("two", "four", "expected"),
    [
        (1.0, 1.0, None),
        (0.96, 0.96, None),
        (0.9, 1.0, "winograd_2x2"),
        (0.9, 0.88, "winograd_2x2"),  # about as fast, but with smaller rounding errors
        (0.9, 0.8, "winograd_4x4"),
        (2.0, 0.5, "winograd_4x4"),
    ],
)
def test_what_rounds_more_must_be_faster(two, four, expected):
    latencies = {(3, "winograd_2x2"): two, (3, "winograd_4x4"): four}
    chosen = {3: expected} if expected else {}
    assert choose(chain(), Table(latencies), WINOGRAD) == (chosen, True)


def test_time_ends_the_choice():
    asked = []

    class Clock(Table):
        def sample(self, problem, stage, lanes):
            asked.append(stage.groups)
            return super().sample(problem, stage, lanes)

    table = Clock({(op, "winograd_4x4"): 0.5 for op in (0, 3)})
    stop = lambda: len(asked) > 2  # noqa: E731
    assert choose(chain(), table, WINOGRAD, stop) == ({0: "winograd_4x4"}, False)
    assert choose(chain(), table, WINOGRAD, lambda: True) == ({}, False)


def test_blocks_with_algorithms_are_other_blocks():
    problem = chain()
    other = with_algorithms(problem, {0: "winograd_4x4"})
    assert other.signature != problem.signature
    assert other.operator_keys[0] != problem.operator_keys[0]
    assert other.operator_keys[1:] == problem.operator_keys[1:]
    assert with_algorithms(problem, {}) is problem


@pytest.mark.parametrize("winograd", [True, False])
def test_a_searched_schedule_has_them(winograd):
    problem = chain()
    model = Table({(0, "winograd_2x2"): 0.5})
    settings = SearchSettings(algorithms=WINOGRAD if winograd else ())
    searcher = Searcher(model, settings)
    found, _ = searcher.schedule_all([problem])
    schedule = found[problem.signature]
    assert_valid(schedule, problem)
    assert schedule.algorithms == ({0: "winograd_2x2"} if winograd else {})
    (measured,) = model.compared
    assert (measured.signature == problem.signature) != winograd
    # With Winograd, there is one alternative schedule, which has no algorithms.
    others = searcher.alternatives([problem], found)
    assert [o[problem.signature].algorithms for o in others] == [{}] * winograd


def test_what_the_whole_network_may_do_without():
    """The alternatives omit concurrency, all algorithms, both, or one algorithm."""
    data = chain().block
    data["operators"][3]["inputs"] = [0]
    data["outputs"] = [2, 4]
    problem = Problem.from_json(engine.problem(data))
    stages = [[(0,)], [(1,), (3,)], [(2,)], [(4,)]]
    concurrent = tuple(Stage(Strategy.CONCURRENT, tuple(groups)) for groups in stages)
    both = {0: "winograd_2x2", 3: "winograd_4x4"}
    found = {
        problem.signature: Schedule(concurrent, problem.signature, algorithms=both)
    }
    searcher = Searcher(Table({}), SearchSettings(algorithms=WINOGRAD))
    others = [o[problem.signature] for o in searcher.alternatives([problem], found)]
    one_by_one = sequential_schedule(problem).stages
    expected = [
        (concurrent, {}),
        (one_by_one, {}),
        (one_by_one, both),
        (concurrent, {3: "winograd_4x4"}),
        (concurrent, {0: "winograd_2x2"}),
    ]
    assert [(other.stages, other.algorithms) for other in others] == expected


def test_a_baseline_that_is_asked_for_computes_directly():
    problem = chain()
    settings = SearchSettings("sequential", algorithms=WINOGRAD)
    searcher = Searcher(Table({(0, "winograd_2x2"): 0.5}), settings)
    found, _ = searcher.schedule_all([problem])
    assert found[problem.signature].algorithms == {}
    assert searcher.alternatives([problem], found) == []


def test_schedules_carry_them_through_json_and_parts():
    problem = chain()
    stages = sequential_schedule(problem).stages
    algorithms = {3: "winograd_4x4", 0: "winograd_2x2"}
    schedule = Schedule(stages, problem.signature, algorithms=algorithms)
    again = Schedule.from_json(schedule.to_json())
    assert again.algorithms == algorithms and again.metadata == {}
    assert_valid(again, problem)
    joined = Schedule.of_parts([([4, 3, 2, 1, 0], schedule)])
    assert joined.algorithms == {1: "winograd_4x4", 4: "winograd_2x2"}
    block = schedule.applied_to(problem.block)
    assert [op.get("algorithm", "direct") for op in block["operators"]] == [
        "winograd_2x2",
        "direct",
        "direct",
        "winograd_4x4",
        "direct",
    ]


@pytest.mark.parametrize(
    ("algorithms", "message"),
    [
        (
            {1: "winograd_4x4"},
            "operator 1 cannot be computed with the algorithm winograd_4x4",
        ),
        ({0: "fft"}, "'fft'"),
        ({9: "winograd_4x4"}, "operator 9"),
        ({-1: "winograd_4x4"}, "operator -1"),
    ],
)
def test_algorithms_must_fit_the_operators(algorithms, message):
    problem = chain()
    stages = sequential_schedule(problem).stages
    schedule = Schedule(stages, problem.signature, algorithms=algorithms)
    with pytest.raises(engine.EngineError, match=message):
        engine.check_schedule(problem.block, schedule.to_json())


@pytest.mark.parametrize("algorithms", [[], {"winograd_4x4": 0}, {"direct": ["0"]}, 1])
def test_malformed_algorithms_are_one_line(algorithms):
    with pytest.raises(
        ValueError,
        match="algorithms must map each algorithm to a list of operator indices",
    ) as error:
        Schedule.from_json({"version": 1, "stages": [], "algorithms": algorithms})
    assert "\n" not in str(error.value)


def bottlenecks() -> Problem:
    """1x1 and depthwise convolutions in turn; operator 2 is also an output."""
    product = {"type": "conv2d", "kernel": [1, 1]}
    window = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME"}
    operators = [
        {**product, "inputs": [-1], "filters": 48},
        {**window, "inputs": [0], "filters": 48, "groups": 48},
        {**product, "inputs": [1], "filters": 24},
        {**window, "inputs": [2], "filters": 24, "groups": 24},
        {**product, "inputs": [3], "filters": 8},
    ]
    block = {
        "version": 1,
        "inputs": [[1, 12, 12, 8]],
        "operators": numbered(operators),
        "outputs": [2, 4],
    }
    return Problem.from_json(engine.problem(block))


class Groups(Table):
    """Latencies by a group's operators and the algorithm of each."""

    def sample(self, problem, stage, lanes):
        (group,) = stage.groups
        if len(group) == 1:
            return super().sample(problem, stage, lanes)
        of_group = [problem.block["operators"][op].get("algorithm") for op in group]
        numbers = [int(problem.names[op]) for op in group]
        return [Sample(self.latencies[(*numbers, *of_group)])]


def test_products_are_measured_with_what_computes_them():
    problem = bottlenecks()
    assert problem.algorithms[1] == ("rows",)
    latencies = {
        (0, "gemm"): 0.5,
        (2, "gemm"): 0.5,
        (0, 1, "gemm", None): 1.0,
        (0, 1, None, None): 1.0,
        (0, 1, None, "rows"): 0.9,
        (0, 1, "gemm", "rows"): 0.95,
        # Operator 3 is measured alone: it cannot compute operator 2, which is an
        # output.
        (3, "rows"): 0.9,
    }
    chosen, complete = choose(problem, Groups(latencies), ["gemm", "rows"])
    assert complete
    assert chosen == {1: "rows", 2: "gemm", 3: "rows"}
    latencies[0, 1, "gemm", "rows"] = 0.85  # they are separate, but not direct
    chosen, _ = choose(problem, Groups(latencies), ["gemm", "rows"])
    assert chosen == {0: "gemm", 1: "rows", 2: "gemm", 3: "rows"}
    assert choose(problem, Groups(latencies), ["rows"])[0] == {1: "rows", 3: "rows"}
    latencies[0, 1, None, "rows"] = latencies[0, 1, "gemm", "rows"] = 0.995
    chosen, _ = choose(problem, Groups(latencies), ["gemm", "rows"])
    assert chosen == {0: "gemm", 2: "gemm", 3: "rows"}
    assert choose(problem, Groups(latencies), ["gemm"])[0] == {0: "gemm", 2: "gemm"}


def test_products_wherever_they_may_be():
    problem = bottlenecks()
    found = with_products(problem, Schedule((), algorithms={1: "rows"}))
    # Operator 0 has no algorithm, because its reader, 1, computes it row by row.
    assert found.algorithms == {1: "rows", 2: "gemm", 4: "gemm"}
    separate = {0: "gemm", 1: "rows"}
    found = with_products(problem, Schedule((), algorithms=separate))
    assert found.algorithms == {**separate, 2: "gemm", 4: "gemm"}
    found = with_products(problem, Schedule((), algorithms={0: "gemm"}))
    assert found.algorithms == {0: "gemm", 2: "gemm", 4: "gemm"}


def test_a_product_is_one_unit_with_what_computes_it():
    problem = with_algorithms(bottlenecks(), {1: "rows", 3: "rows"})
    assert computed_by_readers(problem) == [0b11]
    assert computed_by_readers(bottlenecks()) == []
    separate = with_algorithms(bottlenecks(), {0: "gemm", 1: "rows", 3: "rows"})
    assert computed_by_readers(separate) == []
