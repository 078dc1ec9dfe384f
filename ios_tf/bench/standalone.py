"""Parsers, exit codes and dates of the benchmarks that are run as modules."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable
from typing import TypeVar

from ios_tf.errors import UserError

_Result = TypeVar("_Result")


def model_parser(description: str, rounds: int) -> argparse.ArgumentParser:
    """A parser of a model to convert and measure; `rounds` is the default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--batch_size", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--cache_dir", metavar="DIR")
    parser.add_argument("--json", metavar="FILE")
    return parser


def measured(bench: Callable[..., _Result], options: argparse.Namespace) -> _Result:
    """Runs `bench` on the model that a `model_parser`'s options name."""
    return bench(
        options.model,
        batch_size=options.batch_size,
        rounds=options.rounds,
        cache_dir=options.cache_dir,
        progress=True,
        say=print,
    )


def exit_code(
    run: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Returns the result of `run`, or 1 after the one line of a UserError."""
    try:
        return run(options)
    except UserError as error:
        print(f"ios_tf: error: {error}", file=sys.stderr)
        return 1


def utc_now() -> str:
    """The date and time of a record: ISO 8601, to the second."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.isoformat(timespec="seconds")
