"""Random TensorFlow graphs compute the same after conversion."""

import dataclasses
import json
import os

import hypothesis
import numpy as np
import pytest
from random_graphs import bfloat16, campaign
from random_graphs.builder import Builder, ByteChoices
from random_graphs.check import check_program
from random_graphs.counterexamples import search
from random_graphs.differences import Difference, Result, different
from random_graphs.emulation import random_neighbour
from random_graphs.isolated import IsolatedChecker
from random_graphs.program import Program, Settings
from random_graphs.sessions import Session
from random_graphs.steps.registry import KINDS
from random_graphs.strategy import programs

from ios_tf.model import graph_optimizer


@pytest.fixture(scope="module")
def checker():
    """A checker whose reference is TensorFlow without oneDNN; see campaign.py."""
    checker = IsolatedChecker(onednn=False)
    yield checker
    checker.close()


def branches() -> Program:
    """Two convolutions are added, one of them after slicing; a third is unused."""
    builder = Builder()
    x = builder.argument([None, 5, 4, 3])
    for _ in range(3):
        builder.one(f"tf.nn.conv2d({x}, {builder.variable([3, 3, 3, 4])}, 1, 'SAME')")
    builder.one("v0 + tf.nn.relu(v1)[:, :, ::-1]")
    return builder.program(["v3", "v0"], Settings(batch_sizes=(1, 3)))


def large_slice() -> Program:
    """A slice that ends beyond all usual sizes, with inputs around its end."""
    builder = Builder()
    x = builder.argument([None, None, None, 3])
    builder.one(f"tf.nn.conv2d({x}, {builder.variable([3, 3, 3, 4])}, 1, 'SAME')")
    builder.one("v0[:, :12_000]")
    builder.one(f"tf.nn.conv2d(v1, {builder.variable([3, 3, 4, 4])}, 1, 'SAME')")
    sizes = ((5, 4), (12_001, 2), (2, 24_001))
    return builder.program(["v2"], Settings(image_sizes=sizes))


def test_sizes_beyond_a_graphs_constants_are_tried(checker):
    result = checker(large_slice())
    assert not result.differences
    assert result.regions > 0


def fixed_graphs(count):
    """The settings of hypothesis for a fixed set of random graphs."""
    return hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )


@fixed_graphs(40)
@hypothesis.given(programs(["conv2d_channels_first"]))
def test_random_graphs_compute_what_they_computed(checker, program):
    result = checker(program)
    assert not result.differences, f"{result}\n\n{program.source}"


@fixed_graphs(10)
@hypothesis.given(programs(["conv2d_channels_first"], "bfloat16"))
def test_random_graphs_in_bfloat16_are_as_exact_as_bfloat16_allows(checker, program):
    result = checker(program)
    assert not result.differences, f"{result}\n\n{program.source}"


def test_a_program_prints_as_one_that_runs(capsys):
    program = branches()
    assert [step.targets for step in program.steps] == [("v0",), ("v1",), ("v3",)]
    assert [step.targets for step in program.variables] == [("w0",), ("w1",)]
    with pytest.raises(SystemExit) as ended:
        exec(compile(program.source, "program", "exec"), {})
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("equal: 20 comparisons, 1 regions")


def test_a_mistake_is_seen(monkeypatch):
    rewrite = graph_optimizer.rewrite

    def wrong(*arguments, **keywords):
        graph_def = rewrite(*arguments, **keywords)
        for node in graph_def.node:
            if node.op == "Relu":
                node.op = "Elu"
        return graph_def

    monkeypatch.setattr(graph_optimizer, "rewrite", wrong)
    result = check_program(branches())
    seen = {(d.mode, d.kind, d.shapes["x0"][0]) for d in result.differences}
    assert seen == {(m, "values", b) for m in ("plain", "plugin") for b in (1, 2, 3, 5)}


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda y: y, None),
        (lambda y: 1.02 * y, "values"),
        (lambda y: np.roll(y, 1, -1), "values"),
        (lambda y: np.where(np.isfinite(y), y, 0), "special values"),
        (lambda y: y[..., :1], "shape"),
    ],
)
def test_a_mistake_in_bfloat16_is_seen(wrong, kind, monkeypatch):
    run = Session.run

    def run_wrong(self, feed):
        return [wrong(y) for y in run(self, feed)]

    monkeypatch.setattr(bfloat16.Session, "run", run_wrong)
    # The special values of the engine in float32 would be as wrong.
    monkeypatch.setattr(bfloat16, "run_in_float32", lambda *arguments: ValueError())
    program = branches()
    settings = dataclasses.replace(program.settings, precision="bfloat16")
    result = check_program(dataclasses.replace(program, settings=settings))
    assert result.comparisons == 8 and not result.loose
    kinds = {difference.kind for difference in result.differences}
    assert kind in kinds if kind else not kinds


