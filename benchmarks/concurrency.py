"""Many threads call one model at once, with changing batch sizes.

    python -m benchmarks concurrency MODEL [--threads=24] [--runs=100000] ...

Checks that every output equals that of a single-threaded call bit for bit. Reports
throughput and memory of the converted model on the engine, and of the original on stock
TensorFlow. Each variant runs in its own process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from benchmarks import command_line
from benchmarks.standalone import exit_code
from ios_tf.conversion.convert import convert
from ios_tf.files import write_json
from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs
from ios_tf.model.loading import saved_model
from ios_tf.native.malloc import resident
from ios_tf.tables import table


@dataclasses.dataclass(frozen=True)
class Result:
    """The observations of `hammer`. Memory is resident, in MiB.

    Attributes:
      differing: number of runs whose outputs differ from the single-threaded call.
      loaded: memory after the model is loaded and every batch size was called once.
      settled: peak memory in the first tenth of the runs, which fills caches and pools.
      peak: peak memory of all runs.
      seconds: duration of all runs.
    """

    runs: int
    differing: int
    loaded: float
    settled: float
    peak: float
    seconds: float

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
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - start
    if failures:
        raise failures[0]
    return Result(runs, differing, loaded, settled, max(peak, settled), seconds)


def bench_concurrency(
    model: Any,
    *,
    batch_sizes: Sequence[int] = (1, 2, 3, 4),
    threads: int = 24,
    runs: int = 100_000,
    stock_runs: int | None = None,
    cache_dir: str | None = None,
    progress: bool = False,
    log: Callable[[str], None] = lambda line: None,
) -> tuple[Result, Result]:
    """Runs `hammer` on the converted model (engine) and the original (TensorFlow).

    Args:
      model, cache_dir, progress, log: as for `ios_tf.convert`.
      batch_sizes, threads, runs: as for `hammer`.
      stock_runs: number of calls on stock TensorFlow; by default `runs`.

    Returns:
      The engine's result and stock TensorFlow's result.
    """
    with (
        saved_model(model, log=log) as source,
        tempfile.TemporaryDirectory(prefix="ios_tf_") as directory,
    ):
        converted = directory + "/converted"
        convert(
            source, converted, cache_dir=cache_dir, keep_slower=True, progress=progress
        )
        engine = _in_a_process(converted, batch_sizes, threads, runs, True)
        stock = _in_a_process(source, batch_sizes, threads, stock_runs or runs, False)
    return engine, stock


def _in_a_process(
    path: str, batch_sizes: Sequence[int], threads: int, runs: int, plugin: bool
) -> Result:
    """Runs `hammer` in its own process, so that the variants' memory is separate."""
    arguments = json.dumps([path, list(batch_sizes), threads, runs, plugin])
    command = command_line("concurrency", "--child", arguments)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{path}: {done.stderr.strip()[-2000:]}")
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def _child(arguments: str) -> None:
    path, batch_sizes, threads, runs, plugin = json.loads(arguments)
    tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": plugin})
    loaded = saved_models.load(path)
    function = loaded.signatures[saved_models.choose_signature(None, loaded)]
    print(json.dumps(dataclasses.asdict(hammer(function, batch_sizes, threads, runs))))


def _bits(outputs: dict[str, tf.Tensor]) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in outputs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Calls a model from many threads.")
    parser.add_argument("model", metavar="MODEL", nargs="?")
    parser.add_argument("--threads", type=int, default=24)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--stock_runs", type=int, help="default: as many as --runs")
    parser.add_argument("--batch_sizes", default="1,2,3,4")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child(options.child)
        return 0
    return exit_code(_run, options)


def _run(options: argparse.Namespace) -> int:
    engine, stock = bench_concurrency(
        options.model,
        batch_sizes=[int(size) for size in options.batch_sizes.split(",")],
        threads=options.threads,
        runs=options.runs,
        stock_runs=options.stock_runs,
        progress=True,
        log=print,
    )
    header = ("", "runs", "differing", "runs/s", "loaded", "peak", "growth (MiB)")
    rows = [
        (
            name,
            str(result.runs),
            str(result.differing),
            f"{result.runs / result.seconds:.0f}",
            f"{result.loaded:.0f}",
            f"{result.peak:.0f}",
            f"{result.growth:.1f}",
        )
        for name, result in (("engine", engine), ("TensorFlow", stock))
    ]
    print(table(header, rows))
    if options.json:
        content = {
            "model": options.model,
            "threads": options.threads,
            "batch_sizes": options.batch_sizes,
            "engine": dataclasses.asdict(engine),
            "tensorflow": dataclasses.asdict(stock),
        }
        write_json(options.json, content)
    return 0 if engine.differing == 0 else 1
