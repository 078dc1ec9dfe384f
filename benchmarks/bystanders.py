"""The cost of the plugin for graphs it has nothing to do with:
python -m benchmarks bystanders [--rounds N] [--json FILE]

The graphs are a BERT-like encoder and a training step of a small CNN. Each runs on
TensorFlow alone, with the plugin loaded, and with `ios_tf.enable`, in turn in one
process. The first call, in which TensorFlow optimises the graph, is timed separately
from the calls after it.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers

import ios_tf
from ios_tf.files import write_json
from ios_tf.native import grappler, plugin
from ios_tf.tables import table

VARIANTS = ("TensorFlow", "plugin", "enabled")
# Consecutive calls of a variant; the first call is not counted.
_CALLS = 3


@dataclasses.dataclass(frozen=True)
class Row:
    """One graph under one variant: times in ms of first calls and later calls."""

    graph: str
    variant: str
    first_ms: Sequence[float]
    run_ms: Sequence[float]

    @property
    def first_median_ms(self) -> float:
        return statistics.median(self.first_ms)

    @property
    def run_median_ms(self) -> float:
        return statistics.median(self.run_ms)


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
    """One step of gradient descent of a small CNN."""
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


GRAPHS = {"BERT-like encoder": bert_like, "training step": training_step}


def bench(rounds: int = 20, repeats: int = 3) -> list[Row]:
    """Measures all graphs under all variants.

    Args:
      rounds: number of rounds of measured calls.
      repeats: number of first calls, each of a newly traced function.
    """
    plugin.ops()
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="ios_tf_") as cache,
        grappler.options(use_plugin_optimizers=True),
    ):
        try:
            for name, build in GRAPHS.items():
                rows += _bench(name, build(), cache, rounds, repeats)
        finally:
            ios_tf.disable()
    return rows


def _bench(
    name: str, call: Callable[[], Any], cache: str, rounds: int, repeats: int
) -> list[Row]:
    first: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    run: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    functions = {}
    # This uncounted call triggers what TensorFlow does only once in a process.
    _timed(_traced(call))
    for _ in range(repeats):
        for variant in VARIANTS:
            _switch(variant, cache)
            functions[variant] = _traced(call)
            first[variant].append(_timed(functions[variant]))
    for _ in range(rounds):
        for variant in VARIANTS:
            _switch(variant, cache)
            times = [_timed(functions[variant]) for _ in range(_CALLS)]
            run[variant] += times[1:]
    return [Row(name, v, first[v], run[v]) for v in VARIANTS]


def _switch(variant: str, cache: str) -> None:
    if variant == "TensorFlow":
        ios_tf.disable()
    elif variant == "enabled":
        ios_tf.enable(cache_dir=cache)
    else:
        ios_tf.disable()
        tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": True})


def _traced(call: Callable[[], Any]) -> Callable[[], Any]:
    return tf.function(call, autograph=False).get_concrete_function()


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    result = function()
    result.numpy()
    return (time.perf_counter() - start) * 1e3


def results_table(rows: Sequence[Row]) -> str:
    """Returns a table of medians and their ratios to TensorFlow alone."""
    stock = {row.graph: row for row in rows if row.variant == VARIANTS[0]}
    lines = [
        [
            row.graph,
            row.variant,
            f"{row.first_median_ms:.1f}",
            f"{row.first_median_ms / stock[row.graph].first_median_ms:.2f}",
            f"{row.run_median_ms:.2f}",
            f"{row.run_median_ms / stock[row.graph].run_median_ms:.2f}",
        ]
        for row in rows
    ]
    header = ["graph", "variant", "first call ms", "ratio", "call ms", "ratio"]
    return table(header, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    rows = bench(options.rounds, options.repeats)
    print(results_table(rows))
    if options.json:
        write_json(options.json, [dataclasses.asdict(row) for row in rows])
