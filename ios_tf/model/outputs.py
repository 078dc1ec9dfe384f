"""Writes an output directory completely or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import posixpath
import uuid
from collections.abc import Iterator

import tensorflow as tf

from ios_tf.errors import UserError, first_line
from ios_tf.model import temp_dirs


def check_apart(model: str, output: str) -> None:
    """Raises UserError if writing `output` would change or replace the model."""
    read, written = os.path.realpath(model), os.path.realpath(output)
    if read == written:
        raise UserError(
            f"{output} is the directory of the model. Write to another directory"
        )
    common = os.path.commonpath([read, written])
    if common == read:
        raise UserError(
            f"{output} is inside of the model's directory. Write to another directory"
        )
    if common == written:
        raise UserError(f"{model} is inside of {output}. Write to another directory")


@contextlib.contextmanager
def written_directory(output: str, overwrite: bool = False) -> Iterator[str]:
    """Yields a directory to write to, which becomes `output` if the block succeeds.

    The directory is beside `output`, so that it can be renamed at the end. It is
    removed if the block fails. If the process is killed, the next process that writes
    to the same output removes it.

    Raises:
      UserError: `output` exists and may not be replaced, or cannot be written.
    """
    output = output.rstrip("/") or "/"
    if os.path.islink(output):  # replaces the target and keeps the link
        output = os.path.realpath(output)
    with _errors_of_writing(output):
        _check_free(output, overwrite)
    parent, name = posixpath.split(output)
    if "://" not in output:
        temp_dirs.remove_abandoned(parent or ".", f".{name}.", ".tmp")
    mark = uuid.uuid4().hex[:8]
    temporary = posixpath.join(parent, f".{name}.{mark}.tmp")
    missing = []  # directories above `output`, from the highest to its parent
    while parent and not tf.io.gfile.exists(parent):
        missing.insert(0, parent)
        parent = posixpath.dirname(parent)
    try:
        with _errors_of_writing(output):
            tf.io.gfile.makedirs(temporary)
            # Writes a test file, because some filesystems accept any directory name.
            test = posixpath.join(temporary, ".write_test")
            with tf.io.gfile.GFile(test, "w") as file:
                file.write("")
            if not tf.io.gfile.glob(test):
                raise UserError(
                    f"{output}: TensorFlow cannot load a model from this path, because "
                    "it interprets the brackets in the path as a pattern of file "
                    "names. Choose another path"
                )
            tf.io.gfile.remove(test)
        with temp_dirs.owned(temporary):
            yield temporary
            _check_free(output, overwrite)  # again, because the block took a while
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
        raise UserError(f"{output} cannot be written: {first_line(error)}") from error


def _move(source: str, target: str, aside: str) -> None:
    """Renames `source` to `target`, and replaces a target that exists.

    If the system cannot exchange two paths, the old target is kept at `aside` until the
    end.
    """
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
    if not tf.io.gfile.listdir(target):  # ram:// does not rename a directory's files
        copy_directory(source, target)
        _remove(source)
    if exists:
        _remove(aside)


def _exchange(a: str, b: str) -> bool:
    """Exchanges two paths atomically. Returns whether the system supports this.

    Remote filesystems, old kernels and some network filesystems do not.
    """
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return rename(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


def copy_directory(source: str, target: str) -> None:
    """Copies all files below `source` to `target`.

    The target may exist, and may lie inside the source.
    """
    for directory, _, files in list(tf.io.gfile.walk(source)):
        if f"{os.path.abspath(directory)}/".startswith(f"{os.path.abspath(target)}/"):
            continue
        relative = os.path.relpath(directory, source)
        below = target if relative == "." else os.path.join(target, relative)
        tf.io.gfile.makedirs(below)
        for file in files:
            path = os.path.join(directory, file)
            # ram:// lists "assets.extra" as a file ".extra" of "assets".
            if path.startswith("ram://") and not tf.io.gfile.exists(path):
                continue
            tf.io.gfile.copy(path, os.path.join(below, file), overwrite=True)


def clear_directory(directory: str) -> None:
    """Removes what a directory contains. The directory stays, because it is locked."""
    for name in tf.io.gfile.listdir(directory):
        path = posixpath.join(directory, name)
        if tf.io.gfile.isdir(path):
            tf.io.gfile.rmtree(path)
        else:
            tf.io.gfile.remove(path)


def size_of(directory: str, without: str) -> int:
    """The bytes of all files below a directory, except the file at `without`."""
    total = 0
    for folder, _, files in tf.io.gfile.walk(directory):
        for file in files:
            path = os.path.join(folder, file)
            if os.path.relpath(path, directory) != without and tf.io.gfile.exists(path):
                total += tf.io.gfile.stat(path).length
    return total


def _check_free(output: str, overwrite: bool) -> None:
    if not tf.io.gfile.exists(output):
        return
    if not overwrite:
        raise UserError(
            f"{output} already exists. Use --overwrite (overwrite=True) to replace it"
        )
    # --overwrite only allows replacing a model or an empty directory.
    if not tf.io.gfile.isdir(output) or (
        tf.io.gfile.listdir(output) and not tf.saved_model.contains_saved_model(output)
    ):
        raise UserError(
            f"{output} exists and is not a SavedModel, so it is not replaced. Choose "
            "another output"
        )


def _remove(directory: str) -> None:
    if os.path.islink(directory):  # TensorFlow would empty the link's target
        with contextlib.suppress(OSError):
            os.unlink(directory)
        return
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.rmtree(directory)
