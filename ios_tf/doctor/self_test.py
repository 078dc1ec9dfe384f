"""Converts a tiny network and compares it, as `ios_tf convert` does."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from ios_tf.conversion.comparison import Comparison
from ios_tf.conversion.convert import convert
from ios_tf.doctor.finding import ERROR, NOTE, WARNING, Finding
from ios_tf.errors import NativeLibraryError, first_line
from ios_tf.native import plugin

_TOPIC = "self-test"
_REPORT = "run with --traceback, and report it with the output of ios_tf doctor --json"


def _network() -> Any:
    """Four convolutions, three of which are branches."""
    network = tf.Module()
    network.stem = _filters(3, 0)
    network.branches = [_filters(16, seed) for seed in (1, 2, 3)]

    def call(image: Any) -> dict[str, Any]:
        x = tf.nn.relu(tf.nn.conv2d(image, network.stem, 1, "SAME"))
        branches = [tf.nn.conv2d(x, filters, 1, "SAME") for filters in network.branches]
        features = tf.nn.relu(tf.concat(branches, 3))
        return {"features": tf.reduce_mean(features, [1, 2])}

    signature = [tf.TensorSpec((None, 32, 32, 3), name="image")]
    network.call = tf.function(call, input_signature=signature)
    return network


def _filters(channels: int, seed: int) -> Any:
    shape = 3, 3, channels, 16
    deviation = (9 * channels / 2) ** -0.5
    values = tf.random.stateless_normal(shape, (seed, 0), stddev=deviation)
    return tf.Variable(values)


def plugin_findings() -> Iterator[Finding]:
    """Whether the plugin is compatible with the installed TensorFlow."""
    flag = tf.sysconfig.CXX11_ABI_FLAG
    if flag != 1:
        advice = "install the package tensorflow of PyPI, which has the C++11 ABI"
        yield Finding("plugin", "C++ ABI", f"{flag}", ERROR, advice)
        return
    try:
        plugin.ops()
    except NativeLibraryError as error:
        advice = (
            "do what the message says. Until then, converted models run as plain "
            "TensorFlow"
        )
        yield Finding("plugin", "library", str(error), ERROR, advice)
        return
    yield Finding("plugin", "library", f"loaded, C++11 ABI {flag}")


def self_test(traceback: bool) -> Iterator[Finding]:
    """Converts a network on the CPU, by the same steps and limits as `convert`."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        original, output = (os.path.join(directory, n) for n in ("model", "output"))
        try:
            network = _network()
            tf.saved_model.save(network, original, signatures=network.call)
            report = convert(
                original,
                output,
                device="cpu",
                cache_dir=os.path.join(directory, "cache"),
                strategy="sequential",
                time_limit=0.5,
            )
        except Exception as error:
            if traceback:
                raise
            yield Finding(_TOPIC, "convert", first_line(error), ERROR, _REPORT)
            return
    seconds = f"in {time.monotonic() - started:.1f} s"
    (comparison,) = [*report.comparisons, *report.rejected]
    yield Finding(_TOPIC, "convert", f"a network of 4 convolutions, {seconds}")
    difference = f"{comparison.difference or 0:.0e} of the spread"
    if not comparison.equal or comparison.difference is None:
        yield Finding(_TOPIC, "compare", f"not equal: {difference}", ERROR, _REPORT)
        return
    yield Finding(_TOPIC, "compare", f"outputs equal to {difference}")
    yield _speed(report.verdict, comparison)


def _speed(verdict: str, comparison: Comparison) -> Finding:
    if verdict == "converted" and comparison.latencies:
        before, after = comparison.latencies[1][:2]
        return Finding(_TOPIC, "speed", f"{before:.2f} -> {after:.2f} ms")
    if verdict == "copied":
        advice = "this network is too small for a verdict. Measure your own model"
        return Finding(_TOPIC, "speed", "not faster here", NOTE, advice)
    advice = "convert when the machine is idle, because conversions measure latencies"
    return Finding(_TOPIC, "speed", "undecided: the machine is busy", WARNING, advice)
