"""Parts that do not gain are left to TensorFlow. Tests set most latencies
themselves."""

import dataclasses
import filecmp
import math
import os
import re

import foreign_models as fm
import graph_helpers as gh
import keras
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from keras import layers
from merges import merge_everything

import ios_tf
from ios_tf.conversion import network_check, planning, region_check, timing
from ios_tf.cost.verdict import Ratio, by_estimate, slower_sizes
from ios_tf.model import (
    frozen_graphs,
    function_library,
    graph_optimizer,
    saved_models,
    subgraphs,
)
from ios_tf.native import names
from ios_tf.reasons import Reason

pytestmark = pytest.mark.usefixtures("cache")

FAST = {key: value for key, value in shared.FAST.items() if key != "keep_slower"}


@pytest.mark.parametrize(
    ("tensorflow", "ours", "faster", "slower"),
    [
        ({1: 2.0}, {1: 1.0}, True, []),
        ({1: 2.0}, {1: 1.99}, False, []),
        ({1: 2.0}, {1: 2.05}, False, [1]),
        ({1: 2.0, 8: 9.0}, {1: 1.0, 8: 9.1}, True, []),
        ({1: 2.0, 8: 9.0}, {1: 1.0, 8: 9.5}, False, [8]),
        ({1: 2.0, 8: 9.0}, {1: 1.98, 8: 9.1}, False, []),
        ({}, {}, False, []),
    ],
)
def test_what_counts_as_faster(tensorflow, ours, faster, slower):
    ratios = {
        size: Ratio(tensorflow[size] / ms, low=0.0, high=math.inf)
        for size, ms in ours.items()
    }
    assert by_estimate(ratios) == faster
    assert slower_sizes(ratios) == slower


def made_up(monkeypatch, *latencies: list[float]) -> None:
    """Makes the next measurements return these latencies. Any further one fails."""
    left = list(latencies)
    monkeypatch.setattr(
        timing,
        "latencies",
        lambda turns, callers: shared.exactly(*left.pop(0)[: len(turns)]),
    )


def assert_copied(source: str, output: str) -> None:
    """Asserts that the output is the source with a report."""
    same = filecmp.dircmp(source, output)
    assert not same.left_only + same.diff_files
    assert same.right_only == ["assets.extra"]
    assert os.listdir(f"{output}/assets.extra") == ["ios_tf_report.json"]


def two_signatures(path: str) -> None:
    """Saves a SavedModel with two functions, each with its own network."""
    module = tf.Module()
    module.one, module.two = fm.Network(), fm.Network(seed=1)
    signatures = {
        name: tf.function(
            lambda x, network=network: {"y": network(x)},
            input_signature=[fm.image_spec()],
        )
        for name, network in (("one", module.one), ("two", module.two))
    }
    tf.saved_model.save(module, path, signatures)


def regions_of(path: str, signature: str) -> list[str]:
    function = tf.saved_model.load(path).signatures[signature]
    frozen = frozen_graphs.freeze(signature, function)
    return [n.name for n in graph_optimizer.lowered(frozen).node if n.op == "IosRegion"]


