"""judge_ptx.py [--figures=FILE] [TEST ...]: tests the GPU backend with kernels that
NVIDIA's own NVRTC has compiled. Their PTX becomes C++ for the fake GPU.

In other tests, the host's compiler compiles the kernels, without the assembly in them.
With `--figures`, the program also prints a table of how kernels access memory, and
writes it to FILE as JSON. Without a TEST, it runs all tests of operators, networks,
channels and the engine. Arguments that it does not know go to pytest.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import compile_ptx

from ios_tf.files import write_json
from ios_tf.tables import table

ROOT = Path(__file__).resolve().parents[2]
TESTS = ["operators", "networks", "channels", "engine"]
KINDS = ("loads", "stores", "shared")


def run_tests(
    arguments: list[str], figures: str = "", **options: Any
) -> subprocess.CompletedProcess:
    """Runs pytest with NVRTC's kernels in one process; writes counts to `figures`."""
    environment = {**os.environ, "PTX_FIGURES": figures}
    environment["FAKE_NVRTC_COMPILER"] = compile_ptx.command(bool(figures))
    # A worker of pytest-xdist may call this function.
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, **options)


def add_up(lines: list[str]) -> list[dict]:
    """Adds the counts of all processes: one record for each kernel and its macros."""
    totals: dict = collections.defaultdict(collections.Counter)
    for line in lines:
        record = json.loads(line)
        total = totals[record["kernel"], record["macros"]]
        total["blocks"] += record["blocks"]
        for kind in KINDS:
            for name, value in record[kind].items():
                total[kind, name] += value
    return [
        {
            "kernel": kernel,
            "macros": macros,
            "blocks": total["blocks"],
            **{kind: ratio(total, kind) for kind in KINDS},
        }
        for (kernel, macros), total in sorted(totals.items())
    ]


def ratio(total: collections.Counter, kind: str) -> float | None:
    """For global memory, the share of the bytes in the accessed sectors that is used.
    For shared memory, the mean number of steps of an access. None without accesses."""
    steps = total[kind, "steps"]
    if steps == 0:
        return None
    if kind == "shared":
        return round(steps / total[kind, "accesses"], 2)
    return round(total[kind, "bytes"] / (32 * steps), 2)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--figures", metavar="FILE")
    known, tests = parser.parse_known_args()
    tests = tests or [f"tests/gpu/test_cuda_{name}.py" for name in TESTS]
    if known.figures is None:
        return run_tests(tests).returncode
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as file:
        code = run_tests(tests, file.name).returncode
        records = add_up(file.read().splitlines())
    write_json(known.figures, {"command": sys.argv, "kernels": records})
    columns = ["kernel", "macros", "blocks", *KINDS]
    rows = [["" if r[c] is None else str(r[c]) for c in columns] for r in records]
    print(table(columns, rows))
    return code


if __name__ == "__main__":
    sys.exit(main())
