"""SavedModels as users write them: by hand, with Keras, and with TF1.
Every function of `MODELS` writes a model and returns the calls for comparing it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ios_tf.models.calibration import calibrate

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a signature."""

    inputs: Mapping[str, Any]
    signature: str = "serving_default"


MODELS: dict[str, Callable[[str], Sequence[Call]]] = {}


def foreign_model(
    write: Callable[[str], Sequence[Call]],
) -> Callable[[str], Sequence[Call]]:
    MODELS[write.__name__] = write
    return write


def images(batch: int, size: int = 12, channels: int = 3, seed: int = 0) -> tf.Tensor:
    random = np.random.default_rng([seed, batch])
    shape = (batch, size, size, channels)
    return tf.constant(random.uniform(-1, 1, shape).astype(np.float32))


def photographs(batch: int, size: int = 12) -> tf.Tensor:
    return tf.cast((images(batch, size) + 1) * 127.5, tf.uint8)


class Network(tf.Module):
    """Two branches of convolutions that join."""

    def __init__(self, channels: int = 3, seed: int = 0):
        super().__init__()
        random = np.random.default_rng(seed)

        def weight(*shape: int) -> tf.Variable:
            scale = np.prod(shape[:-1]) ** -0.5
            return tf.Variable(random.normal(0, scale, shape).astype(np.float32))

        self.a = weight(3, 3, channels, 8)
        self.b = weight(1, 1, channels, 8)
        self.c = weight(1, 1, 16, 6)

    def features(self, x: tf.Tensor, activation=tf.nn.relu) -> tf.Tensor:
        a = activation(tf.nn.conv2d(x, self.a, 1, "SAME"))
        b = activation(tf.nn.conv2d(x, self.b, 1, "SAME"))
        return tf.nn.conv2d(tf.concat([a, b], -1), self.c, 1, "SAME")

    def __call__(self, x: tf.Tensor, activation=tf.nn.relu) -> tf.Tensor:
        return tf.reduce_mean(self.features(x, activation), [1, 2])


def image_spec(
    name: str = "x", dtype: tf.DType = tf.float32, size: int | None = 12
) -> tf.TensorSpec:
    return tf.TensorSpec([None, size, size, 3], dtype, name)


def save(module: tf.Module, path: str, function: Any, *specs: tf.TensorSpec) -> None:
    """Saves a module with a signature that is made from a Python function."""
    module.function = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, path, signatures=module.function)


def batches(name: str = "x", make: Callable[[int], tf.Tensor] = images) -> list[Call]:
    return [Call({name: make(batch)}) for batch in (1, 3)]


# Custom gradients.


@foreign_model
def swish(path: str) -> Sequence[Call]:
    """tf.nn.silu, which has a custom gradient, is in the graph and in a loop's body."""
    network = Network()

    def function(x):
        y = network(x, tf.nn.silu)
        for _ in tf.range(2):
            y = tf.nn.silu(y) + 1.0
        return {"y": y}

    save(network, path, function, image_spec())
    return batches()


@foreign_model
def custom_gradient(path: str) -> Sequence[Call]:
    network = Network()

    @tf.custom_gradient
    def clipped(x):
        y = tf.minimum(tf.nn.relu(x), 0.7)
        return y, lambda upstream: upstream * network.a[0, 0, 0, 0]

    @tf.custom_gradient
    def two(x):
        return (x * 2.0, x + 1.0), lambda a, b: a + b

    def function(x):
        y = network(x, clipped)
        a, b = two(y)
        z = tf.recompute_grad(lambda v: tf.nn.relu(v) * 3.0)(a)
        return {"a": z, "b": b}

    save(network, path, function, image_spec())
    return batches()


# Bodies of loops and branches that constant folding changes.


def encoded(batch: int) -> tf.Tensor:
    return tf.stack([tf.io.encode_png(image) for image in photographs(batch)])


@foreign_model
def mapped_decoding(path: str) -> Sequence[Call]:
    network = Network()

    def decode(content):
        image = tf.io.decode_image(content, channels=3, expand_animations=False)
        image = tf.image.resize(tf.cast(image, tf.float32), [12, 12])
        return image / 127.5 - 1.0

    def function(content):
        x = tf.map_fn(decode, content, fn_output_signature=tf.float32)
        return {"y": network(tf.reshape(x, [-1, 12, 12, 3]))}

    save(network, path, function, tf.TensorSpec([None], tf.string, "content"))
    return batches("content", encoded)