def test_a_model_that_gains_nothing_is_copied(tmp_path, monkeypatch):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    two_signatures(source)
    made_up(monkeypatch, [1.0, 1.5, 1.0], [2.0, 1.0, 2.0], [1.0, 1.0, 1.0], [2.0] * 3)
    report = ios_tf.convert(source, output, batch_size=[1, 4], **FAST)
    assert shared.reasons(report) == [
        Reason.SLOW_SIGNATURE,
        Reason.SLOW_SIGNATURE,
        Reason.COPIED,
    ]
    times = [re.findall(r"[\d.]+ ms", one.sentence) for one in report.decisions]
    assert times[0] == ["1.00 ms", "1.50 ms", "2.00 ms", "1.00 ms"]
    assert times[1] == ["1.00 ms", "1.00 ms", "2.00 ms", "2.00 ms"]
    assert [one.code for one in report.decisions] == ["IOS106", "IOS106", "IOS109"]
    assert report.table().splitlines() == [
        report.headline,
        *map(str, report.decisions),
        f"written: {output}",
        "to explain a code: ios_tf explain IOS106",
    ]
    assert_copied(source, output)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_functions_that_gain_are_converted(tmp_path, monkeypatch):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    two_signatures(source)
    first = [[1.0, 1.5, 1.0], [2.0, 1.0, 2.5]]
    made_up(monkeypatch, *first, first[1])  # signature "two" is measured a second time
    report = ios_tf.convert(source, output, **FAST)
    (comparison,) = report.comparisons
    assert comparison.signature == "two"
    # Whether the sequential schedules are faster depends on the machine.
    sentences = {one.reason: one.sentence for one in report.decisions}
    assert sentences.keys() - {Reason.SEQUENTIAL} == {
        Reason.SLOW_SIGNATURE,
        Reason.SLOW_WITHOUT_PACKAGE,
    }
    assert "'one'" in sentences[Reason.SLOW_SIGNATURE]
    told = sentences[Reason.SLOW_WITHOUT_PACKAGE]
    assert all(part in told for part in ("'two'", "batch size 1"))
    rows = {line[:18].strip(): line[18:].strip() for line in report.table().split("\n")}
    assert rows["TensorFlow"] == "2.00 ms"
    assert rows["converted"] == "1.00 ms (2.00x as fast as TensorFlow)"
    assert rows["without ios_tf"] == "2.50 ms (0.80x as fast as TensorFlow)"
    assert report.operators == 5
    assert regions_of(output, "one") == []
    assert len(regions_of(output, "two")) == 1
    x = fm.images(3)
    for name in ("one", "two"):
        found = tf.saved_model.load(output).signatures[name](x)["y"]
        truth = tf.saved_model.load(source).signatures[name](x)["y"]
        assert networks.relative_difference(found.numpy(), truth.numpy()) < 1e-5


def all_merge(monkeypatch) -> None:
    """Makes searches return schedules that merge wherever possible."""
    check = network_check.check

    def merging(frozen, collected, schedules, searcher):
        problems = [p for c in collected.values() for p in c.problems.items()]
        return dataclasses.replace(
            check(frozen, collected, schedules, searcher),
            schedules={s: merge_everything(problem) for s, problem in problems},
        )

    monkeypatch.setattr(network_check, "check", merging)


@pytest.mark.parametrize("second", [[1.0, 0.5, 1.5], [1.0, 1.5, 1.5]])
def test_what_is_written_in_place_of_slow_merges_is_judged(
    second, tmp_path, monkeypatch
):
    output = str(tmp_path / "converted")
    all_merge(monkeypatch)
    made_up(monkeypatch, [1.0, 0.5, 1.5], second)
    report = ios_tf.convert(shared.branches(), output, **FAST)
    kept = second[1] < 1
    assert len(regions_of(output, "serving_default")) == kept
    assert (Reason.COPIED in shared.reasons(report)) == (not kept)
    assert (Reason.SLOW_SIGNATURE in shared.reasons(report)) == (not kept)
    assert len(report.comparisons) == kept


def test_functions_that_stay_are_judged_beside_one_that_does_not(tmp_path, monkeypatch):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    two_signatures(source)
    made_up(monkeypatch, [1.0, 1.5, 1.0], [2.0, 1.0, 1.0], [2.0, 2.1, 1.0])
    report = ios_tf.convert(source, output, **FAST)
    assert shared.reasons(report) == [
        Reason.SLOW_SIGNATURE,
        Reason.SLOW_SIGNATURE,
        Reason.COPIED,
    ]
    assert regions_of(output, "two") == []


# Models that cannot be called with random inputs, because their strings must be
# records.


