"""ios_tf.optimize: functions with the original's signature that compute the same."""

import collections
import inspect
import json
import os
import pickle
import tempfile

import foreign_models as fm
import graph_helpers as gh
import keras
import numpy as np
import pytest
import shared
import tensorflow as tf
from shared import FAST

import ios_tf
from ios_tf.reasons import Reason

pytestmark = pytest.mark.usefixtures("cache")

v1 = tf.compat.v1

# Measurements are quick and noisy: these tests check results, not speed.


def assert_on_engine(function, *arguments, **keywords) -> None:
    """Asserts that a call runs regions; another option forces a new optimization."""
    tf.config.optimizer.set_experimental_options({"debug_stripper": True})
    try:
        ops = gh.executed_ops(function, *arguments, **keywords)
    finally:
        tf.config.optimizer.set_experimental_options({"debug_stripper": False})
    assert ops["IosRegion"] >= 1


def two_inputs() -> keras.Model:
    image = keras.Input((12, 12, 3), name="image")
    hint = keras.Input((4,), name="hint")
    a = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    b = keras.layers.Conv2D(8, 1, padding="same", activation="relu")(image)
    x = keras.layers.BatchNormalization()(keras.layers.Concatenate()([a, b]))
    x = keras.layers.Dropout(0.5)(x)
    x = keras.layers.Conv2D(6, 3)(x)
    pooled = keras.layers.GlobalAveragePooling2D()(x)
    joined = keras.layers.Concatenate()([pooled, hint])
    outputs = {"features": x, "logits": keras.layers.Dense(5)(joined)}
    return gh.randomised(keras.Model([image, hint], outputs))


@pytest.mark.usefixtures("calm_machine")
def test_keras_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = two_inputs()
    faster = ios_tf.optimize(model, batch_size=(1, 4), **FAST)
    assert os.listdir(tmp_path) == ["cache"]
    assert [*faster.report.sizes] == [1, 4]
    (comparison,) = faster.report.comparisons
    assert comparison.difference < 1e-4
    assert [*comparison.latencies] == [1, 4]
    assert faster.report.table() in repr(faster)
    assert "written" not in repr(faster)
    assert_on_engine(faster, [gh.random_array(1, 12, 12, 3), gh.random_array(1, 4)])
    with pytest.raises(TypeError, match=r"cannot be pickled .* save\(DIRECTORY\)"):
        pickle.dumps(faster)
    calls = {
        batch: [gh.random_array(batch, 12, 12, 3), gh.random_array(batch, 4)]
        for batch in (1, 3)
    }
    expected = {batch: model(call, training=False) for batch, call in calls.items()}
    for batch, (image, hint) in calls.items():
        gh.assert_same(faster([image, hint]), expected[batch])
        gh.assert_same(faster((tf.constant(image), hint)), expected[batch])
        gh.assert_same(faster(inputs=[image, hint], training=False), expected[batch])
        gh.assert_same(tf.function(faster)([image, hint]), expected[batch])
    with pytest.raises(ValueError, match="training=False"):
        faster(calls[1], training=True)
    with pytest.raises(ValueError, match="optimized for calls with all inputs"):
        faster([fm.images(1), None])
    with pytest.raises(ValueError, match="takes 2 input tensors, but the call has 1"):
        faster(calls[1][0])
    # The weights are those at the time of `optimize`.
    for weight in model.weights:
        weight.assign(weight * 2)
    gh.assert_same(faster(calls[3]), expected[3])
    saved = tmp_path / "saved"
    faster.save(saved)
    with pytest.raises(ios_tf.UserError, match="already exists"):
        faster.save(saved)
    report = {**faster.report.to_json(), "output": str(saved)}
    written = json.loads((saved / "assets.extra/ios_tf_report.json").read_text())
    assert written["memory"].pop("output_bytes") > 1000
    del report["memory"]["output_bytes"]
    assert written == report
    # The interface is that of Keras's own export.
    model.export(tmp_path / "exported", verbose=False)
    loaded, exported = map(
        tf.saved_model.load, (str(saved), str(tmp_path / "exported"))
    )
    assert loaded.signatures.keys() == exported.signatures.keys()
    for name, signature in loaded.signatures.items():
        of_export = exported.signatures[name]
        assert (
            signature.structured_input_signature == of_export.structured_input_signature
        )
        assert signature.structured_outputs == of_export.structured_outputs
    gh.assert_same(loaded.serve(calls[3]), expected[3])
    assert_on_engine(loaded.serve, calls[1])
    again = ios_tf.optimize(model, batch_size=1, **FAST)
    assert again.report.cached_blocks == again.report.different_blocks > 0


