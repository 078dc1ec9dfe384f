"""Checks thousands of random graphs: python tests/random_graphs --graphs=3000.

The reference is TensorFlow without oneDNN: its convolutions agree with a plain
computation in float64. With oneDNN, TensorFlow 2.21 gives wrong values for some
paddings and undefined ones for empty images; `--onednn` shows these differences.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import multiprocessing
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ios_tf.errors import UserError
from ios_tf.files import check_writable, utc_now, write_json
from ios_tf.tables import table

if TYPE_CHECKING:
    from random_graphs.counterexamples import Failure, Totals
    from random_graphs.isolated import IsolatedChecker

_GRAPHS_OF_TASK = 100
# An error that was raised this many times is only counted from then on.
_REPEATS = 3
# Kinds of steps that are left out unless --onednn is given: without oneDNN, TensorFlow
# cannot convolve channels-first images on a CPU.
_WITHOUT_ONEDNN = ("conv2d_channels_first",)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graphs", type=int, default=3000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="processes; default: as many as cores",
    )
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16"],
        default="float32",
        help="the precision to convert the graphs to; default: float32",
    )
    parser.add_argument(
        "--onednn", action="store_true", help="compare with TensorFlow with oneDNN"
    )
    parser.add_argument(
        "--without",
        default=[],
        type=lambda text: text.split(","),
        metavar="A,B",
        help="kinds of steps to leave out, see random_graphs/steps",
    )
    parser.add_argument(
        "--known",
        type=_expression,
        metavar="REGEX",
        help="known differences: those whose text matches are only counted",
    )
    parser.add_argument(
        "--failures",
        type=int,
        default=20,
        metavar="N",
        help="stop after this number of different failures; default: 20",
    )
    parser.add_argument(
        "--shrink_seconds",
        type=float,
        default=120.0,
        metavar="S",
        help="time limit for reducing a failing graph; default: 120",
    )
    parser.add_argument("--json", metavar="FILE", help="write the results here")


def _expression(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _check(options: argparse.Namespace) -> None:
    from random_graphs.steps.registry import KINDS

    for kind in options.without:
        if kind not in KINDS:
            raise UserError(f"there is no kind of step {kind!r}")
    if options.json:
        check_writable(options.json)


def run(options: argparse.Namespace) -> int:
    """Checks graphs, prints failures and a summary; returns 1 if there are failures.

    Raises:
      UserError: hypothesis is not installed; the file cannot be written.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        from random_graphs.counterexamples import Totals, reason
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed: pip install 'ios-tf[test]'"
        ) from None
    _check(options)
    start = time.monotonic()
    totals = Totals()
    failures: dict[tuple[str, ...], Failure] = {}
    reasons: Counter[str] = Counter()
    repeated = 0
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, context) as pool:
        running: set[concurrent.futures.Future[Any]] = set()
        submitted = number = 0
        while True:
            while (
                len(running) < options.jobs
                and totals.graphs + submitted < options.graphs
                and len(failures) < options.failures
            ):
                count = min(_GRAPHS_OF_TASK, options.graphs - totals.graphs - submitted)
                often = {r for r, n in reasons.items() if r and n >= _REPEATS}
                future = pool.submit(_task, options, number, count, often)
                future.count = count  # type: ignore[attr-defined]
                running.add(future)
                submitted += count
                number += 1
            if not running:
                break
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                submitted -= future.count  # type: ignore[attr-defined]
                of_task, failure = future.result()
                totals.add(of_task)
                if failure:
                    reasons[reason(failure.difference)] += 1
                if failure and failure.key in failures:
                    repeated += 1
                elif failure:
                    failures[failure.key] = failure
                    print(f"\nFAILURE {len(failures)}\n{failure}", flush=True)
            print(
                f"{time.monotonic() - start:.0f} s: {totals.graphs} graphs, "
                f"{len(failures)} different failures",
                file=sys.stderr,
                flush=True,
            )
    seconds = time.monotonic() - start
    print(summary(totals, len(failures), repeated, seconds))
    if options.json:
        write_json(options.json, _record(options, totals, failures, repeated, seconds))
    return int(bool(failures))


def summary(totals: Totals, failures: int, repeated: int, seconds: float) -> str:
    """The counts as text for a terminal."""
    share = totals.with_regions / max(totals.graphs, 1)
    return "\n".join(
        [
            "",
            f"{totals.graphs} graphs in {seconds:.0f} s, {share:.0%} with regions "
            f"({totals.regions} regions); {totals.roads} saved, converted and loaded",
            f"{totals.comparisons} comparisons, of which {totals.skipped} differ for "
            "reasons of TensorFlow's own or of rounding"
            + (f"; {totals.loose} are loose" if totals.loose else ""),
            f"{failures + repeated} graphs differ, in {failures} ways"
            + (f"; {totals.known} in known ones" if totals.known else ""),
            "",
            table(
                ["in regions", "graphs' nodes", "count"],
                [
                    [operator, operation, str(count)]
                    for operator, (operation, count) in _side_by_side(totals)
                ],
            ),
        ]
    )


def _side_by_side(totals: Totals) -> list[tuple[str, tuple[str, int]]]:
    operators = [f"{n} {name}" for name, n in totals.operators.most_common()]
    operations = [
        (name, n) for name, n in totals.operations.most_common(60) if name != "Const"
    ]
    operators += [""] * (len(operations) - len(operators))
    return list(zip(operators, operations, strict=False))


def _task(
    options: argparse.Namespace, number: int, count: int, often: Collection[str]
) -> tuple[Totals, Failure | None]:
    """Checks `count` graphs, but stops at the first that fails."""
    from random_graphs.counterexamples import reason, search
    from random_graphs.differences import Difference

    def is_known(difference: Difference) -> bool:
        known = options.known and options.known.search(str(difference))
        return bool(known) or reason(difference) in often

    without = [*options.without, *(() if options.onednn else _WITHOUT_ONEDNN)]
    return search(
        options.seed * 1_000_003 + number,
        count,
        _checker(options.onednn),
        without,
        is_known,
        options.shrink_seconds,
        options.precision,
    )


@functools.cache
def _checker(onednn: bool) -> IsolatedChecker:
    """This process's checker, kept because starting one takes seconds."""
    from random_graphs.isolated import IsolatedChecker

    return IsolatedChecker(onednn)


def _record(
    options: argparse.Namespace,
    totals: Totals,
    failures: dict[tuple[str, ...], Failure],
    repeated: int,
    seconds: float,
) -> dict[str, Any]:
    import tensorflow as tf

    from ios_tf.native import engine

    return {
        "command": "python tests/random_graphs " + " ".join(sys.argv[1:]),
        "date": utc_now(),
        "device": engine.device_fingerprint("cpu"),
        "tensorflow": tf.__version__,
        "seconds": round(seconds),
        "without": options.without,
        "known": options.known and options.known.pattern,
        **vars(totals),
        "failures": [
            {
                "differences": [str(d) for d in failure.result.differences],
                "program": failure.program.source,
            }
            for failure in failures.values()
        ],
        "repeated_failures": repeated,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives its exit code."""
    parser = argparse.ArgumentParser(prog="python tests/random_graphs")
    _add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