@pytest.mark.parametrize(
    ("latencies", "regions"),
    [([[2.0, 1.0], [2.0, 2.1]], 1), ([[2.0, 1.0]] * 2, 2), ([[2.0, 2.0]] * 2, 0)],
)
def test_regions_of_models_that_cannot_be_called_are_timed(
    latencies, regions, tmp_path, monkeypatch
):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.records(source)
    made_up(monkeypatch, *latencies)
    report = ios_tf.convert(source, output, **FAST)
    assert len(regions_of(output, "serving_default")) == regions
    reasons = shared.reasons(report)
    assert reasons.count(Reason.SLOW_REGION) == 2 - regions
    assert (
        (Reason.COPIED in reasons)
        == (Reason.NO_FAST_REGION in reasons)
        == (regions == 0)
    )
    assert (Reason.REGIONS_ONLY in reasons) == (regions > 0)
    assert Reason.STRINGS in reasons
    if regions:
        x = np.random.default_rng(0).random((2, 9, 9, 3), np.float32)
        record = tf.stack([tf.io.serialize_tensor(one) for one in x])
        found, truth = (
            tf.saved_model.load(p).signatures["serving_default"](record)["y"]
            for p in (output, source)
        )
        assert networks.relative_difference(found.numpy(), truth.numpy()) < 1e-5


def test_both_sides_of_a_region_get_the_same_made_up_tensors(tmp_path, monkeypatch):
    source = str(tmp_path / "model")
    fm.records(source)
    results = []

    def run(turns, callers):
        for context, call in turns:
            with context():
                results.append([one.numpy() for one in call()])
        return shared.exactly(2.0, 1.0)

    signature = saved_models.load(source).signatures["serving_default"]
    frozen = graph_optimizer.fold_constants(
        frozen_graphs.freeze("serving_default", signature)
    )
    plan = planned(frozen, merge_everything)
    monkeypatch.setattr(timing, "latencies", run)
    measured = region_check.measure_made_up(
        frozen, plan.rewrite, plan.function.collected[1], [1, 4], "cpu"
    )
    assert [one.regions for one in measured] == [(0,), (1,)]
    assert [sorted(one.latencies) for one in measured] == [[1, 4]] * 2
    assert [one[0].shape[0] for one in results] == [1, 1, 4, 4] * 2
    for (truth,), (one,) in zip(results[::2], results[1::2], strict=True):
        assert np.abs(truth).max() > 0
        assert networks.relative_difference(one, truth) < 1e-5


def test_what_cannot_be_timed_at_all_stays_tensorflows(tmp_path, monkeypatch):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.records(source)
    monkeypatch.setattr(region_check, "measure_made_up", lambda *args: [])
    report = ios_tf.convert(source, output, **FAST)
    assert shared.reasons(report) == [
        Reason.STRINGS,
        Reason.NOTHING_TIMED,
        Reason.COPIED,
    ]
    report = ios_tf.convert(source, output, overwrite=True, **shared.FAST)
    assert len(regions_of(output, "serving_default")) == 2
    assert Reason.NOT_TIMED in shared.reasons(report)


def test_models_that_take_another_batch_size_are_timed_at_it(tmp_path, monkeypatch):
    network = fm.Network()
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")

    def function(x):  # its signature allows any batch, but it takes only 8
        return {"y": tf.matmul(tf.ones([2, 8]), network(x))}

    fm.save(network, source, function, fm.image_spec())
    made_up(monkeypatch, [1.0, 1.1, 1.0])
    report = ios_tf.convert(source, output, **FAST)
    assert shared.reasons(report)[-2:] == [Reason.SLOW_SIGNATURE, Reason.COPIED]
    assert "1.10 ms at batch size 8" in report.notes[-2]


def test_optimize_runs_the_original_where_nothing_is_gained(monkeypatch):
    network = fm.Network()
    function = tf.function(network, input_signature=[fm.image_spec()])
    made_up(monkeypatch, [1.0, 1.1])
    same = ios_tf.optimize(function, **FAST)
    assert repr(same).startswith("<not optimized function")
    assert shared.reasons(same.report) == [Reason.SLOW_SIGNATURE, Reason.ORIGINAL_RUNS]
    assert "1.10 ms at batch size 1" in same.report.notes[0]
    np.testing.assert_array_equal(same(fm.images(2)), function(fm.images(2)))
    made_up(monkeypatch, [1.0, 0.5])
    assert repr(ios_tf.optimize(function, **FAST)).startswith("<optimized function")


