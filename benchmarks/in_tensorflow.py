"""Compares converted models with their originals, as users call them in TensorFlow.

Each model is converted for a device. Then stock TensorFlow, TensorFlow with XLA, the
converted model in each precision, and OpenVINO are called in turn, in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.standalone import add_batch_sizes, saved_model_of
from ios_tf.cli.arguments import add_whole
from ios_tf.differences import relative_difference
from ios_tf.errors import UserError, first_line
from ios_tf.files import utc_now, write_json
from ios_tf.tables import table

_STOCK, _XLA, _OURS, _OPENVINO = "TensorFlow", "XLA", "IOS-TF", "OpenVINO, as installed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="+",
        help="keras:NAME, models:NAME or a network of the zoo",
    )
    parser.add_argument("--device", default="auto", help="as for ios_tf convert")
    parser.add_argument(
        "--dtypes",
        default="float32",
        metavar="A,B",
        help="Keras's names of types and policies, such as float32,mixed_float16",
    )
    add_batch_sizes(parser, "1,8", [1, 8])
    add_whole(parser, "callers", 1, "threads that call at the same time", 1)
    add_whole(parser, "time_limit", 1, "seconds for a model's searches", 60)
    parser.add_argument(
        "--precisions",
        default="float32",
        metavar="A,B",
        help="precisions to convert to, as for ios_tf convert, such as "
        "float32,bfloat16; the default is float32",
    )
    parser.add_argument(
        "--max_error", type=float, default=0.01, help="as for ios_tf convert"
    )
    parser.add_argument(
        "--direct", action="store_true", help="measure ios_tf.direct, too"
    )
    parser.add_argument("--xla", action="store_true", help="measure XLA, too")
    parser.add_argument(
        "--openvino",
        action="store_true",
        help="measure OpenVINO with its default settings, too; on a processor with "
        "bfloat16 arithmetic it computes in bfloat16",
    )
    add_whole(
        parser,
        "images",
        0,
        "smooth images with which networks of keras.applications are compared: the "
        "share of images that get the class that TensorFlow finds",
        0,
    )
    parser.add_argument("--json", metavar="FILE")


def run(options: argparse.Namespace) -> int:
    """Prints and writes a row for each model and type; returns an exit code.

    Raises:
      UserError: the device or a type does not exist.
    """
    import keras
    import tensorflow as tf

    from ios_tf.native import devices, plugin

    device = devices.choose(options.device, print)
    record: dict[str, Any] = {
        "command": options.command,
        "date": utc_now(),
        "device": plugin.device_fingerprint(device.engine),
        "tensorflow": tf.__version__,
        "rows": [],
    }
    code = 0
    for dtype in options.dtypes.split(","):
        try:
            keras.mixed_precision.set_global_policy(dtype)
        except ValueError as error:
            raise UserError(f"--dtypes={dtype}: {first_line(error)}") from None
        for model in options.models:
            keras.backend.clear_session()
            row = {"model": model, "dtype": dtype}
            try:
                row |= _measure(model, device, options)
            # Keras, TensorFlow and XLA raise many kinds of errors. After an error, the
            # other models are still measured.
            except Exception as error:
                row["failure"] = f"{type(error).__name__}: {first_line(error)}"
                code = 1
            record["rows"].append(row)
            print(_text(row), flush=True)
            if options.json:
                write_json(options.json, record)
    return code


def _measure(name: str, device: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Converts a model and measures it at each batch size."""
    import tensorflow as tf

    import ios_tf
    from ios_tf.model import saved_models
    from ios_tf.model.inputs import accepted_inputs

    images = _images(name, options.images) if options.images else None
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(saved_model_of(name))
        original = saved_models.load(source)
        signature = saved_models.choose_signature(None, original)
        stock = original.signatures[signature]
        functions: dict[str, tuple[Any, bool]] = {_STOCK: (stock, False)}
        if options.xla:
            compiled = tf.function(
                lambda **inputs: stock(**inputs), jit_compile=True, autograph=False
            )
            functions[_XLA] = (compiled, False)
        found: dict[str, Any] = {"conversions": {}, "batch_sizes": {}}
        kept = []  # the functions need the models that they belong to
        for precision in options.precisions.split(","):
            directory = tempfile.TemporaryDirectory(prefix="ios_tf_")
            output = os.path.join(stack.enter_context(directory), "converted")
            start = time.perf_counter()
            report = ios_tf.convert(
                source,
                output,
                batch_size=options.batch_sizes,
                device=device.kind,
                time_limit=options.time_limit,
                precision=precision,
                max_error=options.max_error,
            )
            found["conversions"][precision] = {
                "seconds": round(time.perf_counter() - start, 1),
                "verdict": report.verdict,
                "operators": report.operators,
                "notes": list(report.notes),
            }
            print(report, flush=True)
            kept.append(saved_models.load(output))
            converted = kept[-1].signatures[signature]
            row = _OURS if precision == "float32" else f"{_OURS}, {precision}"
            functions[row] = (converted, True)
            if options.direct:
                functions[f"{row}, direct"] = (ios_tf.direct(converted), True)

        @functools.cache
        def with_openvino(size: int) -> tuple[Mapping[str, Any], dict[str, Any]]:
            """Returns inputs of this batch size, and all functions for them."""
            inputs, _ = accepted_inputs(stock, size, {})
            if not options.openvino:
                return inputs, functions
            openvino = {_OPENVINO: (_openvino(source, inputs), False)}
            return inputs, functions | openvino

        for size in options.batch_sizes:
            inputs, measured = with_openvino(size)
            found["batch_sizes"][str(size)] = _latencies(
                measured, inputs, device, options.callers
            )
        if images is not None:
            (argument,) = stock.structured_input_signature[1]
            found["images"] = _compare(with_openvino(1)[1], argument, images, device)
        return found


