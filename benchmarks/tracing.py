"""Measures what a trace costs: a converted model without and with a trace, in turn.

Each round calls the model without a trace and with a trace, and does both again. The
ratio of the two measurements without a trace shows the noise of the machine. Processor
times depend less on other processes than latencies do.

The cost without a trace is too small for such a comparison. idle_trace.cc measures the
engine's check for a trace in a loop.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import native
from ios_tf.cli.arguments import add_options, add_whole
from ios_tf.options import BenchOptions
from ios_tf.report import document

# Unmeasured calls before each measurement, so that the threads have come to rest.
UNMEASURED = 3
# Executions of the check in one measurement, and measurements.
_LOOPS = 1_000_000
_REPETITIONS = 21


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("model", metavar="CONVERTED", help="a converted SavedModel")
    add_options(parser, BenchOptions, "batch_size", "inputs")
    add_whole(parser, "rounds", 2, "default: 100", 100)
    add_whole(parser, "calls", 1, "calls of each kind in a round; default: 10", 10)


def run(options: argparse.Namespace) -> int:
    """Prints medians over the rounds and their ratios; returns an exit code."""
    from ios_tf.native import tracing

    call = waiting(*function_of(options))
    rounds = np.array(
        [
            [
                times_ms(call, context, options.calls)
                for context in (contextlib.nullcontext, tracing.record) * 2
            ]
            for _ in range(options.rounds)
        ]
    )
    for number, name in enumerate(("latency", "processor time")):
        off, on, off_again, on_again = rounds[:, :, number].T
        off, on = (np.concatenate(pair) for pair in ((off, off_again), (on, on_again)))
        print(f"{name} without a trace: median {np.median(off):.3f} ms")
        print(f"{name} with a trace:    median {np.median(on):.3f} ms")
        _show("  with a trace / without", on / off)
        _show("  without / without", off_again / off[: len(off_again)])
    with tracing.record() as recording:
        call()
    assert recording.trace is not None
    regions, operators = len(recording.trace.calls), len(recording.trace)
    of_call, of_operator = idle_nanoseconds()
    idle = regions * of_call + operators * of_operator
    share = idle / np.median(rounds[:, ::2, 1]) / 1e6
    print(
        f"check without a trace: {of_call:.2f} ns for each of {regions} regions, "
        f"{of_operator:.2f} ns for each of {operators} operators, together "
        f"{idle:.0f} ns ({share:.4%} of the processor time)"
    )
    return 0


def idle_nanoseconds() -> tuple[float, float]:
    """Measures the engine's check for a trace while none is recorded.

    Returns:
      The nanoseconds for one call of a region, and for one operator.

    Raises:
      UserError: the measuring program does not compile.
    """
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        library = ctypes.CDLL(
            str(
                native.build_library(
                    Path(directory, "idle_trace.so"), "benchmarks/idle_trace.cc"
                )
            )
        )
    names = ("IdleCallNanoseconds", "IdleTaskNanoseconds", "EmptyNanoseconds")
    functions = [getattr(library, name) for name in names]
    for function in functions:
        function.argtypes, function.restype = [ctypes.c_int64], ctypes.c_double
    times = [[function(_LOOPS) for function in functions] for _ in range(_REPETITIONS)]
    of_call, of_operator, empty = map(statistics.median, zip(*times, strict=True))
    return of_call - empty, of_operator - empty


def function_of(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Loads `options.model`; returns its signature and inputs for it.

    Raises:
      UserError: the model cannot be called.
    """
    from ios_tf.model import saved_models
    from ios_tf.model.inputs import accepted_inputs, parse_inputs
    from ios_tf.native import plugin

    plugin.ops()
    loaded = saved_models.load(options.model)
    function = loaded.signatures[saved_models.choose_signature(None, loaded)]
    given = parse_inputs(options.inputs or ())
    inputs, _ = accepted_inputs(
        function, options.batch_size, given, document.image_size(options.model)
    )
    function.owner = loaded  # keeps the variables
    return function, inputs


def waiting(function: Any, inputs: Mapping[str, Any]) -> Callable[[], None]:
    """Returns a function that calls `function` and waits for its outputs."""

    def call() -> None:
        for output in function(**inputs).values():
            output.numpy()

    return call


def times_ms(
    call: Callable[[], None],
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    calls: int,
) -> tuple[float, float]:
    """The medians of the calls' latencies and of the processor times of all threads."""
    latencies, processor_times = [], []
    with context():
        for number in range(UNMEASURED + calls):
            start, cpu = time.perf_counter(), time.process_time()
            call()
            if number >= UNMEASURED:
                latencies.append((time.perf_counter() - start) * 1e3)
                processor_times.append((time.process_time() - cpu) * 1e3)
    return statistics.median(latencies), statistics.median(processor_times)


def _show(name: str, ratios: np.ndarray) -> None:
    low, median, high = np.percentile(ratios, (10, 50, 90))
    print(f"{name}: {median:.4f} (10 % of the rounds below {low:.4f}, 90 % {high:.4f})")
