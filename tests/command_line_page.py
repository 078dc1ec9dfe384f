"""Writes docs/reference/command_line.md: python -m tests.command_line_page"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ios_tf import options
from ios_tf.cli.main import command_parser

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/command_line.md"

_INTRODUCTION = """\
# Command line

This page lists the commands of `ios_tf`. [Convert a model](../guides/convert.md) shows
how to use the most important ones, with examples. Flags may have dashes or underscores.
All commands accept `--help`, and `--traceback`, which prints the Python traceback of an
error.

`python -m tests.command_line_page` generates this page from `ios_tf/cli`.
"""
# The commands whose flags are options with descriptions on another page.
_OPTIONS = {
    "convert": options.ConvertOptions,
    "bench": options.BenchOptions,
    "tune": options.TuneOptions,
}


def page() -> str:
    """The text of the page."""
    lines = [_INTRODUCTION]
    for name, parser in commands("ios_tf", command_parser()):
        lines += [f"## {name}\n", f"{parser.description}\n"]
        command = name.rpartition(" ")[2]
        rows = list(_rows(parser, _flags(command)))
        lines += ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []
        if command in _OPTIONS:
            lines.append("[Options](options.md) lists the other flags.\n")
    return "\n".join(lines)


def _flags(command: str) -> set[str]:
    """The flags of a command that the page about options already describes."""
    if command not in _OPTIONS:
        return set()
    found = options.options_of(_OPTIONS[command]).items()
    return {f"--{option.flag or name}" for name, option in found}


def commands(
    name: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The names and parsers of the commands below a parser, with its own name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                below = list(commands(f"{name} {word}", child))
                yield from below or [(f"{name} {word}", child)]


def _rows(parser: argparse.ArgumentParser, elsewhere: set[str]) -> Iterator[str]:
    hidden = {"--help", "--helpfull", "--traceback", *elsewhere}
    # Positional arguments come before flags.
    for action in sorted(
        parser._actions, key=lambda action: bool(action.option_strings)
    ):
        flags = action.option_strings
        if action.help == argparse.SUPPRESS or hidden.intersection(flags):
            continue
        choices = ",".join(map(str, action.choices or ()))
        value = action.metavar or (f"{{{choices}}}" if choices else "")
        name = "=".join([*flags[-1:], *([value] if value else [])])
        yield f"| `{name.replace(' | ', ' or ')}` | {action.help} |"


if __name__ == "__main__":
    PAGE.write_text(page())
