"""Conversions beside busy processes: verdicts, times, and quality of the schedules.

    python -m benchmarks busy_conversions [--models=MODEL...] [--loads=N...]
        [--json=FILE]

MODEL is a SavedModel, a Keras file, `keras:NAME`, `models:NAME` or a network of the
zoo. For each load N, it is converted with an empty cache beside N processes that do
nothing but compute. Afterwards, the models converted under load are called in turn with
the model converted without load. Run this on a quiet machine. The exit code is 1 if a
goal is missed:

    the verdict of a model is the same beside each load,
    a conversion takes at most 3 times as long as beside none,
    a model converted beside 4 is at most 5 % slower than one converted beside none.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.contention import BUSY, prepare, start
from benchmarks.results import write_results
from benchmarks.standalone import exit_code
from ios_tf.cost.verdict import Ratio
from ios_tf.files import check_writable, utc_now
from ios_tf.tables import table

MODELS = (
    "keras:InceptionV3",
    "keras:DenseNet121",
    "keras:MobileNetV2",
    "keras:EfficientNetB0",
    "unet_upsampling",
    "keras:NASNetMobile",
)
LOADS = (0, 2, 4, 8)
_COMPARED_LOAD = 4  # the load whose schedules have a goal
_MOST_TIME = 3.0
_MOST_SLOWER = 1.05


@dataclasses.dataclass(frozen=True)
class Conversion:
    """One conversion.

    Attributes:
      model: name of the model.
      busy: number of busy processes beside the conversion.
      seconds: duration of the whole command.
      verdict: "converted", "copied" or "undecided".
      report: what the command printed.
    """

    model: str
    busy: int
    seconds: float
    verdict: str
    report: dict[str, Any]

    @property
    def speedup(self) -> float | None:
        """The estimated speedup over TensorFlow, or None if not converted."""
        for signature in self.report["signatures"]:
            for latency in signature["latencies"].values():
                if "converted_speedup" in latency:
                    return float(latency["converted_speedup"]["estimate"])
        return None


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Runs `count` processes that do nothing but compute, while the block runs."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = start(stack, [BUSY])
            process.stdin.write("\n")
            process.stdin.flush()
        yield


def convert(model: str, source: str, output: str, busy: int) -> Conversion:
    """Converts a SavedModel in a new process.

    Raises:
      RuntimeError: the conversion failed.
    """
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as cache:
        words = ["convert", source, output, "--json", "--overwrite"]
        with busy_processes(busy):
            begin = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "ios_tf", *words, f"--cache_dir={cache}"],
                capture_output=True,
                text=True,
            )
            seconds = time.monotonic() - begin
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"{model} beside {busy} cannot be converted: {last}")
    report = json.loads(done.stdout.splitlines()[-1])
    return Conversion(model, busy, seconds, report["verdict"], report)


def slowdown(slower: str, faster: str, inputs: dict[str, Any]) -> Ratio:
    """Returns the ratio of two converted models' latencies on this machine."""
    import tensorflow as tf

    from ios_tf.conversion import timing
    from ios_tf.model import saved_models

    turns = []
    for path in (slower, faster):
        loaded = tf.saved_model.load(path)
        function = loaded.signatures[saved_models.choose_signature(None, loaded)]
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        turns.append(
            (
                functools.partial(timing.running, plugin=True, device="cpu"),
                functools.partial(_call, loaded, function, tensors),
            )
        )
    return timing.ratios(timing.latencies(turns))[0]


def _call(owner: Any, function: Any, inputs: dict[str, Any]) -> Any:
    """Calls a signature; `owner` keeps the model's variables alive."""
    del owner
    return function(**inputs)


def campaign(
    models: Sequence[str], loads: Sequence[int]
) -> Iterator[tuple[list[Conversion], dict[int, Ratio]]]:
    """Yields each model's conversions, and their slowdowns relative to the first."""
    for model in models:
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ios_tf_")
            )
            source, inputs = prepare(model, 1, stack)
            found = []
            for busy in loads:
                output = os.path.join(directory, f"beside_{busy}")
                found.append(convert(model, source, output, busy))
                _print_row(found[-1], found[0])
            first = found[0]
            ratios = {
                one.busy: slowdown(
                    os.path.join(directory, f"beside_{one.busy}"),
                    os.path.join(directory, f"beside_{first.busy}"),
                    inputs,
                )
                for one in found[1:]
            }
        yield found, ratios


def _print_row(one: Conversion, first: Conversion) -> None:
    print(
        f"{one.model} beside {one.busy}: {one.verdict}, {one.seconds:.0f} s "
        f"({one.seconds / first.seconds:.1f} x)",
        flush=True,
    )


def missed_goals(
    found: Sequence[Conversion], ratios: dict[int, Ratio]
) -> Iterator[str]:
    """Yields one line for each goal that the conversions of one model miss."""
    first, *others = found
    verdicts = {one.verdict for one in found}
    if len(verdicts) > 1:
        yield f"{first.model}: verdicts {', '.join(sorted(verdicts))}"
    for one in others:
        if one.seconds > _MOST_TIME * first.seconds:
            times = one.seconds / first.seconds
            yield f"{first.model} beside {one.busy}: {times:.1f} times as long"
    ratio = ratios.get(_COMPARED_LOAD)
    if ratio and ratio.low > _MOST_SLOWER:  # otherwise undecided
        percent = 100 * (ratio.estimate - 1)
        yield f"{first.model}: the model converted beside 4 is {percent:.0f} % slower"


def rows(found: Sequence[Conversion], ratios: dict[int, Ratio]) -> list[list[str]]:
    """Returns a table row for each conversion."""
    table_rows = []
    for one in found:
        ratio = ratios.get(one.busy)
        load = one.report["load"]
        table_rows.append(
            [
                one.model,
                str(one.busy),
                one.verdict,
                f"{one.speedup:.2f}" if one.speedup else "",
                f"{100 * load['disturbed_share']:.0f} %",
                f"{one.seconds:.0f}",
                f"{one.seconds / found[0].seconds:.1f}",
                f"{ratio.estimate:.3f}" if ratio else "",
            ]
        )
    return table_rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Converts models beside busy processes."
    )
    parser.add_argument("--models", metavar="MODEL", nargs="+", default=MODELS)
    parser.add_argument("--loads", metavar="N", nargs="+", type=int, default=LOADS)
    parser.add_argument("--json", metavar="FILE")
    return exit_code(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    from ios_tf.native import engine

    if options.json:
        check_writable(options.json)
    printed: list[list[str]] = []
    missed: list[str] = []
    records: list[dict[str, Any]] = []
    for found, ratios in campaign(options.models, options.loads):
        printed += rows(found, ratios)
        missed += missed_goals(found, ratios)
        for one in found:
            record = dataclasses.asdict(one)
            if one.busy in ratios:
                record["slowdown"] = dataclasses.asdict(ratios[one.busy])
            records.append(record)
        if options.json:
            content = {
                "command": "python -m benchmarks busy_conversions --models "
                f"{' '.join(options.models)} --loads "
                f"{' '.join(map(str, options.loads))}",
                "device": engine.device_fingerprint("cpu"),
                "date": utc_now(),
                "conversions": records,
                "missed": missed,
            }
            write_results(options.json, content)
    header = ["model", "busy", "verdict", "speedup", "disturbed", "s", "x", "slowdown"]
    print(table(header, printed))
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0
