"""Checks paths and writes files atomically, without TensorFlow."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import stat
from typing import Any

from ios_tf.errors import UserError


def is_special(path: str | os.PathLike[str]) -> bool:
    """Returns whether a local path is a device, a named pipe or another special file.

    Reading or writing such a path may block forever or have side effects.
    """
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def why_unreadable(path: str | os.PathLike[str]) -> str | None:
    """Returns why a local file, or a file below a directory, cannot be read.

    The result is None if all files can be read, or if the path does not exist.
    """
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            if not is_special(path):
                with open(path, "rb") as file:
                    file.read(1)
            return None
        paths = [os.path.join(path, name) for name in sorted(os.listdir(path))]
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{os.fspath(path)} cannot be read: {error.strerror}"
    return next(filter(None, map(why_unreadable, paths)), None)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Checks that a file can be written, without changing it.

    Raises:
      UserError: the file cannot be written.
    """
    existed = os.path.exists(path)
    try:
        open(path, "a", encoding="utf-8").close()
    except OSError as error:
        raise UserError(f"{os.fspath(path)}: {error.strerror}") from None
    if not existed:
        os.remove(path)


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Writes `content` as JSON, see write_text."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes `text` in UTF-8, see write_bytes."""
    write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file atomically: under a temporary name, which is then renamed.

    An existing path that is not a regular file, such as /dev/stdout, is written to
    directly.

    Raises:
      UserError: the file cannot be written; the temporary file is removed.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as file:
                file.write(content)
            return
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise UserError(
            f"{os.fspath(path)} cannot be written: {error.strerror}"
        ) from None


def utc_now() -> str:
    """The current date and time in UTC, in the format ISO 8601, to the second."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.isoformat(timespec="seconds")
