"""Calls a signature from many threads at once, with changing batch sizes.

As a program, it takes [MODEL, [BATCH_SIZE, ...], THREADS, RUNS] as JSON, and prints a
`Result` as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import sys
import threading
from collections.abc import Callable, Sequence

import tensorflow as tf

import ios_tf  # noqa: F401, loads the plugin
from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs
from ios_tf.native.malloc import return_freed


def resident() -> float:
    """The resident memory in MiB, after glibc has returned its freed memory."""
    return_freed()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / 2**20


@dataclasses.dataclass(frozen=True)
class Result:
    """The observations of `hammer`. Memory is resident, in MiB.

    Attributes:
      differing: number of runs whose outputs differ from the single-threaded call.
      loaded: memory after the model is loaded and every batch size was called once.
      settled: peak memory in the first tenth of the runs, in which caches and memory
        pools grow.
      peak: peak memory of all runs.
    """

    runs: int
    differing: int
    loaded: float
    settled: float
    peak: float

    @property
    def growth(self) -> float:
        """MiB by which memory grew after the first tenth of the runs."""
        return max(0.0, self.peak - self.settled)


def hammer(
    function: Callable[..., dict[str, tf.Tensor]],
    batch_sizes: Sequence[int],
    threads: int,
    runs: int,
) -> Result:
    """Calls a signature function from many threads at once.

    Args:
      function: a signature of a loaded model.
      batch_sizes: call i uses batch size i mod n. The engine keeps eight sizes
        compiled; with more, it compiles again and again.
      threads: number of threads that call the function.
      runs: number of calls of all threads together.

    Raises:
      Any exception that a call raises.
    """
    inputs = [example_inputs(function, size) for size in batch_sizes]
    expected = [_bits(function(**i)) for i in inputs]
    loaded = resident()
    lock = threading.Lock()
    done = differing = 0
    settled = peak = loaded
    failures: list[BaseException] = []
    sample_every = max(1, runs // 1000)

    def work() -> None:
        nonlocal done, differing, settled, peak
        while not failures:
            with lock:
                if done == runs:
                    return
                number, done = done, done + 1
                if number % sample_every == 0:
                    if number <= runs // 10:
                        settled = max(settled, resident())
                    else:
                        peak = max(peak, resident())
            which = number % len(inputs)
            try:
                same = _bits(function(**inputs[which])) == expected[which]
            except BaseException as error:
                failures.append(error)
                return
            if not same:
                with lock:
                    differing += 1

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return Result(runs, differing, loaded, settled, max(peak, settled))


def _bits(outputs: dict[str, tf.Tensor]) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in outputs.items()}


def _main(arguments: str) -> None:
    path, batch_sizes, threads, runs = json.loads(arguments)
    loaded = saved_models.load(path)
    function = loaded.signatures[saved_models.choose_signature(None, loaded)]
    print(json.dumps(dataclasses.asdict(hammer(function, batch_sizes, threads, runs))))


if __name__ == "__main__":
    _main(sys.argv[1])
