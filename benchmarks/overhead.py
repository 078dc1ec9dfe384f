"""Measures the time of a converted model's call in addition to the engine's work.

An empty function, with the same inputs, is called in turn with the model.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from typing import Any

import numpy as np

from benchmarks.tracing import UNMEASURED, function_of, times_ms, waiting
from ios_tf.cli.arguments import add_options, add_whole
from ios_tf.errors import UserError
from ios_tf.options import BenchOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("model", metavar="CONVERTED", help="a converted SavedModel")
    add_options(parser, BenchOptions, "batch_size", "inputs")
    add_whole(parser, "rounds", 2, "default: 40", 40)
    add_whole(parser, "calls", 1, "measured calls of a round; default: 20", 20)


def run(options: argparse.Namespace) -> int:
    """Prints the medians of all rounds; returns an exit code.

    Raises:
      UserError: the model does not run on the engine, or cannot be called.
    """
    import ios_tf
    from ios_tf.native import tracing

    function, inputs = function_of(options)
    empty, direct = _empty(function), ios_tf.direct(function)

    def call(called: Any) -> float:
        run_once = waiting(called, inputs)
        return times_ms(run_once, contextlib.nullcontext, options.calls)[0]

    rounds = []
    for _ in range(options.rounds):
        with tracing.record() as recording:
            call(function)
        assert recording.trace is not None
        spans = [one.end_us - one.begin_us for one in recording.trace.calls]
        if not spans:
            raise UserError(
                f"no part of {options.model} runs on the engine. Convert the model "
                "with ios_tf convert"
            )
        # Every call of the model runs the same number of regions, and becomes a row.
        of_calls = np.reshape(spans, [options.calls + UNMEASURED, -1]).sum(axis=1)
        of_engine = np.median(of_calls) / 1e3
        rounds.append((call(function), of_engine, call(empty), call(direct)))
    whole, engine, nothing, directly = np.array(rounds).T
    print(f"a call of the model        {np.median(whole):.3f} ms")
    print(f"  in the engine            {np.median(engine):.3f} ms")
    print(f"  an empty function        {np.median(nothing):.3f} ms")
    print(f"  the rest                 {np.median(whole - engine - nothing):.3f} ms")
    print(f"a call by ios_tf.direct    {np.median(directly):.3f} ms")
    print(f"variables that a call reads: {len(function.captured_inputs)}")
    return 0


def _empty(function: Any) -> Any:
    """A signature, loaded as users load it, that returns its first input."""
    import tensorflow as tf

    specs = function.structured_input_signature[1]
    module = tf.Module()
    module.identity = tf.function(
        lambda **tensors: {"output": tf.identity(next(iter(tensors.values())))}
    ).get_concrete_function(**specs)
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(module, directory, {"serving_default": module.identity})
        loaded = tf.saved_model.load(directory)
    signature = loaded.signatures["serving_default"]
    signature.owner = loaded
    return signature
