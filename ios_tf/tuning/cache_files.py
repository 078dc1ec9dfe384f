"""Reads and writes the files of a schedule cache safely.

A user who may write into the directory must not be able to lead a process out of it, or
to make the process wait.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Iterator

import tensorflow as tf

from ios_tf.scheduler.document import MAX_BYTES


def read(directory: str, path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Reads a file below a directory, which may be on any filesystem.

    Raises:
      tf.errors.OpError: the file does not exist, is not a regular file, is outside the
        directory (through a link), or is too large.
    """
    if "://" in path:
        if tf.io.gfile.stat(path).length > max_bytes:
            raise _refused(f"it has more than {max_bytes} bytes")
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    with _os_errors():
        # Opening a named pipe waits for a writer; opening a device has side effects.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _refused("it is not a regular file")
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            _check_inside(directory, f"/proc/self/fd/{file.fileno()}")
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
                raise _refused(f"it has more than {max_bytes} bytes")
            return file.read(max_bytes)


def write(directory: str, path: str, text: str) -> None:
    """Writes a file below a directory atomically; creates missing directories.

    Raises:
      tf.errors.OpError: the file cannot be written; the temporary file is removed.
    """
    if "://" in path:
        _write_remote(path, text)
        return
    parent, name = os.path.split(path)
    temporary = f"{name}.{uuid.uuid4().hex}.tmp"
    with _os_errors(), _directory(directory, parent or ".") as place:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            made = os.open(temporary, flags, 0o666, dir_fd=place)
            with open(made, "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(temporary, dir_fd=place)
            raise


def _write_remote(path: str, text: str) -> None:
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.gfile.GFile(temporary, "w") as file:
            file.write(text)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)
        raise


@contextlib.contextmanager
def _directory(root: str, path: str) -> Iterator[int]:
    """Yields a descriptor of a directory below `root`; creates missing directories.

    Links are resolved before anything is created, and no link is followed afterwards.
    So changing a link in between cannot lead this process out of `root`.
    """
    os.makedirs(root, exist_ok=True)
    _check_inside(root, path)
    root = os.path.realpath(root)
    below = os.path.relpath(os.path.realpath(path), root)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.open(root, flags)
    try:
        for name in below.split(os.sep):
            with contextlib.suppress(FileExistsError):
                if name != ".":
                    os.mkdir(name, dir_fd=place)
            inner = os.open(name, flags, dir_fd=place)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def is_inside(directory: str, path: str) -> bool:
    """Returns whether a path, after following all links, is below the directory.

    Links to other places below the directory are fine: orchestrators mount volumes that
    way. Remote paths are always accepted.
    """
    root, real = os.path.realpath(directory), os.path.realpath(path)
    return "://" in path or os.path.commonpath([root, real]) == root


def _check_inside(directory: str, path: str) -> None:
    if not is_inside(directory, path):
        raise _refused(f"it leads out of {directory}")


def _refused(why: str) -> tf.errors.OpError:
    return tf.errors.FailedPreconditionError(None, None, why)


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, error.strerror) from None
    except OSError as error:
        raise tf.errors.UnknownError(None, None, error.strerror) from None
