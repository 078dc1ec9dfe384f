"""Users' models are converted and compute the same; models that their calls change are
copied."""

import dataclasses
import filecmp
import os
import re
from collections.abc import Callable

import foreign_models as fm
import graph_helpers as gh
import keras
import networks
import numpy as np
import pytest
import shared
import stock
import tensorflow as tf
from keras import layers
from shared import FAST
from tensorflow.core.framework import graph_pb2
from tensorflow.python.saved_model import loader_impl

import ios_tf
from benchmarks.__main__ import main as benchmark
from ios_tf.cli import main
from ios_tf.conversion import network_check
from ios_tf.model import (
    frozen_graphs,
    function_library,
    graph_optimizer,
    saved_models,
)
from ios_tf.reasons import Reason
from ios_tf.tuning.searcher import Searcher

pytestmark = [pytest.mark.one_core, pytest.mark.usefixtures("cache")]


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    """Makes weights of these small models variables, as those of large models are."""
    monkeypatch.setattr(function_library, "LARGE_BYTES", 1)


def interface(model: str, tags=("serve",)) -> dict:
    """Names, dtypes and shapes of all signatures, as a model server reads them."""
    graph = loader_impl.SavedModelLoader(model).get_meta_graph_def_from_tags(tags)
    return {
        name: [
            {
                key: (
                    info.WhichOneof("encoding"),
                    info.dtype,
                    tf.TensorShape(info.tensor_shape),
                )
                for key, info in side.items()
            }
            for side in (signature.inputs, signature.outputs)
        ]
        for name, signature in graph.signature_def.items()
        if not name.startswith("__")
    }


def assert_same_results(found: str, expected: str, calls, **arguments) -> None:
    """Asserts that the calls, in order, give the same results as with the original."""
    original = tf.saved_model.load(expected, **arguments).signatures
    converted = tf.saved_model.load(found, **arguments).signatures
    for call in calls:
        truth = original[call.signature](**call.inputs)
        outputs = converted[call.signature](**call.inputs)
        assert sorted(outputs) == sorted(truth)
        for name, value in truth.items():
            assert type(outputs[name]) is type(value)
            pairs = zip(
                tf.nest.flatten(outputs[name], expand_composites=True),
                tf.nest.flatten(value, expand_composites=True),
                strict=True,
            )
            for one, other in pairs:
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                if other.dtype.is_floating or other.dtype.is_complex:
                    difference = networks.relative_difference(
                        one.numpy(), other.numpy()
                    )
                    assert difference < 1e-4, name
                else:
                    np.testing.assert_array_equal(one, other, name)


