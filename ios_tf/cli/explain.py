"""ios_tf explain: prints what the code of a reason means."""

from __future__ import annotations

import argparse
import itertools
from typing import Any

from ios_tf.cli import arguments
from ios_tf.reasons import Reason, find
from ios_tf.tables import wrapped


def add_commands(commands: Any) -> None:
    """Adds the command."""
    parser = arguments.command(
        commands,
        "explain",
        _explain,
        "print what the code of a reason, such as IOS012, means",
        "Prints what a code in a report or a log means, and what you can do. Without a "
        "code, lists all codes.",
    )
    parser.add_argument(
        "reason",
        metavar="CODE",
        nargs="?",
        type=_reason,
        help="the code or its short name, such as IOS012 or output-size",
    )
    arguments.add_json(parser)
    parser.set_defaults(needs_tensorflow=False)


def _reason(text: str) -> Reason:
    try:
        return find(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _explain(options: argparse.Namespace) -> None:
    reason = options.reason
    if reason:
        arguments.print_result(options, _to_json(reason), _page(reason))
    else:
        listed = [_to_json(one) for one in Reason]
        arguments.print_result(options, listed, _list())


def _to_json(reason: Reason) -> dict[str, str]:
    names = ("code", "slug", "title", "meaning", "remedy")
    return {name: getattr(reason, name) for name in names}


def _page(reason: Reason) -> str:
    """The meaning of a reason, and what the user can do."""
    paragraphs = (
        f"{reason.code} ({reason.slug}): {reason.title}",
        reason.meaning,
        f"What you can do: {reason.remedy}",
    )
    return "\n\n".join(map(wrapped, paragraphs))


def _list() -> str:
    """One line per reason, under the headings of the documentation."""
    groups = []
    for heading, group in itertools.groupby(Reason, lambda one: one.group):
        lines = (
            wrapped(f"{reason.code}  {reason.title}", indent=8) for reason in group
        )
        groups.append("\n".join([heading, *lines]))
    return "\n\n".join(groups)
