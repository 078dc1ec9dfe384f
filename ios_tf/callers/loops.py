"""Loops of callers: threads of this process that call a model at the same time.

In a closed loop, each caller calls again as soon as it has its result. In an open loop,
calls arrive at random times, and the next free caller makes each call.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

Call = Callable[[], Any]

PERCENTILES = (50, 90, 99)
# Each caller first makes this many calls that are not measured, so that caches, threads
# and clock frequencies settle.
_WARMUP_CALLS = 3


@dataclass(frozen=True)
class Measurement:
    """The measured calls of one loop.

    Attributes:
      latencies_ms: the latency of each call.
      seconds: the time from the first call's start to the last call's end.
      cpu_seconds: processor time that this process used in that time.
      unanswered: the number of calls that were not made, because no caller was free.
    """

    latencies_ms: Sequence[float]
    seconds: float
    cpu_seconds: float
    unanswered: int = 0

    def figures(self, batch_size: int) -> dict[str, float]:
        """Returns the throughput, and the latency and processor time of a call."""
        calls = len(self.latencies_ms)
        return {
            "images_per_second": calls * batch_size / self.seconds,
            **{
                f"p{percent}_ms": float(np.percentile(self.latencies_ms, percent))
                for percent in PERCENTILES
            },
            "cpu_ms": self.cpu_seconds * 1e3 / calls,
        }


def closed_loop(
    callers: Sequence[Call],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Measurement:
    """Makes each caller call again and again for `seconds`, at least once.

    Args:
      callers: the function of each caller, which has a thread of its own.
      seconds: a caller makes no further call after this time.
      clock: returns the time in seconds.
    """

    def loop(call: Call, latencies: list[float], start: float) -> None:
        begin = clock()
        while begin < start + seconds or not latencies:
            call()
            end = clock()
            latencies.append((end - begin) * 1e3)
            begin = end

    return _run(callers, loop, clock)


def open_loop(
    callers: Sequence[Call],
    arrivals: Sequence[float],
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Measurement:
    """Makes calls at given times. A latency includes the wait for a free caller.

    Calls may wait. The loop ends after twice the time of the last arrival, and calls
    that still wait then are not made.

    Args:
      callers: the function of each caller, which has a thread of its own.
      arrivals: the times of calls in seconds, ascending.
      clock: returns the time in seconds.
      sleep: waits for a number of seconds.
    """
    numbers = itertools.count()  # next() on a counter is atomic

    def loop(call: Call, latencies: list[float], start: float) -> None:
        while (number := next(numbers)) < len(arrivals):
            arrival = start + arrivals[number]
            now = clock()
            if now > start + 2 * arrivals[-1] and latencies:
                break
            if now < arrival:
                sleep(arrival - now)
            call()
            latencies.append((clock() - arrival) * 1e3)

    return _run(callers, loop, clock, len(arrivals))


def arrival_times(rate: float, seconds: float, seed: int) -> Sequence[float]:
    """Returns arrival times, in seconds, of a Poisson process: `rate` per second."""
    count = max(1, round(rate * seconds))
    gaps = np.random.default_rng(seed).exponential(1 / rate, count)
    times: Sequence[float] = np.cumsum(gaps).tolist()
    return times


def _run(
    callers: Sequence[Call],
    loop: Callable[[Call, list[float], float], None],
    clock: Callable[[], float],
    arrivals: int | None = None,
) -> Measurement:
    """Runs the loop of each caller in a thread of its own.

    All loops begin at the same time.
    """
    begin: list[float] = []
    barrier = threading.Barrier(
        len(callers), lambda: begin.extend((clock(), time.process_time()))
    )

    def run(call: Call) -> list[float]:
        latencies: list[float] = []
        try:
            for _ in range(_WARMUP_CALLS):
                call()
        except BaseException:
            barrier.abort()  # otherwise, the other threads would wait forever
            raise
        barrier.wait()
        loop(call, latencies, begin[0])
        return latencies

    with ThreadPoolExecutor(len(callers)) as pool:
        futures = [pool.submit(run, call) for call in callers]
    end = clock(), time.process_time()
    errors = [error for future in futures if (error := future.exception())]
    # A thread that waited at the barrier only reports that another thread has failed,
    # so its error comes last.
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    latencies = [latency for future in futures for latency in future.result()]
    return Measurement(
        latencies,
        end[0] - begin[0],
        end[1] - begin[1],
        (arrivals or len(latencies)) - len(latencies),
    )
