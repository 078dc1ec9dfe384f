"""Makes inputs up by which a model can be compared with another one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ios_tf.errors import first_line
from ios_tf.model.inputs import LIMITS, open_sizes
from ios_tf.native.graph import USUAL_IMAGE_SIZE

# The size of images: in place of all unknown dimensions but the first, or of two in
# turn.
Size = int | tuple[int, int]

# Sizes for images of unknown size, tried in turn, after the one that a schedule is made
# for, until the model takes one; and where another size than that is wanted.
SIZES: tuple[Size, ...] = (64, 299, 512)
OTHER_SIZES: tuple[Size, ...] = (75, 107, 224, *SIZES)
# Sizes for models that take none of those: of digits, faces, small photographs.
_LAST_SIZES = (32, 128, 256, 28, 160, 96, 16)
# A constant may be added to what a network made of the image, so many times smaller.
_STRIDES = (1, 2, 4, 8, 16, 32)
_MOST_TOLD = 12
_SMALLEST = 4
_LARGEST = 1024
# Numbers of channels for images of which not even these are known.
_CHANNELS = (3, 1)

Inputs = Mapping[str, tf.Tensor]


class Values(NamedTuple):
    """Random numbers: between which, and whether images of them are smooth."""

    low: float
    high: float
    smooth: bool


class Guess(NamedTuple):
    """Guesses where a signature leaves open which inputs its function takes.

    Attributes:
      image_size: in place of unknown dimensions, but for the leading one; of sounds,
        numbers of two dimensions at most, for 64 samples; of volumes and videos, for a
        quarter of their slices or frames.
      limit: whole numbers are below it.
      channels: of images of which they are unknown.
      seed: other seeds give other values of the same shapes.
    """

    image_size: Size = USUAL_IMAGE_SIZE
    limit: int = LIMITS[0]
    channels: int = _CHANNELS[0]
    seed: int = 0


_FIRST_GUESS = Guess()

# They are tried until small changes of them change outputs little. A deep network that
# was trained on images, or normalised for them, may amplify rounding of noise a million
# times.
VALUES = (
    Values(0.0, 1.0, False),
    Values(0.0, 1.0, True),
    Values(-1.0, 1.0, True),
    Values(0.0, 255.0, True),
    Values(0.0, 255.0, False),
)
_SAMPLES = 64  # of a sound for a row of an image
_FRAMES = 4  # rows of an image for one
_COARSE = 5  # cells of what is made smooth, along height and width
# How much inputs are changed to see what rounding in every layer does (relative).
_ROUNDING = 2e-6


class CannotCompareError(Exception):
    """There are no inputs by which a model can be compared; it says why."""


class NotAcceptedError(CannotCompareError):
    """A function does not take the inputs that were made up for it."""


def made_up_inputs(
    specs: Mapping[str, tf.TensorSpec],
    batch_size: int,
    guess: Guess = _FIRST_GUESS,
    values: Values = VALUES[0],
) -> dict[str, tf.Tensor]:
    """Random arguments of a signature.

    Args:
      specs: of the arguments, by name.
      batch_size: in place of unknown leading dimensions.
      guess: what else the signature does not say.
      values: what numbers that are not whole are.

    Raises:
      CannotCompareError: there are none of this type.
    """
    image_size = guess.image_size
    in_turn = image_size if isinstance(image_size, tuple) else (image_size,)
    seeds = [batch_size, *in_turn, guess.seed]
    random = np.random.default_rng(seeds if guess.seed else seeds[:-1])
    inputs = {}
    for name, spec in specs.items():
        known: list[int | None] = [None] * 4
        if spec.shape.rank is not None:
            known = spec.shape.as_list()
        known[:1] = [batch_size if size is None else size for size in known[:1]]
        if len(known) >= 4 and known[-1] is None and known[1] is None:
            known[-1] = guess.channels
        if len(known) >= 5 and known[1] is None:
            known[1] = max(1, in_turn[0] // _FRAMES)
        # Sounds have more samples than images have rows.
        sound = spec.dtype.is_floating and len(known) <= 2
        scale = _SAMPLES if sound else 1
        sizes = open_sizes(known)
        shape = [
            scale * in_turn[sizes[d] % len(in_turn)] if size is None else size
            for d, size in enumerate(known)
        ]
        if spec.dtype.is_floating:
            array = _numbers(random, shape, values).astype(spec.dtype.as_numpy_dtype)
        elif spec.dtype.is_bool:
            array = random.integers(0, 2, shape).astype(bool)
        elif spec.dtype.is_integer and not spec.dtype.is_quantized:
            array = random.integers(0, min(spec.dtype.max, guess.limit), shape)
            array = array.astype(spec.dtype.as_numpy_dtype)
        elif spec.dtype == tf.string:
            # Networks with strings for inputs mostly read encoded images.
            count = int(np.prod(shape))
            photographs = random.integers(0, 255, (count, 64, 64, 3), np.uint8)
            encoded = [tf.io.encode_jpeg(one).numpy() for one in photographs]
            array = np.array(encoded, dtype=object).reshape(shape)
        else:
            raise CannotCompareError(
                f"input {name!r} is of type {spec.dtype.name}, no number"
            )
        inputs[name] = tf.constant(array, spec.dtype)
    return inputs


def _numbers(
    random: np.random.Generator, shape: Sequence[int], values: Values
) -> np.ndarray:
    if len(shape) != 4:
        return random.uniform(values.low, values.high, shape)
    rows = _COARSE if values.smooth else shape[1]
    columns = _COARSE if values.smooth else shape[2]
    images = random.uniform(
        values.low, values.high, [shape[0], rows, columns, shape[3]]
    )
    # Letterboxed: where an image is black, small numbers that are added matter.
    images[:, : rows // 4] = 0
    return tf.image.resize(images, shape[1:3]).numpy() if values.smooth else images


def told_sizes(graph_def: Any) -> list[Size]:
    """Sizes of images that a graph may ask for, if it takes no usual one.

    Those of its constants, which may be positions or templates, times what strides
    divide an image by; then others that models are made for.
    """
    parts = dict.fromkeys(
        (height, width)
        for node in graph_def.node
        if node.op == "Const" and tf.as_dtype(node.attr["dtype"].type).is_floating
        for height, width in _images_of(node.attr["value"].tensor.tensor_shape)
    )
    told = [
        (stride * height, stride * width)
        for stride, (height, width) in itertools.product(_STRIDES, parts)
        if stride * max(height, width) <= _LARGEST
    ]
    return [*told[:_MOST_TOLD], *_LAST_SIZES]


def _images_of(shape: Any) -> list[tuple[int, int]]:
    """The height and width of the constant, if it can be read as one image."""
    sizes = [dimension.size for dimension in shape.dim]
    if len(sizes) == 4 and sizes[0] == 1:
        sizes = sizes[1:]
    if len(sizes) == 3 and sizes[0] == 1:  # of a sequence
        sizes[0] = sizes[1]
    # Filters are small.
    if len(sizes) != 3 or min(sizes[:2]) < _SMALLEST:
        return []
    return [(sizes[0], sizes[1])]


def accepted_made_up_inputs(
    function: Any,
    specs: Mapping[str, tf.TensorSpec],
    batch_size: int,
    values: Values,
    sizes: Sequence[Size],
) -> tuple[Inputs, Mapping[str, Any], Inputs]:
    """Inputs that a function accepts, its outputs, and other inputs of these shapes.

    See `made_up_inputs`.

    `sizes`: of images of unknown size, to be tried in turn.
    """
    shapes = [spec.shape for spec in specs.values()]
    unknown = any(s.rank is None or None in s.as_list()[1:] for s in shapes)
    colours = any(s.rank is None or (s.rank >= 4 and s[-1] is None) for s in shapes)
    whole = any(spec.dtype.is_integer for spec in specs.values())
    errors = []
    for guess in itertools.product(
        sizes if unknown else sizes[:1],
        LIMITS if whole else LIMITS[:1],
        _CHANNELS if colours else _CHANNELS[:1],
    ):
        inputs = made_up_inputs(specs, batch_size, Guess(*guess), values)
        other = made_up_inputs(
            specs, batch_size, Guess(*guess)._replace(seed=1), values
        )
        try:
            return inputs, function(**inputs), other
        # A function may raise anything for inputs that mean nothing.
        except Exception as error:
            errors.append(error)
    strings = [name for name, spec in specs.items() if spec.dtype == tf.string]
    if strings:
        raise NotAcceptedError(
            f"its input {strings[0]!r} takes strings that cannot be made up, such as "
            "serialized tf.Examples; --samples=FILE.tfrecord or FILE.npz (samples= in "
            "Python) gives real ones"
        )
    raise NotAcceptedError(
        f"it does not take inputs that are made up ({first_line(errors[0])}); "
        "--samples=FILE.npz (samples= in Python) gives real ones"
    )


def rounded_inputs(inputs: Inputs) -> dict[str, tf.Tensor] | None:
    """The inputs, numbers changed as rounding would; None: none can be."""
    random = np.random.default_rng(0)
    rounded = {}
    for name, tensor in inputs.items():
        rounded[name] = tensor
        if tensor.dtype in (tf.float32, tf.float64):
            # Upwards: or means would know nothing of it.
            factors = 1 + random.uniform(0, 2 * _ROUNDING, tensor.shape)
            rounded[name] = tf.constant(tensor.numpy() * factors, tensor.dtype)
    return rounded if any(rounded[n] is not inputs[n] for n in inputs) else None
