"""Measures one model on stock TensorFlow and on the engine under each strategy.

All variants run in one process and take turns, so that a disturbance of the machine
affects all of them. The result has medians and their ratios.
"""

from __future__ import annotations

import dataclasses
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from ios_tf.conversion import timing
from ios_tf.conversion.measuring import searcher_for
from ios_tf.conversion.output_differences import compare_outputs
from ios_tf.conversion.planning import Function, Plan
from ios_tf.cost.verdict import interval_of_median
from ios_tf.files import utc_now
from ios_tf.model import frozen_graphs, saved_models
from ios_tf.model.inputs import accepted_inputs, image_size_of, parse_inputs
from ios_tf.model.loading import saved_model
from ios_tf.model.weights import Weights
from ios_tf.native import devices, plugin
from ios_tf.options import BenchOptions, ModelOptions, command_flags
from ios_tf.strategies import SLOWEST_FIRST, STRATEGIES
from ios_tf.tables import table
from ios_tf.tuning.progress import Progress
from ios_tf.tuning.searcher import NetworkSearcher
from ios_tf.tuning.settings import DEFAULT_STRATEGY

STOCK = "TensorFlow"
FROZEN = "frozen"  # TensorFlow on the frozen graph: the effect of freezing alone
# The number of measured calls of a variant in each turn. Before them, the variant is
# called once without timing, so that threads of the previous variant are idle by then.
_CALLS = 3


@dataclasses.dataclass(frozen=True)
class Row:
    """The latencies of a variant, and its difference from stock TensorFlow.

    Attributes:
      name: "TensorFlow", "frozen" (TensorFlow on the frozen graph), or the strategy.
      latencies_ms: latencies of all measured calls.
      difference: largest absolute difference of an output, divided by the largest
        absolute value of that output.
    """

    name: str
    latencies_ms: Sequence[float]
    difference: float

    @property
    def median_ms(self) -> float:
        return statistics.median(self.latencies_ms)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """A measured model, and the conditions of the measurement.

    Attributes:
      model, signature, device: the model, its function and the processor.
      batch_size: the number of images in a call.
      options: the options of the measurement.
    """

    model: str
    signature: str
    device: str
    batch_size: int
    options: BenchOptions

    def conditions(self) -> dict[str, Any]:
        """The conditions of a measurement that ends now, for a JSON object."""
        return {
            "command": " ".join(
                ["ios_tf bench", self.model, *command_flags(self.options)]
            ),
            "date": utc_now(),
            "model": self.model,
            "signature": self.signature,
            "device": self.device,
            "batch_size": self.batch_size,
            "tensorflow": tf.__version__,
            "python": platform.python_version(),
        }

    def notes(self) -> list[str]:
        """Sentences about the measurement that are printed below the table."""
        return []


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Measured):
    """The measurements of `bench`."""

    rows: Sequence[Row]

    def table(self) -> str:
        """Medians and their ratios to stock TensorFlow (below 1 is faster), as text."""
        stock_ms = self.rows[0].median_ms
        rows = []
        for row in self.rows:
            low, high = np.percentile(row.latencies_ms, (10, 90))
            rows.append(
                (
                    row.name,
                    f"{row.median_ms:.2f}",
                    f"{low:.2f}",
                    f"{high:.2f}",
                    f"{row.median_ms / stock_ms:.3f}",
                    f"{row.difference:.1e}",
                )
            )
        header = ("", "median ms", "10 % ms", "90 % ms", "/ stock", "difference")
        return table(header, rows)

    def notes(self) -> list[str]:
        rows: dict[str, Row] = {}
        rows |= {row.name: row for row in self.rows if row.name in STRATEGIES}
        default = rows.pop(DEFAULT_STRATEGY, None)
        if default is None or not rows:
            return []
        best = min(rows.values(), key=lambda row: row.median_ms)
        longer = default.median_ms / best.median_ms - 1
        if longer <= 0:
            return []
        pairs = zip(default.latencies_ms, best.latencies_ms, strict=True)
        low, high = interval_of_median([a / b for a, b in pairs])
        text = f"{default.name}, the default strategy, took {longer:.1%} longer than "
        text += best.name
        if low <= 1:
            interval = f"{low:.2f} to {high:.2f}" if low else "unknown"
            return [
                f"{text}. This is within the noise of the measurement (the confidence "
                f"interval of the ratio is {interval}). Use more --rounds to make the "
                "interval smaller"
            ]
        return [
            f"{text} (the confidence interval of the ratio is {low:.2f} to "
            f"{high:.2f}). The search measures each stage alone, but a stage can be "
            "faster or slower in the whole network. Convert with "
            f"--strategy={best.name}"
        ]

    def to_json(self) -> dict[str, Any]:
        """The result and the conditions of the measurement as a JSON object."""
        stock_ms = self.rows[0].median_ms
        return {
            **self.conditions(),
            "variants": [
                {
                    "name": row.name,
                    "median_ms": row.median_ms,
                    "ratio": row.median_ms / stock_ms,
                    "difference": row.difference,
                    "latencies_ms": list(row.latencies_ms),
                }
                for row in self.rows
            ],
        }


