"""Measures what a trace costs: a converted model without and with a trace, in turn.

Each round calls the model without a trace, with a trace, and again without a trace. The
ratio of the two measurements without a trace shows the noise of the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.standalone import add_whole

# Unmeasured calls before each measurement, so that the threads have come to rest.
_UNMEASURED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("model", metavar="CONVERTED", help="a converted SavedModel")
    add_whole(parser, "batch_size", 1, "default: 1", 1)
    add_whole(parser, "rounds", 2, "default: 40", 40)
    add_whole(parser, "calls", 1, "measured calls of a round; default: 20", 20)


def run(options: argparse.Namespace) -> int:
    """Prints the medians of all rounds and the ratios; returns an exit code."""
    from ios_tf.model import saved_models
    from ios_tf.model.inputs import accepted_inputs
    from ios_tf.native import plugin, tracing

    plugin.ops()
    loaded = saved_models.load(options.model)
    function = loaded.signatures[saved_models.choose_signature(None, loaded)]
    inputs, _ = accepted_inputs(function, options.batch_size)

    def call() -> None:
        for output in function(**inputs).values():
            output.numpy()

    rounds = [
        (
            _median_ms(call, contextlib.nullcontext, options.calls),
            _median_ms(call, tracing.record, options.calls),
            _median_ms(call, contextlib.nullcontext, options.calls),
        )
        for _ in range(options.rounds)
    ]
    before, traced, after = np.array(rounds).T
    off = np.sqrt(before * after)
    print(f"without a trace  {np.median(off):.3f} ms")
    print(f"with a trace     {np.median(traced):.3f} ms")
    _show("with a trace / without", traced / off)
    _show("without / without", after / before)
    return 0


def _median_ms(
    call: Callable[[], None],
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    calls: int,
) -> float:
    latencies = []
    with context():
        for number in range(_UNMEASURED + calls):
            start = time.perf_counter()
            call()
            if number >= _UNMEASURED:
                latencies.append((time.perf_counter() - start) * 1e3)
    return statistics.median(latencies)


def _show(name: str, ratios: np.ndarray) -> None:
    low, median, high = np.percentile(ratios, (10, 50, 90))
    print(f"{name}: {median:.4f} (10 % of the rounds below {low:.4f}, 90 % {high:.4f})")