def records(path: str) -> None:
    """Saves a SavedModel with two regions and records that decode to images."""
    network = Network()

    def function(record):
        x = tf.map_fn(
            lambda one: tf.ensure_shape(tf.io.parse_tensor(one, tf.float32), [9, 9, 3]),
            record,
            tf.TensorSpec([9, 9, 3]),
        )
        x = tf.math.cumsum(network.features(x), 3)[..., :3]
        return {"y": network(x)}

    save(network, path, function, tf.TensorSpec([None], tf.string, "record"))


@foreign_model
def ragged_preprocessing(path: str) -> Sequence[Call]:
    network = Network()

    def function(values, lengths):
        rows = tf.RaggedTensor.from_row_lengths(values, lengths)
        means = tf.map_fn(
            lambda row: tf.reduce_sum(row / 127.5 - 1.0),
            rows,
            fn_output_signature=tf.TensorSpec([], tf.float32),
        )
        x = tf.tile(means[:, None, None, None], [1, 12, 12, 3])
        return {"y": network(x * tf.reshape(tf.range(432.0) / 432.0, [12, 12, 3]))}

    save(
        network,
        path,
        function,
        tf.TensorSpec([None], tf.float32, "values"),
        tf.TensorSpec([None], tf.int64, "lengths"),
    )
    return [
        Call(
            {"values": tf.range(6.0) * 30, "lengths": tf.constant([1, 2, 3], tf.int64)}
        )
    ]


@foreign_model
def loops_and_branches(path: str) -> Sequence[Call]:
    network = Network()

    def function(x, n):
        def shifted():
            return tf.cond(n > 3, lambda: x / 127.5 - 1.0, lambda: x * 2.0 + 1.0)

        x = tf.cond(n > 1, shifted, lambda: x)
        y = network(x)
        for i in tf.range(n):
            y = tf.switch_case(
                i % 3,
                [
                    lambda y=y: y / 3.0 + 1.0,
                    lambda y=y: y - tf.constant(2.0) * 3.0,
                    lambda y=y: tf.nn.softmax(y),
                ],
            )
        return {"y": y}

    save(network, path, function, image_spec(), tf.TensorSpec([], tf.int32, "n"))
    return [Call({"x": images(2), "n": tf.constant(n)}) for n in (0, 2, 5)]


# Keras.


