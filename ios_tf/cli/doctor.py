"""ios_tf doctor: examines the installation and this machine."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from typing import Any

from ios_tf.cli import arguments
from ios_tf.cli.quiet import quiet_standard_error
from ios_tf.options import TuneOptions
from ios_tf.printable import printable
from ios_tf.tables import wrapped

_VERSION = 1
_LABELS = {"ok": "ok", "note": "note", "warning": "WARN", "error": "ERROR"}


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "doctor",
        _doctor,
        "check the installation, this machine and the cache, and convert a tiny model",
        "Checks versions, processor, GPU, environment variables and the schedule "
        "cache, and converts a tiny network. Exits with 1 if converted models cannot "
        "run on the engine.",
    )
    arguments.add_options(parser, TuneOptions, "cache_dir")
    arguments.add_json(parser)
    # TensorFlow itself may be broken.
    parser.set_defaults(needs_tensorflow=False)


def _doctor(options: argparse.Namespace) -> int:
    from ios_tf import doctor

    findings = doctor.examine(options.cache_dir, options.traceback)
    if options.json:
        with quiet_standard_error():
            found = list(findings)
        arguments.print_result(options, _to_json(found), "")
    else:
        found = _print(findings)
    return int(any(finding.status == doctor.ERROR for finding in found))


def _to_json(findings: Iterable[Any]) -> dict[str, Any]:
    found = [dataclasses.asdict(finding) for finding in findings]
    return {"version": _VERSION, "findings": found}


def _print(findings: Iterable[Any]) -> list[Any]:
    """Prints the findings as they are made, under the headings of their topics."""
    from ios_tf import doctor

    found: list[Any] = []
    with quiet_standard_error():
        for finding in findings:
            if not found or found[-1].topic != finding.topic:
                arguments.say(f"{finding.topic}")
            label = _LABELS[finding.status]
            text = printable(f"{finding.name}: {finding.value}")
            print(wrapped(text, f"  {label:<5} ", 10), flush=True)
            if finding.advice:
                print(wrapped(printable(f"-> {finding.advice}"), " " * 8, 11))
            found.append(finding)
    counts = [
        f"{status}s: {sum(one.status == status for one in found)}"
        for status in (doctor.ERROR, doctor.WARNING)
    ]
    arguments.say(f"{len(found)} checks, {', '.join(counts)}")
    return found
