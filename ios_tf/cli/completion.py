"""ios_tf completion: prints a script that completes commands and flags in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from ios_tf.cli import arguments
from ios_tf.errors import UserError

_SHELLS = ("bash", "zsh", "tcsh")
# Metavars of arguments that are paths.
_PATHS = ("MODEL", "OUTPUT", "FILE", "DIR", "PATH")


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "completion",
        _completion,
        "print a script that completes commands and flags in your shell",
        "Prints a completion script. For bash, write it to "
        "~/.local/share/bash-completion/completions/ios_tf. For zsh, write it to a "
        "file _ios_tf in a directory of $fpath.",
    )
    parser.add_argument(
        "shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS)
    )
    parser.set_defaults(needs_tensorflow=False)


def _completion(options: argparse.Namespace) -> None:
    from ios_tf.cli.main import command_parser

    try:
        import shtab
    except ImportError:
        raise UserError("completion needs shtab. Run pip install shtab") from None
    parser = command_parser()
    for action in _actions(parser):
        if action.metavar in _PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
