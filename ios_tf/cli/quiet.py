"""Keeps TensorFlow's log off the terminal."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

from absl import logging

from ios_tf.errors import NativeLibraryError

# Matches TensorFlow's log lines that are not errors.
_HARMLESS = re.compile(rb"[IW]\d{4} |WARNING: All log messages before absl")


def shows_tensorflow() -> bool:
    """Whether the flag --verbosity asks for TensorFlow's own messages."""
    return bool(logging.get_verbosity() >= logging.DEBUG)


@contextlib.contextmanager
def quiet_standard_error() -> Iterator[None]:
    """Hides the output of native code from the terminal unless the block fails.

    With --verbosity=1, nothing is hidden.

    TensorFlow logs several lines before any of its own switches takes effect.
    """
    if shows_tensorflow():
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as noise:
        standard_error = os.dup(2)
        os.dup2(noise.fileno(), 2)
        try:
            yield
        except (MemoryError, NativeLibraryError):
            raise  # the message of these errors is enough
        except Exception:
            noise.seek(0)
            lines = (line for line in noise if not _HARMLESS.match(line))
            os.write(standard_error, b"".join(lines))
            raise
        finally:
            sys.stderr.flush()
            os.dup2(standard_error, 2)
            os.close(standard_error)
