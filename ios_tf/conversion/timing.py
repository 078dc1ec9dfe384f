"""Measures functions that take turns, so that a disturbance affects all of them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from ios_tf.cost.samples import RECORDER, Latency, Sample
from ios_tf.cost.verdict import GAIN, ratio_of
from ios_tf.native import engine, grappler

# A function to measure: (a factory of the context for its calls, the function itself).
Turn = tuple[Callable[[], contextlib.AbstractContextManager[Any]], Callable[[], Any]]

_SECONDS = 0.7  # for each function
_ROUNDS = 20
# The number of calls of a function in each round. The first call of a round is not
# used, because threads of the previous function may still be busy. This hardly affects
# a call that takes longer than _LONG_MS, so such a call is used.
_CALLS = 3
_LONG_MS = 500
# A function is clearly faster if it takes less than this fraction of the first
# function's time. If no function is clearly faster, the measurement takes _LONGER times
# as long, so that a disturbance by other processes does not decide.
_CLEARLY = 0.95
_LONGER = 3
# The smallest number of rounds on a busy machine, unless they take more than
# _MOST_SECONDS.
_LEAST_BUSY = 8
_MOST_SECONDS = 40
_PERCENTILES = (10, 90)
# If several callers call a function at once, each calls it for this many seconds, so
# that it hardly matters that their threads start at slightly different times.
_SECONDS_OF_CALLERS = 0.01


class Latencies(list[float]):
    """Latencies in milliseconds, of which the first is the reference for the others.

    Attributes:
      ratios: the ratio of the first latency to each other one, with an interval.
      ranges: the 10th and the 90th percentile of the samples of each latency.
    """

    def __init__(self, samples: Sequence[Sequence[Sample]], on_cpu: bool) -> None:
        super().__init__(Latency.of(of_one).median_ms for of_one in samples)
        first, *others = samples
        self.ratios = [ratio_of(first, other, on_cpu) for other in others]
        self.ranges = [_range(of_one) for of_one in samples]


def _range(samples: Sequence[Sample]) -> tuple[float, float]:
    """The percentiles of the samples whose median is the latency."""
    disturbed = Latency.of(samples).disturbed
    kept = [sample.ms for sample in samples if disturbed or not sample.disturbed]
    low, high = np.percentile(kept, _PERCENTILES)
    return float(low), float(high)


def turn(
    plugin: bool,
    device: str,
    function: Callable[..., Any],
    /,
    *args: Any,
    **inputs: Any,
) -> Turn:
    """Returns a function with its arguments, to be measured (`Turn`). See `running`."""
    context = functools.partial(running, plugin, device)
    return context, functools.partial(function, *args, **inputs)


def latencies(turns: Sequence[Turn], callers: int = 1) -> Latencies:
    """Measures the latencies of functions that take turns in rounds, in milliseconds.

    Each function returns a nested structure of tensors. A call ends when all tensors
    are computed. With several callers, that many threads call the function at the same
    time, again and again, and a sample is the mean latency of their calls.
    """
    samples: list[list[Sample]] = [[] for _ in turns]
    on_cpu = not tf.config.list_logical_devices("GPU")
    meter = engine.Meter()
    start = time.perf_counter()
    for i in range(_LONGER * _ROUNDS):
        if i and _is_enough(samples, i, time.perf_counter() - start, on_cpu):
            break
        if i == 1:  # the calls of the first round have started all threads
            meter = engine.Meter()
        in_order = list(enumerate(turns))
        # The order of the functions alternates, because the data that a function leaves
        # in the processor's caches affects the next function.
        found = {
            number: _samples_of(turn, meter, on_cpu, callers, is_first=i == 0)
            for number, turn in (in_order if i % 2 == 0 else reversed(in_order))
        }
        # All functions keep the same number of samples, because samples are compared in
        # pairs.
        count = min(map(len, found.values()))
        for number, of_one in enumerate(samples):
            of_one += found[number][:count]
            RECORDER.add(found[number])
    return Latencies(samples, on_cpu)


def _is_enough(
    samples: Sequence[Sequence[Sample]], rounds: int, seconds: float, on_cpu: bool
) -> bool:
    """Returns whether more rounds are unnecessary or would take too long."""
    first, *others = samples
    ratios = [ratio_of(first, other, on_cpu) for other in others]
    clear = all(
        ratio.estimate * _CLEARLY > 1 and (ratio.calm or ratio.low > GAIN)
        for ratio in ratios
    )
    longer = 1 if clear else _LONGER
    if rounds >= longer * _ROUNDS:
        return True
    if not clear and rounds < _LEAST_BUSY and not all(ratio.calm for ratio in ratios):
        return seconds > _MOST_SECONDS
    return seconds > longer * _SECONDS * len(samples)


def _samples_of(
    turn: Turn, meter: engine.Meter, on_cpu: bool, callers: int, is_first: bool
) -> list[Sample]:
    """Returns the samples of one function in one round."""
    context, call = turn
    samples: list[Sample] = []
    with context():
        for repeated in range(_CALLS):
            meter.start()
            calls, milliseconds = _called(call, callers)
            disturbed, cpu_ms = meter.stop(not on_cpu, compete=callers > 1)
            cpu_ms /= calls
            long = milliseconds > _LONG_MS
            # The very first call is not used, because it may include compiling.
            if repeated or (long and not is_first):
                samples.append(Sample(milliseconds, disturbed, cpu_ms))
            if samples and long:
                break
    return samples


def _called(call: Callable[[], Any], callers: int) -> tuple[int, float]:
    """Lets callers call a function at the same time, each on another thread.

    Returns:
      The number of calls, and their mean latency in milliseconds.
    """
    if callers == 1:
        return 1, _call_repeatedly(call, 0.0)[1]
    # The threads are new, because TensorFlow keeps options of earlier calls per thread.
    device = context.context().device_name

    def caller() -> tuple[int, float]:
        with tf.device(device):
            return _call_repeatedly(call, _SECONDS_OF_CALLERS)

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        parts = [one.result() for one in [pool.submit(caller) for _ in range(callers)]]
    counts, means = zip(*parts, strict=True)
    return sum(counts), sum(means) / callers


def _call_repeatedly(call: Callable[[], Any], seconds: float) -> tuple[int, float]:
    """Calls a function for some seconds, at least once; returns as `_called` does."""
    begin = time.perf_counter()
    calls = 0
    while True:
        wait_for(call())
        calls += 1
        passed = time.perf_counter() - begin
        if passed >= seconds:
            return calls, passed / calls * 1e3


def wait_for(outputs: Any) -> None:
    """Waits until a GPU has computed the outputs."""
    for tensor in tf.nest.flatten(outputs, expand_composites=True):
        if is_value(tensor):
            tensor.numpy()


def is_value(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor has values, unlike the handle of a resource."""
    return tensor.dtype not in (tf.resource, tf.variant)


@contextlib.contextmanager
def running(plugin: bool, device: str, optimizers: bool = True) -> Iterator[None]:
    """Runs functions with or without this package's plugin inside the block.

    Without `optimizers`, TensorFlow's own graph optimizers are off, too.
    """
    options = {"use_plugin_optimizers": plugin}
    if not optimizers:
        options["disable_meta_optimizer"] = True
    # Operators are not placed on a GPU here, because some of them may not have GPU
    # kernels.
    place = tf.device("/CPU:0") if device == "cpu" else contextlib.nullcontext()
    with grappler.options(**options), place:
        yield