def test_emulated_rounding_gives_neighbours():
    values = np.array([1.0, -1.001, 0.0, 1.00390625, np.nan, -np.inf, 3.4e38])
    above_and_below = [
        {1.0},
        {-1.0, -1.0078125},
        {0.0},
        {1.0, 1.0078125},
        {np.nan},
        {-np.inf},
        {np.inf, float.fromhex("0x1.fep127")},
    ]
    random = np.random.default_rng(0)
    found = np.array([random_neighbour(random, values) for _ in range(40)])
    for column, expected in zip(found.T, above_and_below, strict=True):
        np.testing.assert_array_equal(np.unique(column), sorted(expected))


def test_a_conversion_that_raises_is_seen(monkeypatch):
    def refused(*arguments, **keywords):
        raise ValueError("no such graph")

    monkeypatch.setattr(graph_optimizer, "rewrite", refused)
    (difference,) = check_program(branches()).differences
    assert (difference.mode, difference.kind) == ("convert", "raises")
    assert difference.got == "ValueError: no such graph"


def test_shapes_that_tensorflow_cannot_infer_are_no_difference():
    """TensorFlow calls the slice's begin out of range, but runs the slice."""
    builder = Builder()
    x = builder.argument([None, 5, 4, 3])
    y = builder.one(f"tf.nn.relu({x})")
    sizes = f"tf.shape({y})[1], tf.shape({y})[2]"
    builder.one(f"tf.stack([{sizes}])[-3:]")
    found = check_program(builder.program(["v0", "v1"], Settings(end_to_end=True)))
    assert not found.differences
    assert found.skipped == 1
    assert found.comparisons and not found.regions


def test_the_whole_road_is_compared():
    program = branches()
    program = Program(
        program.arguments,
        program.variables,
        program.steps,
        program.outputs,
        Settings(batch_sizes=(2,), end_to_end=True),
    )
    result = check_program(program)
    assert result.differences == []
    assert result.end_to_end
    assert result.comparisons == 30


@pytest.mark.parametrize(
    ("expected", "got", "kind"),
    [
        ([1.0, 2.0], [1.0, 2.0001], None),
        ([1.0, 2.0], [1.0, 2.01], "values"),
        ([1.0, np.nan], [1.0, np.nan], None),
        ([1.0, np.nan], [1.0, 0.0], "values"),
        ([1.0, 0.0], [1.0, np.nan], "values"),
        ([1.0, np.inf], [1.0, -np.inf], "values"),
        ([[1.0]], [1.0], "shape"),
        (ValueError("a"), [1.0], "does not raise"),
        ([1.0], ValueError("a"), "raises"),
        (ValueError("a"), ValueError("b"), None),
    ],
)
def test_outcomes_differ(expected, got, kind):
    def outcome(value):
        return value if isinstance(value, Exception) else [np.float32(value)]

    found = different(outcome(expected), outcome(got), 1e-4)
    assert (found and found[0]) == kind


def test_a_failing_program_is_made_small():
    def no_relu6(program: Program) -> Result:
        wrong = any("tf.nn.relu6" in str(step) for step in program.steps)
        return Result([Difference("plugin", "values", {}, "", "")] if wrong else [])

    totals, failure = search(3, 1000, no_relu6)
    assert totals.graphs > 1
    assert len(failure.program.steps) <= 2
    assert "tf.nn.relu6" in failure.program.steps[-1].expression


def test_every_kind_of_step_makes_statements():
    for name, kind in KINDS.items():
        made = 0
        for seed in range(12):
            builder = Builder()
            builder.argument([None, 6, 5, 4])
            builder.argument([None, None, None, 4])
            builder.one("tf.reshape(x0, [-1, 30, 4])")
            builder.one("tf.reduce_mean(x0, [1, 2])")
            builder.one("x0 * 0.5")
            before = len(builder.steps)
            kind(builder, ByteChoices(np.random.default_rng(seed).bytes(30)))
            made += len(builder.steps) > before
        assert made >= 2, name


def dies(program: Program, say) -> Result:
    say("plugin")
    os.abort()


def test_a_crash_is_a_difference():
    checker = IsolatedChecker(check=dies)
    try:
        (difference,) = checker(branches()).differences
    finally:
        checker.close()
    assert (difference.mode, difference.kind) == ("plugin", "crashes")
    assert difference.got == "SIGABRT"


def test_the_campaign_counts(tmp_path, capsys):
    path = tmp_path / "campaign.json"
    arguments = ["--graphs=2", "--jobs=1", f"--json={path}"]
    assert campaign.main(arguments) == 0
    record = json.loads(path.read_text())
    assert record["graphs"] == 2 >= record["with_regions"] >= 1
    assert record["operations"]["Conv2D"] >= 1
    assert record["failures"] == []
    assert "2 graphs in" in capsys.readouterr().out
    assert campaign.main(["--without=nothing"]) == 1
    assert "no kind of step 'nothing'" in capsys.readouterr().err