def _head(x: Any) -> Any:
    x = layers.Conv2D(6, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.Dropout(0.5)(x)
    return layers.Dense(4)(layers.GlobalAveragePooling2D()(x))


def augmented(name: str, seed: int = 0) -> keras.Model:
    """A Keras network that starts with one kind of preprocessing layer."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((14, 14, 3), name="photo")
    x = {
        "resizing": lambda x: layers.Resizing(12, 12)(x),
        "center_crop": lambda x: layers.CenterCrop(10, 10)(x),
        "random": lambda x: layers.RandomContrast(0.2)(
            layers.RandomZoom(0.1)(layers.RandomRotation(0.1)(layers.RandomFlip()(x)))
        ),
        "normalization": lambda x: layers.Rescaling(2.0, offset=-1)(
            layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[0.4, 0.5, 0.6])(x)
        ),
    }[name](inputs)
    model = keras.Model(inputs, _head(x))
    calibrate(model, seed, images=4)
    return model


AUGMENTATIONS = ("resizing", "center_crop", "random", "normalization")


@foreign_model
def keras_lookup(path: str) -> Sequence[Call]:
    """Words and numbers from a dictionary, beside an image."""
    words = keras.Input((1,), dtype="string", name="words")
    numbers = keras.Input((1,), dtype="int64", name="numbers")
    photo = keras.Input((12, 12, 3), name="photo")
    vocabulary = layers.StringLookup(vocabulary=["cat", "dog"], output_mode="one_hot")
    indices = layers.IntegerLookup(vocabulary=[3, 7, 9], output_mode="one_hot")
    x = layers.Concatenate()([_head(photo), vocabulary(words), indices(numbers)])
    outputs = {"scores": layers.Dense(3)(x), "features": x}
    model = keras.Model({"words": words, "numbers": numbers, "photo": photo}, outputs)
    model.export(path, verbose=False)
    return [
        Call(
            {
                "words": tf.constant([["dog"], ["bird"]]),
                "numbers": tf.constant([[7], [1]], tf.int64),
                "photo": images(2),
            }
        )
    ]


@foreign_model
def keras_recurrent(path: str) -> Sequence[Call]:
    """Convolutions of a film's frames, and RNNs over their features."""
    film = keras.Input((4, 12, 12, 3), name="film")
    x = layers.TimeDistributed(layers.Conv2D(5, 3, activation="relu"))(film)
    x = layers.TimeDistributed(layers.GlobalAveragePooling2D())(x)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    outputs = layers.GRU(3)(x)
    keras.Model(film, outputs).export(path, verbose=False)
    return [
        Call({"film": tf.reshape(images(4 * batch), [batch, 4, 12, 12, 3])})
        for batch in (1, 3)
    ]


# TF1.


def _tf1_network(x: tf.Tensor, use_resource: bool = False) -> tf.Tensor:
    random = np.random.default_rng(5)
    with v1.variable_scope("net", use_resource=use_resource):

        def conv(x, name, kernel, filters):
            shape = (kernel, kernel, int(x.shape[-1]), filters)
            value = random.normal(0, 0.3, shape).astype(np.float32)
            weights = v1.get_variable(name, initializer=value)
            return tf.nn.conv2d(x, weights, 1, "SAME")

        a, b = tf.nn.relu(conv(x, "a", 3, 6)), tf.nn.relu(conv(x, "b", 1, 6))
        return tf.reduce_mean(conv(tf.concat([a, b], -1), "c", 1, 4), [1, 2])


def _simple_save(
    path: str,
    network: Callable[[tf.Tensor], tf.Tensor],
    shape: Sequence[int | None] = (None, 12, 12, 3),
) -> Sequence[Call]:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, shape)
        y = network(x)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"x": x}, {"y": y})
    return batches()


@foreign_model
def tf1_simple_save(path: str) -> Sequence[Call]:
    return _simple_save(path, _tf1_network)


@foreign_model
def tf1_unused_variables(path: str) -> Sequence[Call]:
    """The model has variables for training that no signature reads."""

    def trained(x: tf.Tensor) -> tf.Tensor:
        y = _tf1_network(x, use_resource=True)
        step = v1.train.create_global_step()
        with v1.variable_scope("optimizer", use_resource=True):
            v1.train.AdamOptimizer().minimize(tf.reduce_sum(y), step)
        return y

    return _simple_save(path, trained)


@contextlib.contextmanager
def _switches_and_merges() -> Iterator[None]:
    """Writes control flow as TensorFlow 1 did: Switch, Merge, Enter, Exit."""
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def _tf1_trainable(x: tf.Tensor) -> tf.Tensor:
    """Batch normalisations whose mode depends on one flag of the graph."""
    training = v1.placeholder_with_default(False, [], "is_training")
    for i in range(4):
        x = tf.nn.relu(_batch_norm(_tf1_layer(x, f"layer{i}"), f"norm{i}", training))
    kept = v1.cond(tf.logical_not(training), lambda: x, lambda: tf.nn.dropout(x, 0.5))
    return tf.reduce_mean(kept, [1, 2])


def _tf1_layer(x: tf.Tensor, name: str) -> tf.Tensor:
    value = np.random.default_rng(3).normal(0, 0.3, (3, 3, x.shape[-1], 6))
    weights = v1.get_variable(name, initializer=value.astype(np.float32))
    return tf.nn.conv2d(x, weights, 1, "SAME")


def _batch_norm(x: tf.Tensor, name: str, training: tf.Tensor) -> tf.Tensor:
    scale, shift = tf.ones(x.shape[-1]), tf.zeros(x.shape[-1])
    with v1.variable_scope(name, use_resource=True):
        mean, variance = (
            v1.get_variable(one, initializer=tf.fill(x.shape[-1:], value))
            for one, value in (("mean", 0.2), ("variance", 1.5))
        )

    def of_batch() -> tf.Tensor:
        y, *moments = v1.nn.fused_batch_norm(x, scale, shift)
        updates = [
            variable.assign(0.9 * variable + 0.1 * moment)
            for variable, moment in zip((mean, variance), moments, strict=True)
        ]
        with tf.control_dependencies(updates):
            return tf.identity(y)

    def of_training() -> tf.Tensor:
        return v1.nn.fused_batch_norm(
            x, scale, shift, mean, variance, is_training=False
        )[0]

    return v1.cond(training, of_batch, of_training)


