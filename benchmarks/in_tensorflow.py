"""Compares converted models with their originals, as users call them in TensorFlow.

Each model is converted for a device. Then stock TensorFlow, TensorFlow with XLA, and
the converted model are called in turn, in one process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.standalone import add_batch_sizes, add_whole, saved_model_of
from ios_tf.errors import UserError, first_line
from ios_tf.files import utc_now, write_json
from ios_tf.tables import table

_STOCK, _XLA, _OURS = "TensorFlow", "XLA", "IOS-TF"


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
    parser.add_argument("--xla", action="store_true", help="measure XLA, too")
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

    with (
        saved_model_of(name) as source,
        tempfile.TemporaryDirectory(prefix="ios_tf_") as directory,
    ):
        output = os.path.join(directory, "converted")
        start = time.perf_counter()
        report = ios_tf.convert(
            source,
            output,
            batch_size=options.batch_sizes,
            device=device.kind,
            time_limit=options.time_limit,
        )
        seconds = time.perf_counter() - start
        print(report, flush=True)
        original, converted = saved_models.load(source), saved_models.load(output)
    signature = saved_models.choose_signature(None, original)
    stock = original.signatures[signature]
    functions: dict[str, tuple[Any, bool]] = {_STOCK: (stock, False)}
    if options.xla:
        compiled = tf.function(
            lambda **inputs: stock(**inputs), jit_compile=True, autograph=False
        )
        functions[_XLA] = (compiled, False)
    functions[_OURS] = (converted.signatures[signature], True)
    found: dict[str, Any] = {
        "convert_seconds": round(seconds, 1),
        "verdict": report.verdict,
        "operators": report.operators,
        "notes": list(report.notes),
        "batch_sizes": {},
    }
    for size in options.batch_sizes:
        inputs, _ = accepted_inputs(stock, size, {})
        found["batch_sizes"][str(size)] = _latencies(
            functions, inputs, device, options.callers
        )
    return found


def _latencies(
    functions: Mapping[str, tuple[Any, bool]],
    inputs: Mapping[str, Any],
    device: Any,
    callers: int,
) -> dict[str, Any]:
    """Returns medians in ms, speedups over stock TensorFlow, and differences from it.

    A function that fails has the reason instead.
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


def _text(row: Mapping[str, Any]) -> str:
    title = f"{row['model']}, {row['dtype']}: "
    if "failure" in row:
        return title + row["failure"]
    title += f"{row['verdict']}, converted in {row['convert_seconds']:.0f} s"
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
    return title + "\n" + table(header, cells)
