"""python -m benchmarks COMMAND: lists the commands, and runs one.

A command is an experiment, or a module with `add_arguments(parser)` and `run(options)`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from benchmarks.standalone import exit_code

_MODULES = {
    "callers_simulation": "simulate many callers on machines with many cores",
    "checks": "compare operators and networks with float64",
    "complexity": "count the schedules of all blocks of a model",
    "contention": "measure latencies beside other processes",
    "costs": "measure time and memory of compiling, converting and loading",
    "cudnn_plans": "find the fastest cuDNN plans on a GPU",
    "explore": "compare strategies on a device that is not present",
    "export_blocks": "write a model's blocks for machines without TensorFlow",
    "fleet": "simulate searches on 1 to 64 devices",
    "gpu_day": "run all GPU measurements, the most important first",
    "in_tensorflow": "compare converted models with TensorFlow and XLA",
    "page": "make docs/benchmarks/paper.md from the results",
    "perfetto": "load a trace with Perfetto and print its queries",
    "profiler": "compare a trace with TensorFlow's profiler",
    "report_page": "measure how fast a report opens and scrolls",
    "streams": "call one program from many threads, each on a CUDA stream",
    "table1": "count the schedules of the paper's largest blocks (its Table 1)",
    "tracing": "measure what a trace costs",
    "overhead": "measure what a call takes beside the engine's work",
    "zoo": "convert and measure the networks of the zoo",
}
_CHILDREN = ("worker", "zoo.measure")  # started by other commands
# These options do not change what is measured, so the command line that `_command`
# returns does not contain them.
_DESTINATIONS = ("--output", "--json", "--paper")


def _usage() -> str:
    from benchmarks.experiments.command import EXPERIMENTS

    commands = {**{one.name: one.help for one in EXPERIMENTS.values()}, **_MODULES}
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {commands[name]}" for name in sorted(commands)]
    return "\n".join(
        ["usage: python -m benchmarks COMMAND ...  (COMMAND --help)", "", *lines]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, by default the one in `sys.argv`; returns its exit code."""
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("", "-h", "--help"):
        print(_usage())
        return 0 if name else 2
    if name in _CHILDREN:
        return importlib.import_module(f"benchmarks.{name}").main(words)
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}")
    parser.set_defaults(command=_command(name, words))
    if name in _MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        module.add_arguments(parser)
    else:
        from benchmarks.experiments import command as module

        if name not in module.EXPERIMENTS:
            print(f"error: there is no command {name!r}\n{_usage()}", file=sys.stderr)
            return 2
        module.add_arguments(parser, module.EXPERIMENTS[name])
    try:
        options = parser.parse_args(words)
    except SystemExit as end:
        return int(end.code or 0)
    return exit_code(module.run, options)


def _command(name: str, words: Sequence[str]) -> str:
    """Returns the command line that repeats a measurement."""
    kept = ["python -m benchmarks", name]
    before = ""
    for word in words:
        if before not in _DESTINATIONS and word.partition("=")[0] not in _DESTINATIONS:
            kept.append(word)
        before = word
    return " ".join(kept)


if __name__ == "__main__":
    sys.exit(main())
