"""Makes the arguments for calls of a signature: random values, or those of a user."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf.errors import UserError, plain
from ios_tf.options import USUAL_IMAGE_SIZE

# A given input: an array, or the shape of a random array.
Given = np.ndarray | tuple[int, ...]

# Exclusive upper bounds of random whole numbers, which are tried in turn: 255 for
# pixels, and 2 for indices, which are then valid in any vocabulary.
LIMITS = (255, 2)


def parse_inputs(words: Iterable[str]) -> dict[str, Given]:
    """Parses values of --input: NAME=FILE.npy and NAME=SHAPE (1,224,224,3).

    Raises:
      UserError: a word has neither form, or a file cannot be read.
    """
    given: dict[str, Given] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name or not value:
            raise UserError(
                f"--input={word} must be NAME=FILE.npy or NAME=SHAPE, such as "
                "image=1,224,224,3"
            )
        if name in given:
            raise UserError(f"--input names {name!r} more than once")
        given[name] = _array(value) if value.endswith(".npy") else _shape(name, value)
    return given


def _shape(name: str, text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.isdecimal() for size in sizes):
        raise UserError(
            f"--input={name}={text} must name a .npy file or give a shape, such as "
            "1,224,224,3"
        )
    return tuple(map(int, sizes))


def _array(path: str) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or 'not a .npy file'}") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def example_inputs(
    function: Any,
    batch_size: int,
    given: Mapping[str, Given] | None = None,
    limit: int = LIMITS[0],
    image_size: tuple[int, int] = USUAL_IMAGE_SIZE,
) -> dict[str, tf.Tensor]:
    """Arguments for a signature function.

    Args:
      function: a signature function of a loaded SavedModel.
      batch_size: replaces an unknown first dimension.
      given: maps argument names to arrays, or to shapes of random arrays. Other
        arguments are random.
      limit: exclusive upper bound of random whole numbers.
      image_size: replaces the heights and widths of images that the signature leaves
        open.

    Raises:
      UserError: an argument does not exist, a given array or shape does not match the
        signature, or an argument without given values is not numeric or has an unknown
        size.
    """
    given = given or {}
    specs = function.structured_input_signature[1]
    for name in given:
        if name not in specs:
            raise UserError(
                f"the signature has no input {name!r}. Its inputs are "
                + ", ".join(specs)
            )
    random = np.random.default_rng(0)
    inputs = {}
    for name, spec in specs.items():
        known = given.get(name)
        if known is None:
            known = _known_shape(name, spec, batch_size, image_size)
        if isinstance(known, np.ndarray):
            inputs[name] = _given(name, spec, known)
        else:
            inputs[name] = _random(name, spec, known, limit, random)
    return inputs


def accepted_inputs(
    function: Any,
    batch_size: int,
    given: Mapping[str, Given] | None = None,
    image_size: tuple[int, int] = USUAL_IMAGE_SIZE,
) -> tuple[dict[str, tf.Tensor], Mapping[str, tf.Tensor]]:
    """Returns arguments that a signature function accepts, and its outputs.

    The arguments are those of `example_inputs`. Small whole numbers are tried, too,
    because they may be indices.

    Raises:
      UserError: as `example_inputs` and `outputs_of`.
    """
    for limit in LIMITS[:-1]:
        with contextlib.suppress(_NotTakenError):
            inputs = example_inputs(function, batch_size, given, limit, image_size)
            return inputs, outputs_of(function, inputs)
    inputs = example_inputs(function, batch_size, given, LIMITS[-1], image_size)
    return inputs, outputs_of(function, inputs)


def without_open_batch(function: Any) -> tuple[str, tf.TensorShape] | None:
    """Returns a tensor of a signature function whose first dimension is not open.

    Returns:
      The tensor as text, such as "input 'x'", and its shape; or None if the first
      dimension of each input and output is open. TensorFlow can then combine several
      calls into one batch.
    """
    tensors = {
        "input": function.structured_input_signature[1],
        "output": function.structured_outputs,
    }
    for kind, specs in tensors.items():
        for name, spec in specs.items():
            if spec.shape.rank == 0 or (spec.shape.rank and spec.shape[0] is not None):
                return f"{kind} {name!r}", spec.shape
    return None


def open_sizes(shape: Sequence[int | None]) -> dict[int, int]:
    """Maps each unknown dimension to 0 if it is a height, and to 1 if it is a width.

    The leading dimension is the batch. Several unknown dimensions are alternately a
    height and a width. A single unknown dimension is a height only if two dimensions
    follow it: the length of a sequence is a width, because a sequence is an image of
    height 1.
    (WithSample in cc/tensorflow/shapes/shape_sample.cc does the same.)
    """
    dimensions = [d for d, size in enumerate(shape) if d and size is None]
    if len(dimensions) == 1:
        return {d: int(d + 2 >= len(shape)) for d in dimensions}
    return {d: i % 2 for i, d in enumerate(dimensions)}


def image_size_of(
    specs: Mapping[str, tf.TensorSpec], inputs: Mapping[str, tf.Tensor]
) -> tuple[int, int]:
    """Returns the height and width of inputs whose size the signature does not give.

    The result is the usual image size if the signature gives all sizes.
    """
    for name, spec in specs.items():
        if spec.shape.rank is None or spec.shape.rank < 3:
            continue
        opened = open_sizes(spec.shape.as_list())
        # If only the height or only the width is open, both get its value, because the
        # other is not used.
        sizes = {i: inputs[name].shape[d] for d, i in reversed(opened.items())}
        if sizes:
            return sizes.get(0, sizes.get(1)), sizes.get(1, sizes.get(0))
    return USUAL_IMAGE_SIZE


class _NotTakenError(UserError):
    """A function fails with the given inputs."""


def outputs_of(
    function: Any, inputs: Mapping[str, tf.Tensor]
) -> Mapping[str, tf.Tensor]:
    """The outputs of a signature function.

    Raises:
      UserError: the function fails. The message says how to give it other inputs.
    """
    try:
        return function(**inputs)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        reason = " ".join(plain(str(error)).split("\n\nStack trace")[0].split())
        described = ", ".join(
            f"{name} {x.dtype.name}{x.shape.as_list()}" for name, x in inputs.items()
        )
        raise _NotTakenError(
            f"the model cannot be called with {described} ({reason[:300]}). "
            "Give other inputs with --input=NAME=FILE.npy or --input=NAME=SHAPE"
        ) from error


def _given(name: str, spec: tf.TensorSpec, array: np.ndarray) -> tf.Tensor:
    _check_shape(name, spec, array.shape)
    wanted = spec.dtype.as_numpy_dtype
    if spec.dtype == tf.string:
        fits = array.dtype.kind in "SU"
    elif spec.dtype.is_bool:
        fits = array.dtype.kind == "b"
    else:
        fits = (
            array.dtype.kind in "biuf" and np.can_cast(array.dtype, wanted, "same_kind")
        ) or (spec.dtype == tf.bfloat16 and array.dtype.kind == "f")
    if not fits:
        raise UserError(
            f"input {name!r} has type {spec.dtype.name}, but its file has type "
            f"{array.dtype}"
        )
    if spec.dtype == tf.string:
        return tf.constant(array.tolist(), tf.string, array.shape)
    return tf.constant(array.astype(wanted))


def _known_shape(
    name: str, spec: tf.TensorSpec, batch_size: int, image_size: tuple[int, int]
) -> tuple[int, ...]:
    """Returns the shape in the signature, with the given batch size and image size."""
    sizes = spec.shape.as_list() if spec.shape.rank is not None else [None, None]
    if len(sizes) == 4 and sizes[3] is not None:
        for dimension, i in open_sizes(sizes).items():
            sizes[dimension] = image_size[i]
    if sizes and sizes[0] is None:
        sizes[0] = batch_size
    if None in sizes:
        raise UserError(
            f"input {name!r} has the partly unknown shape {spec.shape}. "
            f"Give a complete shape with --input={name}=SHAPE"
        )
    return tuple(sizes)


def _random(
    name: str,
    spec: tf.TensorSpec,
    shape: tuple[int, ...],
    limit: int,
    random: np.random.Generator,
) -> tf.Tensor:
    _check_shape(name, spec, shape)
    if spec.dtype.is_bool:
        values = random.integers(0, 2, shape)
    elif spec.dtype.is_floating:
        values = random.random(shape)
    elif spec.dtype.is_integer:
        values = random.integers(0, min(spec.dtype.max, limit), shape)
    else:
        raise UserError(
            f"input {name!r} has type {spec.dtype.name}, which is not numeric. "
            f"Give values for it with --input={name}=FILE.npy"
        )
    return tf.constant(values.astype(spec.dtype.as_numpy_dtype))


def _check_shape(name: str, spec: tf.TensorSpec, shape: tuple[int, ...]) -> None:
    if not spec.shape.is_compatible_with(shape):
        raise UserError(
            f"the shape {list(shape)} does not match input {name!r} of shape "
            f"{spec.shape}"
        )
