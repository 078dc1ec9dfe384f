"""End to end: saves a function, converts it by `ios_tf.convert`, and loads it."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import ios_tf
from ios_tf.native import grappler
from random_graphs.comparison import Comparison
from random_graphs.program import Settings
from random_graphs.sessions import Feed, Outcome


@dataclasses.dataclass(frozen=True)
class EndToEnd:
    """Saves, converts and loads one function."""

    concrete: Any
    function: Any
    settings: Settings
    directory: str

    def check(
        self,
        outcomes: Sequence[tuple[Feed, Outcome]],
        check_one: Comparison,
        say: Callable[[str], None],
    ) -> None:
        """Saves, converts, loads and runs."""
        say("end to end save")
        module = tf.Module()
        module.weights = list(self.concrete.graph.variables)
        module.function = self.function
        saved = os.path.join(self.directory, "saved")
        tf.saved_model.save(module, saved, signatures=self.concrete)
        say("end to end convert")
        try:
            converted = self._convert(saved)
        except Exception as error:
            check_one.conversion_fails(error, "end to end convert")
            return
        for mode, plugin in (("end to end plugin", True), ("end to end plain", False)):
            say(mode)
            with grappler.options(use_plugin_optimizers=plugin):
                # A function keeps the graph of its first optimization, so the model is
                # loaded again.
                signature = tf.saved_model.load(converted).signatures["serving_default"]
                for feed, outcome in outcomes:
                    check_one(mode, feed, outcome, functools.partial(_call, signature))

    def _convert(self, saved: str) -> str:
        converted = os.path.join(self.directory, "converted")
        fixed = all(
            tensor.shape.rank == 0 or tensor.shape[0] is not None
            for tensor in self.concrete.inputs
            if tensor.dtype != tf.resource
        )
        sizes = self.settings.batch_sizes
        ios_tf.convert(
            saved,
            converted,
            batch_size=sizes[:1] if fixed else sizes,
            device="cpu",
            strategy=("sequential", "greedy", "auto")[self.settings.seed % 3],
            cache_dir=os.path.join(self.directory, "cache"),
            warmup_runs=0,
            runs=1,
            sample_count=1,
            time_limit=2,
            keep_slower=True,
        )
        return converted


def _call(signature: Any, feed: Feed) -> Outcome:
    try:
        outputs = signature(**{n: tf.constant(array) for n, array in feed.items()})
    except tf.errors.OpError as error:
        return error
    return [outputs[name].numpy() for name in sorted(outputs)]