# Individual regions.


def test_where_no_region_gains_the_report_says_so(tmp_path, monkeypatch):
    """Without regions, the graph is neither compared nor measured."""
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    module = tf.Module()
    module.filters = [tf.Variable(gh.random_array(3, 3, 4, 4)) for _ in range(3)]

    def function(x):
        for filters in module.filters:
            x = tf.nn.conv2d(tf.cumsum(x, 1), filters, 1, "SAME")
        return {"y": x}

    spec = tf.TensorSpec([None, 4, 4, 4], name="x")
    module.serve = tf.function(function, input_signature=[spec])
    tf.saved_model.save(module, source, signatures=module.serve)
    regions = [[1.0, 1.1], [1.0, 1.2], [1.0, 1.3]]
    made_up(monkeypatch, *regions)
    report = ios_tf.convert(source, output, **FAST)
    expected = [Reason.NO_FAST_REGION, *[Reason.SLOW_REGION] * 3]
    assert shared.reasons(report) == [*expected, Reason.COPIED]
    slow = [one for one in report.decisions if one.reason is Reason.SLOW_REGION]
    for i, (one, (_, ours)) in enumerate(zip(slow, regions, strict=True), 1):
        assert one.sentence.startswith(f"region {i} of 3 (") and len(one.nodes) == 1
        assert f"{ours:.2f} ms at batch size" in one.sentence
    made_up(monkeypatch, *regions)
    same = ios_tf.optimize(module.serve, **FAST)
    assert shared.reasons(same.report) == [*expected, Reason.ORIGINAL_RUNS]


def three_regions(make=tf.constant) -> frozen_graphs.FrozenSignature:
    """Convolutions around operators that the engine does not support."""
    random = np.random.default_rng(0)
    weights = [
        make(random.normal(0, 0.2, (3, 3, 4, 4)).astype(np.float32)) for _ in range(5)
    ]

    @tf.function(input_signature=[tf.TensorSpec([None, 9, 9, 4], name="x")])
    def function(x):
        a = tf.nn.relu(tf.nn.conv2d(x, weights[0], 1, "SAME"))
        b = tf.nn.conv2d(a, weights[1], 1, "SAME") + a
        b = tf.math.cumsum(b, 3)
        c = tf.nn.conv2d(b, weights[2], 1, "SAME")
        d = tf.nn.conv2d(tf.math.cumsum(a, 3) + x, weights[3], 1, "SAME")
        e = tf.math.cumsum(tf.concat([c, d], -1), 1)
        e = tf.nn.conv2d(e, tf.concat([weights[4]] * 2, 2), 2, "SAME")
        return {"c": c, "e": e}

    concrete = function.get_concrete_function()
    frozen = frozen_graphs.freeze_flat("function", concrete, keep_filters=True)
    return graph_optimizer.fold_constants(frozen)


def planned(frozen: frozen_graphs.FrozenSignature, searches) -> planning.Plan:
    collected = {1: graph_optimizer.collect(frozen, 1)}
    schedules = {s: searches(p) for s, p in collected[1].problems.items()}
    function = planning.Function(frozen, collected, None)
    return planning.Plan(function, network_check.Checked(schedules, {}))


def test_regions_are_timed_and_left_one_by_one(monkeypatch):
    frozen = three_regions()
    plan = planned(frozen, merge_everything)
    collected = plan.function.collected[1]
    x = {"x": tf.constant(gh.random_array(2, 9, 9, 4))}
    made_up(monkeypatch, [3.0, 1.0], [2.0, 2.5], [2.0, 1.0])
    measured = region_check.measure(frozen, plan.rewrite, collected, {2: x}, "cpu")
    assert [one.regions for one in measured] == [(0,), (1,), (2,)]
    assert [one.is_faster() for one in measured] == [True, False, True]
    assert measured[1].name.startswith("region 2 of 3 (4 operators, from ")
    kept = dataclasses.replace(plan, left=frozenset([1]))
    graph_def = kept.rewrite()
    lowered = graph_optimizer.lowered(frozen, graph_def)
    assert sum(node.op == "IosRegion" for node in lowered.node) == 2
    assert sum(node.op == "Conv2D" for node in lowered.node) == 2
    names = [name for name, _ in frozen.outputs.values()]
    found = subgraphs.tensors(frozen, lowered, names)(x["x"])
    expected = subgraphs.tensors(frozen, frozen.graph_def, names)(x["x"])
    for one, truth in zip(found, expected, strict=True):
        assert networks.relative_difference(one.numpy(), truth.numpy()) < 1e-5