@pytest.mark.parametrize("name", fm.MODELS)
def test_converts(name, tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    calls = fm.MODELS[name](source)
    report = ios_tf.convert(source, output, **FAST)
    assert report.operators >= 4
    assert interface(output) == interface(source)
    assert_same_results(output, source, calls)
    function = tf.saved_model.load(output).signatures[calls[0].signature]
    ops = gh.executed_ops(function, **calls[0].inputs)
    assert "IosRegion" in ops
    # With oneDNN, TensorFlow gives convolutions other names.
    left = sum(count for op, count in ops.items() if "Conv2D" in op)
    assert left == (3 if name == "cases" else 0)
    for one in report.comparisons:
        assert one.difference is None or one.difference < 1e-3
        assert one.difference is not None or one.decisions
    if name in MORE_CHECKS:
        MORE_CHECKS[name](source, output, calls)


def check_control_flow(source: str, output: str, calls) -> None:
    """TensorFlow lowers control flow to TensorFlow 1's form, which is faster."""
    for path in (source, output):
        function = tf.saved_model.load(path).signatures[calls[0].signature]
        ops = gh.executed_ops(function, **calls[0].inputs)
        functional = [op for op in ops if op.endswith(("While", "If", "Case"))]
        assert not functional
        assert ops["Merge"]


def check_loops(source: str, output: str, calls) -> None:
    """A second conversion works although the first one's functions exist."""
    check_control_flow(source, output, calls)
    ios_tf.convert(source, output + "2", **FAST)
    assert_same_results(output + "2", source, calls)


def check_side_effects(source: str, output: str, calls) -> None:
    """Asserts of TensorFlow 1 stay, although only control dependencies keep them."""
    function = tf.saved_model.load(output).signatures["serving_default"]
    inputs = calls[0].inputs
    with pytest.raises(tf.errors.InvalidArgumentError, match="too bright"):
        function(**{**inputs, "images": inputs["images"] + 20.0})


MORE_CHECKS = {
    "loops_and_branches": check_loops,
    "cases": check_control_flow,
    "keras_recurrent": check_control_flow,
    "tf1_main_op": check_side_effects,
}


def test_grouped_convolutions_need_no_onednn(tmp_path):
    """TensorFlow's own fused convolutions, which lack groups, are not used."""
    inputs = keras.Input((9, 9, 12))
    x = layers.Conv2D(8, 3, groups=4, activation="relu")(inputs)
    x = layers.Conv2D(8, 3, groups=2, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2D(6, 3, groups=2, dilation_rate=2, activation="elu")(x)
    model = gh.randomised(keras.Model(inputs, x))
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    model.export(source, verbose=False)
    report = ios_tf.convert(source, output, **FAST)
    assert report.operators == 3
    images = gh.random_array(2, 9, 9, 12)
    for onednn in (False, True):
        found = stock.serve(output, images, tmp_path, onednn=onednn)
        gh.assert_equal([found], [model(images, training=False).numpy()])


def test_a_dense_and_a_grouped_convolution_with_filters_of_one_shape(tmp_path):
    """The convolutions are in two regions, which are measured with the same weights."""
    inputs = keras.Input((9, 9, 6), name="images")
    x = keras.ops.cumsum(layers.Conv2D(6, 3)(inputs), axis=1)
    x = layers.Conv2D(6, 3, groups=2)(layers.Conv2D(12, 1)(x))
    model = gh.randomised(keras.Model(inputs, x))
    report = ios_tf.convert(model, str(tmp_path / "converted"), **FAST)
    assert report.blocks == 2
    images = gh.random_array(2, 9, 9, 6)
    converted = tf.saved_model.load(str(tmp_path / "converted"))
    (found,) = converted.signatures["serving_default"](images=images).values()
    gh.assert_equal([found.numpy()], [model(images, training=False).numpy()])


# Keras.


@pytest.mark.parametrize("name", fm.AUGMENTATIONS)
def test_keras_preprocessing(name, tmp_path):
    model = fm.augmented(name)
    photos = networks.smooth_images(3, 14, seed=7)
    expected = model(photos, training=False).numpy()
    networks.assert_sees_mistakes(expected)
    output = str(tmp_path / "converted")
    report = ios_tf.convert(model, output, **FAST)
    assert report.operators > 1
    assert sorted(interface(output)) == ["serve", "serving_default"]
    function = tf.saved_model.load(output).signatures["serving_default"]
    (found,) = function(photo=photos).values()
    assert networks.relative_difference(found.numpy(), expected) < 1e-4


@pytest.mark.parametrize("suffix", [".keras", ".h5", ""])
def test_keras_files_for_inference(suffix, tmp_path):
    model = fm.augmented("random")
    source = str(tmp_path / "model") + suffix
    if suffix:
        model.save(source)
    else:
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint(
            "serve",
            lambda x: model(x, training=False),
            [tf.TensorSpec([None, 14, 14, 3], tf.float32, "photo")],
        )
        archive.write_out(source, verbose=False)
    output = str(tmp_path / "converted")
    assert ios_tf.convert(source, output, **FAST).operators > 1
    photos = networks.smooth_images(3, 14, seed=7)
    (found,) = tf.saved_model.load(output).signatures["serve"](photo=photos).values()
    expected = model(photos, training=False).numpy()
    assert networks.relative_difference(found.numpy(), expected) < 1e-4


def test_keras_models_of_all_kinds(tmp_path):
    """Subclassed and sequential models convert, with or without `training`."""

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.conv = layers.Conv2D(4, 3)

        def call(self, photo):
            return keras.ops.mean(self.conv(photo), (1, 2))

    subclassed = Subclassed()
    photos = fm.images(2)
    subclassed(photos)
    sequential = keras.Sequential(
        [layers.Input((12, 12, 3)), layers.Conv2D(4, 3), layers.Flatten()]
    )
    for i, model in enumerate((subclassed, sequential)):
        output = str(tmp_path / str(i))
        ios_tf.convert(model, output, **FAST)
        (found,) = tf.saved_model.load(output).signatures["serve"](photos).values()
        expected = model(photos).numpy()
        assert networks.relative_difference(found.numpy(), expected) < 1e-4


def test_keras_model_that_is_not_built(tmp_path):
    with pytest.raises(ios_tf.UserError, match="cannot be exported") as error:
        ios_tf.convert(keras.Sequential([layers.Conv2D(4, 3)]), tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not os.path.exists(tmp_path / "out")


# Models that a call changes.


def assert_copied(output: str, source: str, report: ios_tf.Report) -> None:
    assert shared.reasons(report)[-1] is Reason.COPIED
    for directory, _, files in os.walk(source):
        copy = os.path.join(output, os.path.relpath(directory, source))
        copied = {f for f in os.listdir(copy) if os.path.isfile(os.path.join(copy, f))}
        assert copied == set(files)
        _, different, missing = filecmp.cmpfiles(directory, copy, files, shallow=False)
        assert not different
        assert not missing
    assert os.listdir(os.path.join(output, "assets.extra")) == ["ios_tf_report.json"]


@pytest.mark.parametrize(
    ("write", "variable"),
    [
        (fm.counting, "calls"),
        (fm.trained_as_called, "Variable"),
        (fm.rolling_generator, "StateVar"),
    ],
)
def test_what_changes_is_copied(write, variable, tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    calls = write(source)
    report = ios_tf.convert(source, output, **FAST)
    change = report.decisions[0]
    assert (
        change.reason is Reason.CHANGES_VARIABLE and repr(variable) in change.sentence
    )
    assert_copied(output, source, report)
    assert_same_results(output, source, calls)


# Graphs that TensorFlow traces but cannot optimise: the function and the error.
NOT_OPTIMISED = {
    # Grappler rejects an empty slice of a shape as impossible.
    "inference of shapes": (
        lambda x: tf.reshape(
            x, tf.concat([tf.shape(x)[:1], tf.shape(x)[3:1], [5, 4, 8]], 0)
        ),
        "start <= end",
    ),
    # A node that fails when it runs makes the graph invalid after constant folding.
    "constant folding": (
        lambda x: tf.reshape(x[:1], tf.stack([tf.shape(x)[0] * 0 + 1, 7, 4, 8])),
        "evenly divisible",
    ),
}


def sentence_of(report: ios_tf.Report, reason: Reason) -> str:
    (found,) = (one.sentence for one in report.decisions if one.reason is reason)
    return found


def model_with(path: str, last: Callable[[tf.Tensor], tf.Tensor]) -> str:
    filters = tf.constant(gh.random_array(3, 3, 8, 8) / 9)
    module = tf.Module()

    def function(x):
        y = tf.nn.relu(tf.nn.conv2d(x, filters, 1, "SAME"))
        return {"y": y, "z": last(y)}

    fm.save(module, path, function, tf.TensorSpec([None, 5, 4, 8], tf.float32, "x"))
    return path


@pytest.mark.parametrize("name", NOT_OPTIMISED)
def test_what_tensorflow_does_not_optimise_is_copied(name, tmp_path):
    function, message = NOT_OPTIMISED[name]
    model = model_with(str(tmp_path / "model"), function)
    output = str(tmp_path / "out")
    report = ios_tf.convert(model, output, **FAST)
    assert shared.reasons(report) == [Reason.TENSORFLOW_FAILS, Reason.COPIED]
    sentence = sentence_of(report, Reason.TENSORFLOW_FAILS)
    assert all(part in sentence for part in ("'serving_default'", name, message))
    assert "\n" not in sentence
    assert_copied(output, model, report)
    same = ios_tf.optimize(tf.saved_model.load(model).signatures["serving_default"])
    assert shared.reasons(same.report) == [
        Reason.TENSORFLOW_FAILS,
        Reason.ORIGINAL_RUNS,
    ]
    renamed = sentence.replace("serving_default", same.__name__)
    assert sentence_of(same.report, Reason.TENSORFLOW_FAILS) == renamed


def test_mistakes_of_ours_end_a_conversion(tmp_path, monkeypatch):
    model = model_with(str(tmp_path / "model"), tf.identity)

    def broken(graph_def, outputs):
        found = graph_pb2.GraphDef()
        found.CopyFrom(graph_def)
        found.node.add(name="mistake", op="NoSuchOperation")
        found.node[len(graph_def.node) - 1].input.append("^mistake")
        return found

    monkeypatch.setattr(graph_optimizer, "with_single_factors", broken)
    with pytest.raises(tf.errors.OpError, match="NoSuchOperation"):
        ios_tf.convert(model, tmp_path / "out", **FAST)
    assert not os.path.exists(tmp_path / "out")


def test_keras_model_exported_in_training_mode_keeps_its_averages(tmp_path):
    """The batch norm assigns averages that the outputs do not depend on."""
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.augmented("resizing").export(source, verbose=False)
    report = ios_tf.convert(source, output, **FAST)
    assert report.operators
    models = [tf.saved_model.load(path) for path in (source, output)]
    original, converted = (one.signatures["serving_default"] for one in models)
    (name,) = original.structured_input_signature[1]
    for seed in range(2):
        images = fm.images(4, 14, seed=seed)
        (expected,) = original(**{name: images}).values()
        (found,) = converted(**{name: images}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for average in ("moving_mean", "moving_variance"):
        expected, found = (
            [v.numpy() for v in one.variables if average in v.name]
            for one in (original, converted)
        )
        assert len(found) == 1
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


# Interfaces.


def test_what_servers_are_told_is_kept(tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.tf1_classifier(source)
    report = ios_tf.convert(source, output, **FAST)
    assert report.blocks > 0
    before, after = (
        loader_impl.parse_saved_model(path).meta_graphs[0].signature_def
        for path in (source, output)
    )
    assert {key: after[key].method_name for key in before} == {
        "serving_default": "tensorflow/serving/classify",
        "regress": "tensorflow/serving/regress",
        "scaled": "tensorflow/serving/predict",
    }
    assert after["scaled"].defaults == before["scaled"].defaults != {}


def test_signature_without_outputs(tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    module = tf.Module()
    calls = fm.unknown_sizes(source)
    module.loaded = tf.saved_model.load(source)
    network = module.loaded.signatures["serving_default"]
    warm_up = tf.function(lambda: {}, input_signature=[])
    signatures = {"serving_default": network, "warm_up": warm_up}
    tf.saved_model.save(module, source + "2", signatures=signatures)
    report = ios_tf.convert(source + "2", output, signatures="serving_default", **FAST)
    assert report.blocks > 0
    assert tf.saved_model.load(output).signatures["warm_up"]() == {}
    assert_same_results(output, source, calls)
    shout = tf.function(lambda: tf.print("warm") and {}, input_signature=[])
    signatures["warm_up"] = shout
    tf.saved_model.save(module, source + "3", signatures=signatures)
    report = ios_tf.convert(source + "3", output + "3", **FAST)
    assert report.decisions[0].reason is Reason.NO_OUTPUTS
    assert "'warm_up'" in report.decisions[0].sentence
    assert_copied(output + "3", source + "3", report)


def test_output_that_is_a_variable(tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    calls = fm.tf1_variable_output(source)
    assert ios_tf.convert(source, output, **FAST).blocks > 0
    before, after = (
        tf.saved_model.load(path).signatures["serving_default"]
        for path in (source, output)
    )
    for call in calls:
        found, expected = (f(**call.inputs)["y"] for f in (after, before))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_training_that_a_signature_asks_for(tmp_path):
    """A flag does not rule training out if it is an input or defaults to training."""
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    with tf.Graph().as_default(), fm.v1.Session() as session:
        x = fm.v1.placeholder(tf.float32, [None, 12, 12, 3], "x")
        y = fm._tf1_trainable(x)
        flag = session.graph.get_tensor_by_name("is_training:0")
        session.run(fm.v1.global_variables_initializer())
        inputs = {"x": x, "flag": flag}
        fm.v1.saved_model.simple_save(session, source, inputs, {"y": y})
    report = ios_tf.convert(source, output, **FAST)
    assert report.decisions[0].reason is Reason.CHANGES_VARIABLE
    assert_copied(output, source, report)


# Several MetaGraphs.


def test_meta_graphs_have_tags(tmp_path, capfd):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.tf1_two_meta_graphs(source)
    with pytest.raises(ios_tf.UserError, match="--tags=serve or --tags=gpu,serve"):
        ios_tf.convert(source, output)
    with pytest.raises(ios_tf.UserError, match="no MetaGraph with the tags tpu"):
        ios_tf.convert(source, output, tags=["tpu"])
    assert not os.path.exists(output)
    ios_tf.convert(source, output, tags=["serve", "gpu"], **FAST)
    assert_same_results(output, source, fm.batches(), tags=["serve", "gpu"])
    ios_tf.convert(source, output + "2", tags=["serve"], **FAST)
    assert_same_results(output + "2", source, fm.batches(), tags=["serve"])
    for arguments in (
        ["show", output],
        ["show", output, "--tags=serve,gpu"],
        ["export-onnx", source, str(tmp_path / "model.onnx"), "--tags=gpu,serve"],
    ):
        assert main.main(arguments) == 0, capfd.readouterr()
    for arguments in (
        ["complexity", source, "--tags=serve,gpu"],
        ["explore", source, "--tags=serve", "--strategies=sequential"],
        ["export_blocks", source, str(tmp_path / "blocks.json"), "--tags=gpu,serve"],
    ):
        assert benchmark(arguments) == 0, capfd.readouterr()
    assert benchmark(["complexity", source]) == 1
    assert "Select one with" in capfd.readouterr().err


def test_names_that_only_tf1_can_save(tmp_path):
    source, output = str(tmp_path / "model"), str(tmp_path / "converted")
    with tf.Graph().as_default(), fm.v1.Session() as session:
        x = fm.v1.placeholder(tf.float32, [None, 12, 12, 3], "x")
        scale = fm.v1.placeholder(tf.float32, [], "X")
        y = fm._tf1_network(x) * scale
        session.run(fm.v1.global_variables_initializer())
        fm.v1.saved_model.simple_save(
            session, source, {x.name: x, "in/X": scale}, {y.name: y, "the input": x}
        )
    ios_tf.convert(source, output, **FAST)
    assert interface(output) == interface(source)
    inputs = {"x:0": fm.images(2), "in/X": tf.constant(2.0)}
    assert_same_results(output, source, [fm.Call(inputs)])
    again = {"X_0": 1, **dict.fromkeys(interface(output)["serving_default"][0])}
    assert sorted(again) == ["X_0", "in/X", "x:0"]


# Conversions that cannot work fail before the search.


@pytest.fixture
def network(tmp_path) -> str:
    path = str(tmp_path / "model")
    model = fm.Network()
    fm.save(model, path, lambda x: {"y": model(x)}, fm.image_spec())
    return path


def without_search(monkeypatch) -> None:
    def search(self, problems):
        raise AssertionError("the search began")

    monkeypatch.setattr(Searcher, "schedule_all", search)


@pytest.mark.parametrize("step", ["rebuild", "save"])
def test_failure_to_write_comes_before_the_search(step, network, tmp_path, monkeypatch):
    def fail(*arguments):
        raise AssertionError(f"{step} fails\nin many lines")

    without_search(monkeypatch)
    module = frozen_graphs if step == "rebuild" else saved_models
    monkeypatch.setattr(module, step, fail)
    with pytest.raises(
        ios_tf.UserError, match=f"save and load the converted model: {step} fails$"
    ):
        ios_tf.convert(network, tmp_path / "converted")
    assert not os.path.exists(tmp_path / "converted")


@pytest.fixture
def constants(monkeypatch):
    """Keeps weights in the graph as constants."""
    monkeypatch.setattr(function_library, "LARGE_BYTES", 1 << 16)


def spoiled(rewrite):
    """Makes `rewrite` return graphs in which constant weights are changed."""

    def spoil(*arguments):
        graph_def = rewrite(*arguments)
        for node in graph_def.node:
            if (
                node.op == "Const"
                and len(node.attr["value"].tensor.tensor_shape.dim) == 4
            ):
                value = tf.make_ndarray(node.attr["value"].tensor) * 1.5
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        return graph_def

    return spoil


def test_wrong_results_are_not_written(network, constants, tmp_path, monkeypatch):
    without_search(monkeypatch)
    monkeypatch.setattr(graph_optimizer, "rewrite", spoiled(graph_optimizer.rewrite))
    with pytest.raises(ios_tf.UserError) as error:
        ios_tf.convert(network, tmp_path / "converted")
    message = str(error.value)
    assert "signature 'serving_default' would not compute the same" in message
    assert "region 1 of 1 (5 operators, from " in message
    assert "\n" not in message
    assert not os.path.exists(tmp_path / "converted")


def test_wrong_results_after_the_search_are_not_written(
    network, constants, tmp_path, monkeypatch
):
    check = network_check.check

    def spoil(*arguments):
        monkeypatch.setattr(
            graph_optimizer, "rewrite", spoiled(graph_optimizer.rewrite)
        )
        return check(*arguments)

    monkeypatch.setattr(network_check, "check", spoil)
    with pytest.raises(ios_tf.UserError, match="region 1 of 1"):
        ios_tf.convert(network, tmp_path / "converted", **FAST)
    assert not os.path.exists(tmp_path / "converted")


def test_whole_numbers_do_not_hide_wrong_results(constants, tmp_path, monkeypatch):
    model = fm.Network()
    path = str(tmp_path / "model")
    fm.save(model, path, lambda x: {"c": tf.argmax(model(x), -1)}, fm.image_spec())
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].difference is None
    monkeypatch.setattr(graph_optimizer, "rewrite", spoiled(graph_optimizer.rewrite))
    with pytest.raises(ios_tf.UserError, match="region 1 of 1"):
        ios_tf.convert(path, tmp_path / "other")


def assert_left_to_optimizers(report) -> None:
    """Asserts that the report says that the model is copied, and why."""
    assert not report.blocks
    assert shared.reasons(report) == [Reason.OPTIMIZERS_CHANGE_OUTPUTS, Reason.COPIED]
    assert all("\n" not in one.sentence for one in report.decisions)


def test_what_tensorflow_changes_is_not_ours(tmp_path):
    """If TensorFlow's own optimizers change the outputs, the model is copied.

    TensorFlow remaps max(2 x, x) to a leaky ReLU, which is min(2 x, x).
    """
    model = fm.Network()
    path = str(tmp_path / "model")

    def function(x):
        return {"y": model(x, lambda h: tf.maximum(2.0 * h, h))}

    fm.save(model, path, function, fm.image_spec())
    images = fm.images(1)
    expected = function(images)["y"].numpy()
    found = tf.saved_model.load(path).signatures["serving_default"](images)["y"]
    if np.allclose(found, expected, rtol=1e-2):
        pytest.skip("this TensorFlow's optimizers keep the maximum of 2 x and x")
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert_left_to_optimizers(report)
    copied = tf.saved_model.load(str(tmp_path / "converted"))
    np.testing.assert_array_equal(
        copied.signatures["serving_default"](images)["y"], found
    )


def test_a_relu_that_drops_nan_is_not_ours(tmp_path):
    """A model whose NaN TensorFlow's own optimizers drop is copied.

    TensorFlow's fused ReLU turns NaN into 0, whereas a separate ReLU keeps NaN.
    """
    model = fm.Network()
    path = str(tmp_path / "model")

    def function(x):
        return {"y": model(x, lambda h: tf.nn.relu(tf.nn.bias_add(h, tf.ones(8))))}

    def whole(x):
        return function(tf.math.log(x - 0.3))

    fm.save(model, path, whole, fm.image_spec())
    images = fm.images(1)
    assert np.isnan(whole(images)["y"]).all()
    found = tf.saved_model.load(path).signatures["serving_default"](images)["y"]
    if np.isnan(found).any():
        pytest.skip("this TensorFlow's optimizers keep NaN")
    assert_left_to_optimizers(ios_tf.convert(path, tmp_path / "converted", **FAST))
    optimized = ios_tf.optimize(tf.function(whole, [fm.image_spec()]), **FAST)
    np.testing.assert_array_equal(optimized(images)["y"], found)


def test_rounding_that_chooses_otherwise_is_no_failure(tmp_path):
    """The report says that operators after the network amplify rounding errors."""
    model = fm.Network()
    path = str(tmp_path / "model")

    def function(x):
        y = model(x)
        # Amplifies the tiny differences between sums that are computed in two orders.
        return {"noise": tf.math.floormod(y * 1e9, 7.0)}

    fm.save(model, path, function, fm.image_spec())
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].difference > 1e-3
    assert Reason.AFTER_REGIONS in shared.reasons(report)


class Chaotic(fm.Network):
    """A network whose region amplifies rounding errors by a factor of 100,000."""

    def __call__(self, x):
        y = tf.nn.sigmoid(super().__call__(x))
        for _ in range(20):
            y = 3.9 * y * (1.0 - y)
        return y


def test_networks_that_amplify_rounding_convert(tmp_path):
    model, path = Chaotic(), str(tmp_path / "model")
    fm.save(model, path, lambda x: {"y": model(x)}, fm.image_spec())
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].difference > 1e-3
    assert Reason.ROUNDING in shared.reasons(report)


def test_inputs_are_such_that_rounding_hardly_counts(tmp_path):
    """Images with values up to 255 are used, because small values amplify rounding."""
    model, path = fm.Network(), str(tmp_path / "model")

    def function(x):
        y = model(x)
        small = tf.reduce_max(tf.abs(x), [1, 2, 3]) < 2.0
        return {"y": y + tf.where(small, 1e9, 0.0)[:, None] * tf.math.floormod(y, 1e-7)}

    fm.save(model, path, function, fm.image_spec())
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].difference < 1e-5
    assert not {Reason.AFTER_REGIONS, Reason.ROUNDING} & {*shared.reasons(report)}


def test_images_are_smooth_where_noise_is_chaos(tmp_path):
    """Smooth images are compared, because networks may amplify rounding of noise."""
    model, path = fm.Network(), str(tmp_path / "model")

    def function(x):
        edges = tf.reduce_max(tf.abs(x[:, 1:] - x[:, :-1]), [1, 2, 3])
        y = tf.sigmoid(model(x))
        chaos = y
        for _ in range(60):
            chaos = 3.9 * chaos * (1.0 - chaos)
        return {"y": tf.where(edges[:, None] > 0.5, chaos, y)}

    fm.save(model, path, function, fm.image_spec())
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].difference < 1e-5
    assert not {Reason.AFTER_REGIONS, Reason.ROUNDING} & {*shared.reasons(report)}


# Contents of the report.


def test_report_compares_with_tensorflow(network, tmp_path):
    report = ios_tf.convert(network, tmp_path / "converted", batch_size=[1, 4], **FAST)
    (one,) = report.comparisons
    assert one.signature == "serving_default"
    assert 0 <= one.difference < 1e-4
    assert one.batch_sizes == [1, 4, 3]
    assert sorted(one.latencies) == [1, 4]
    assert min(map(min, one.latencies.values())) > 0
    lines = {line[:18].strip(): line for line in report.table().splitlines()}
    assert lines["TensorFlow"].count(" ms") == 2
    assert len(re.findall(r"\d\.\d\dx", lines["converted"])) == 2
    assert lines["largest difference"].endswith("; batch sizes 1, 4, 3)")


def test_says_what_is_not_compared(tmp_path):
    module = fm.Network()
    path = str(tmp_path / "model")

    def function(x, record):
        index = tf.io.parse_tensor(record, tf.int32)
        return {"y": module(x) + tf.cast(index, tf.float32)}

    record = tf.TensorSpec([], tf.string, "record")
    fm.save(module, path, function, fm.image_spec(), record)
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].difference is None
    assert Reason.STRINGS in shared.reasons(report)
    assert "largest difference  not compared" in report.table()


def test_says_that_whole_numbers_are_compared(tmp_path):
    module = fm.Network()
    path = str(tmp_path / "model")
    fm.save(
        module, path, lambda x: {"class": tf.argmax(module(x), -1)}, fm.image_spec()
    )
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    (one,) = report.comparisons
    assert one.difference is None and one.equal
    row = "largest difference  equal (no floating-point outputs; batch sizes 1, 3)"
    assert row in report.table()
    unequal = dataclasses.replace(one, equal=False)
    report = dataclasses.replace(report, comparisons=[unequal])
    assert (
        "not equal everywhere, see the notes (no floating-point outputs"
        in report.table()
    )


@pytest.mark.parametrize("hidden", [False, True])
def test_models_for_images_of_one_size_only(hidden, tmp_path):
    """The model does not state its image size; the importer may or may not see it."""
    module = tf.Module()
    random = np.random.default_rng(0)
    module.first = tf.Variable(random.normal(size=[3, 3, 3, 8]).astype(np.float32))
    module.last = tf.Variable(random.normal(size=[3, 3, 8, 8]).astype(np.float32))
    module.positions = tf.Variable(random.normal(size=[1, 20, 12, 8]), dtype=tf.float32)

    def function(x):
        y = tf.nn.relu(tf.nn.conv2d(x, module.first, 2, "SAME"))
        if hidden:
            y = tf.reverse(tf.ensure_shape(y, [None, 20, 12, 8]), [1])
        y = tf.nn.relu(tf.nn.conv2d(y + module.positions, module.last, 1, "SAME"))
        return {"y": y}

    path = str(tmp_path / "model")
    fm.save(module, path, function, tf.TensorSpec([None, None, None, 3], name="x"))
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    (one,) = report.comparisons
    assert one.difference < 1e-4
    assert one.batch_sizes == [1, 3]
    assert list(one.latencies) == [1]
    assert ("Conv2D" in report.left_to_tensorflow) is hidden


def test_models_that_take_one_batch_size_only(tmp_path):
    module = fm.Network()
    path = str(tmp_path / "model")

    def function(x):  # its signature allows any batch, but it takes only 8
        return {"y": tf.matmul(tf.ones([2, 8]), module(x))}

    fm.save(module, path, function, fm.image_spec())
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.comparisons[0].batch_sizes == [8]
    assert report.comparisons[0].difference < 1e-4


def test_random_models_are_not_compared(tmp_path):
    module = fm.Network()
    path = str(tmp_path / "model")
    fm.save(
        module, path, lambda x: {"y": module(x) + tf.random.normal([])}, fm.image_spec()
    )
    report = ios_tf.convert(path, tmp_path / "converted", **FAST)
    assert report.operators
    assert Reason.NOT_REPEATABLE in shared.reasons(report)


def test_signature_without_a_batch(tmp_path):
    source = str(tmp_path / "model")
    fm.one_image(source)
    report = ios_tf.convert(source, tmp_path / "converted", batch_size=8, **FAST)
    assert Reason.FIXED_BATCH_SIZE in shared.reasons(report)
    with pytest.raises(
        ios_tf.UserError, match="no input whose first dimension is open"
    ):
        ios_tf.convert(source, tmp_path / "other", batch_size=[1, 8])


def test_names_where_convolutions_are_left(tmp_path):
    source = str(tmp_path / "model")
    model = fm.Network()

    def function(x):
        for _ in tf.range(2):
            x = tf.nn.conv2d(model.features(x), model.c[:, :, :6, :3], 1, "SAME")
        return {"y": x}

    fm.save(model, source, function, fm.image_spec())
    report = ios_tf.convert(source, tmp_path / "converted", **FAST)
    inside = report.decisions[0]
    assert (inside.reason, inside.count) == (Reason.INSIDE_FUNCTION, 4)
    assert "loops and branches" in inside.sentence


def test_names_convolutions_of_other_kinds(tmp_path):
    film = keras.Input((4, 8, 8, 3))
    report = ios_tf.convert(
        keras.Model(film, layers.Conv3D(2, 3)(film)), tmp_path / "converted"
    )
    assert shared.reasons(report) == [Reason.NO_CONVOLUTION, Reason.COPIED]
    (left,) = (one for one in report.decisions if one.types == {"Conv3D": 1})
    assert left.reason is Reason.CONVOLUTION_TYPE and len(left.nodes) == 1


def test_names_them_beside_those_that_convert(tmp_path):
    film = keras.Input((4, 8, 8, 3))
    images = layers.Reshape((8, 8, 6))(layers.Conv3D(2, 3, padding="same")(film)[:, :3])
    report = ios_tf.convert(
        keras.Model(film, layers.Conv2D(4, 3)(images)), tmp_path / "converted", **FAST
    )
    assert report.operators
    (left,) = (one for one in report.decisions if "Conv3D" in one.types)
    assert left.reason is Reason.CONVOLUTION_TYPE and left.types == {"Conv3D": 1}
    assert str(left) in report.notes


def test_two_names_of_a_function_with_a_loop_are_one(tmp_path):
    image = keras.Input((9, 9, 3))
    x = layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    model = keras.Model(image, layers.GRU(5)(layers.Reshape((81, 4))(x)))
    model.export(tmp_path / "model", verbose=False)  # serve, serving_default
    report = ios_tf.convert(tmp_path / "model", tmp_path / "out", **FAST)
    assert len(report.comparisons) == 1
    converted = tf.saved_model.load(tmp_path / "out")
    images = gh.random_array(2, 9, 9, 3)
    for signature in converted.signatures.values():
        (found,) = signature(tf.constant(images)).values()
        gh.assert_equal([found.numpy()], [model(images).numpy()])


def test_what_cannot_be_frozen_is_one_line(tmp_path, capfd):
    source = str(tmp_path / "model")
    fm.counting(source)
    assert benchmark(["complexity", source]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "signature 'serving_default' changes the variable 'calls'" in line
