"""Latencies on a machine that other processes use, too.

    python -m benchmarks contention MODEL [MODEL...] [--batch_size=N] [--seconds=N]
        [--json=FILE]

MODEL is a SavedModel, a Keras file, `keras:NAME`, `models:NAME` or a network of the
zoo. The command first converts it. For every row of the results, new processes call the
original and the converted model in turn. The rows are:

* alone
* beside processes that do nothing but compute
* beside builds
* beside a process that calls the same model
* on one core
* under a quota of processor time
* with 8 threads that call each model, alone and beside busy processes

The rows with 8 threads have more variants: a model converted for 8 callers, and both
models with TensorFlow's batching.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.results import write_measured
from benchmarks.standalone import saved_model_of
from ios_tf.callers.frameworks import Model
from ios_tf.callers.worker import Worker
from ios_tf.files import check_writable
from ios_tf.tables import table

# Variants of a model, and the frameworks of `ios_tf bench --callers` that run them.
VARIANTS = {"TensorFlow": "tensorflow", "converted": "ios"}
# The variants of rows with many callers.
CALLERS = 8
VARIANTS_OF_CALLERS = {
    **VARIANTS,
    f"converted for {CALLERS} callers": "ios",
    "TensorFlow, batching": "tensorflow_batching",
    "converted, batching": "ios_batching",
}
PERCENTILES = (50, 90, 99)
_CORES = 1.5  # quota of processor time
_TURN = 0.2  # seconds for which a variant is called before the next variant
_LEAST_CALLS = 50  # the smallest number of measured calls per variant
_SERVED = "beside a process that calls the same"
_ONE_CORE = "on one core"
_QUOTA = f"with a quota of {_CORES} cores"

# Computes until its parent process has ended for any reason.
_BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000): pass
"""
# Imitates builds and tests: consecutive short processes that read files, allocate
# memory and end. Their priority is lower, as is usual on a shared machine.
_BUILDS = """
import os, subprocess, sys
os.nice(10)
job = "import ast, inspect, unittest; ast.parse(inspect.getsource(unittest.case))"
parent = os.getppid()
while os.getppid() == parent:
    subprocess.run([sys.executable, "-c", job], stdin=subprocess.DEVNULL)
"""
_OTHERS = {
    "beside 1 busy process": [_BUSY],
    "beside 2 busy processes": [_BUSY] * 2,
    "beside 4 busy processes": [_BUSY] * 4,
    "beside 8 busy processes": [_BUSY] * 8,
    "beside 16 busy processes": [_BUSY] * 16,
    "beside 3 builds": [_BUILDS] * 3,
}
_ROWS_OF_CALLERS = {
    f"{CALLERS} callers": [],
    f"{CALLERS} callers beside 4 busy processes": [_BUSY] * 4,
}
ROWS = ("alone", *_OTHERS, _SERVED, _ONE_CORE, _QUOTA, *_ROWS_OF_CALLERS)