def test_functions_that_are_timed_write_no_values(monkeypatch):
    """A timed function does not format tensors as text.

    TensorFlow's own functions format tensors for the message of an error that they
    catch themselves. This takes milliseconds.
    """
    frozen = three_regions()
    names = [name for name, _ in frozen.outputs.values()]
    x = tf.constant(gh.random_array(2, 9, 9, 4))
    compute = subgraphs.tensors(frozen, frozen.graph_def, names)

    def refuse(tensor):
        raise AssertionError("its values are written")

    monkeypatch.setattr(type(x), "__repr__", refuse)
    monkeypatch.setattr(type(x), "__str__", refuse)
    assert len(compute(x)) == len(names)


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
def test_regions_are_measured_as_tensorflow_computes_them(make, monkeypatch):
    """Both sides of each measurement compute the same nodes with equal results."""
    monkeypatch.setattr(function_library, "LARGE_BYTES", 1)
    kept = []  # keeps the variables alive, because a function does not
    frozen = three_regions(lambda value: kept.append(make(value)) or kept[-1])
    assert len(frozen.captures) == (4 if make is tf.Variable else 0)
    calls = measured_equally(frozen, monkeypatch)
    assert len(calls) == 2 * 2 * 3
    # The arguments are images, not weights.
    assert all(one.shape[1:3] == [9, 9] for args in calls for one in args)


@pytest.mark.parametrize(
    "back",
    [
        lambda x, a, b: tf.reshape(b, tf.shape(a)),
        lambda x, a, b: tf.reshape(b, [tf.shape(x)[0], 9, 9, 4]),
        lambda x, a, b: tf.broadcast_to(b[:, -1:], tf.shape(a)),
        lambda x, a, b: tf.reshape(tf.reshape(b, [-1, 324]), tf.shape(b)),
    ],
)
def test_regions_that_need_the_shape_of_another_tensor(back, monkeypatch):
    filters = [gh.random_array(3, 3, 4, 4, seed=seed) for seed in range(3)]

    @tf.function(input_signature=[tf.TensorSpec([None, 9, 9, 4], name="x")])
    def function(x):
        a = tf.nn.relu(tf.nn.conv2d(x, filters[0], 1, "SAME"))
        b = back(x, a, tf.sort(a, 1))
        return [tf.nn.conv2d(b, filters[k], 1, "SAME") for k in (1, 2)]

    concrete = function.get_concrete_function()
    frozen = graph_optimizer.fold_constants(
        frozen_graphs.freeze_flat("function", concrete)
    )
    assert len(measured_equally(frozen, monkeypatch)) == 2 * 2 * 2


def measured_equally(frozen, monkeypatch) -> list[tuple[tf.Tensor, ...]]:
    """The arguments of all timed calls; asserts that both sides gave equal results."""
    plan = planned(frozen, merge_everything)
    calls, results = [], []

    def run(turns, callers):
        for context, call in turns:
            calls.append(call.args)
            with context():
                results.append([one.numpy() for one in call()])
        return shared.exactly(2.0, 1.0)

    monkeypatch.setattr(timing, "latencies", run)
    region_check.measure(
        frozen,
        plan.rewrite,
        plan.function.collected[1],
        {n: {"x": tf.constant(gh.random_array(n, 9, 9, 4))} for n in (1, 3)},
        "cpu",
    )
    for truths, ones in zip(results[::2], results[1::2], strict=True):
        assert len(truths) == len(ones) > 0
        for truth, one in zip(truths, ones, strict=True):
            assert np.abs(truth).max() > 0
            assert networks.relative_difference(one, truth) < 1e-5
    return calls


