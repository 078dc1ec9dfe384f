"""Exported networks on the engine alone: python -m benchmarks exported NETWORK...

Compares outputs with float64 if PyTorch is installed (`python -m benchmarks checks`),
then measures the five schedules (`python -m benchmarks schedules`) in each dtype.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Sequence

from benchmarks import checks
from benchmarks.experiments import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns 0, 1 for failure, or 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    shared = [f"--device={options.device}", *options.networks]
    failed = 0
    if importlib.util.find_spec("torch") is None:
        print("nothing is compared with float64, because PyTorch is not installed")
    else:
        failed = checks.main([*shared, f"--dtypes={','.join(options.dtypes)}"])
    for dtype in options.dtypes:
        output = os.path.join(options.output, dtype)
        words = ["schedules", *shared, f"--dtype={dtype}", f"--output={output}"]
        failed |= command.main([*words, "--quick"] if options.quick else words)
    return failed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks exported",
        description="Checks the engine, and measures its schedules.",
    )
    parser.add_argument("networks", metavar="NETWORK", nargs="+")
    checks.add_arguments(parser)
    parser.add_argument(
        "--output",
        metavar="DIR",
        default=".",
        help="directory for DTYPE/schedules.json; default: the current directory",
    )
    parser.add_argument("--quick", action="store_true", help="measure less")
    return parser