@foreign_model
def tf1_trainable(path: str) -> Sequence[Call]:
    return _simple_save(path, _tf1_trainable)


@foreign_model
def tf1_trainable_by_switches(path: str) -> Sequence[Call]:
    with _switches_and_merges():
        return _simple_save(path, _tf1_trainable)


@foreign_model
def unknown_channels(path: str) -> Sequence[Call]:
    def network(x: tf.Tensor) -> tf.Tensor:
        return _tf1_network(tf.ensure_shape(x, [None, None, None, 3]))

    return _simple_save(path, network, [None] * 4)


def _save_tf1(
    path: str, signatures: Callable[[tf.Tensor], dict[str, Any]]
) -> Sequence[Call]:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 12, 12, 3], "x")
        made = signatures(x)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, ["serve"], made)
        builder.save()
    return batches()


def tf1_classifier(path: str) -> None:
    """Signatures for TensorFlow Serving's Classify and Regress; one has a default."""

    def signatures(x):
        y = tf.reshape(_tf1_network(x), [tf.shape(x)[0], -1])
        classes = tf.strings.as_string(tf.argsort(y))
        scale = v1.placeholder(tf.float32, [], "scale")
        scaled = v1.saved_model.predict_signature_def(
            {"x": x, "scale": scale}, {"y": y * scale}
        )
        scaled.defaults["scale"].CopyFrom(tf.make_tensor_proto(2.0))
        made = v1.saved_model.predict_signature_def
        classify, regress = (
            made({"inputs": x}, {"scores": y, "classes": classes}),
            made({"inputs": x}, {"outputs": y[:, :1]}),
        )
        classify.method_name = "tensorflow/serving/classify"
        regress.method_name = "tensorflow/serving/regress"
        return {"serving_default": classify, "regress": regress, "scaled": scaled}

    _save_tf1(path, signatures)


def tf1_variable_output(path: str) -> Sequence[Call]:
    """One of the outputs is a variable's handle."""

    def signatures(x):
        outputs = {"y": _tf1_network(x), "step": v1.train.get_or_create_global_step()}
        return {
            "serving_default": v1.saved_model.predict_signature_def({"x": x}, outputs)
        }

    return _save_tf1(path, signatures)


def _vocabulary(path: str) -> str:
    name = path + ".vocabulary.txt"
    with open(name, "w") as file:
        file.write("\n".join(["cat", "dog", "bird", "fish"]))
    return name


def _tf1_tables(path: str, legacy: bool) -> Sequence[Call]:
    """Labels from an asset, a table of words, an assertion and initializers."""
    builder = v1.saved_model.Builder(path)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, None, None, 3], "images")
        word = v1.placeholder(tf.string, [None], "word")
        check = v1.assert_less(v1.reduce_max(x), 10.0, message="too bright")
        with tf.control_dependencies([check]):
            checked = tf.identity(x)
        checked.set_shape([None, 12, 12, 3])
        y = _tf1_network(checked)
        words = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), -1.0
        )
        y += words.lookup(word)[:, None]
        vocabulary = tf.constant(_vocabulary(path), name="vocabulary")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, vocabulary)
        labels = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                vocabulary,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
            ),
            "unknown",
        )
        label = labels.lookup(tf.argmax(y, -1))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        signature = v1.saved_model.predict_signature_def(
            {"images": x, "word": word}, {"scores": y, "label": label}
        )
        arguments = {
            "signature_def_map": {"serving_default": signature},
            "assets_collection": v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        }
        key = "legacy_init_op" if legacy else "main_op"
        builder.add_meta_graph_and_variables(
            session, ["serve"], **{key: v1.tables_initializer()}, **arguments
        )
    builder.save()
    os.remove(path + ".vocabulary.txt")
    return [
        Call({"images": images(batch), "word": tf.constant(["b", "?", "a"][:batch])})
        for batch in (1, 3)
    ]


