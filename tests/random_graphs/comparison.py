"""Compares outcomes, and skips differences due to TensorFlow itself or rounding."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ios_tf.model.frozen_graphs import FrozenSignature
from random_graphs.differences import (
    Difference,
    Result,
    conversion_fails,
    different,
)
from random_graphs.program import Settings
from random_graphs.sessions import (
    KINDS_OF_FEEDS,
    Feed,
    Outcome,
    Session,
    feed_of,
    ran,
    stock_sessions,
)

# Tolerances relative to the largest value, for float32 and for half precision.
_TOLERANCE, _HALF_TOLERANCE = 1e-4, 1e-2


class Comparison:
    """Compares outcomes, and adds differences to a result."""

    def __init__(
        self,
        frozen: FrozenSignature,
        original: Session,
        settings: Settings,
        result: Result,
    ):
        self._frozen = frozen
        self._original = original
        self._settings = settings
        self._result = result
        self._stock: list[Session] = []
        types = {
            node.attr[key].type
            for node in frozen.graph_def.node
            for key in ("DstT", "T")
            if key in node.attr
        }
        halves = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}
        self._tolerance = _HALF_TOLERANCE if types & halves else _TOLERANCE

    def __call__(
        self,
        mode: str,
        feed: Feed,
        expected: Outcome,
        run: Callable[[Feed], Outcome],
    ) -> None:
        self._result.comparisons += 1
        found = different(expected, run(feed), self._tolerance)
        if found is None:
            return
        if self._explained(feed, expected, run, found[0]):
            self._result.skipped += 1
            return
        shapes = {name: array.shape for name, array in feed.items()}
        self._result.differences.append(Difference(mode, found[0], shapes, *found[1:]))

    def conversion_fails(self, error: Exception, mode: str) -> None:
        """Adds an error that a conversion raised."""
        self._result.differences.append(conversion_fails(error, mode))

    def _explained(
        self,
        feed: Feed,
        expected: Outcome,
        run: Callable[[Feed], Outcome],
        kind: str,
    ) -> bool:
        """True if a difference is TensorFlow's own or due to rounding."""
        if not self._stock:
            self._stock = list(stock_sessions(self._frozen))
        if any(different(expected, s.run(feed), self._tolerance) for s in self._stock):
            return True
        if not convolves_nothing() and self._contradicts_itself(feed):
            return True
        if kind != "values":
            return False
        # The comparison is inconclusive if a tiny change of the inputs changes the
        # original's result, or if other inputs of the same kind show no difference.
        random = np.random.default_rng(self._settings.seed + 1)
        near = {
            name: array
            + (np.abs(array) * random.uniform(-2e-6, 2e-6, array.shape)).astype(
                array.dtype
            )
            for name, array in feed.items()
        }
        if different(expected, self._original.run(near), self._tolerance / 4):
            return True
        shapes = [array.shape for array in feed.values()]
        seed = self._settings.seed + KINDS_OF_FEEDS
        other = feed_of(self._frozen, shapes, seed)
        return not different(self._original.run(other), run(other), self._tolerance)

    def _contradicts_itself(self, feed: Feed) -> bool:
        """True if a convolution's output has another shape than TensorFlow says."""
        with tf.Graph().as_default() as graph:
            known = {
                self._frozen.inputs[name].name: tf.compat.v1.placeholder(
                    array.dtype, array.shape
                )
                for name, array in feed.items()
            }
            try:
                tf.import_graph_def(self._frozen.graph_def, input_map=known, name="")
            except ValueError:  # the shapes do not match, so an error is correct
                return False
        for node in graph.get_operations():
            if "Conv2d" in node.type or "Conv2D" in node.type:
                outcome = self._original.run(feed, [node.outputs[0].name])
                if ran(outcome) and not node.outputs[0].shape.is_compatible_with(
                    outcome[0].shape
                ):
                    return True
        return False


@functools.cache
def convolves_nothing() -> bool:
    """True if a convolution of an empty batch has the right number of channels.

    With oneDNN, TensorFlow 2.21 gives an empty batch the shape of the input.
    """
    filters = np.ones((1, 1, 1, 2), np.float32)
    return (
        tf.nn.conv2d(np.ones((0, 1, 1, 1), np.float32), filters, 1, "SAME").shape[3]
        == 2
    )