def bench(model: Any, options: BenchOptions) -> Result:
    """Measures a model on stock TensorFlow and under each strategy on the engine.

    Each round measures three calls of every variant.

    Raises:
      UserError: as for `ios_tf.convert`, or an input has an unknown shape or does not
        hold numbers.
    """
    chosen = devices.choose(options.device, options.log)
    search = ModelOptions(
        batch_size=options.batch_size,
        device=chosen.kind,
        cache_dir=options.cache_dir,
        keep_slower=True,
        progress=options.progress,
        log=options.log,
    )
    with saved_model(model, options.weights, options.log) as source:
        loaded = saved_models.load(source, options.tags)
    signature = saved_models.choose_signature(options.signature, loaded)
    stock = loaded.signatures[signature]
    # Checks the inputs now, so that the user learns of wrong inputs before the
    # searches, which take long.
    arguments, _ = accepted_inputs(
        stock, options.batch_size, parse_inputs(options.inputs)
    )
    frozen = frozen_graphs.freeze(signature, stock)
    functions = {STOCK: stock, FROZEN: frozen_graphs.rebuild(frozen, frozen.graph_def)}
    shared = Weights()
    function = Function.find(
        signature,
        stock,
        frozen_graphs.freeze(signature, stock, keep_filters=True),
        search.batch_sizes,
        image_size_of(frozen.inputs, arguments),
        chosen.kind,
        shared,
    )
    for strategy in options.strategies or SLOWEST_FIRST:
        with (
            searcher_for(dataclasses.replace(search, strategy=strategy)) as searcher,
            searcher.progress.phase(f"search ({strategy})", measures=True),
        ):
            graph_def = _scheduled(function, searcher)
        functions[strategy] = frozen_graphs.rebuild(
            function.frozen, *shared.take(function.frozen, graph_def)
        )
    return Result(
        model=str(model),
        signature=signature,
        device=plugin.device_fingerprint(chosen.engine),
        batch_size=options.batch_size,
        options=options,
        rows=measure(functions, arguments, options.rounds, options.progress),
    )


def _scheduled(function: Function, searcher: NetworkSearcher) -> graph_pb2.GraphDef:
    """Returns the graph with this searcher's schedules, even if it is not faster."""
    if not function.problems:
        return function.frozen.graph_def
    schedules, _ = searcher.schedule_all(function.problems.values())
    plan = Plan.find(function, schedules, searcher, keeps_all=True)
    return plan.rewrite()


def measure(
    functions: Mapping[str, Any],
    inputs: Mapping[str, tf.Tensor],
    rounds: int,
    progress: bool,
) -> list[Row]:
    """Measures the functions in turn, and compares each with the one named `STOCK`."""
    outputs = {name: function(**inputs) for name, function in functions.items()}
    latencies: dict[str, list[float]] = {name: [] for name in functions}
    shown = Progress(progress)
    with shown.phase("measure", measures=True):
        for i in range(rounds):
            for name, function in functions.items():
                for call in range(_CALLS + 1):
                    start = time.perf_counter()
                    timing.wait_for(function(**inputs))
                    if call:
                        latencies[name].append((time.perf_counter() - start) * 1e3)
            shown.update((i + 1) / rounds, f"{i + 1} of {rounds} rounds")
    return [
        Row(
            name,
            latencies[name],
            compare_outputs(outputs[name], outputs[STOCK])[0] or 0.0,
        )
        for name in functions
    ]
