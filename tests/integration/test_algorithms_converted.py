"""Convolution algorithms from the cache through the converted graph to the engine."""

import dataclasses
import json
from pathlib import Path

import keras
import networks
import numpy as np
import pytest
import shared
import stock
import tensorflow as tf
from batch_sizes import original, write
from merges import merge_everything
from shared import FAST

import ios_tf
from ios_tf.cli import main
from ios_tf.conversion import inner_tensors, output_differences, reference
from ios_tf.conversion.show import converted_regions, text_of
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.reasons import Reason
from ios_tf.scheduler import greedy_schedule, sequential_schedule
from ios_tf.tuning.searcher import Searcher

pytestmark = pytest.mark.usefixtures("cache")

FOUR, TWO = "winograd_4x4", "winograd_2x2"


def by(algorithm, form):
    """Makes schedules of a form that use an algorithm wherever it is possible."""

    def schedule(problem):
        operators = (i for i, a in enumerate(problem.algorithms) if algorithm in a)
        return dataclasses.replace(
            form(problem), algorithms=dict.fromkeys(operators, algorithm)
        )

    return schedule


def algorithms(model: str) -> dict[int, list[str]]:
    """By batch size, the algorithms of a converted model and their operator counts."""
    loaded = saved_models.load(model)
    frozen = frozen_graphs.freeze("serving_default", *loaded.signatures.values())
    (program,) = graph_optimizer.lowered_programs(frozen)
    return {
        entry["batch_size"]: {
            name: len(operators)
            for name, operators in entry["schedule"].get("algorithms", {}).items()
        }
        for entry in program["schedules"]
    }


def test_every_batch_size_has_its_own(tmp_path):
    source = shared.branches()
    forms = {
        1: by(FOUR, sequential_schedule),
        8: by(TWO, greedy_schedule),
        32: sequential_schedule,
    }
    model = write(source, forms, str(tmp_path / "converted"))
    assert algorithms(model) == {1: {FOUR: 4}, 8: {TWO: 4}, 32: {}}
    function = tf.saved_model.load(model).signatures["serving_default"]
    compute = original(source)
    for batch in (1, 2, 7, 33):
        images = networks.smooth_images(batch, 17, seed=7)
        expected = compute(images).numpy()
        found = function(images)["output_0"].numpy()
        assert networks.relative_difference(found, expected) < 1e-4
    found = stock.serve(model, images, tmp_path)
    assert networks.relative_difference(found, expected) < 1e-4
    shown = text_of(converted_regions(model))
    one, eight, more = (shown.index(f"batch size {n}") for n in (1, 8, 32))
    assert shown[one:eight].count(f"(conv2d, {FOUR})") == 4
    assert shown[eight:more].count(f"(conv2d, {TWO})") == 4
    assert "winograd" not in shown[more:]


def test_merged_convolutions_have_it_if_all_parts_have(tmp_path):
    source = shared.branches()
    model = write(source, {1: by(FOUR, merge_everything)}, str(tmp_path / "converted"))
    # The others are merged with 1x1 convolutions, which Winograd does not support.
    assert algorithms(model) == {1: {FOUR: 2}}


def convert(output, *flags) -> None:
    fast = [f"--{key}={value}" for key, value in FAST.items() if key != "keep_slower"]
    command = ["convert", shared.branches(), str(output), *fast, "--keep_slower"]
    assert main.main([*command, *flags]) == 0


def allowed(cache) -> set[str]:
    files = sorted(Path(cache).glob("*/*.json"))
    settings = [json.loads(file.read_text())["algorithms_option"] for file in files]
    return {" ".join(names) for names in settings}


@pytest.mark.usefixtures("calm_machine")
def test_without(tmp_path, cache, capsys):
    convert(tmp_path / "off", "--winograd=off")
    assert allowed(cache) == {"gemm rows"}
    assert not {FOUR, TWO} & set(algorithms(str(tmp_path / "off"))[1])
    convert(tmp_path / "again", "--winograd=off")
    assert "0 from cache" not in capsys.readouterr().out.split("blocks")[-1]
    # Schedules that were searched without Winograd are not used now.
    convert(tmp_path / "on")
    assert allowed(cache) == {f"{TWO} {FOUR} gemm rows"}
    assert "0 from cache" in capsys.readouterr().out


def test_optimize_takes_it_too():
    model = networks.branches()
    images = networks.smooth_images(2, 17, seed=7)
    fast = ios_tf.optimize(model, winograd=False, **FAST)
    np.testing.assert_allclose(fast(images), model(images), rtol=1e-4, atol=1e-5)


@pytest.fixture
def winograd(monkeypatch):
    """Convolutions take Winograd's minimal filtering wherever they can."""
    search = Searcher.schedule_all

    def with_algorithms(self, problems):
        problems = list(problems)
        found, stats = search(self, problems)
        for problem in problems:
            algorithms = by(FOUR, sequential_schedule)(problem).algorithms
            signature = problem.signature
            found[signature] = dataclasses.replace(
                found[signature], algorithms=algorithms
            )
        return found, stats

    monkeypatch.setattr(Searcher, "schedule_all", with_algorithms)


def test_what_rounds_too_much_is_computed_directly(tmp_path, monkeypatch, winograd):
    inputs = keras.Input((24, 24, 16))
    outputs = keras.layers.Conv2D(32, 3)(keras.layers.Conv2D(32, 3)(inputs))
    model = keras.Model(inputs, outputs)
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    model.export(source, verbose=False)
    sequential = {"strategy": "sequential", **FAST}
    report = ios_tf.convert(source, output, **sequential)
    assert algorithms(output) == {1: {FOUR: 2}}
    inexact = report.comparisons[0].difference
    for module in (reference, inner_tensors):
        monkeypatch.setattr(module, "tolerance", lambda frozen, device: 0.99 * inexact)
    monkeypatch.setattr(output_differences, "_AMPLE", 0.0)
    report = ios_tf.convert(source, output, overwrite=True, **sequential)
    assert algorithms(output) == {1: {}}
    assert report.comparisons[0].difference < inexact
    assert Reason.DIRECT_CONVOLUTIONS in shared.reasons(report)
    fast = ios_tf.optimize(model, **sequential)
    assert Reason.DIRECT_CONVOLUTIONS in shared.reasons(fast.report)
