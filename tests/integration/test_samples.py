"""Comparisons that can fail, with real inputs."""

import collections

import mutations
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

import ios_tf
from ios_tf.conversion.comparison import DifferenceError
from ios_tf.conversion.reference import Reference
from ios_tf.conversion.samples import samples_of
from ios_tf.errors import UserError
from ios_tf.model import frozen_graphs
from ios_tf.model.loading import keras_model_of
from ios_tf.reasons import Reason

SPECS = {
    "image": tf.TensorSpec([None, 2, 2, 3], tf.float32),
    "ids": tf.TensorSpec([None, 4], tf.int64),
}
ARRAYS = {
    "image": np.arange(36, dtype=np.float32).reshape(3, 2, 2, 3),
    "ids": np.arange(12).reshape(3, 4),
}


def read(given, specs=SPECS):
    return samples_of(given).of_signature("serving_default", specs)


def check(found):
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == SPECS[name].dtype


def reference(bias, scale):
    """A function whose output hardly depends on its input, as in random networks."""

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
    def function(x):
        return {"y": bias + scale * tf.reduce_sum(x, 1)}

    frozen = frozen_graphs.freeze("f", function.get_concrete_function())
    return function, frozen


def test_another_function_of_almost_the_same_values_is_refused():
    original, frozen = reference(1.0, 1e-2)
    another, other_graph = reference(1.0, 1.05e-2)
    compared = Reference("f", original, frozen, "cpu")
    assert compared.compare(original, frozen.graph_def, [1]).difference == 0
    with pytest.raises(DifferenceError):
        compared.compare(another, other_graph.graph_def, [1])


def test_an_output_that_does_not_move_is_no_evidence():
    original, frozen = reference(1.0, 1e-12)
    comparison = Reference("f", original, frozen, "cpu").compare(
        original, frozen.graph_def, [1]
    )
    assert comparison.has_no_evidence and comparison.evidence() == ""
    assert Reason.CONSTANT_OUTPUT in shared.reasons(comparison)


def test_networks_without_weights_depend_on_their_input():
    network = keras_model_of("keras:MobileNetV2")
    images = networks.smooth_images(2, 224, seed=7)
    networks.assert_sees_mistakes(network(images).numpy())


def test_arrays_and_npz_files(tmp_path):
    check(read(ARRAYS))
    check(read([{n: a[i : i + 1] for n, a in ARRAYS.items()} for i in range(3)]))
    np.savez(tmp_path / "all.npz", **ARRAYS)
    check(read(tmp_path / "all.npz"))
    check(read(str(tmp_path)))
    only = {"image": SPECS["image"]}
    np.testing.assert_array_equal(read(ARRAYS["image"], only)["image"], ARRAYS["image"])


def test_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (2, 5, 6, 3)).astype(np.uint8)
    for i, one in enumerate(pixels):
        tf.io.write_file(str(tmp_path / f"{i}.png"), tf.io.encode_png(one))
    for dtype in (tf.uint8, tf.float32):
        specs = {"image": tf.TensorSpec([None, None, None, 3], dtype)}
        np.testing.assert_array_equal(read(tmp_path, specs)["image"], pixels)


def test_tf_examples(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    records = []
    with tf.io.TFRecordWriter(path) as writer:
        for image, ids in zip(*ARRAYS.values(), strict=True):
            numbers = tf.train.FloatList(value=image.ravel())
            features = {
                "image": tf.train.Feature(float_list=numbers),
                "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            records.append(example.SerializeToString())
            writer.write(records[-1])
    check(read(path))
    serialized = {"examples": tf.TensorSpec([None], tf.string)}
    assert read(path, serialized)["examples"].tolist() == records


def test_requests_of_tensorflow_serving(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i, signature in enumerate(["", "serving_default", "other", ""]):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "model"
            request.model_spec.version.value = 5
            request.model_spec.signature_name = signature
            for name, array in ARRAYS.items():
                one = array[:1] if signature == "other" else array[i % 3 : i % 3 + 1]
                request.inputs[name].CopyFrom(tf.make_tensor_proto(one))
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())
    found = read(path)
    np.testing.assert_array_equal(found["ids"], ARRAYS["ids"][[0, 1, 0]])
    with pytest.raises(UserError, match="no request for signature 'classify'"):
        samples_of(path).of_signature("classify", SPECS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no.npz", "no such file"),
        (__file__, "samples must be a .npz file"),
        ({}, "samples must be arrays"),
        (3.0, "samples must be arrays"),
        ([], "has no samples"),
        ({"picture": ARRAYS["image"]}, "'picture' is not an input"),
        ({"image": ARRAYS["image"]}, "no samples of input 'ids'"),
        (ARRAYS["image"], "does not name the inputs of its samples"),
        ({**ARRAYS, "ids": ARRAYS["image"]}, "does not match input 'ids' of shape"),
        ({**ARRAYS, "ids": ARRAYS["ids"] * 0.5}, "has type int64, but its samples"),
        ({**ARRAYS, "ids": ARRAYS["ids"][:2]}, "must have the same number of samples"),
        ({**ARRAYS, "ids": ARRAYS["ids"][:0]}, "no samples of input 'ids'"),
    ],
)
def test_what_is_wrong_with_samples_is_one_sentence(given, message):
    with pytest.raises(UserError, match=message) as error:
        read(given)
    assert "\n" not in str(error.value)


def test_a_model_of_serialized_examples_is_compared_with_samples(tmp_path):
    network = networks.branches()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(examples):
        form = {"image": tf.io.FixedLenFeature([17, 17, 3], tf.float32)}
        return {"y": network(tf.io.parse_example(examples, form)["image"])}

    module = tf.Module()
    module.network = network
    source = str(tmp_path / "model")
    tf.saved_model.save(module, source, signatures=serve)
    options = dict(strategy="sequential", warmup_runs=0, runs=1, sample_count=1)
    report = ios_tf.convert(source, tmp_path / "random", **options)
    refused = [one for one in report.decisions if one.reason is Reason.STRINGS]
    assert refused
    for one in refused:
        assert "--samples=FILE.tfrecord" in one.sentence
        assert "codec" not in one.sentence
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for image in networks.smooth_images(4, 17).numpy():
            values = tf.train.FloatList(value=image.ravel())
            feature = {"image": tf.train.Feature(float_list=values)}
            features = tf.train.Features(feature=feature)
            writer.write(tf.train.Example(features=features).SerializeToString())
    samples = tmp_path / "a.tfrecord"
    report = ios_tf.convert(source, tmp_path / "real", samples=samples, **options)
    (one,) = report.comparisons
    assert one.difference < 1e-4 and one.latencies


def test_planted_faults_are_caught():
    counts = mutations.tally(lambda seed: networks._build_branches(17), 10, seed=0)
    total = sum(counts.values(), start=collections.Counter())
    assert total["planted"] == 10 and total["effect"] >= 6
    assert total["caught"] == total["effect"], counts


def test_another_network_is_refused_where_a_softmax_hides_it():
    build = mutations.NETWORKS["MobileNetV2, random"]
    converted = mutations.Converted.of(build(1))
    original = converted.function.frozen.graph_def
    other = mutations.Converted.of(build(2)).function.frozen.graph_def
    random = np.random.default_rng(0)
    assert converted.is_caught(mutations.plant("region", original, other, random))
    assert not converted.is_caught(original)
