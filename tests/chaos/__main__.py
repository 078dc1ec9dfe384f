"""Injects faults into a converter and a server: processes are killed at random
moments; the disk is full; directories cannot be read or written; files of the cache
are corrupted or replaced by links, pipes and directories; processes fork; and many
threads call and load the model many times.

    python tests/chaos MODEL [--kills=200] [--runs=100000] [--loads=100]

For each kind, prints the number of cases and of each kind of failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[0] = str(_TESTS)
sys.path.append(str(_TESTS.parent))
# The programs that the cases start import this package.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(_TESTS), os.environ.get("PYTHONPATH")])
)

from benchmarks.standalone import exit_code  # noqa: E402
from chaos.cases import Chaos, Outcome  # noqa: E402
from ios_tf.model.loading import saved_model  # noqa: E402
from ios_tf.tables import table  # noqa: E402

_CASES = (
    "convert",
    "tune",
    "serve",
    "disk",
    "permissions",
    "cache",
    "forks",
    "threads",
    "loads",
)


def main(options: argparse.Namespace) -> int:
    """Runs the cases. Returns 1 if a case failed, and 0 otherwise."""
    with (
        tempfile.TemporaryDirectory(prefix="ios_tf_") as directory,
        saved_model(options.model) as model,
    ):
        chaos = Chaos(model, Path(directory), options.seed)
        seconds = chaos.convert()
        quarter = options.kills // 4
        cases = {
            "convert": lambda: chaos.kill_convert(options.kills - 2 * quarter, seconds),
            "tune": lambda: chaos.kill_tune(quarter, seconds),
            "serve": lambda: chaos.kill_server(quarter, 2 * seconds),
            "disk": chaos.fill_disk,
            "permissions": chaos.take_permissions,
            "cache": chaos.spoil_cache,
            "forks": lambda: chaos.fork(options.forks),
            "threads": lambda: chaos.hammer(options.threads, options.runs),
            "loads": lambda: chaos.load(options.loads),
        }
        outcomes = []
        for name in options.cases or _CASES:  # each takes minutes
            outcomes.append(cases[name]())
            print(f"{name}: {'good' if outcomes[-1].good else 'bad'}", file=sys.stderr)
    fields = [field.name for field in dataclasses.fields(Outcome)]
    header = ["", *fields[1:-1], "growth MiB"]
    rows = [
        [o.what, *(str(getattr(o, name)) for name in fields[1:-1]), f"{o.growth:.1f}"]
        for o in outcomes
    ]
    print(table(header, rows))
    return 0 if all(outcome.good for outcome in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tests/chaos")
    parser.add_argument("model", metavar="MODEL", help="as for ios_tf convert")
    parser.add_argument(
        "--cases", nargs="*", choices=_CASES, help="the cases to run; default: all"
    )
    parser.add_argument(
        "--kills", type=int, default=200, help="half of convert, the rest of others"
    )
    parser.add_argument("--forks", type=int, default=100)
    parser.add_argument("--threads", type=int, default=24)
    parser.add_argument("--runs", type=int, default=100_000, help="of all threads")
    parser.add_argument("--loads", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(exit_code(main, _parser().parse_args()))
