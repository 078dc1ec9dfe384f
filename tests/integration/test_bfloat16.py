"""The option `precision`: float32 models whose regions compute in bfloat16."""

import graph_helpers as gh
import jsonschema
import keras
import numpy as np
import pytest
import stock
import tensorflow as tf
from cache_helpers import undoing_enable
from keras import layers
from shared import FAST

import ios_tf
from ios_tf.conversion import show
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.errors import UserError
from ios_tf.native import engine, plugin
from ios_tf.reasons import Reason
from ios_tf.report import document

pytestmark = pytest.mark.usefixtures("cache")
IMAGES = gh.random_array(3, 12, 12, 3, seed=3)


def classifier() -> keras.Model:
    inputs = keras.Input((12, 12, 3))
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    a = layers.Conv2D(16, 1, padding="same")(x)
    b = layers.DepthwiseConv2D(3, padding="same")(x)
    x = layers.Concatenate()([layers.Add()([a, b]), a])
    x = layers.Conv2D(24, 3, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(10, activation="softmax")(x)
    return gh.randomised(keras.Model(inputs, x))


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return classifier()


def error_of(found, expected) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def call(saved: str) -> np.ndarray:
    function = tf.saved_model.load(saved).signatures["serving_default"]
    (result,) = function(tf.constant(IMAGES)).values()
    return result.numpy()


@pytest.mark.usefixtures("computes_bfloat16")
def test_converted_model(model, tmp_path):
    names = ("original", "converted", "exact")
    original, converted, exact = (str(tmp_path / name) for name in names)
    model.export(original, verbose=False)
    report = ios_tf.convert(
        original,
        converted,
        precision="bfloat16",
        max_error=0.02,
        strategy="sequential",
        **FAST,
    )
    (choice,) = report.precisions
    assert choice.precision == "bfloat16" and not choice.returned
    assert choice.chosen.images == 8 and choice.chosen.agreement == 1.0
    assert 0 < choice.chosen.error < 0.02
    (comparison,) = report.comparisons
    assert 0 < comparison.difference < 0.02
    assert "of the largest value (outputs" in str(report)
    assert "Softmax" in report.left_to_tensorflow
    found = document.read(converted)
    jsonschema.Draft202012Validator(document.schema()).validate(found)
    assert found["precisions"][0]["chosen"]["error"] == choice.chosen.error
    (line,) = (
        line
        for line in show.text_of(show.converted_regions(converted)).splitlines()
        if line.startswith("region")
    )
    assert line == "region 1: 8 operators in bfloat16"

    expected = stock.serve(original, IMAGES, tmp_path)
    assert 0 < error_of(call(converted), expected) < 0.02
    # Without the plugin, the model computes in float32, as if converted for float32.
    ios_tf.convert(original, exact, strategy="sequential", **FAST)
    portable = stock.serve(converted, IMAGES, tmp_path)
    assert error_of(portable, expected) < 1e-6
    assert (portable == stock.serve(exact, IMAGES, tmp_path)).all()
    # The model computes in float32 on processors without bfloat16 arithmetic, too.
    plugin.runtime().ios_tf_set_computes_bfloat16(0)
    assert error_of(call(converted), expected) < 1e-5


@pytest.mark.usefixtures("computes_bfloat16")
def test_operators_return_to_float32(model):
    exact = ios_tf.optimize(model, precision="bfloat16", **FAST).report.precisions[0]
    assert exact.precision == "bfloat16"
    budget = 0.7 * exact.whole.error
    faster = ios_tf.optimize(model, precision="auto", max_error=budget, **FAST)
    (choice,) = faster.report.precisions
    assert choice.precision == "bfloat16" and choice.returned
    assert choice.chosen.error < budget < choice.whole.error
    assert 0 < error_of(faster(IMAGES).numpy(), model(IMAGES).numpy()) < budget
    assert "(alone in bfloat16: error" in str(faster.report)
    names = {name for one in choice.returned for name in one.operators}
    (decision,) = [
        one
        for one in faster.report.decisions
        if one.reason is Reason.FULL_PRECISION_OPERATORS
    ]
    assert set(decision.nodes) == names
    precisions = {
        operator["name"]: operator["precision"]
        for network in faster.report.networks
        for operator in network["operators"]
    }
    assert {precisions[name] for name in names & precisions.keys()} <= {"float32"}
    assert "bfloat16" in precisions.values()


@pytest.mark.usefixtures("computes_bfloat16")
def test_nothing_exceeds_the_budget(model):
    exact = ios_tf.optimize(model, precision="bfloat16", max_error=1e-9, **FAST)
    (choice,) = exact.report.precisions
    assert choice.precision == "float32" and choice.whole.error > 1e-9
    assert Reason.FULL_PRECISION_SIGNATURE in [
        one.reason for one in exact.report.decisions
    ]
    assert error_of(exact(IMAGES).numpy(), model(IMAGES).numpy()) < 1e-5


@pytest.mark.usefixtures("computes_bfloat16")
@pytest.mark.parametrize("narrow_ms", [0.5, 2.0])
def test_bfloat16_must_be_faster(narrow_ms, model, monkeypatch):
    def compare(self, candidates, seconds=0.0):
        dtypes = [{one["block"]["dtype"] for one in regions} for regions in candidates]
        return [narrow_ms if "bfloat16" in found else 1.0 for found in dtypes]

    monkeypatch.setattr(MeasuredCostModel, "compare_programs", compare)
    options = FAST | {"keep_slower": False}
    report = ios_tf.optimize(model, precision="auto", **options).report
    is_faster = narrow_ms < 1.0
    precision = "bfloat16" if is_faster else "float32"
    assert report.precisions[0].precision == precision
    reasons = [one.reason for one in report.decisions]
    assert (Reason.FULL_PRECISION_SIGNATURE in reasons) != is_faster


@pytest.mark.usefixtures("computes_bfloat16")
def test_samples_decide(model):
    report = ios_tf.optimize(
        model, precision="bfloat16", max_error=0.02, samples=IMAGES, **FAST
    ).report
    assert report.precisions[0].chosen.images == len(IMAGES)


def test_processors_without_bfloat16(model, monkeypatch):
    monkeypatch.setattr(engine, "has_bfloat16", lambda device: False)
    with pytest.raises(UserError, match="needs a processor with bfloat16 arithmetic"):
        ios_tf.optimize(model, precision="bfloat16", **FAST)
    exact = ios_tf.optimize(model, precision="auto", **FAST)
    assert not exact.report.precisions
    reason = "this processor does not have bfloat16 arithmetic"
    assert reason in str(exact.report)
    assert error_of(exact(IMAGES).numpy(), model(IMAGES).numpy()) < 1e-5


@pytest.mark.usefixtures("computes_bfloat16")
def test_enable(model, cache):
    graph = gh.freeze(model, (None, 12, 12, 3))
    expected = gh.run(graph, IMAGES)[0]
    with undoing_enable():
        status = ios_tf.enable(
            cache_dir=cache, on_miss="greedy", batch_size=3, precision="bfloat16"
        )
        assert status.precision == "bfloat16" and "precision=bfloat16" in str(status)
        (found,) = gh.as_function(graph)(tf.constant(IMAGES))
        assert 0 < error_of(found, expected) < 0.02
        plugin.runtime().ios_tf_set_computes_bfloat16(0)
        with pytest.raises(UserError, match="does not have bfloat16 arithmetic"):
            ios_tf.enable(cache_dir=cache, precision="bfloat16")
        assert ios_tf.enable(cache_dir=cache, precision="auto").precision == "float32"
