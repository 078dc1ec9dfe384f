"""Converted models equal the originals, with and without the plugin."""

import concurrent.futures
import os

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

import ios_tf
from ios_tf.reasons import Reason
from ios_tf.scheduler import STRATEGIES

pytestmark = pytest.mark.usefixtures("cache")


def serve(model: str, images: tf.Tensor) -> np.ndarray:
    (result,) = (
        tf.saved_model.load(model).signatures["serving_default"](images).values()
    )
    return result.numpy()


@pytest.mark.parametrize(
    "build",
    [
        networks.inception_like,
        networks.mobilenet_like,
        networks.densenet_like,
        networks.nasnet_like,
    ],
)
def test_outputs_are_equal(build, tmp_path):
    model = build()
    output = str(tmp_path / "converted")
    report = ios_tf.convert(model, output, **FAST)
    assert report.operators > 20
    # Includes a batch size other than the one that the model was specialised for.
    for batch in (1, 3):
        images = networks.smooth_images(batch, model.input_shape[1], seed=7)
        expected = model(images).numpy()
        found = serve(output, images)
        assert networks.relative_difference(found, expected) < 1e-4
    found = stock.serve(output, images, tmp_path)
    assert networks.relative_difference(found, expected) < 1e-4
    function = tf.saved_model.load(output).signatures["serving_default"]
    ops = gh.executed_ops(function, images)
    assert "IosRegion" in ops
    assert not any("Conv2D" in op for op in ops)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy(strategy, tmp_path):
    images = networks.smooth_images(2, 17, seed=7)
    output = str(tmp_path / "converted")
    report = ios_tf.convert(
        shared.branches(), output, strategy=strategy, batch_size=2, **FAST
    )
    expected = serve(shared.branches(), images)
    assert networks.relative_difference(serve(output, images), expected) < 1e-4
    size = report.sizes[2]
    if strategy == "sequential":
        assert size.stages == report.operators
    if strategy in ("sequential", "merge"):
        assert size.concurrent == 0
    if strategy in ("parallel", "greedy"):
        assert size.merged == 0


class Classifier(tf.Module):
    """A network with everything that may surround a network."""

    def __init__(self, vocabulary: str):
        random = tf.random.Generator.from_seed(1)
        self.a = tf.Variable(random.normal([3, 3, 3, 8]))
        self.b = tf.Variable(random.normal([1, 1, 3, 8]))
        self.c = tf.Variable(random.normal([1, 1, 16, 5]))
        self.d = tf.Variable(random.normal([1, 1, 8, 2]))
        self.labels = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                vocabulary,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
            ),
            "unknown",
        )

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 3], tf.float32, "x")])
    def logits(self, x):
        a = tf.nn.relu(tf.nn.conv2d(x, self.a, 1, "SAME"))
        b = tf.nn.relu(tf.nn.conv2d(x, self.b, 1, "SAME"))
        y = tf.nn.conv2d(tf.concat([a, b], -1), self.c, 1, "SAME")
        return {"logits": tf.reduce_mean(y, [1, 2])}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 16, 16, 3], tf.uint8, "image"),
            tf.TensorSpec([], tf.float32, "temperature"),
        ]
    )
    def label(self, image, temperature):
        logits = self.logits(tf.cast(image, tf.float32) / 255.0)["logits"]
        logits = tf.cond(
            temperature > 0,
            lambda: logits / temperature,
            # A convolution in a branch, which cannot be scheduled.
            lambda: logits + tf.reduce_mean(tf.nn.conv2d(self.a, self.d, 1, "SAME")),
        )
        for _ in tf.range(tf.shape(image)[0]):
            logits = logits * 1.0
        best = tf.argmax(logits, -1)
        return {"label": self.labels.lookup(best), "scores": logits, "best": best}


@pytest.fixture
def classifier(tmp_path) -> str:
    vocabulary = tmp_path / "labels.txt"
    vocabulary.write_text("\n".join(f"class {i}" for i in range(5)))
    module = Classifier(str(vocabulary))
    path = str(tmp_path / "classifier")
    signatures = {
        "label": module.label,
        "logits": module.logits,
        "serving_default": module.logits,
    }
    tf.saved_model.save(module, path, signatures=signatures)
    vocabulary.unlink()
    os.mkdir(path + "/assets.extra")
    with open(path + "/assets.extra/notes", "w") as file:
        file.write("kept")
    return path


def interface(model: str) -> dict:
    """Names, dtypes and shapes of all signatures, as a model server reads them."""
    from tensorflow.python.saved_model import loader_impl

    (graph,) = loader_impl.parse_saved_model(model).meta_graphs
    return {
        name: [
            {
                key: (info.dtype, tf.TensorShape(info.tensor_shape).as_list())
                for key, info in side.items()
            }
            for side in (signature.inputs, signature.outputs)
        ]
        for name, signature in graph.signature_def.items()
        if not name.startswith("__")
    }