def _images(name: str, count: int) -> np.ndarray:
    """Returns images for a network of `keras.applications`.

    Raises:
      UserError: `name` is not such a network.
    """
    from ios_tf.model.loading import KERAS_PREFIX, keras_model_of
    from ios_tf.models.calibration import application_images

    if not name.startswith(KERAS_PREFIX):
        raise UserError(f"--images: {name} is not a network of keras.applications")
    return application_images(keras_model_of(name, calibrated=False), count)


def _openvino(
    source: str, inputs: Mapping[str, Any]
) -> Callable[..., Mapping[str, Any]]:
    """Returns a function that runs a SavedModel in OpenVINO with its default settings.

    The function takes and returns the tensors of the signature.
    """
    import openvino
    import tensorflow as tf

    network = openvino.convert_model(source)
    network.reshape({name: tuple(x.shape) for name, x in inputs.items()})
    compiled = openvino.Core().compile_model(network, "CPU")
    names = [port.get_any_name() for port in compiled.outputs]

    def call(**tensors: Any) -> Mapping[str, Any]:
        found = compiled({name: tensor.numpy() for name, tensor in tensors.items()})
        arrays = map(tf.constant, found.to_tuple())
        return dict(zip(names, arrays, strict=True))

    return call


def _latencies(
    functions: Mapping[str, tuple[Any, bool]],
    inputs: Mapping[str, Any],
    device: Any,
    callers: int,
) -> dict[str, Any]:
    """Returns what was measured of each function, by name.

    These are the median latency in ms, the speedup over stock TensorFlow, and how much
    the outputs differ from those of TensorFlow. If the function fails, it is the reason
    instead.
    """
    from benchmarks.zoo.measure import difference
    from ios_tf.conversion import timing

    turns: dict[str, timing.Turn] = {}
    found: dict[str, Any] = {}
    expected = None
    for name, (function, plugin) in functions.items():
        context, call = timing.turn(plugin, device.kind, function, **inputs)
        try:
            with context():
                outputs = call()
                expected = expected or outputs
                found[name] = {"difference": difference(outputs, expected)}
        except Exception as error:
            found[name] = {"failure": f"{type(error).__name__}: {first_line(error)}"}
        else:
            turns[name] = context, call
    medians = timing.latencies(list(turns.values()), callers)
    for name, median, (low, high) in zip(turns, medians, medians.ranges, strict=True):
        found[name] |= {"median_ms": median, "p10_ms": low, "p90_ms": high}
        found[name]["speedup"] = medians[0] / median
    return found


def _compare(
    functions: Mapping[str, tuple[Any, bool]],
    argument: str,
    images: np.ndarray,
    device: Any,
) -> dict[str, Any]:
    """Compares the first function with the others on images [N,H,W,C], one by one.

    Returns:
      For each other function, the share of images whose largest output is the same, and
      the largest difference of outputs, divided by the largest output.
    """
    import tensorflow as tf

    from ios_tf.conversion import timing

    outputs = []
    for function, plugin in functions.values():
        with timing.running(plugin, device.kind):
            calls = [function(**{argument: tf.constant(x[None])}) for x in images]
        outputs.append(np.concatenate([next(iter(y.values())).numpy() for y in calls]))
    expected, *others = outputs
    classes = expected.argmax(axis=1)
    return {
        name: {
            "same_class": float(np.mean(found.argmax(axis=1) == classes)),
            "difference": relative_difference(found, expected),
        }
        for name, found in zip(list(functions)[1:], others, strict=True)
    }


def _text(row: Mapping[str, Any]) -> str:
    title = f"{row['model']}, {row['dtype']}: "
    if "failure" in row:
        return title + row["failure"]
    title += ", ".join(
        f"{precision}: {one['verdict']}, converted in {one['seconds']:.0f} s"
        for precision, one in row["conversions"].items()
    )
    cells = []
    for size, variants in row["batch_sizes"].items():
        for name, one in variants.items():
            if "failure" in one:
                cells.append((size, name, one["failure"], "", ""))
                continue
            cells.append(
                (
                    size,
                    name,
                    f"{one['median_ms']:.3f}",
                    f"{one['speedup']:.2f}",
                    f"{one['difference']:.1e}",
                )
            )
    header = ("batch", "", "median ms", "speedup", "difference")
    text = title + "\n" + table(header, cells)
    if "images" in row:
        cells = [
            (name, f"{one['same_class']:.1%}", f"{one['difference']:.1e}")
            for name, one in row["images"].items()
        ]
        text += "\n" + table(("images", "same class", "difference"), cells)
    return text
