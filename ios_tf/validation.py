"""Checks what public functions, and the command line, are called with."""

from __future__ import annotations

import argparse
import operator
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ios_tf.errors import UserError

_T = TypeVar("_T")

_ENGINE_DEVICES = "cpu, gpu, gpu:1 … or gpu:1,tf32=off …"

# TensorFlow's sizes of dimensions, and the engine's counts, are at most this.
_MOST = 2**31 - 1


def whole(name: str, value: Any, least: int = 1, most: int = _MOST) -> int:
    """The whole number that an argument is; numpy's are some, too.

    Args:
      name: what the error calls it.
      value: the argument.
      least, most: its range.

    Raises:
      UserError: it is none, or is not in the range.
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


def seconds(name: str, value: Any) -> float:
    """The time that an argument is; it may be infinite.

    Raises:
      UserError: it is no number, or below 0.
    """
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if not number >= 0:
        raise UserError(f"{name} must be at least 0 seconds, not {_shown(value)}")
    return number


def strings(name: str, value: Any) -> list[str]:
    """The strings that an argument is: a sequence of them, or a single one.

    Raises:
      UserError: it is neither.
    """
    found = [value] if isinstance(value, str) else value
    if (
        isinstance(found, (bytes, dict))
        or not isinstance(found, (Sequence, set, frozenset))
        or not all(isinstance(one, str) for one in found)
    ):
        raise UserError(f"{name} must be strings, not {_shown(value)}")
    return list(found)


def listed(name: str, text: str) -> list[str]:
    """The words that a text has between commas.

    Raises:
      UserError: one of them is empty.
    """
    words = text.split(",")
    if not all(words):
        raise UserError(f"{name} must be words between commas, not {_shown(text)}")
    return words


def device_name(text: Any) -> str:
    """The name of a device that TensorFlow has: auto, cpu, gpu, gpu:1 and so on.

    Raises:
      UserError: it is none.
    """
    if not re.fullmatch(r"auto|cpu|gpu(:\d{1,4})?", str(text), re.ASCII):
        raise UserError(f"device must be auto, cpu, gpu, gpu:1 …, not {_shown(text)}")
    return str(text)


def engine_device(text: str) -> str:
    """The name of a device that the engine has: cpu, gpu, gpu:1, gpu:1,tf32=off.

    Raises:
      UserError: it is none.
    """
    if not re.fullmatch(r"cpu|gpu(:\d{1,4})?(,tf32=off)?", text, re.ASCII):
        raise UserError(f"device must be {_ENGINE_DEVICES}, not {_shown(text)}")
    return text


def add_engine_device(parser: argparse.ArgumentParser, default: str = "cpu") -> None:
    """Adds --device to a command that needs no TensorFlow."""
    parser.add_argument(
        "--device",
        type=as_argument(engine_device),
        default=default,
        metavar="DEVICE",
        help=f"{_ENGINE_DEVICES}, as CUDA counts them; default: {default}",
    )


def pattern(text: str) -> str:
    """A regular expression.

    Raises:
      UserError: it is none.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise UserError(f"{text!r} is no regular expression: {error}") from None
    return text


def as_argument(check: Callable[[str], _T]) -> Callable[[str], _T]:
    """A check as the type of a parser's argument: its error names the argument."""

    def checked(text: str) -> _T:
        try:
            return check(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def path(name: str, value: Any) -> str:
    """The path of a file or directory that an argument is.

    Raises:
      UserError: it is none, or one that TensorFlow cannot be told.
    """
    try:
        text = os.fsdecode(value)
        text.encode()
    except TypeError:
        text = ""
    except UnicodeEncodeError:
        raise UserError(
            f"{name} must be UTF-8, as TensorFlow's paths are, not {_shown(value)} "
            f"(the encoding of file names here is {sys.getfilesystemencoding()})"
        ) from None
    if not text or "\0" in text:
        raise UserError(f"{name} must be a path, not {_shown(value)}")
    return text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
