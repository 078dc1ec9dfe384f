"""Latencies on a machine that other processes use, too.

    python -m benchmarks contention MODEL [MODEL...] [--batch_size=N] [--seconds=N]
        [--json=FILE]

MODEL is a SavedModel, a Keras file, `keras:NAME`, `models:NAME` or a network of the
zoo. The model is converted once. Then, for every row, a new process calls the original
and the converted model in turn. The rows are: alone, beside processes that do nothing
but compute, beside builds, beside a process that calls the same model, on one core, and
under a quota of processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import write_measured
from benchmarks.standalone import saved_model_of
from ios_tf.files import check_writable
from ios_tf.tables import table

VARIANTS = ("TensorFlow", "converted")
PERCENTILES = (50, 90, 99)
_CORES = 1.5  # quota of processor time
_CALLS = 5  # consecutive counted calls of a variant, after one uncounted call
_LEAST_CALLS = 50  # least counted calls per variant
_SERVED = "beside a process that calls the same"
_ONE_CORE = "on one core"
_QUOTA = f"with a quota of {_CORES} cores"

# Program of the measuring process and of the process that serves beside it. The
# argument is JSON; see _measure.
_CHILD = """
import json, os, sys, time
given = json.loads(sys.argv[1])
if given["core"] is not None:
    os.sched_setaffinity(0, {given["core"]})
if given["group"]:
    with open(given["group"], "w") as file:
        file.write(str(os.getpid()))
import numpy as np
import tensorflow as tf
import ios_tf
arrays = np.load(given["inputs"])
inputs = {name: tf.constant(arrays[name]) for name in arrays.files}
loaded = [tf.saved_model.load(path) for path in given["models"]]
functions = [model.signatures[given["signature"]] for model in loaded]
for function in functions:
    for _ in range(3):
        function(**inputs)
# Which of the models is called now: written by who measures, read by who is beside.
turn = np.memmap(given["turn"], np.uint8, "r+", shape=(1,))
print("ready", flush=True)
sys.stdin.readline()
if given["serves"]:
    while True:
        functions[turn[0]](**inputs)
times = [[] for _ in functions]
end = time.perf_counter() + given["seconds"]
while time.perf_counter() < end or len(times[0]) < given["least"]:
    for number, function in enumerate(functions):
        turn[0] = number
        function(**inputs)
        for _ in range(given["calls"]):
            start = time.perf_counter()
            function(**inputs)
            times[number].append((time.perf_counter() - start) * 1e3)
print(json.dumps(times))
"""
# Ends when its parent process has ended for any reason.
_BUSY = """
import os
parent = os.getppid()
input()
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
input()
while os.getppid() == parent:
    subprocess.run([sys.executable, "-c", job], stdin=subprocess.DEVNULL)
"""
_OTHERS = {
    "beside 1 busy process": [_BUSY],
    "beside 2 busy processes": [_BUSY] * 2,
    "beside 4 busy processes": [_BUSY] * 4,
    "beside 3 builds": [_BUILDS] * 3,
}
ROWS = ("alone", *_OTHERS, _SERVED, _ONE_CORE, _QUOTA)


def bench_contention(
    name: str,
    batch_size: int,
    seconds: float,
    rows: Sequence[str] | None = None,
    log: Callable[[str], None] = print,
) -> dict[str, dict[str, dict[str, float]]]:
    """Measures percentiles in ms: row -> variant -> "p50" ... -> value.

    Args:
      name: the model, see the module's description.
      batch_size: batch size of the model's inputs.
      seconds: least duration of a row.
      rows: the items of `ROWS` to measure; by default all.
      log: gets a line about a row that cannot be measured here.

    Raises:
      UserError: as for `ios_tf.convert`.
    """
    import numpy as np

    import ios_tf
    from ios_tf.model import saved_models

    found = {}
    with contextlib.ExitStack() as models:
        directory = models.enter_context(tempfile.TemporaryDirectory(prefix="ios_tf_"))
        source, inputs = _prepare(name, batch_size, models)
        converted = os.path.join(directory, "converted")
        ios_tf.convert(source, converted, batch_size=batch_size, keep_slower=True)
        np.savez(os.path.join(directory, "inputs.npz"), **inputs)
        Path(directory, "turn").write_bytes(b"\0")
        given = {
            "models": [source, converted],
            "signature": saved_models.choose_signature(
                None, saved_models.load(converted)
            ),
            "inputs": os.path.join(directory, "inputs.npz"),
            "turn": os.path.join(directory, "turn"),
            "seconds": seconds,
            "calls": _CALLS,
            "least": _LEAST_CALLS,
            "core": None,
            "group": None,
            "serves": False,
        }
        for row in rows or ROWS:
            with contextlib.ExitStack() as stack:
                others = [[program] for program in _OTHERS.get(row, [])]
                settings = {}
                if row == _SERVED:
                    others = [[_CHILD, json.dumps({**given, "serves": True})]]
                elif row == _ONE_CORE:
                    settings["core"] = min(os.sched_getaffinity(0))
                elif row == _QUOTA:
                    settings["group"] = stack.enter_context(_group_of_quota())
                    if settings["group"] is None:
                        log("no control group can be made, so no row has a quota")
                        continue
                found[row] = _measure({**given, **settings}, stack, others)
    return found


def _prepare(name: str, batch_size: int, stack: contextlib.ExitStack) -> tuple:
    """Returns a SavedModel's path, valid until `stack` closes, and inputs for it."""
    from ios_tf.model import saved_models
    from ios_tf.model.inputs import example_inputs

    source = stack.enter_context(saved_model_of(name))
    loaded = saved_models.load(source)
    function = loaded.signatures[saved_models.choose_signature(None, loaded)]
    inputs = example_inputs(function, batch_size)
    return source, {key: value.numpy() for key, value in inputs.items()}


def _measure(
    given: Mapping[str, Any],
    stack: contextlib.ExitStack,
    others: Sequence[Sequence[str]],
) -> dict[str, dict[str, float]]:
    """Returns percentiles of a process beside others that run Python programs."""
    import numpy as np

    processes = [_start(stack, arguments) for arguments in others]
    processes.append(child := _start(stack, [_CHILD, json.dumps(given)]))
    for process, (program, *_) in zip(processes, [*others, [_CHILD]], strict=True):
        if program == _CHILD and process.stdout.readline() != "ready\n":
            raise RuntimeError(f"a process ended with {process.wait()}")
    for process in processes:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("\n")
            process.stdin.flush()
    times = json.loads(child.stdout.readline())
    return {
        variant: {f"p{p}": float(np.percentile(values, p)) for p in PERCENTILES}
        for variant, values in zip(VARIANTS, times, strict=True)
    }


def _start(
    stack: contextlib.ExitStack, arguments: Sequence[str]
) -> subprocess.Popen[str]:
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    )
    stack.callback(process.kill)
    return process


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


def run(options: argparse.Namespace) -> int:
    if options.json:
        check_writable(options.json)
    found = {}
    for model in options.models:
        rows = bench_contention(model, options.batch_size, options.seconds)
        found[model] = rows
        print(f"\n{model}, batch {options.batch_size}: ms, TensorFlow -> converted")
        print(
            table(
                ["", *(f"p{p}" for p in PERCENTILES)],
                [
                    [
                        row,
                        *(
                            f"{of['TensorFlow'][f'p{p}']:.2f} -> "
                            f"{of['converted'][f'p{p}']:.2f}"
                            for p in PERCENTILES
                        ),
                    ]
                    for row, of in rows.items()
                ],
            ),
            flush=True,
        )
        if options.json:
            write_measured(options.json, options, models=found)
    return 0
