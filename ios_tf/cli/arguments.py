"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ios_tf import models
from ios_tf.options import ConvertOptions, Option, default_text, number, options_of
from ios_tf.printable import printable
from ios_tf.tables import fitted
from ios_tf.validation import as_argument, whole

if TYPE_CHECKING:  # imports absl, which benchmarks without TensorFlow lack
    from ios_tf.cli.parser import Parser

MODEL = (
    "a SavedModel directory, a .keras or .h5 file, keras:NAME (keras.applications), or "
    f"models:NAME ({', '.join(models.NETWORKS)})"
)
CONVERTED = "a converted SavedModel"


def say(line: str) -> None:
    """Prints a line and flushes it.

    If the pipe is closed, the work goes on without output.
    """
    try:
        print(printable(line), flush=True)
    except BrokenPipeError:
        forget_output()


def forget_output() -> None:
    """Discards buffered and future output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command(
    commands: argparse._SubParsersAction,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    text: str,
    description: str | None = None,
) -> Parser:
    """Adds a parser for a command.

    Args:
      commands: the commands to add it to.
      name: the command's name.
      run: called with the parsed arguments; returns an exit code, or None for 0.
      text: the description in the list of commands.
      description: the description in the command's own help; by default `text`.

    Returns:
      The parser.
    """
    parser: Parser = commands.add_parser(
        name, help=text, description=description or f"{text[0].upper()}{text[1:]}."
    )
    parser.set_defaults(run=run, needs_tensorflow=True)
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="print the Python traceback of an error",
    )
    return parser


def add_quiet(parser: Parser) -> None:
    """Adds the flag that switches the progress and other messages off."""
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="show no progress and no messages, only results and errors",
    )


def messages(options: argparse.Namespace, aside: bool = False) -> dict[str, Any]:
    """The keyword arguments `progress` and `log` of a function, from the flag --quiet.

    With `aside`, messages go to standard error.
    """
    if options.quiet:
        return {"progress": False, "log": lambda line: None}
    return {"progress": True, "log": say_aside if aside else say}


def say_aside(line: str) -> None:
    """Prints a line of information on standard error."""
    print(printable(line), file=sys.stderr)


def add_options(parser: Parser, options: Any, *names: str, **defaults: Any) -> None:
    """Adds flags for the options of a class of ios_tf/options.py.

    Args:
      parser: the parser to add the flags to.
      options: the class.
      names: the options to add. By default all options are added, in groups.
      defaults: replace default values.
    """
    groups: dict[str, Any] = {}
    for name, option in options_of(options).items():
        if option.flag is None or (names and name not in names):
            continue
        if not names and option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        target = parser if names else groups[option.group]
        default = defaults.get(name, getattr(options, name))
        text = option.help
        shown = default_text(options, name, default)
        if option.repeated:
            text += " (may be repeated)"
        if shown:
            text += f"; default: {shown}"
        details: dict[str, Any] = {"dest": name, "help": text.replace("%", "%%")}
        if default is False:
            details["action"] = "store_true"
        elif default is True:
            details |= {"type": _on_or_off, "metavar": "{on,off}", "default": True}
        else:
            details |= {
                "action": "append" if option.repeated else "store",
                "type": as_argument(functools.partial(_parsed, name, option)),
                # argparse would append the elements of a list to its default value.
                "default": None if option.repeated else default,
                "metavar": option.metavar,
                "choices": option.choices,
            }
        target.add_argument(f"--{option.flag or name}", **details)


def chosen_options(options: Any, namespace: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of a class that the command line sets, by name."""
    return {
        name: value
        for name, option in options_of(options).items()
        if option.flag is not None and (value := getattr(namespace, name)) is not None
    }


def _parsed(name: str, option: Option, text: str) -> Any:
    value = option.check(name, option.parse(text))
    # Passes a single element without a list, because the checks of lists accept this,
    # too.
    return value[0] if option.repeated else value


def _on_or_off(text: str) -> bool:
    if text not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"must be on or off, not {text!r}")
    return text == "on"


def add_whole(
    parser: argparse.ArgumentParser,
    name: str,
    least: int,
    text: str,
    default: int | None = None,
    check: Callable[[str, Any, int], int] = whole,
) -> None:
    """Adds an option for a whole number that is at least `least`."""
    parser.add_argument(
        f"--{name}",
        type=as_argument(lambda value: check(name, number(value), least)),
        default=default,
        metavar="N",
        help=text,
    )


def add_json(parser: Parser, what: str = "print one JSON document") -> None:
    """Adds the flag --json, which `print_result` reads."""
    parser.add_argument("--json", action="store_true", help=f"{what} instead of text")


def print_result(options: argparse.Namespace, document: Any, text: str) -> None:
    """Prints the result of a command, as JSON if the command line says so."""
    print(json.dumps(document) if options.json else fitted(text))


def add_model(parser: Parser, text: str = MODEL) -> None:
    """Adds the argument for the model, and the option for its MetaGraph's tags."""
    add_model_path(parser, text)
    add_options(parser, ConvertOptions, "tags")


def add_model_path(parser: Parser, text: str = MODEL) -> None:
    """Adds the argument for the model."""
    parser.add_argument("model", metavar="MODEL", help=text)
