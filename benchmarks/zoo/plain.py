"""Networks without Keras: a tf.Module, and a graph of TensorFlow 1."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from benchmarks.zoo.model import Model, module_model
from ios_tf.models.calibration import structured


def tf_module() -> Model:
    """Two branches written with tf.nn, for float images of any size."""
    random = np.random.default_rng(0)

    def variable(*shape):
        spread = np.sqrt(2 / np.prod(shape[:-1]))
        return tf.Variable(random.normal(0, spread, shape).astype(np.float32))

    stem, head = variable(5, 5, 3, 32), variable(96, 10)
    branches = [variable(1, 1, 32, 32), variable(3, 3, 32, 32), variable(5, 5, 32, 32)]
    bias = variable(32)

    def call(images):
        x = tf.nn.relu(tf.nn.conv2d(images, stem, 2, "SAME") + bias)
        parts = [tf.nn.elu(tf.nn.conv2d(x, b, 1, "SAME")) for b in branches]
        x = tf.reduce_mean(tf.concat(parts, -1), [1, 2])
        return {"logits": tf.matmul(x, head)}

    return module_model(call, [stem, head, *branches, bias], (None, None, None, 3))


def tf1_graph() -> Model:
    """A residual network with TensorFlow 1 variables, batch norms and signature."""
    v1 = tf.compat.v1
    size = 96

    def save(directory: str) -> None:
        random = np.random.default_rng(0)
        examples = structured((2, size, size, 3))
        norms = []

        def conv_norm(x, filters, kernel, stride, name):
            shape = [kernel, kernel, x.shape[-1], filters]
            start = random.normal(0, np.sqrt(2 / np.prod(shape[:3])), shape)
            weights = v1.get_variable(f"{name}/w", initializer=start.astype(np.float32))
            x = tf.nn.conv2d(x, weights, stride, "SAME", name=name)
            vectors = [
                v1.get_variable(f"{name}/{part}", [filters], initializer=start)
                for part, start in (
                    ("gamma", v1.random_uniform_initializer(0.8, 1.2, seed=1)),
                    ("beta", v1.random_uniform_initializer(-0.2, 0.2, seed=2)),
                    ("mean", v1.zeros_initializer()),
                    ("variance", v1.ones_initializer()),
                )
            ]
            norms.append((tf.nn.moments(x, [0, 1, 2]), vectors[2:]))
            return v1.nn.fused_batch_norm(x, *vectors, is_training=False)[0]

        with tf.Graph().as_default(), v1.Session() as session:
            images = v1.placeholder(tf.float32, [None, size, size, 3], "images")
            x = tf.nn.relu(conv_norm(images, 32, 3, 2, "stem"))
            for i, filters in enumerate((32, 64, 128)):
                y = tf.nn.relu(conv_norm(x, filters, 3, 2, f"block{i}/a"))
                y = conv_norm(y, filters, 3, 1, f"block{i}/b")
                x = tf.nn.relu(y + conv_norm(x, filters, 1, 2, f"block{i}/short"))
            start = random.normal(0, 0.1, [128, 10]).astype(np.float32)
            head = v1.get_variable("head", initializer=start)
            logits = tf.matmul(tf.reduce_mean(x, [1, 2]), head, name="logits")
            session.run(v1.global_variables_initializer())
            feed = {images: examples}
            for moments, vectors in norms:  # each depends on the norms before it
                for vector, value in zip(
                    vectors, session.run(moments, feed), strict=True
                ):
                    vector.load(value, session)
            v1.saved_model.simple_save(
                session, directory, {"images": images}, {"logits": logits}
            )

    return Model(save, lambda batch: {"images": structured((batch, size, size, 3))})