def test_keras_model_reads_inputs_by_name_and_casts_them():
    x, y = keras.Input((8, 8, 3), name="x"), keras.Input((8, 8, 3), name="y")
    sum_of_both = (
        keras.layers.Conv2D(4, 3)(x) + keras.layers.Conv2D(4, 1)(y)[:, 1:-1, 1:-1]
    )
    model = gh.randomised(keras.Model({"x": x, "y": y}, sum_of_both))
    faster = ios_tf.optimize(model, **FAST)
    images = np.random.default_rng(0).integers(0, 255, (2, 3, 8, 8, 3), np.uint8)
    inputs = {"y": images[0], "x": images[1]}
    gh.assert_same(faster(inputs), model(inputs, training=False))


Detections = collections.namedtuple("Detections", "scores more")


class Nested(tf.Module):
    def __init__(self):
        self.network = fm.Network()

    @tf.function(
        input_signature=[
            {
                "images": [tf.TensorSpec([None, 12, 12, 3])],
                "scale": (tf.TensorSpec([], tf.float32),),
            },
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def detect(self, batch, ids, round_up=False):
        """Nested arguments and results, a default, and constants among the results."""
        scores = self.network(batch["images"][0]) * batch["scale"][0]
        return Detections(scores, [{"ids": ids + 1, "none": None}, (ids,)])


def test_tf_function(tmp_path):
    nested = Nested()
    detect = nested.detect
    faster = ios_tf.optimize(detect, **FAST)
    faster.save(tmp_path / "saved")
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    # TensorFlow's own signatures cannot have nested outputs.
    outputs = loaded.signatures["serving_default"].structured_outputs
    assert sorted(outputs) == ["output_0", "output_1", "output_2"]
    assert str(inspect.signature(faster)) == "(batch, ids, round_up=False)"

    def arguments(batch):
        images = fm.images(batch).numpy().astype(np.float64)
        return {"images": [images], "scale": (np.float32(2.5),)}, np.arange(batch)

    assert_on_engine(faster, *arguments(1))
    for batch in (1, 3):
        one, ids = arguments(batch)
        expected = detect(one, ids)
        gh.assert_same(faster(one, ids), expected)
        gh.assert_same(faster(one, ids=ids, round_up=False), expected)
        tensors = tf.nest.map_structure(tf.constant, [one, ids.astype(np.int32)])
        tensors[0]["images"] = [fm.images(batch)]
        gh.assert_same(loaded(*tensors), expected)
        # Calls inside a caller's function, with the caller's shapes.
        one["images"] = [fm.images(batch)]
        caller = tf.function(lambda one, ids: faster(one, ids).scores)
        gh.assert_same(caller(one, ids.astype(np.int32)), expected.scores)
    for wrong in ((one,), (one, ids, True), (one, ids, False, 1), ({}, ids)):
        with pytest.raises((TypeError, ValueError, AssertionError)):
            faster(*wrong)
    with pytest.raises(TypeError, match="Can not cast"):
        faster({**one, "scale": (tf.zeros([2]),)}, ids)


def test_concrete_function():
    network = fm.Network()
    concrete = tf.function(network).get_concrete_function(fm.image_spec())
    faster = ios_tf.optimize(concrete, **FAST)
    assert_on_engine(faster, fm.images(1))
    gh.assert_same(faster(x=fm.images(3)), concrete(fm.images(3)))


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [("x:0", "y:0"), (["a/z:0", "x:0"], ["y:0"]), (["x:0", "a/z:0"], {"o": "y:0"})],
)
def test_pruned_functions(inputs, outputs):
    """A pruned function, as the guide loads frozen graphs, is optimized."""

    def network():
        y = x = v1.placeholder(tf.float32, [None, 12, 12, 3], "x")
        z = v1.placeholder_with_default(1.0, [], "a/z")
        for seed in range(3):
            filters = gh.random_array(3, 3, y.shape[3], 4, seed=seed)
            y = tf.concat([tf.nn.relu(tf.nn.conv2d(y, filters, 1, "SAME")), x], 3)
        tf.multiply(y, z, name="y")

    pruned = v1.wrap_function(network, []).prune(inputs, outputs)
    faster = ios_tf.optimize(pruned, **FAST)
    values = {"x": fm.images(2), "a/z": tf.constant(0.5)}
    flat = [values[one.op.name] for one in pruned.inputs]
    assert_on_engine(faster, *flat)
    gh.assert_same(faster(*flat), pruned(*flat))
    named = {one.op.name: values[one.op.name] for one in pruned.inputs}
    gh.assert_same(faster(**named), pruned(**named))
    with pytest.raises(TypeError, match="takes the tensors"):
        faster()
    with pytest.raises(TypeError, match="takes the tensors"):
        faster(*flat, tf.constant(1.0))


def test_loaded_signature(tmp_path):
    path = str(tmp_path / "model")
    network = fm.Network()
    fm.save(network, path, lambda x: {"y": network(x)}, fm.image_spec())
    # Nothing else refers to the model or to its variables.
    signature = tf.saved_model.load(path).signatures["serving_default"]
    faster = ios_tf.optimize(signature, **FAST)
    assert_on_engine(faster, x=fm.images(1))
    for batch in (1, 3):
        expected = {"y": network(fm.images(batch))}
        gh.assert_same(faster(x=fm.images(batch)), expected)
        gh.assert_same(faster(fm.images(batch)), expected)
    gh.assert_same(
        ios_tf.optimize(tf.saved_model.load(path), **FAST)(x=fm.images(1)),
        {"y": network(fm.images(1))},
    )


@pytest.mark.parametrize("name", ["tf1_main_op", "tables", "ragged_and_sparse_outputs"])
def test_foreign_signatures(name, tmp_path):
    path = str(tmp_path / "model")
    calls = fm.MODELS[name](path)
    loaded = tf.saved_model.load(path)
    signatures = {call.signature for call in calls}
    faster = {
        key: ios_tf.optimize(loaded.signatures[key], **FAST) for key in signatures
    }
    for call in calls:
        expected = loaded.signatures[call.signature](**call.inputs)
        gh.assert_same(faster[call.signature](**call.inputs), expected)
    assert any(one.report.blocks for one in faster.values())
    if name != "ragged_and_sparse_outputs":
        # The tables belong to `loaded`.
        with pytest.raises(ios_tf.UserError, match="a table that belongs to another"):
            faster[calls[0].signature].save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()
        if len(loaded.signatures) > 1:
            return
        faster = {calls[0].signature: ios_tf.optimize(loaded, **FAST)}
    for key, function in faster.items():
        function.save(tmp_path / key)
        saved = tf.saved_model.load(str(tmp_path / key))
        for call in (call for call in calls if call.signature == key):
            expected = loaded.signatures[key](**call.inputs)
            gh.assert_same(saved.signatures["serving_default"](**call.inputs), expected)


def test_without_convolutions(tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    same = ios_tf.optimize(model)
    codes = [decision.code for decision in same.report.decisions]
    assert (codes[0], codes[-1]) == ("IOS101", "IOS110")
    lines = same.report.table().splitlines()
    assert lines[0] == f"{model.name} is left to TensorFlow"
    assert lines[1:3] == same.report.notes
    assert same._repr_html_().startswith("<iframe")
    assert repr(same).startswith("<not optimized function ")
    images = gh.random_array(3, 4)
    gh.assert_same(same(images), model(images))
    same.save(tmp_path / "saved")
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    gh.assert_same(saved.serve(images), model(images))


def test_without_outputs():
    calls = tf.Variable(0)

    def unread(x):
        tf.nn.conv2d(x, tf.ones([3, 3, 3, 4]), 1, "SAME")

    def counted(x):
        unread(x)
        calls.assign_add(1)

    for function in unread, counted:
        same = ios_tf.optimize(tf.function(function, input_signature=[fm.image_spec()]))
        assert shared.reasons(same.report) == [Reason.NO_OUTPUTS, Reason.ORIGINAL_RUNS]
        assert function.__name__ in same.report.decisions[0].sentence
        assert same(fm.images(1)) is None
    assert calls.numpy() == 1


def test_variables_that_change():
    class Counting(fm.Network):
        def __init__(self):
            super().__init__()
            self.calls = tf.Variable(0, name="calls")

        @tf.function(input_signature=[fm.image_spec()])
        def count(self, x):
            return {"y": self(x), "n": self.calls.assign_add(1)}

    module = Counting()
    same = ios_tf.optimize(module.count)
    assert shared.reasons(same.report) == [
        Reason.CHANGES_VARIABLE,
        Reason.ORIGINAL_RUNS,
    ]
    assert "'calls'" in same.report.decisions[0].sentence
    assert [same(fm.images(1))["n"].numpy() for _ in range(2)] == [1, 2]
    assert module.calls.numpy() == 2


def test_bad_arguments_are_user_errors(tmp_path):
    network = fm.Network()
    save = {"a": network, "b": lambda x: network(x) + 1}
    several = str(tmp_path / "several")
    signatures = {
        name: tf.function(function).get_concrete_function(fm.image_spec())
        for name, function in save.items()
    }
    tf.saved_model.save(network, several, signatures=signatures)
    unbuilt = keras.Sequential([keras.layers.Conv2D(4, 3)])

    @tf.function
    def untyped(x):
        return network(x)

    @tf.function(input_signature=[tf.TensorSpec([None, 12])])
    def failing(x):
        return network(x)

    of_variable = tf.function(lambda v: network(v)).get_concrete_function(
        tf.Variable(tf.zeros([1, 12, 12, 3]))
    )
    for given, message in (
        (of_variable, "takes variables or data sets"),
        (
            tf.saved_model.load(several),
            r"several signatures, a, b\. .*signatures\['a'\]",
        ),
        (several, "ios_tf.convert"),
        (untyped, "untyped has no input_signature. Pass untyped.get_concrete_function"),
        (failing, "failing cannot be traced"),
        (network, "no fixed signature. Pass a keras.Model, a tf.function"),
        (unbuilt, f"'{unbuilt.name}' cannot be traced: .*built"),
        (3, "of type int"),
    ):
        with pytest.raises(ios_tf.UserError, match=message) as error:
            ios_tf.optimize(given)
        assert "\n" not in str(error.value)
    for bad in (
        {"batch_size": 0},
        {"strategy": "best"},
        {"strategy": 5},
        {"device": "tpu"},
        {"device": 5},
        {"max_groups": 2.5},
        {"time_limit": "a"},
        {"time_limit": float("nan")},
        {"units": 5},
        {"borders": [b"conv"]},
        {"units": ["("]},
        {"cache_dir": 7},
        {"cache_dir": "a\0b"},
        {"runs": 2**70},
        {"warmup": True},
    ):
        with pytest.raises(ios_tf.UserError) as error:
            ios_tf.optimize(signatures["a"], **bad)
        assert "\n" not in str(error.value)


def test_distribution_strategies(tmp_path):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        model = two_inputs()
        for call in (
            lambda: ios_tf.optimize(model, **FAST),
            lambda: ios_tf.convert(model, tmp_path / "model", **FAST),
        ):
            with pytest.raises(ios_tf.UserError, match="scope of a MirroredStrategy"):
                call()
    inputs = gh.random_array(2, 12, 12, 3), gh.random_array(2, 4)
    expected = model(inputs)
    gh.assert_same(ios_tf.optimize(model, **FAST)(inputs), expected)
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        gh.assert_same(ios_tf.optimize(model, **FAST)(inputs), expected)


def test_batch_sizes_of_numpy():
    for sizes, expected in ((np.array(2), [2]), (np.array([2, 1]), [1, 2])):
        faster = ios_tf.optimize(two_inputs(), sizes, **FAST)
        assert list(faster.report.sizes) == expected
