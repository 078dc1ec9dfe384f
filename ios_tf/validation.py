"""Checks the arguments of public functions and of the command line."""

from __future__ import annotations

import argparse
import functools
import operator
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ios_tf import old_names
from ios_tf.errors import UserError

_T = TypeVar("_T")

ENGINE_DEVICES = "cpu, gpu, gpu:1 … or gpu:1,tf32=off …"

# The upper limit of TensorFlow's dimensions and of the engine's counts.
_MOST = 2**31 - 1
_MOST_RUNS = 1_000_000  # for one latency
_MOST_CALLERS = 1024  # each is a thread
# The product of these two limits bounds the number of calls in one measurement.
_MOST_CALLS_PER_SECOND = 100_000
_LONGEST_SECONDS = 600


def whole(name: str, value: Any, least: int = 1, most: int = _MOST) -> int:
    """Returns an argument as an int; whole numbers of numpy are accepted, too.

    Raises:
      UserError: the argument is not a whole number from `least` to `most`.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        limit = f">= {least}" if number < least else f"<= {most}"
        raise UserError(f"{name} must be a whole number {limit}, not {_shown(value)}")
    return number


caller_count = functools.partial(whole, most=_MOST_CALLERS)
search_limit = functools.partial(whole, least=0)  # 0 means no limit
warmup_runs = functools.partial(whole, least=0, most=_MOST_RUNS)
measured_runs = functools.partial(whole, most=_MOST_RUNS)


def _distinct(name: str, value: Any, element: str, most: int) -> list[int]:
    """Returns one number, or a list of numbers, in ascending order.

    Raises:
      UserError: the argument is not of this form, or lists a number more than once.
    """
    given = list(value) if _is_list(value) else [value]
    numbers = sorted(whole(name, number, most=most) for number in given)
    if not numbers:
        raise UserError(f"{name} must list at least one {element}")
    for number in numbers:
        if numbers.count(number) > 1:
            raise UserError(f"{name} lists {number} more than once")
    return numbers


batch_sizes = functools.partial(_distinct, element="batch size", most=_MOST)
callers = functools.partial(_distinct, element="number of callers", most=_MOST_CALLERS)


def image_size(name: str, value: Any) -> tuple[int, int]:
    """Returns a height and a width as a pair. A single number stands for both.

    Raises:
      UserError: the argument is neither.
    """
    sizes = list(value) if _is_list(value) else [value] * 2
    if isinstance(value, (str, bytes)) or len(sizes) != 2:
        raise UserError(
            f"{name} must be a height and a width, or one number for both, "
            f"not {_shown(value)}"
        )
    height, width = (whole(name, size) for size in sizes)
    return height, width


def _is_list(value: Any) -> bool:
    """Returns whether a value is a sequence, such as a list or a numpy array."""
    if isinstance(value, (str, bytes)):
        return False
    # A numpy array without dimensions is a number.
    return isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Checks that an argument is one of some names.

    Raises:
      UserError: the argument is another name, or the old name of a value.
    """
    old_names.check_value(name, value)
    if not isinstance(value, str) or value not in choices:
        raise UserError(
            f"{name} must be one of {', '.join(choices)}, not {_shown(value)}"
        )
    return value


def seconds(name: str, value: Any) -> float:
    """Returns an argument as a time in seconds, which may be infinite.

    Raises:
      UserError: the argument is not a number, or is below 0.
    """
    number = _float(value)
    if not number >= 0:
        raise UserError(f"{name} must be at least 0 seconds, not {_shown(value)}")
    return number


def _positive(name: str, value: Any, most: float) -> float:
    """Returns an argument as a float.

    Raises:
      UserError: the argument is not a number, not above 0, or above `most`.
    """
    number = _float(value)
    if not 0 < number <= most:
        raise UserError(
            f"{name} must be above 0 and at most {most}, not {_shown(value)}"
        )
    return number


error_bound = functools.partial(_positive, most=1.0)  # a relative error
rate = functools.partial(_positive, most=_MOST_CALLS_PER_SECOND)  # calls per second
duration = functools.partial(_positive, most=_LONGEST_SECONDS)  # in seconds


def _float(value: Any) -> float:
    """Returns a number as a float, and -1 for anything else."""
    if isinstance(value, (bool, str, bytes)):
        return -1.0
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return -1.0


def strings(name: str, value: Any) -> list[str]:
    """Returns a collection of strings as a list. A single string is a list of one.

    Raises:
      UserError: the argument is neither.
    """
    found = [value] if isinstance(value, str) else value
    if (
        isinstance(found, (bytes, dict))
        or not isinstance(found, (Sequence, set, frozenset))
        or not all(isinstance(one, str) for one in found)
    ):
        raise UserError(
            f"{name} must be a string or a list of strings, not {_shown(value)}"
        )
    return list(found)


def listed(name: str, text: str) -> list[str]:
    """Splits a text at its commas.

    Raises:
      UserError: a word is empty.
    """
    words = text.split(",")
    if not all(words):
        raise UserError(f"{name} must be words separated by commas, not {_shown(text)}")
    return words


def _matching(name: str, value: Any, form: str, examples: str) -> str:
    """Checks that a text has the form of a regular expression.

    Raises:
      UserError: it does not.
    """
    if not re.fullmatch(form, str(value), re.ASCII):
        raise UserError(f"{name} must be {examples}, not {_shown(value)}")
    return str(value)


# The name of a device of TensorFlow.
device_name = functools.partial(
    _matching, form=r"auto|cpu|gpu(:\d{1,4})?", examples="auto, cpu, gpu, gpu:1 …"
)
# The name of a device of the engine.
engine_device = functools.partial(
    _matching, form=r"cpu|gpu(:\d{1,4})?(,tf32=off)?", examples=ENGINE_DEVICES
)


def patterns(name: str, value: Any) -> tuple[str, ...]:
    """Returns one or more regular expressions as a tuple.

    Raises:
      UserError: the argument is neither.
    """
    return tuple(pattern(text) for text in strings(name, value))


def pattern(text: str) -> str:
    """Checks a regular expression.

    Raises:
      UserError: the text is not a regular expression.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise UserError(f"{text!r} is not a regular expression: {error}") from None
    return text


def as_argument(check: Callable[[str], _T]) -> Callable[[str], _T]:
    """Makes a check usable as the `type` of a parser's argument."""

    def checked(text: str) -> _T:
        try:
            return check(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def path(name: str, value: Any) -> str:
    """Returns an argument as the path of a file or directory.

    Raises:
      UserError: the argument is not a path, or is not UTF-8, as TensorFlow's paths are.
    """
    try:
        text = os.fsdecode(value)
        text.encode()
    except TypeError:
        text = ""
    except UnicodeEncodeError:
        raise UserError(
            f"{name} must be UTF-8, like all paths of TensorFlow, but {_shown(value)} "
            "cannot be encoded in UTF-8. Python decodes file names with "
            f"{sys.getfilesystemencoding()} in this environment"
        ) from None
    if not text or "\0" in text:
        raise UserError(f"{name} must be a path, not {_shown(value)}")
    return text


def name_of(name: str, value: Any) -> str:
    """Checks that an argument is a text that is not empty and has no line ends.

    Raises:
      UserError: the argument is something else.
    """
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise UserError(f"{name} must be one line of text, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