def test_what_surrounds_the_network_stays(classifier, tmp_path):
    output = str(tmp_path / "converted")
    report = ios_tf.convert(classifier, output, **FAST)
    assert report.operators
    assert Reason.INSIDE_FUNCTION in shared.reasons(report)
    assert interface(output) == interface(classifier)
    with open(output + "/assets.extra/notes") as file:
        assert file.read() == "kept"
    original, converted = map(tf.saved_model.load, (classifier, output))
    images = tf.cast(networks.smooth_images(3, 16, seed=3) * 60 + 120, tf.uint8)
    for temperature in (2.0, -1.0):
        arguments = {"image": images, "temperature": tf.constant(temperature)}
        expected = original.signatures["label"](**arguments)
        found = converted.signatures["label"](**arguments)
        assert sorted(found) == ["best", "label", "scores"]
        np.testing.assert_array_equal(found["label"], expected["label"])
        difference = networks.relative_difference(
            found["scores"].numpy(), expected["scores"].numpy()
        )
        assert difference < 1e-4
    function = tf.saved_model.load(output).signatures["label"]
    assert "IosRegion" in gh.executed_ops(function, **arguments)


def test_one_signature_only(classifier, tmp_path):
    output = str(tmp_path / "converted")
    ios_tf.convert(classifier, output, signatures=["logits"], **FAST)
    assert interface(output) == interface(classifier)
    converted = tf.saved_model.load(output)
    x = networks.smooth_images(2, 16)
    assert "IosRegion" in gh.executed_ops(converted.signatures["logits"], x)
    assert "IosRegion" not in gh.executed_ops(
        converted.signatures["serving_default"], x
    )
    np.testing.assert_allclose(
        converted.signatures["logits"](x)["logits"],
        converted.signatures["serving_default"](x)["logits"],
        rtol=1e-4,
        atol=1e-4,
    )


def test_equal_signatures_share_their_weights(tmp_path):
    inputs = keras.Input((8, 8, 64))
    x = inputs
    for _ in range(3):
        x = layers.Conv2D(128, 3, use_bias=False)(x)
        x = layers.BatchNormalization()(x)
    model = keras.Model(inputs, x)
    output = str(tmp_path / "converted")
    ios_tf.convert(model, output, strategy="sequential", **FAST)
    assert sorted(interface(output)) == ["serve", "serving_default"]
    variables = os.path.join(output, "variables")
    size = sum(
        os.path.getsize(os.path.join(variables, name)) for name in os.listdir(variables)
    )
    weights = 4 * model.count_params()
    # Batch norms are folded into the convolutions.
    assert 0.9 * weights < size < 1.1 * weights
    assert os.path.getsize(output + "/saved_model.pb") < 0.3 * weights


def test_batch_that_is_fixed(tmp_path):
    module = tf.Module()
    kernel = tf.Variable(tf.random.normal([3, 3, 3, 4]))
    module.kernel = kernel
    module.call = tf.function(
        lambda x: tf.nn.relu(tf.nn.conv2d(x, kernel, 2, "SAME")),
        input_signature=[tf.TensorSpec([5, 9, 9, 3], tf.float32)],
    )
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.call)
    output = str(tmp_path / "converted")
    ios_tf.convert(str(tmp_path / "model"), output, **FAST)
    assert interface(output) == interface(str(tmp_path / "model"))
    images = networks.smooth_images(5, 9)
    np.testing.assert_allclose(
        serve(output, images), module.call(images), rtol=1e-4, atol=1e-4
    )


def test_keras_file(tmp_path):
    model = networks.mobilenet_like(32)
    model.save(tmp_path / "model.keras")
    output = str(tmp_path / "converted")
    ios_tf.convert(tmp_path / "model.keras", output, strategy="greedy", **FAST)
    images = networks.smooth_images(2, 32)
    expected = model(images).numpy()
    assert networks.relative_difference(serve(output, images), expected) < 1e-4


@pytest.mark.usefixtures("calm_machine")
def test_second_conversion_measures_nothing(tmp_path):
    first = ios_tf.convert(shared.branches(), tmp_path / "a", **FAST)
    second = ios_tf.convert(shared.branches(), tmp_path / "b", **FAST)
    size = first.sizes[1]
    assert 0 < size.scheduled_ms <= size.sequential_ms
    assert first.measurements > 0
    assert second.measurements == 0
    assert second.cached_blocks > 0


def test_conversions_in_threads_leave_the_plugin_on(classifier, tmp_path):
    def convert(number):
        fast = {**FAST, "cache_dir": str(tmp_path / f"cache{number}")}
        return ios_tf.convert(classifier, tmp_path / f"out{number}", **fast)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        reports = list(pool.map(convert, range(3)))
    assert all(report.comparisons[0].difference < 1e-4 for report in reports)
    assert ios_tf.status().plugin_runs


def test_bad_arguments_are_user_errors(classifier, tmp_path):
    for bad in (
        {"batch_size": 0},
        {"strategy": "fastest"},
        {"device": "toaster"},
        {"runs": 0},
        {"max_groups": -1},
        {"signatures": ["no"]},
    ):
        with pytest.raises(ios_tf.UserError) as error:
            ios_tf.convert(classifier, tmp_path / "out", **bad)
        assert "\n" not in str(error.value)
    assert not os.path.exists(tmp_path / "out")
