"""Graphs in which the plugin finds nothing to optimize keep their nodes."""

from collections.abc import Callable
from typing import Any

import graph_helpers as gh
import keras
import pytest
import tensorflow as tf
from cache_helpers import undoing_enable
from keras import layers

import ios_tf
from ios_tf.native import grappler


def bert_like(
    blocks: int = 4, hidden: int = 256, heads: int = 4, length: int = 128
) -> Callable[[], Any]:
    """An encoder of transformer blocks on one sentence."""
    tokens = keras.Input((length,), dtype="int32")
    x = layers.Embedding(1000, hidden)(tokens)
    for _ in range(blocks):
        attended = layers.MultiHeadAttention(heads, hidden // heads)(x, x)
        x = layers.LayerNormalization()(x + attended)
        y = layers.Dense(4 * hidden, activation="gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(hidden)(y))
    model = keras.Model(tokens, x)
    sentence = tf.random.uniform([1, length], 0, 1000, tf.int32)
    return lambda: model(sentence, training=False)


def training_step(size: int = 64, batch: int = 16) -> Callable[[], Any]:
    """A function that runs one step of gradient descent of a small CNN."""
    model = keras.Sequential([keras.Input((size, size, 3))])
    for filters in (16, 32, 64):
        model.add(layers.Conv2D(filters, 3, strides=2, use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(10))
    images = tf.random.normal([batch, size, size, 3])
    labels = tf.random.uniform([batch], 0, 10, tf.int32)

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            )
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [v.value for v in variables])
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.value.assign_sub(1e-3 * gradient)
        return loss

    return step


def _traced(call: Callable[[], Any]) -> Any:
    return tf.function(call, autograph=False).get_concrete_function()


@pytest.mark.parametrize("build", [bert_like, training_step])
def test_the_plugin_leaves_their_nodes(build, tmp_path):
    call = build()
    with grappler.options(use_plugin_optimizers=False):
        expected = gh.executed_ops(_traced(call))
    with undoing_enable():
        ios_tf.enable(cache_dir=str(tmp_path), on_miss="greedy")
        found = gh.executed_ops(_traced(call))
    assert sum(expected.values()) > 50
    assert found == expected