@foreign_model
def tf1_main_op(path: str) -> Sequence[Call]:
    return _tf1_tables(path, legacy=False)


@foreign_model
def tf1_legacy_init_op(path: str) -> Sequence[Call]:
    return _tf1_tables(path, legacy=True)


@foreign_model
def tf1_control_flow(path: str) -> Sequence[Call]:
    """A branch and a loop of TF1."""

    def network(x: tf.Tensor) -> tf.Tensor:
        y = _tf1_network(x, use_resource=True)
        y = v1.cond(tf.reduce_sum(y) > 0, lambda: y / 127.5 - 1.0, lambda: y * 2.0)
        _, y = v1.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, y * 0.5 + 1.0), [0, y]
        )
        return y

    with _switches_and_merges():
        return _simple_save(path, network)


def tf1_two_meta_graphs(path: str) -> None:
    """A network for the tag "serve" and another one, scaled by 2, for "serve,gpu"."""
    builder = v1.saved_model.Builder(path)
    for tags, scale in ((["serve"], 1.0), (["serve", "gpu"], 2.0)):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 12, 12, 3])
            y = _tf1_network(x) * scale
            session.run(v1.global_variables_initializer())
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            signatures = {"serving_default": signature}
            if tags == ["serve"]:
                builder.add_meta_graph_and_variables(
                    session, tags, signature_def_map=signatures
                )
            else:
                builder.add_meta_graph(tags, signature_def_map=signatures)
    builder.save()


# Interfaces.


@foreign_model
def structured(path: str) -> Sequence[Call]:
    """Several inputs and outputs of several types; one input is unused."""
    network = Network()

    def function(photo, depth, bias, unused):
        x = tf.cast(photo, tf.float32) / 255.0
        x += tf.cast(depth, tf.float32)[..., None] / 100.0
        y = network(x) + tf.cast(bias, tf.float32)
        return {
            "scores": y,
            "again": y,
            "spectrum": tf.signal.fft(tf.cast(y, tf.complex64)),
            "input": photo,
            "constant": tf.constant([1.5, 2.5]),
            "class": tf.argmax(y, -1),
            "quantized": tf.cast(tf.clip_by_value(y * 10, -100, 100), tf.int8),
            "positive": y > 0,
        }

    save(
        network,
        path,
        function,
        image_spec("photo", tf.uint8),
        tf.TensorSpec([None, 12, 12], tf.int32, "depth"),
        tf.TensorSpec([], tf.int8, "bias"),
        tf.TensorSpec([None, 5], tf.float32, "unused"),
    )
    return [
        Call(
            {
                "photo": photographs(batch),
                "depth": tf.random.stateless_uniform(
                    [batch, 12, 12], (1, 2), 0, 100, tf.int32
                ),
                "bias": tf.constant(2, tf.int8),
                "unused": tf.zeros([batch, 5]),
            }
        )
        for batch in (1, 3)
    ]


@foreign_model
def ragged_and_sparse_outputs(path: str) -> Sequence[Call]:
    network = Network()

    def function(x):
        y = network(x)
        ragged = tf.RaggedTensor.from_tensor(y)
        sparse = tf.sparse.from_dense(tf.nn.relu(y))
        return {
            "values": ragged.flat_values,
            "splits": ragged.row_splits,
            "sparse_values": sparse.values,
            "sparse_indices": sparse.indices,
            "nested": tf.nest.flatten({"a": (y, [y + 1.0])})[1],
        }

    save(network, path, function, image_spec())
    return batches()


@foreign_model
def shared_variables(path: str) -> Sequence[Call]:
    """Signatures that share weights, and functions with default arguments."""
    network = Network()

    @tf.function
    def scaled(x, scale=2.0, training=False):
        y = network(x)
        return {"y": y * scale + (1.0 if training else 0.0)}

    network.scaled = scaled
    spec = image_spec()
    tf.saved_model.save(
        network,
        path,
        signatures={
            "serving_default": scaled.get_concrete_function(spec),
            "three": scaled.get_concrete_function(spec, scale=3.0),
            "odd name!": scaled.get_concrete_function(spec, training=True),
        },
    )
    x = images(2)
    return [
        Call({"x": x}, signature)
        for signature in ("serving_default", "three", "odd name!")
    ]


