"""Reads, writes and removes the files of a schedule cache safely.

Another user who may write into the directory must not be able to make a process access
files outside of it, or wait forever. cc/tensorflow/cache/cache_file.cc ensures this,
also in servers without Python. The functions of this module call it.
"""

from __future__ import annotations

import ctypes
import os

import tensorflow as tf

from ios_tf.native import plugin
from ios_tf.scheduler.document import MAX_BYTES


def read(directory: str, path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Reads a file below a directory, which may be on any filesystem.

    Raises:
      tf.errors.OpError: the file does not exist, is not a regular file, is outside the
        directory (through a link), or is too large.
    """
    content, size = ctypes.c_void_p(), ctypes.c_int64()
    code = plugin.runtime().ios_tf_read_cache_file(
        *_encoded(directory, path),
        max_bytes,
        ctypes.byref(content),
        ctypes.byref(size),
    )
    _check(code, content)
    return plugin.take(content.value, size.value) or b""


def write(directory: str, path: str, text: str) -> None:
    """Writes a file below a directory atomically; creates missing directories.

    Raises:
      tf.errors.OpError: the file cannot be written; the temporary file is removed.
    """
    data, error = text.encode(), ctypes.c_void_p()
    code = plugin.runtime().ios_tf_write_cache_file(
        *_encoded(directory, path), data, len(data), ctypes.byref(error)
    )
    _check(code, error)


def remove(path: str) -> tf.errors.OpError | None:
    """Removes a file if it still exists. Returns the error if the file stays."""
    try:
        tf.io.gfile.remove(path)
    except tf.errors.NotFoundError:  # another process has removed it
        return None
    except tf.errors.OpError as error:
        return error
    return None


def is_inside(directory: str, path: str) -> bool:
    """Returns whether a path, after following all links, is below the directory.

    Links to other places below the directory are allowed, because orchestrators such as
    Kubernetes use them to mount volumes. Remote paths are always accepted.
    """
    error = ctypes.c_void_p()
    code = plugin.runtime().ios_tf_check_inside_cache(
        *_encoded(directory, path), ctypes.byref(error)
    )
    plugin.take(error.value)
    return code == 0


def _encoded(directory: str, path: str) -> tuple[bytes, bytes]:
    """Encodes paths for C, whose strings end at the first 0."""
    if "\0" in directory or "\0" in path:
        raise tf.errors.InvalidArgumentError(None, None, "a path contains a 0 byte")
    return os.fsencode(directory), os.fsencode(path)


def _check(code: int, message: ctypes.c_void_p) -> None:
    """Raises TensorFlow's error for a code, and frees the message."""
    if code:
        text = plugin.take(message.value) or b"out of memory"
        error = tf.compat.v1.errors.exception_type_from_error_code(code)
        raise error(None, None, text.decode(errors="replace"))
