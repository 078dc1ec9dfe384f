"""Functions of ios_tf.direct give the results and errors of the original functions."""

import itertools
import pickle
import tempfile

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from shared import FAST
from threads import in_threads

import ios_tf


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A converted SavedModel with two inputs, which its signature names."""
    directory = tmp_path_factory.mktemp("direct")
    image = keras.Input((12, 12, 3), name="image")
    hint = keras.Input((4,), name="hint")
    a = keras.layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    b = keras.layers.Conv2D(8, 1, padding="same", activation="relu")(image)
    pooled = keras.layers.GlobalAveragePooling2D()(keras.layers.Add()([a, b]))
    joined = keras.layers.Concatenate()([pooled, hint])
    outputs = {"sum": keras.layers.Dense(5)(joined), "hint": 2 * hint}
    model = gh.randomised(keras.Model({"image": image, "hint": hint}, outputs))
    path = str(directory / "converted")
    ios_tf.convert(model, path, cache_dir=str(directory / "cache"), **FAST)
    return tf.saved_model.load(path)


def test_a_converted_signature_runs_on_the_engine(converted):
    signature = converted.signatures["serving_default"]
    serve = ios_tf.direct(signature)
    assert repr(serve).startswith("<direct function signature")
    zeros = {"image": tf.zeros([1, 12, 12, 3]), "hint": tf.zeros([1, 4])}
    assert gh.executed_ops(serve, **zeros)["IosRegion"] == 1
    for batch in (1, 3):
        inputs = {
            "hint": gh.random_array(batch, 4),
            "image": gh.random_array(batch, 12, 12, 3),
        }
        tensors = {name: tf.constant(x) for name, x in inputs.items()}
        expected = signature(**tensors)
        gh.assert_same(serve(**tensors), expected)
        gh.assert_same(serve(**inputs), expected)  # numpy arrays
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(serve)


@pytest.mark.parametrize(
    "inputs",
    [
        {"image": tf.zeros([1, 12, 12, 3])},
        {"image": None, "hint": tf.zeros([1, 4])},
        {"image": tf.zeros([1, 12, 12, 3]), "hint": tf.zeros([1, 4]), "x": 1.0},
        {"image": tf.zeros([1, 12, 12, 4]), "hint": tf.zeros([1, 4])},
        {"image": tf.zeros([1, 12, 12, 3], tf.int32), "hint": tf.zeros([1, 4])},
        {"image": "cat.png", "hint": tf.zeros([1, 4])},
    ],
    ids=["missing", "none", "unknown", "shape", "type", "string"],
)
def test_wrong_inputs(converted, inputs):
    signature = converted.signatures["serving_default"]
    found = []
    for one in (signature, ios_tf.direct(signature)):
        with pytest.raises((TypeError, tf.errors.InvalidArgumentError)) as info:
            one(**inputs)
        found.append((info.type, str(info.value)))
    assert found[0] == found[1]


def test_arguments_that_have_names_only():
    module = tf.Module()
    spec = tf.TensorSpec([1])
    module.f = tf.function(
        lambda minuend, base: {"y": minuend - base}, input_signature=[spec, spec]
    )
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(module, directory, signatures={"f": module.f})
        loaded = tf.saved_model.load(directory)
    a, b = tf.constant([10.0]), tf.constant([1.0])
    direct = ios_tf.direct(loaded.signatures)
    assert direct(minuend=a, base=b)["y"].numpy() == direct(base=b, minuend=a)["y"]
    assert direct(minuend=a, base=b)["y"].numpy() == [9.0]
    with pytest.raises(TypeError, match="too many positional arguments"):
        direct(a, b)


def test_shapes_that_tensorflow_accepts():
    function = tf.function(lambda x: x + 1).get_concrete_function(
        tf.TensorSpec([1, 2], name="x")
    )
    # TensorFlow does not check the shape of a signature's tensor.
    x = tf.zeros([3, 2])
    found = []
    for one in (function, ios_tf.direct(function)):
        try:
            found.append(one(x=x).numpy().tolist())
        except TypeError as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_keras_models():
    image = keras.Input((4,), name="image")
    outputs = keras.layers.BatchNormalization()(keras.layers.Dense(3)(image))
    model = keras.Model(image, outputs)
    direct, x = ios_tf.direct(model), tf.constant(gh.random_array(2, 4))
    gh.assert_same(direct(x), model(x))
    gh.assert_same(direct([x]), model(x))
    gh.assert_same(direct(x, training=True), model(x, training=True))
    sparse = keras.Input((4,), sparse=True)
    model = keras.Model(sparse, keras.layers.Dense(3)(sparse))
    x = tf.sparse.from_dense(x)
    gh.assert_same(ios_tf.direct(model)(x), model(x))


def test_structures():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], name="x"),
            {"b": tf.TensorSpec([], tf.int32), "a": tf.TensorSpec([1])},
        ]
    )
    def function(x, more):
        rows = tf.RaggedTensor.from_row_splits(x[:, 0], [0, 1, 3])
        return {"z": (x + more["a"], None), "a": [more["b"], "text", rows]}

    arguments = tf.ones([3, 2]), {"b": tf.constant(7), "a": tf.constant([2.0])}
    direct = ios_tf.direct(function)
    gh.assert_same(direct(*arguments), function(*arguments))
    gh.assert_same(direct(x=arguments[0], more=arguments[1]), function(*arguments))


def test_variables_keep_their_values_and_changes():
    variable, factor = tf.Variable(1.0), tf.Variable(3.0)

    @tf.function(input_signature=[tf.TensorSpec([])])
    def function(x):
        variable.assign_add(x)
        return factor * x

    direct = ios_tf.direct(function)
    assert direct(tf.constant(2.0)).numpy() == 6.0
    assert variable.numpy() == 3.0
    factor.assign(5.0)
    assert direct(tf.constant(2.0)).numpy() == 10.0
    assert variable.numpy() == 5.0


def test_no_outputs():
    variable = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([])])
    def function(x):
        variable.assign_add(x)

    assert ios_tf.direct(function)(tf.constant(2.0)) is None
    assert variable.numpy() == 3.0


def test_outputs_that_are_lists_of_tensors():
    @tf.function(input_signature=[tf.TensorSpec([2])])
    def function(x):
        return tf.raw_ops.TensorListFromTensor(
            tensor=x, element_shape=tf.zeros([0], tf.int32)
        )

    handle = ios_tf.direct(function)(tf.constant([4.0, 5.0]))
    values = tf.raw_ops.TensorListStack(
        input_handle=handle,
        element_shape=tf.zeros([0], tf.int32),
        element_dtype=tf.float32,
    )
    np.testing.assert_array_equal(values, [4.0, 5.0])


def test_gradients():
    weight = tf.Variable(3.0)

    @tf.function(input_signature=[tf.TensorSpec([])])
    def function(x):
        return weight * x * x

    direct, x = ios_tf.direct(function), tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = direct(x)
    # d(w x x)/dx = 2 w x, and d(w x x)/dw = x x.
    found = tape.gradient(y, [x, weight])
    assert [one.numpy() for one in found] == [12.0, 4.0]


def test_inside_of_a_function(converted):
    signature = converted.signatures["serving_default"]
    serve = ios_tf.direct(signature)
    outer = tf.function(lambda **inputs: serve(**inputs)["sum"] + 1)
    inputs = {
        "image": tf.constant(gh.random_array(2, 12, 12, 3)),
        "hint": tf.constant(gh.random_array(2, 4)),
    }
    gh.assert_same(outer(**inputs), signature(**inputs)["sum"] + 1)


def test_an_error_while_it_runs_names_the_operation():
    @tf.function(input_signature=[tf.TensorSpec([])])
    def function(x):
        with tf.control_dependencies([tf.debugging.assert_positive(x, name="check")]):
            return tf.identity(x)

    messages = []
    for one in (function, ios_tf.direct(function)):
        with pytest.raises(tf.errors.InvalidArgumentError) as info:
            one(tf.constant(-1.0))
        messages.append(str(info.value))
    assert messages[0].count("Detected at node") == 1
    assert [one.split("[Op:")[0] for one in messages] == [
        messages[0].split("[Op:")[0]
    ] * 2


def test_captures_that_are_read_at_the_time_of_a_call():
    values = itertools.count(10.0, 10.0)

    def function(x):
        graph = tf.compat.v1.get_default_graph()
        now = graph.capture_call_time_value(
            lambda: tf.constant(next(values)), tf.TensorSpec([])
        )
        return x + now

    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([]))
    direct = ios_tf.direct(concrete)
    first = direct(tf.constant(1.0)).numpy()
    assert direct(tf.constant(1.0)).numpy() > first


def test_many_threads(converted):
    signature = converted.signatures["serving_default"]
    serve = ios_tf.direct(signature)
    images = [tf.constant(gh.random_array(1, 12, 12, 3)) for _ in range(8)]
    hint = tf.zeros([1, 4])
    expected = [signature(image=x, hint=hint)["sum"].numpy() for x in images]

    def calls(i):
        return [serve(image=images[i], hint=hint)["sum"].numpy() for _ in range(50)]

    for one, truth in zip(in_threads(calls, range(8)), expected, strict=True):
        gh.assert_equal(one, [truth] * 50)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("model", r"ios_tf\.direct does not accept a path"),
        (3, r"ios_tf\.direct does not accept objects of type int"),
        (lambda x: x, "has no fixed signature"),
        (tf.function(lambda x: x), "has no input_signature"),
    ],
    ids=["path", "number", "function", "tf.function"],
)
def test_bad_arguments(argument, message):
    with pytest.raises(ios_tf.UserError, match=message):
        ios_tf.direct(argument)


def test_a_direct_function_is_refused(converted):
    serve = ios_tf.direct(converted.signatures["serving_default"])
    with pytest.raises(ios_tf.UserError, match="already direct"):
        ios_tf.direct(serve)