@foreign_model
def odd_names(path: str) -> Sequence[Call]:
    network = Network()

    def function(x):
        with tf.name_scope("a.b-c/d>e"):
            y = network(x)
        return {"out put:0/ü": y, "": y + 1.0} if False else {"out-put.1": y}

    function.__name__ = "f_é"
    save(network, path, function, image_spec("in-put.0"))
    return batches("in_put_0")


@foreign_model
def saved_twice(path: str) -> Sequence[Call]:
    """A SavedModel that was loaded and saved again inside another signature."""
    first = path + ".first"
    loops_and_branches(first)
    module = tf.Module()
    module.loaded = tf.saved_model.load(first)
    function = module.loaded.signatures["serving_default"]
    save(
        module,
        path,
        lambda x: {"z": function(x=x, n=tf.constant(4))["y"] * 2.0},
        image_spec(),
    )
    return batches()


@foreign_model
def compiled_by_xla(path: str) -> Sequence[Call]:
    network = Network()

    @tf.function(jit_compile=True)
    def compiled(x):
        return network(x)

    save(network, path, lambda x: {"y": compiled(x) + 1.0}, image_spec())
    return batches()


@foreign_model
def one_image(path: str) -> Sequence[Call]:
    """A signature without a batch dimension."""
    network = Network()
    save(
        network,
        path,
        lambda image: {"y": network(image[None])[0]},
        tf.TensorSpec([12, 12, 3], tf.float32, "image"),
    )
    return [Call({"image": images(1)[0]})]


@foreign_model
def side_effects(path: str) -> Sequence[Call]:
    """Asserts and prints that only control dependencies keep alive."""
    network = Network()

    def function(x):
        tf.debugging.assert_less(tf.reduce_max(x), 10.0)
        tf.print("called", output_stream=tf.compat.v1.logging.info)
        return {"y": network(tf.ensure_shape(x, [None, 12, 12, 3]))}

    save(network, path, function, tf.TensorSpec(None, tf.float32, "x"))
    return batches()


@foreign_model
def colocated(path: str) -> Sequence[Call]:
    """Nodes with a colocation constraint on nodes that become part of a region."""
    network = Network()

    def function(x):
        a = tf.nn.relu(tf.nn.conv2d(x, network.a, 1, "SAME") / 2.0 * 3.0)
        with v1.colocate_with(a.op.inputs[0].op.inputs[0].op):
            b = tf.nn.relu(tf.nn.conv2d(x, network.a, 1, "SAME"))
        with v1.colocate_with(b.op.inputs[0].op):
            ordered = tf.sort(tf.concat([a, b], -1))
        return {"y": tf.nn.conv2d(ordered, network.c, 1, "SAME")}

    save(network, path, function, image_spec())
    return batches()


@foreign_model
def cases(path: str) -> Sequence[Call]:
    """Branches selected by number, each with its own filter."""
    network = Network()
    filters = [tf.Variable(network.c * factor) for factor in (1.0, 2.0, -1.0)]
    network.filters = filters

    def function(x):
        y = tf.nn.relu(network.features(x))
        y = tf.concat([y, network.features(x), y[..., :4]], -1)
        return {
            "y": tf.switch_case(
                tf.shape(x)[0] % 3,
                [lambda k=k: tf.nn.conv2d(y, k, 1, "SAME") for k in filters],
            )
        }

    save(network, path, function, image_spec())
    return batches()


@foreign_model
def masks(path: str) -> Sequence[Call]:
    """Selections whose masks do not come from a comparison."""
    network = Network()
    fixed = np.random.default_rng(3).random((12, 12, 1)) > 0.5

    def function(x, mask, flag, each):
        y = network.features(x)
        y = tf.where(fixed, y, 0.0)
        y = tf.where(mask, y, network.features(-x))
        y = tf.where(flag, y, tf.nn.relu(y))
        y = tf.where(tf.constant([True, False, True, True, False, True]), y, 1.0)
        return {"y": v1.where(each, y, -y)}

    specs = [
        tf.TensorSpec([None, 12, 12, 1], tf.bool, "mask"),
        tf.TensorSpec([], tf.bool, "flag"),
        tf.TensorSpec([None], tf.bool, "each"),
    ]
    save(network, path, function, image_spec(), *specs)
    random = np.random.default_rng(4)
    return [
        Call(
            {
                "x": images(batch),
                "mask": tf.constant(random.random((batch, 12, 12, 1)) > 0.5),
                "flag": tf.constant(batch % 2 == 0),
                "each": tf.constant(random.random(batch) > 0.5),
            }
        )
        for batch in (1, 2, 5)
    ]


