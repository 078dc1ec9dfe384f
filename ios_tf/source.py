"""What the MODEL argument names: a SavedModel, a .keras file, keras:NAME."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ios_tf.errors import UserError

KERAS_PREFIX = "keras:"


@contextlib.contextmanager
def saved_model(
    model: Any,
    weights: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[str]:
    """Gives the directory of a SavedModel for `model`, for the time of the block.

    Args:
      model: a SavedModel directory, the path of a `.keras` file, `keras:NAME` for a
        network of `keras.applications`, or a `keras.Model`.
      weights: for `keras:NAME`: "imagenet", or None for random ones.
      say: gets a line of information about the model.

    Raises:
      UserError: `model` is none of these.
    """
    if weights is not None and not _is_keras_name(model):
        raise UserError(f"weights={weights!r} is only for MODEL keras:NAME")
    if isinstance(model, (str, os.PathLike)) and not _is_keras_name(model):
        path = os.fspath(model)
        if not path.endswith(".keras"):
            _check_saved_model(path)
            yield path
            return
        keras_model = _load_keras_file(path)
    elif _is_keras_name(model):
        keras_model = _build_keras_application(
            str(model)[len(KERAS_PREFIX) :], weights, say
        )
    elif hasattr(model, "export"):
        keras_model = model
    else:
        raise UserError(
            f"a model is a SavedModel directory, a .keras file, keras:NAME or a "
            f"keras.Model, not {type(model).__name__}"
        )
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        path = os.path.join(directory, "model")
        keras_model.export(path, verbose=False)
        yield path


def _is_keras_name(model: Any) -> bool:
    return isinstance(model, str) and model.startswith(KERAS_PREFIX)


def _check_saved_model(path: str) -> None:
    if not tf.io.gfile.exists(path):
        raise UserError(f"{path}: no such file or directory")
    if not tf.io.gfile.isdir(path):
        raise UserError(
            f"{path}: not a SavedModel directory, a .keras file or keras:NAME"
        )
    if not tf.saved_model.contains_saved_model(path):
        raise UserError(f"{path}: not a SavedModel (it has no saved_model.pb)")


def _load_keras_file(path: str) -> Any:
    import keras

    if not tf.io.gfile.exists(path):
        raise UserError(f"{path}: no such file")
    try:
        return keras.saving.load_model(path, compile=False)
    # Whatever is wrong inside of the file, Keras says it with all kinds of errors.
    except Exception as error:
        raise UserError(f"{path}: not a Keras model: {first_line(error)}") from error


def _build_keras_application(
    name: str, weights: str | None, say: Callable[[str], None]
) -> Any:
    import keras

    names = [
        n
        for n in dir(keras.applications)
        if n[:1].isupper() and callable(getattr(keras.applications, n))
    ]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names
        raise UserError(
            f"keras:{name}: no such network in keras.applications; there is "
            + ", ".join(near)
        )
    if weights is None:
        say(f"keras:{name} gets random weights; --weights=imagenet for trained ones")
        keras.utils.set_random_seed(0)
    try:
        return getattr(keras.applications, name)(weights=weights)
    except Exception as error:  # a failed download, an unknown set of weights
        raise UserError(f"keras:{name}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