def one_region() -> frozen_graphs.FrozenSignature:
    signature = saved_models.load(shared.branches()).signatures["serving_default"]
    return graph_optimizer.fold_constants(
        frozen_graphs.freeze("serving_default", signature)
    )


def test_a_graph_of_one_region_is_not_cut(monkeypatch):
    frozen = one_region()
    collected = graph_optimizer.collect(frozen, 1)
    assert region_check.measure(frozen, None, collected, {1: {}}, "cpu") == []


# Merges from which only the engine gains.


def test_merges_can_be_left_to_the_engine():
    frozen = one_region()
    plan = planned(frozen, merge_everything)
    merges = {}
    for materialise in (True, False):
        graph_def = plan.rewrite(materialise_merges=materialise)
        in_graph = sum(
            node.op == "Conv2D" and names.MERGED in node.name for node in graph_def.node
        )
        kept = dataclasses.replace(frozen, graph_def=graph_def)
        (program,) = graph_optimizer.lowered_programs(kept)
        of_engine = sum(
            stage["strategy"] == "merge"
            for stage in program["schedules"][0]["schedule"]["stages"]
        )
        merges[materialise] = in_graph, of_engine
    assert merges[True][0] == merges[False][1] > 0
    assert merges[True][1] == merges[False][0] == 0


# Kinds of networks that were once slower than TensorFlow, with real measurements.


def _leaky() -> keras.Model:
    inputs = x = keras.Input((32, 32, 3))
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, 2, "same", use_bias=False)(x)
        x = layers.LeakyReLU(negative_slope=0.1)(layers.BatchNormalization()(x))
    return keras.Model(inputs, x)


def _sound() -> keras.Model:
    inputs = keras.Input((512, 1))
    x = layers.Conv1D(16, 9, 4, "same", activation="relu")(inputs)
    x = layers.Conv1D(16, 3, 1, "same", activation="relu")(layers.MaxPooling1D(4)(x))
    return keras.Model(inputs, layers.GlobalAveragePooling1D()(x))


def _gelu() -> keras.Model:
    inputs = keras.Input((16, 16, 8))
    x = layers.LayerNormalization()(layers.Conv2D(16, 3, padding="same")(inputs))
    return keras.Model(inputs, layers.Dense(8)(layers.Dense(32, "gelu")(x)))


def _volume() -> keras.Model:
    inputs = keras.Input((4, 16, 16, 3))
    x = layers.Conv3D(8, (4, 3, 3), activation="relu")(inputs)
    x = layers.Reshape((14, 14, 8))(x)
    return keras.Model(inputs, layers.Conv2D(8, 3)(layers.Conv2D(8, 3)(x)))


def _u_net() -> keras.Model:
    inputs = keras.Input((32, 32, 3))
    skip = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(16, 3, 2, "same", activation="relu")(skip)
    x = layers.Conv2DTranspose(8, 2, 2, "same")(x)
    x = layers.Concatenate()([x, skip])
    return keras.Model(inputs, layers.Conv2D(2, 3, padding="same")(x))


@pytest.mark.parametrize(
    ("build", "batch_size"),
    [(_leaky, 1), (_sound, 7), (_gelu, 1), (_volume, 1), (_u_net, 1)],
)
def test_what_is_kept_won_and_what_did_not_is_the_original(build, batch_size, tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    build().export(source, verbose=False)
    report = ios_tf.convert(source, output, batch_size=batch_size, **FAST)
    if Reason.COPIED in shared.reasons(report):
        slow = {Reason.SLOW_SIGNATURE, Reason.NO_FAST_REGION, Reason.NOTHING_TIMED}
        assert slow & {*shared.reasons(report)}
        assert_copied(source, output)
        return
    one = next(one for one in report.comparisons if one.is_faster())
    assert list(one.latencies) == [batch_size]
    assert regions_of(output, one.signature)
    assert one.difference < 1e-4