@foreign_model
def tables(path: str) -> Sequence[Call]:
    """A static table in a branch, and a dense hash table."""
    network = Network()
    network.table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, -1.0, empty_key=-1, deleted_key=-2
    )
    network.table.insert(tf.constant([0, 1, 2], tf.int64), [0.5, 1.5, 2.5])
    network.static = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.range(6, dtype=tf.int64), tf.strings.as_string(tf.range(6))
        ),
        "none",
    )

    def function(x):
        y = network(x)
        best = tf.argmax(y, -1)
        known = network.table.lookup(best)
        label = tf.cond(
            tf.reduce_sum(y) > 0,
            lambda: network.static.lookup(best),
            lambda: tf.strings.join(["!", network.static.lookup(best)]),
        )
        return {"y": y + known[:, None], "label": label}

    save(network, path, function, image_spec())
    return batches()


@foreign_model
def learned_table(path: str) -> Sequence[Call]:
    """Every call changes a table, which is not a weight."""
    network = Network()
    network.seen = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, 0.5)

    def function(x, word):
        count = network.seen.lookup(word)
        network.seen.insert(word, count + 1.0)
        return {"y": network(x) * count}

    word = tf.TensorSpec([], tf.string, "word")
    save(network, path, function, image_spec(), word)
    return [Call({"x": images(2), "word": tf.constant("a")})] * 3


@foreign_model
def unknown_sizes(path: str) -> Sequence[Call]:
    network = Network()
    save(network, path, lambda x: {"y": network(x)}, image_spec(size=None))
    return [Call({"x": images(2, size)}) for size in (7, 12)]


@foreign_model
def dataset_inside(path: str) -> Sequence[Call]:
    network = Network()
    network.scale = scale = tf.Variable(0.5)

    def function(x):
        # TensorFlow cannot replace variables by constants inside a dataset's function.
        data = tf.data.Dataset.from_tensor_slices(x).map(lambda v: v / 127.5 - scale)
        total = data.reduce(tf.zeros([12, 12, 3]), lambda a, b: a + b)
        return {"y": network(x + total)}

    save(network, path, function, image_spec())
    return batches()


@foreign_model
def random_and_stateless(path: str) -> Sequence[Call]:
    """The noise has a fixed seed."""
    network = Network()

    def function(x):
        noise = tf.random.stateless_uniform(tf.shape(x), (3, 4))
        return {"y": network(x + noise)}

    save(network, path, function, image_spec())
    return batches()


# Models that a call changes.


def counting(path: str) -> Sequence[Call]:
    """Every call changes a variable inside a branch."""
    network = Network()
    network.calls = tf.Variable(0.0, name="calls")

    def function(x):
        tf.cond(
            tf.reduce_sum(x) > -1e9,
            lambda: network.calls.assign_add(1.0),
            lambda: network.calls.read_value(),
        )
        return {"y": network(x) + network.calls}

    save(network, path, function, image_spec())
    return [Call({"x": images(2)})] * 3


def trained_as_called(path: str) -> Sequence[Call]:
    """One signature computes, and another one changes the weights."""
    network = Network()
    network.predict = tf.function(
        lambda x: {"y": network(x)}, input_signature=[image_spec()]
    )

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "factor")])
    def train(factor):
        network.c.assign(network.c * factor)
        return {"norm": tf.norm(network.c)}

    network.train = train
    signatures = {"serving_default": network.predict, "train": network.train}
    tf.saved_model.save(network, path, signatures=signatures)
    x = images(2)
    return [
        Call({"x": x}),
        Call({"factor": tf.constant(2.0)}, "train"),
        Call({"x": x}),
    ]


def rolling_generator(path: str) -> Sequence[Call]:
    """A random generator's state is also a variable."""
    network = Network()
    network.generator = tf.random.Generator.from_seed(3)

    def function(x):
        return {"y": network(x) + network.generator.normal([])}

    save(network, path, function, image_spec())
    return [Call({"x": images(2)})] * 3
