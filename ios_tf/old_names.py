"""Names of options before 2026-11-28. Each of them raises an error that gives the new
name. Remove this module, and its uses, in the version after the first release."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from ios_tf.errors import UserError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

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


def rejects_old_names(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Makes a function raise a UserError for keyword arguments with old names."""

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for old, new in _OPTIONS.items():
            if old in kwargs:
                raise UserError(f"the option {old} is called {new} now")
        return function(*args, **kwargs)

    return call


def check_value(option: str, value: object) -> None:
    """Checks that the value of an option is not an old name.

    Raises:
      UserError: the value is an old name.
    """
    new = _VALUES[option].get(value) if isinstance(value, str) else None
    if new:
        raise UserError(f"{option} {value!r} is called {new!r} now")


def of_flags(words: Sequence[str]) -> str | None:
    """The error for the first old flag among these words; None if there is none."""
    for word in words:
        flag = word.partition("=")[0]
        if flag in _FLAGS:
            return f"{flag} is called {_FLAGS[flag]} now"
    return None
