"""Converts one network of the zoo, compares outputs and measures latencies.

    python -m benchmarks zoo.measure NAME RESULT.json OPTIONS

Each network has its own process, so that its memory and its failures end with it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import ios_tf
from benchmarks.processes import run_python
from benchmarks.zoo.model import Model
from ios_tf.conversion import timing
from ios_tf.differences import relative_difference
from ios_tf.files import write_json
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.native import grappler, malloc
from ios_tf.native.names import ANNOTATIONS, SHAPE_OF_WEIGHT
from ios_tf.report import document

# Convolutions and matrix products, for the share of multiplications in regions.
_FILTERS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")

# Arguments: a SavedModel, the directory to write, ios_tf.convert's keywords as JSON.
_CONVERT = """
import json, sys
import ios_tf
from benchmarks.processes import memory_mib
report = ios_tf.convert(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
print(json.dumps([report.notes, memory_mib("VmHWM")]))
"""


class ConversionError(Exception):
    """The conversion failed; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings for converting and measuring the networks.

    Attributes:
      batch_sizes: batch sizes to convert for and to measure. Outputs are compared at
        the first, and at a size that the network was not converted for.
      time_limit: seconds that a network's searches may take.
      strategy: as for `ios_tf.convert`.
      only_report: convert the network and validate its report, but measure nothing.
    """

    batch_sizes: Sequence[int] = (1, 8)
    time_limit: int = 60
    strategy: str = "auto"
    only_report: bool = False


def measure(
    model: Model,
    options: Options,
    convert: Callable[[str, str, Mapping[str, Any]], tuple[list[str], float]],
) -> dict[str, Any]:
    """Measures a network; returns a row of the page, see page.py.

    Args:
      model: the network.
      options: how it is measured.
      convert: converts the SavedModel at its first argument to its second, with its
        third as keywords; returns notes and the peak of memory in MiB.
    """
    with tempfile.TemporaryDirectory(prefix="ios_tf_zoo_") as directory:
        source = os.path.join(directory, "original")
        output = os.path.join(directory, "converted")
        model.save(source)
        malloc.release_unused()  # the conversion may need this memory
        keywords = {
            "batch_size": list(options.batch_sizes),
            "device": "cpu",
            "strategy": options.strategy,
            "time_limit": options.time_limit,
            "keep_slower": True,
            "cache_dir": os.path.join(directory, "cache"),
        }
        start = time.perf_counter()
        notes, peak = convert(source, output, keywords)
        seconds = time.perf_counter() - start
        report = document.read(output)  # fails if it does not follow its schema
        if options.only_report:
            return {"convert_seconds": seconds, "operators": report["operators"]}
        original, loaded = saved_models.load(source), saved_models.load(output)
        found = {"convert_seconds": seconds, "convert_mib": peak, "notes": notes}
        name = saved_models.choose_signature(None, original)
        first = options.batch_sizes[0]
        expected, converted = original.signatures[name], loaded.signatures[name]
        found |= coverage(
            frozen_graphs.freeze(name, expected, keep_filters=True),
            frozen_graphs.freeze(name, converted, keep_filters=True),
            model.inputs(first),
        )
        malloc.release_unused()
        found |= _differences(expected, converted, output, model, (first, 3))
        found["latency"] = {
            str(size): _latency(expected, converted, model.inputs(size))
            for size in options.batch_sizes
        }
    return found


def convert_alone(
    source: str, output: str, keywords: Mapping[str, Any]
) -> tuple[list[str], float]:
    """Converts in another process, so that the peak memory is the conversion's.

    Raises:
      ConversionError: the conversion failed.
    """
    try:
        notes, peak = run_python(_CONVERT, source, output, json.dumps(dict(keywords)))
    except RuntimeError as error:
        raise ConversionError(str(error)) from None
    return notes, peak


def coverage(
    frozen: frozen_graphs.FrozenSignature,
    rewritten: frozen_graphs.FrozenSignature,
    inputs: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """Counts operators, regions, and the share of multiplications in regions.

    Args:
      frozen: a signature.
      rewritten: the same signature with schedules.
      inputs: arguments of the signature.
    """
    known = multiplications(graph_optimizer.fold_constants(frozen), inputs)
    left = sum(
        known.get(node.name, 0)
        for node in rewritten.graph_def.node
        if ANNOTATIONS[0] not in node.attr
    )
    programs = graph_optimizer.lowered_programs(rewritten)
    return {
        "multiplications": sum(known.values()),
        "share": 1 - left / max(sum(known.values()), 1) if programs else 0.0,
        "regions": len(programs),
        "operators": sum(len(p["block"]["operators"]) for p in programs),
        "outputs": len(frozen.outputs),
    }


def multiplications(
    frozen: frozen_graphs.FrozenSignature, inputs: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """Counts multiplications by node name.

    Covers every convolution and matrix product outside of control flow.
    """
    graph_def = graph_pb2.GraphDef()
    graph_def.CopyFrom(frozen.graph_def)
    shapes = {
        spec.name.split(":")[0]: inputs[key].shape
        for key, spec in frozen.inputs.items()
        if key in inputs
    }
    for node in graph_def.node:
        node.attr.pop("_output_shapes", None)
        if SHAPE_OF_WEIGHT in node.attr:  # a filter that is read from a variable
            node.op = "Placeholder"
            del node.input[:]
            node.attr["shape"].CopyFrom(node.attr[SHAPE_OF_WEIGHT])
        if node.op == "Placeholder" and node.name in shapes:
            node.attr["shape"].shape.CopyFrom(
                tf.TensorShape(shapes[node.name]).as_proto()
            )
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    counts = {}
    for operation in graph.get_operations():
        count = _count(operation)
        if count is not None:
            counts[operation.name] = count
    return counts


def _count(operation: Any) -> int | None:
    kind = operation.type
    if kind in _FILTERS:
        per_value = operation.inputs[1].shape[:-1].num_elements()
        if kind == "DepthwiseConv2dNative":
            per_value = operation.inputs[1].shape[:2].num_elements()
        values = operation.outputs[0].shape.num_elements()
    elif kind == "Conv2DBackpropInput":  # multiplications per input value
        filters = operation.inputs[1].shape
        per_value = filters[:3].num_elements()
        values = operation.inputs[2].shape.num_elements()
    elif kind in _PRODUCTS:
        transposed = "transpose_a" if kind == "MatMul" else "adj_x"
        shape = operation.inputs[0].shape
        if shape.rank is None:
            return 0
        per_value = shape[-2 if operation.get_attr(transposed) else -1]
        values = operation.outputs[0].shape.num_elements()
    else:
        return None
    return (per_value or 0) * (values or 0)


def _differences(
    expected: Any,
    converted: Any,
    output: str,
    model: Model,
    batch_sizes: Sequence[int],
) -> dict[str, Any]:
    """Returns the largest relative differences of outputs, with and without the engine.

    `spread` is the difference between the outputs for two images. If it is close to 0,
    equal outputs prove little.
    """
    found = {"difference": 0.0, "stock_difference": 0.0}
    with grappler.options(use_plugin_optimizers=False):
        plain = tf.saved_model.load(output).signatures["serving_default"]
        for size in batch_sizes:
            inputs = _tensors(model.inputs(size))
            truth = expected(**inputs)
            found["stock_difference"] = max(
                found["stock_difference"], difference(plain(**inputs), truth)
            )
    for size in batch_sizes:
        inputs = _tensors(model.inputs(size))
        truth = expected(**inputs)
        found["difference"] = max(
            found["difference"], difference(converted(**inputs), truth)
        )
    pairs = [(value[:1], value[1:2]) for value in truth.values() if value.shape.rank]
    spread = [
        difference({"": b}, {"": a})
        for a, b in pairs
        if a.shape == b.shape and a.dtype.is_floating
    ]
    return {**found, "spread": max(spread, default=0.0)}


def difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """Returns the largest difference of an output, divided by its largest value.

    For types other than floats, it is the share of values that differ.
    """
    largest = 0.0
    for name, tensor in expected.items():
        truth, value = tensor.numpy(), found[name].numpy()
        if tensor.dtype.is_floating:
            largest = max(largest, relative_difference(value, truth))
        elif truth.shape != value.shape:
            return float("inf")
        elif truth.size:
            largest = max(largest, float(np.mean(truth != value)))
    return largest


def _latency(
    expected: Any, converted: Any, arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Returns the median latencies in ms, and how they compare.

    `ratio` is the converted model's time divided by TensorFlow's: below 1, the
    converted model is faster. The two functions take turns, and `ratio` is the median
    of the ratios of neighbouring samples. `busy` says that other processes disturbed
    too many samples.
    """
    inputs = _tensors(arrays)
    latencies = timing.latencies(
        [
            timing.turn(False, "cpu", expected, **inputs),
            timing.turn(True, "cpu", converted, **inputs),
        ]
    )
    (speedup,) = latencies.ratios
    return {
        "tensorflow_ms": latencies[0],
        "converted_ms": latencies[1],
        "ratio": 1 / speedup.estimate,
        "busy": not speedup.calm,
    }


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(array) for name, array in arrays.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the row of one network, or the reason why it has none."""
    from benchmarks.zoo.registry import networks

    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("result")
    parser.add_argument("options", type=json.loads)
    parsed = parser.parse_args(arguments)
    try:
        model = networks()[parsed.name]()
        row = measure(model, Options(**parsed.options), convert_alone)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        reason = lines[0] or type(error).__name__
        if not isinstance(error, (ConversionError, ios_tf.UserError)):
            reason = f"{type(error).__name__}: {reason}"
        row = {"failure": reason}
    write_json(parsed.result, row)
    return 0
