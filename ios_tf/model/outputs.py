"""Writes an output directory whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import posixpath
import uuid
from collections.abc import Iterator

import tensorflow as tf

from ios_tf.errors import UserError, first_line
from ios_tf.model import leftovers


@contextlib.contextmanager
def written_directory(output: str, overwrite: bool = False) -> Iterator[str]:
    """Gives a directory to write to, which becomes `output` when the block succeeds.

    The directory lies beside `output`, so that the end is a rename. When the block
    fails nothing is left of it; what a process that was killed has left, the next one
    removes that writes there.

    Raises:
      UserError: `output` exists and may not be replaced, or cannot be written.
    """
    output = output.rstrip("/") or "/"
    if os.path.islink(output):  # what it leads to is replaced, and the link stays
        output = os.path.realpath(output)
    with _errors_of_writing(output):
        _check_free(output, overwrite)
    parent, name = posixpath.split(output)
    if "://" not in output:
        leftovers.remove_abandoned(parent or ".", f".{name}.", ".tmp")
    mark = uuid.uuid4().hex[:8]
    temporary = posixpath.join(parent, f".{name}.{mark}.tmp")
    missing = []  # directories above `output`, from the highest to its parent
    while parent and not tf.io.gfile.exists(parent):
        missing.insert(0, parent)
        parent = posixpath.dirname(parent)
    try:
        with _errors_of_writing(output):
            tf.io.gfile.makedirs(temporary)
            # Some filesystems make any directory: a file tells.
            test = posixpath.join(temporary, ".write_test")
            with tf.io.gfile.GFile(test, "w") as file:
                file.write("")
            if not tf.io.gfile.glob(test):
                raise UserError(
                    f"{output}: TensorFlow loads no model from a path with such "
                    "brackets, which are a pattern to it"
                )
            tf.io.gfile.remove(test)
        with leftovers.owned(temporary):
            yield temporary
            _check_free(output, overwrite)  # the block took a while
            with _errors_of_writing(output):
                _move(temporary, output, temporary.removesuffix(".tmp") + ".old")
    except BaseException:
        _remove(temporary)
        for directory in reversed(missing):
            if tf.io.gfile.exists(directory) and not tf.io.gfile.listdir(directory):
                _remove(directory)
        raise


@contextlib.contextmanager
def _errors_of_writing(output: str) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        raise UserError(f"{output}: cannot be written: {first_line(error)}") from error


def _move(source: str, target: str, aside: str) -> None:
    """Renames `source` to `target`; what was there may go `aside` meanwhile."""
    exists = tf.io.gfile.exists(target)
    if exists and _exchange(source, target):
        _remove(source)
        return
    if exists:
        tf.io.gfile.rename(target, aside)
    try:
        tf.io.gfile.rename(source, target)
    except tf.errors.OpError:
        if exists:
            tf.io.gfile.rename(aside, target)
        raise
    if not tf.io.gfile.listdir(target):  # of a directory, ram:// renames no files
        copy_directory(source, target)
        _remove(source)
    if exists:
        _remove(aside)


def _exchange(a: str, b: str) -> bool:
    """Lets two paths change places at once; gives whether the system can.

    Remote filesystems, old kernels and some network ones cannot.
    """
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return rename(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


def copy_directory(source: str, target: str) -> None:
    """Copies the files below `source` to below `target`, which may exist, and lie
    there itself."""
    for directory, _, files in list(tf.io.gfile.walk(source)):
        if f"{os.path.abspath(directory)}/".startswith(f"{os.path.abspath(target)}/"):
            continue
        relative = os.path.relpath(directory, source)
        below = target if relative == "." else os.path.join(target, relative)
        tf.io.gfile.makedirs(below)
        for file in files:
            tf.io.gfile.copy(
                os.path.join(directory, file),
                os.path.join(below, file),
                overwrite=True,
            )


def _check_free(output: str, overwrite: bool) -> None:
    if not tf.io.gfile.exists(output):
        return
    if not overwrite:
        raise UserError(
            f"{output}: exists already; --overwrite (overwrite=True) replaces it"
        )
    # --overwrite is no licence to delete anything but a model.
    if not tf.io.gfile.isdir(output) or (
        tf.io.gfile.listdir(output) and not tf.saved_model.contains_saved_model(output)
    ):
        raise UserError(f"{output}: exists and is not a SavedModel; it is left alone")


def _remove(directory: str) -> None:
    if os.path.islink(directory):  # TensorFlow would empty what it leads to
        with contextlib.suppress(OSError):
            os.unlink(directory)
        return
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.rmtree(directory)
