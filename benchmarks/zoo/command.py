"""python -m benchmarks zoo: all networks, one process each, with a time limit."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import command_line
from benchmarks.processes import run_for
from benchmarks.standalone import add_batch_sizes
from benchmarks.zoo.page import page
from ios_tf.errors import UserError
from ios_tf.files import check_writable, utc_now, write_json, write_text
from ios_tf.scheduler import document

_VERSION = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument(
        "--networks", metavar="REGEX", default="", help="those whose names match"
    )
    parser.add_argument("--again", action="store_true", help="measure all again")
    parser.add_argument(
        "--retry", action="store_true", help="measure failed networks again"
    )
    parser.add_argument(
        "--only_reports",
        action="store_true",
        help="convert without a search, validate each report against its schema, and "
        "write no file",
    )
    parser.add_argument("--json", metavar="FILE", default="docs/benchmarks/models.json")
    parser.add_argument("--page", metavar="FILE", default="docs/benchmarks/models.md")
    add_batch_sizes(parser, "1,8", [1, 8])
    parser.add_argument("--strategy", default="auto")
    parser.add_argument(
        "--time_limit", type=int, default=60, help="seconds for a network's searches"
    )
    parser.add_argument(
        "--process_limit", type=int, default=1800, help="seconds for each network"
    )


def run(options: argparse.Namespace) -> int:
    """Measures missing networks; writes the record and the page after each.

    Raises:
      UserError: a file cannot be read or written, or a network's name is unknown.
    """
    from benchmarks.zoo.registry import networks

    try:
        names = [name for name in networks() if re.search(options.networks, name)]
    except re.error as error:
        raise UserError(f"--networks={options.networks}: {error}") from None
    if not names:
        raise UserError(f"--networks={options.networks}: there is no such network")
    if options.list:
        print("\n".join(names))
        return 0
    if options.only_reports:
        return _validate_reports(names, options)
    for path in (options.json, options.page):
        check_writable(path)
    sizes = options.batch_sizes
    record = _record(options.json, sizes)
    here = _here()
    rows = {
        row["network"]: row for row in record["rows"] if here.items() <= row.items()
    }
    everything = list(networks())
    for number, name in enumerate(names, 1):
        known = name in rows and not (options.retry and "failure" in rows[name])
        if known and not options.again:
            continue
        print(f"{number}/{len(names)} {name}: ", end="", flush=True)
        measured = _measure(name, sizes, options)
        print(_summary(measured, sizes), flush=True)
        if name in rows:
            record["rows"].remove(rows[name])
        date = utc_now().partition("T")[0]
        rows[name] = {"network": name, **here, "date": date, **measured}
        record["rows"].append(rows[name])
        write_json(options.json, record)
        write_text(options.page, page(record, everything))
    write_text(options.page, page(record, everything))
    return 0


def _validate_reports(names: list[str], options: argparse.Namespace) -> int:
    """Converts networks; returns 1 if one fails, or if its report is not valid."""
    options.strategy = "sequential"
    failed = 0
    for number, name in enumerate(names, 1):
        print(f"{number}/{len(names)} {name}: ", end="", flush=True)
        row = _measure(name, options.batch_sizes, options)
        failed += "failure" in row
        print(
            row["failure"]
            if "failure" in row
            else f"valid, {row['operators']} operators, {row['convert_seconds']:.0f} s",
            flush=True,
        )
    print(f"{len(names) - failed} of {len(names)} reports are valid")
    return 1 if failed else 0


def _here() -> dict[str, str]:
    """Returns the machine and software, which all rows of this run share."""
    import tensorflow as tf

    from ios_tf.native import engine

    return {
        "device": engine.device_fingerprint("cpu"),
        "tensorflow": tf.__version__,
    }


def _record(path: str, sizes: list[int]) -> dict[str, Any]:
    """Returns the record of earlier runs on any machines, or an empty record.

    Raises:
      UserError: the file is not a record, or has other batch sizes.
    """
    fresh = {"version": _VERSION, "batch_sizes": sizes, "notes": {}, "rows": []}
    if not os.path.exists(path):
        return fresh
    try:
        found = document.read(path)
        differing = [key for key in list(fresh)[:2] if found[key] != fresh[key]]
        found["notes"].items()
        for row in found["rows"]:
            _ = row["network"], row["device"], row["tensorflow"], row["date"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is not a record of the zoo: {error!r}") from None
    if differing:
        raise UserError(
            f"{path} was measured with another {', '.join(differing)}. Move the file "
            "away, or name another file with --json"
        )
    return found


def _measure(name: str, sizes: list[int], options: argparse.Namespace) -> dict:
    from benchmarks.zoo.measure import Options

    settings = Options(
        sizes, options.time_limit, options.strategy, options.only_reports
    )
    with tempfile.TemporaryDirectory(prefix="ios_tf_zoo_") as directory:
        result, log = Path(directory, "row.json"), Path(directory, "log")
        command = command_line("zoo.measure", name, str(result))
        command.append(json.dumps(dataclasses.asdict(settings)))
        environment = {**os.environ, "TMPDIR": directory, "TF_CPP_MIN_LOG_LEVEL": "3"}
        with open(log, "wb") as output:
            code = run_for(options.process_limit, command, output, environment)
        if code is None:
            return {"failure": f"took more than {options.process_limit} s"}
        if result.exists():
            return json.loads(result.read_text(encoding="utf-8"))
        if code < 0:
            return {"failure": f"the process ended with signal {-code}"}
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return {"failure": lines[-1] if lines else "the process failed"}


def _summary(row: Mapping[str, Any], sizes: list[int]) -> str:
    if "failure" in row:
        return row["failure"]
    ratios = ", ".join(f"{row['latency'][str(s)]['ratio']:.2f}" for s in sizes)
    return (
        f"{100 * row['share']:.2f} % in {row['regions']} regions, difference "
        f"{row['difference']:.1e}, ratios {ratios}"
    )
