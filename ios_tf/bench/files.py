"""Writes a benchmark's text files whole or not at all, without TensorFlow."""

from __future__ import annotations

import contextlib
import os

from ios_tf.errors import UserError


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file under another name, and then gives it its own.

    Raises:
      UserError: it cannot be written; nothing is left of it.
    """
    temporary = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise UserError(
            f"{os.fspath(path)}: cannot be written: {error.strerror}"
        ) from None
