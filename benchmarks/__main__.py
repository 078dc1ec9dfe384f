"""python -m benchmarks COMMAND: lists the commands, and runs one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

# Commands that are modules with a function `main`.
_PROGRAMS = {
    "checks": "compare operators and networks with float64",
    "complexity": "count the schedules of all blocks of a model",
    "contention": "measure latencies beside other processes",
    "costs": "measure time and memory of compiling, converting and loading",
    "cudnn_plans": "find the fastest cuDNN plans on a GPU",
    "explore": "compare strategies on a device that is not present",
    "export_blocks": "write a model's blocks for machines without TensorFlow",
    "page": "make docs/benchmarks.md from the results",
    "streams": "call one program from many threads, each on a CUDA stream",
    "table1": "count the schedules of the paper's largest blocks (its Table 1)",
}
_CHILDREN = ("worker", "zoo.measure")  # started by other commands
_OTHERS = {
    "gpu_day": "run all GPU measurements, the most important first",
    "zoo": "convert and measure the networks of the zoo",
}


def _usage() -> str:
    from benchmarks.experiments import command

    commands = {
        **{one.name: one.help for one in command.EXPERIMENTS},
        **_PROGRAMS,
        **_OTHERS,
    }
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
    if name in _PROGRAMS or name in _CHILDREN:
        return _run_module(name, words)
    if name == "zoo":
        from benchmarks.zoo.command import main as zoo

        return zoo(words)
    from benchmarks.experiments import command

    return command.main([name, *words])


def _run_module(name: str, words: Sequence[str]) -> int:
    """Runs a module of this package as a program."""
    before = sys.argv
    sys.argv = [f"python -m benchmarks {name}", *words]
    try:
        return importlib.import_module(f"benchmarks.{name}").main() or 0
    except SystemExit as end:  # raised by a parser
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before


if __name__ == "__main__":
    sys.exit(main())
