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
from ios_tf.native import plugin

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


def import_tensorflow() -> None:
    """Imports TensorFlow, and makes it log errors only.

    Raises:
      NativeLibraryError: the plugin is missing, or was built for another TensorFlow.
    """
    # Sets the variable before the import, because TensorFlow reads it when it is
    # loaded.
    level = "0" if shows_tensorflow() else "3"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", level)
    import tensorflow as tf

    if not shows_tensorflow():
        tf.get_logger().setLevel("ERROR")
    plugin.show_warnings()
    tf.config.list_logical_devices()  # prints messages about this machine's GPUs
    plugin.ops()  # if the plugin is unusable, fails before the model is loaded