def bench_contention(
    name: str,
    batch_size: int,
    seconds: float,
    rows: Sequence[str] | None = None,
    log: Callable[[str], None] = print,
) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the results: row -> variant -> "p50" (ms), ..., "images_per_second".

    Args:
      name: the model, see the module's description.
      batch_size: batch size of the model's inputs.
      seconds: least duration of a row.
      rows: the items of `ROWS` to measure; by default all.
      log: gets a line about a row that cannot be measured here.

    Raises:
      UserError: as for `ios_tf.convert`.
    """
    found = {}
    rows = rows or ROWS
    with contextlib.ExitStack() as files:
        directory = files.enter_context(tempfile.TemporaryDirectory(prefix="ios_tf_"))
        source = files.enter_context(saved_model_of(name))
        with_callers = any(row in _ROWS_OF_CALLERS for row in rows)
        models = _models(source, batch_size, directory, with_callers)
        for row in rows:
            with contextlib.ExitStack() as stack:
                if row == _ONE_CORE:
                    stack.enter_context(_one_core())
                many = row in _ROWS_OF_CALLERS
                workers = _start(
                    models, VARIANTS_OF_CALLERS if many else VARIANTS, stack
                )
                if row == _QUOTA:
                    group = stack.enter_context(_group_of_quota())
                    if group is None:
                        log(f"{row!r} is left out: no control group can be created")
                        continue
                    for worker in workers.values():
                        Path(group).write_text(str(worker.pid))
                neighbors = _start(models, VARIANTS, stack) if row == _SERVED else {}
                for program in (_OTHERS | _ROWS_OF_CALLERS).get(row, []):
                    process = subprocess.Popen([sys.executable, "-c", program])
                    stack.enter_context(process)
                    stack.callback(process.kill)
                found[row] = _measure(
                    workers, neighbors, seconds, CALLERS if many else 1, batch_size
                )
    return found


def _models(
    source: str, batch_size: int, directory: str, with_callers: bool
) -> dict[str, Model]:
    """Converts a SavedModel; returns all variants, with inputs."""
    import ios_tf
    from ios_tf.callers.forms import store_inputs
    from ios_tf.model import saved_models
    from ios_tf.model.inputs import example_inputs

    loaded = saved_models.load(source)
    signature = saved_models.choose_signature(None, loaded)
    function = loaded.signatures[signature]
    inputs = store_inputs(example_inputs(function, batch_size), directory)
    outputs = list(function.structured_outputs)
    original = Model(source, inputs, outputs, signature, None, batch_size)

    def converted(callers: int) -> Model:
        path = os.path.join(directory, f"converted_{callers}")
        sizes = [batch_size, batch_size * CALLERS] if with_callers else batch_size
        ios_tf.convert(
            source, path, batch_size=sizes, callers=callers, keep_slower=True
        )
        return dataclasses.replace(original, path=path)

    models = dict(zip(VARIANTS, (original, converted(1)), strict=True))
    if not with_callers:
        return models
    batching = [dataclasses.replace(m, batching=True) for m in models.values()]
    every = (*models.values(), converted(CALLERS), *batching)
    return dict(zip(VARIANTS_OF_CALLERS, every, strict=True))


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Gives this process, and those that it starts, only one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _start(
    models: Mapping[str, Model],
    variants: Mapping[str, str],
    stack: contextlib.ExitStack,
) -> dict[str, Worker]:
    """Starts a process for each variant; `stack` ends the processes."""
    workers = {}
    for variant, framework in variants.items():
        workers[variant] = Worker(framework, models[variant])
        stack.callback(workers[variant].close)
    return workers


def _measure(
    workers: Mapping[str, Worker],
    neighbors: Mapping[str, Worker],
    seconds: float,
    callers: int,
    batch_size: int,
) -> dict[str, dict[str, float]]:
    """Measures variants in turn; a variant's neighbor, if any, runs beside it."""
    import numpy as np

    latencies: dict[str, list[float]] = {variant: [] for variant in workers}
    spent = dict.fromkeys(workers, 0.0)  # seconds of all turns
    end = time.perf_counter() + seconds
    with ThreadPoolExecutor(1) as pool:
        while (
            time.perf_counter() < end
            or min(map(len, latencies.values())) < _LEAST_CALLS
        ):
            for variant, worker in workers.items():
                neighbor = neighbors.get(variant)
                if neighbor:
                    beside = pool.submit(neighbor.measure, 1, 2 * _TURN, None, 0)
                turn = worker.measure(callers, _TURN, None, 0)
                latencies[variant] += turn.latencies_ms
                spent[variant] += turn.seconds
                if neighbor:
                    beside.result()
    return {
        variant: {
            **{f"p{p}": float(np.percentile(values, p)) for p in PERCENTILES},
            "images_per_second": len(values) * batch_size / spent[variant],
        }
        for variant, values in latencies.items()
    }


@contextlib.contextmanager
def _group_of_quota() -> Iterator[str | None]:
    """Makes a control group with a quota of _CORES cores.

    Yields:
      The file through which a process joins the group; None if no group can be made.
    """
    period = 100_000
    quota = int(_CORES * period)
    name = f"ios_tf_{os.getpid()}"
    for root, files in (
        (
            "/sys/fs/cgroup/cpu",
            {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota},
        ),
        ("/sys/fs/cgroup", {"cpu.max": f"{quota} {period}"}),
    ):
        group = Path(root, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            for file, value in files.items():
                if not (group / file).exists():
                    break
                (group / file).write_text(str(value))
            else:
                yield str(group / "cgroup.procs")
                return
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
    yield None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", metavar="MODEL", nargs="+")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=10, help="minimum seconds of each row"
    )
    parser.add_argument("--json", metavar="FILE")


def _table_of_pairs(rows: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The latencies of the rows with one caller."""
    return table(
        ["", *(f"p{p}" for p in PERCENTILES)],
        [
            [
                row,
                *(
                    " -> ".join(f"{of[variant][f'p{p}']:.2f}" for variant in VARIANTS)
                    for p in PERCENTILES
                ),
            ]
            for row, of in rows.items()
            if row not in _ROWS_OF_CALLERS
        ],
    )


def _table_of_variants(variants: Mapping[str, Mapping[str, float]]) -> str:
    """The latencies and the throughput of a row with many callers."""
    return table(
        ["", *(f"p{p} ms" for p in PERCENTILES), "images/s"],
        [
            [
                variant,
                *(f"{found[f'p{p}']:.2f}" for p in PERCENTILES),
                f"{found['images_per_second']:.1f}",
            ]
            for variant, found in variants.items()
        ],
    )


def run(options: argparse.Namespace) -> int:
    if options.json:
        check_writable(options.json)
    found = {}
    for model in options.models:
        rows = bench_contention(model, options.batch_size, options.seconds)
        found[model] = rows
        print(f"\n{model}, batch {options.batch_size}: ms, TensorFlow -> converted")
        print(_table_of_pairs(rows))
        for row in _ROWS_OF_CALLERS:
            print(f"\n{model}, batch {options.batch_size}, {row}")
            print(_table_of_variants(rows[row]), flush=True)
        if options.json:
            write_measured(options.json, options, models=found)
    return 0
