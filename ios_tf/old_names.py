"""Old names of options (before 2026-11-28).

Using an old name raises an error with the new name. Remove this module, and its uses,
in the version after the first release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ios_tf.errors import UserError

_OPTIONS = {
    "units": "group_patterns",
    "borders": "block_end_patterns",
    "warmup": "warmup_runs",
    "number": "runs",
    "repeat": "sample_count",
    "say": "log",
}
_FLAGS = {
    "--warmup": "--warmup_runs",
    "--unit": "--group",
    "--border": "--block_end",
    "--number": "--runs",
    "--repeat": "--sample_count",
}
_VALUES = {"strategy": {"both": "auto"}, "on_miss": {"pass": "skip"}}


def check_argument_names(arguments: Iterable[str]) -> None:
    """Checks the names of keyword arguments.

    Raises:
      UserError: a name is old.
    """
    for name in arguments:
        if name in _OPTIONS:
            raise UserError(f"the option {name} is now called {_OPTIONS[name]}")


def check_value(option: str, value: object) -> None:
    """Checks that the value of an option is not an old name.

    Raises:
      UserError: the value is an old name.
    """
    new = _VALUES.get(option, {}).get(value) if isinstance(value, str) else None
    if new:
        raise UserError(f"the value {value!r} of {option} is now called {new!r}")


def of_flags(words: Sequence[str]) -> str | None:
    """Returns the error for the first old flag among these words, or None."""
    for word in words:
        flag = word.partition("=")[0]
        if flag in _FLAGS:
            return f"{flag} is now called {_FLAGS[flag]}"
    return None
