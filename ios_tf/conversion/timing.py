"""Latencies of functions that take turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.native import grappler

# One to measure: the context to call it in, and what to call.
Turn = tuple[Callable[[], contextlib.AbstractContextManager[Any]], Callable[[], Any]]

_SECONDS = 0.7  # for each of them
_ROUNDS = 20
_CALLS = 3  # in a row; the first lets the threads of the one before come to rest
_LONG_MS = 500  # after which that hardly counts
# Unless the others are this much faster than the first, measuring takes this many times
# as long, so that a busy neighbour does not decide.
_CLEARLY = 0.95
_LONGER = 3
# The gain over all batch sizes that is worth leaving TensorFlow, and the loss that is
# allowed at one of them.
_GAIN = 1.01
_LOSS = 1.02


def latencies(turns: Sequence[Turn]) -> list[float]:
    """Median latencies in milliseconds of calls, which take turns in rounds.

    What they return, nests of tensors, is waited for.
    """
    samples: list[list[float]] = [[] for _ in turns]
    start = time.perf_counter()
    for i in range(_LONGER * _ROUNDS):
        longer = 1 if _are_faster(samples) else _LONGER
        seconds = time.perf_counter() - start
        if i >= longer * _ROUNDS or (i and seconds > longer * _SECONDS * len(turns)):
            break
        for of_one, (context, call) in zip(samples, turns, strict=True):
            with context():
                for repeated in range(_CALLS):
                    begin = time.perf_counter()
                    _wait_for(call())
                    milliseconds = (time.perf_counter() - begin) * 1e3
                    long = milliseconds > _LONG_MS
                    # The very first call may compile.
                    if repeated or (i and long):
                        of_one.append(milliseconds)
                    if of_one and long:
                        break
    return [statistics.median(of_one) for of_one in samples]


def _are_faster(samples: Sequence[Sequence[float]]) -> bool:
    """Whether all are clearly faster than the first."""
    if not samples[0]:
        return False
    first, *others = map(statistics.median, samples)
    return all(other < _CLEARLY * first for other in others)


def _wait_for(outputs: Any) -> None:
    """Waits for what a GPU computes."""
    for tensor in tf.nest.flatten(outputs, expand_composites=True):
        if is_value(tensor):
            tensor.numpy()


def is_value(tensor: tf.Tensor) -> bool:
    """Whether a tensor has values, and is no handle of a variable or the like."""
    return tensor.dtype not in (tf.resource, tf.variant)


def is_faster(tensorflow_ms: Mapping[int, float], ms: Mapping[int, float]) -> bool:
    """Whether latencies, by batch size, are worth leaving TensorFlow's.

    What was not measured is not.
    """
    speedups = [tensorflow_ms[size] / one for size, one in ms.items()]
    gained = math.prod(speedups) >= _GAIN ** len(speedups)
    return bool(speedups) and gained and not slower(tensorflow_ms, ms)


def slower(tensorflow_ms: Mapping[int, float], ms: Mapping[int, float]) -> list[int]:
    """The batch sizes at which something takes longer than TensorFlow."""
    return [size for size, one in ms.items() if one > _LOSS * tensorflow_ms[size]]


@contextlib.contextmanager
def running(plugin: bool, device: str, optimizers: bool = True) -> Iterator[None]:
    """Functions called here run with this package's plugin, or without it.

    Without `optimizers` as without all graph optimizers of TensorFlow, too.
    """
    options = {"use_plugin_optimizers": plugin}
    if not optimizers:
        options["disable_meta_optimizer"] = True
    # On the GPU nothing is said: not all of a model can be there.
    place = tf.device("/CPU:0") if device == "cpu" else contextlib.nullcontext()
    with grappler.options(**options), place:
        yield
