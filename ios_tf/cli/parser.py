"""The parser of the command line: spellings of flags, and errors of one line."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from absl.flags import argparse_flags

from ios_tf import old_names

_CHOICE = re.compile(r"argument (\w+): invalid choice: '(.*)' \(choose from (.*)\)$")

_VALUED = re.compile(r"argument (--\w+): ignored explicit argument (.*)$")


class Parser(argparse_flags.ArgumentParser):
    """Accepts --batch-size for --batch_size, and no abbreviations of flags.

    Wrong usage is an error of one line, which suggests what the user may have meant and
    names the help of the right command.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def parse_known_args(
        self, args: Any = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = None if args is None else self._with_underscores(args)
        found, rest = super().parse_known_args(words, namespace)
        if rest:  # otherwise the top-level parser would report the error
            self.error(old_names.of_flags(rest) or self._unknown(rest))
        return found, rest

    def error(self, message: str) -> NoReturn:
        wrong = _CHOICE.match(message)
        if wrong and wrong[1].isupper():
            names = re.findall(r"[\w-]+", wrong[3])
            message = f"unknown {wrong[1].lower()} {wrong[2]!r}"
            message += suggestion(wrong[2], names) or f"; choose {', '.join(names)}"
        valued = _VALUED.match(message)
        if valued:
            message = f"{valued[1]} does not take a value, but got {valued[2]}"
            if valued[1] == "--json":
                message += "; to write the result to a file, use --json > FILE"
        self.exit(2, f"{self.prog}: error: {message} ({self.prog} --help)\n")

    def flags(self) -> set[str]:
        """The flags of this parser, without absl's hidden ones."""
        return {
            flag
            for action in self._actions
            if action.help != argparse.SUPPRESS
            for flag in action.option_strings
        }

    def _with_underscores(self, words: Sequence[str]) -> list[str]:
        flags = self.flags()
        end = words.index("--") if "--" in words else len(words)
        changed = []
        for word in words[:end]:
            flag, equals, value = word.partition("=")
            other = "--" + flag[2:].replace("-", "_")
            if flag.startswith("--") and flag not in flags and other in flags:
                word = other + equals + value
            changed.append(word)
        return [*changed, *words[end:]]

    def _unknown(self, rest: Sequence[str]) -> str:
        message = f"unrecognized arguments: {' '.join(rest)}"
        flag = rest[0].partition("=")[0]
        return message + suggestion(flag.replace("-", "_"), self.flags())


def suggestion(name: str, names: Iterable[str]) -> str:
    """Text after an error that suggests names similar to a wrong name; may be empty."""
    known = {other.replace("-", "_"): other for other in sorted(names)}
    close = difflib.get_close_matches(name, known, 2, 0.7)
    if not close:
        return ""
    return f"; did you mean {' or '.join(known[other] for other in close)}?"
