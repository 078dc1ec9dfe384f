"""Generates random inputs, with which a model and its original are compared."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ios_tf.errors import first_line
from ios_tf.model.inputs import LIMITS, open_sizes
from ios_tf.options import USUAL_IMAGE_SIZE
from ios_tf.reasons import Reason

# The size of images: one number for all unknown dimensions except the first, or two
# numbers, a height and a width, which are used alternately.
Size = int | tuple[int, int]

# Sizes that are tried for images of unknown size, until the model accepts one. SIZES
# come after the size for which the schedule is made. OTHER_SIZES are used if the size
# must differ from that of the schedule.
SIZES: tuple[Size, ...] = (64, 299, 512)
OTHER_SIZES: tuple[Size, ...] = (75, 107, 224, *SIZES)
# Sizes that are tried last, such as those of digits, faces and small photographs.
_LAST_SIZES = (32, 128, 256, 28, 160, 96, 16)
# A constant that is added to a feature map has the map's size. The image is larger than
# the map by one of these factors, the product of the strides before the map.
_STRIDES = (1, 2, 4, 8, 16, 32)
_MOST_TOLD = 12
_SMALLEST = 4
_LARGEST = 1024
# Numbers of channels to try for images whose number of channels is unknown.
_CHANNELS = (3, 1)

Inputs = Mapping[str, tf.Tensor]


class Values(NamedTuple):
    """The range of random values, and whether random images are smooth."""

    low: float
    high: float
    smooth: bool


class Guess(NamedTuple):
    """Guesses of properties of inputs that a signature does not give.

    Attributes:
      image_size: replaces unknown dimensions, except the leading one. A sound (floats
        of at most two dimensions) gets 64 samples per pixel. A volume or video gets one
        slice or frame per 4 rows.
      limit: exclusive upper bound of random whole numbers.
      channels: replaces an unknown number of channels of images.
      seed: another seed gives other values of the same shapes.
    """

    image_size: Size = USUAL_IMAGE_SIZE
    limit: int = LIMITS[0]
    channels: int = _CHANNELS[0]
    seed: int = 0


_FIRST_GUESS = Guess()

# Kinds of values that are tried in turn, until small changes of the inputs change the
# outputs little. With random noise as input, a deep network that was trained on images
# may amplify rounding errors a million times.
VALUES = (
    Values(0.0, 1.0, False),
    Values(0.0, 1.0, True),
    Values(-1.0, 1.0, True),
    Values(0.0, 255.0, True),
    Values(0.0, 255.0, False),
)
_SAMPLES = 64  # samples of a sound per pixel of the image size
_FRAMES = 4  # rows of the image size per slice or frame
_COARSE = 5  # height and width of the random grid that smooth images interpolate
# A relative change of the inputs by this much changes the outputs about as much as the
# rounding in all layers does.
_ROUNDING = 2e-6


class CannotCompareError(Exception):
    """A model cannot be compared, because inputs for it are not available.

    The message says why.

    Attributes:
      reason: the reason, which has a code.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class NotAcceptedError(CannotCompareError):
    """A function does not accept the random inputs, or the samples."""


def made_up_inputs(
    specs: Mapping[str, tf.TensorSpec],
    batch_size: int,
    guess: Guess = _FIRST_GUESS,
    values: Values = VALUES[0],
) -> dict[str, tf.Tensor]:
    """Returns random arguments for a signature.

    `batch_size` replaces unknown leading dimensions, and `guess` replaces other
    properties that the signature leaves open.

    Raises:
      CannotCompareError: no values can be generated for the type of an argument.
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
        # A sound is much longer than an image is high.
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
            # A string input gets encoded images, which most networks with string inputs
            # read.
            count = int(np.prod(shape))
            photographs = random.integers(0, 255, (count, 64, 64, 3), np.uint8)
            encoded = [tf.io.encode_jpeg(one).numpy() for one in photographs]
            array = np.array(encoded, dtype=object).reshape(shape)
        else:
            raise CannotCompareError(
                Reason.INPUT_TYPE,
                f"IOS-TF cannot generate values of type {spec.dtype.name}, which input "
                f"{name!r} has",
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
    # The top quarter is black, as in a letterboxed image, because small constants that
    # a network adds have an effect only there.
    images[:, : rows // 4] = 0
    return tf.image.resize(images, shape[1:3]).numpy() if values.smooth else images


def sizes_from_constants(graph_def: Any) -> list[Size]:
    """Returns image sizes to try for a graph that does not accept the usual sizes.

    The first sizes are those of the graph's constants, which may be position embeddings
    or templates, multiplied by common strides. Then come other common sizes.
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
    """Returns [(height, width)] of a constant, or [] if it is not like an image."""
    sizes = [dimension.size for dimension in shape.dim]
    if len(sizes) == 4 and sizes[0] == 1:
        sizes = sizes[1:]
    if len(sizes) == 3 and sizes[0] == 1:  # a sequence
        sizes[0] = sizes[1]
    # A constant with a small shape is probably a filter.
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
    """Returns inputs that a function accepts, its outputs for them, and other inputs.

    Both inputs have the same shapes but different values (see `made_up_inputs`). For
    images of unknown size, `sizes` are tried in turn.
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
        # A function may raise any error for meaningless inputs.
        except Exception as error:
            errors.append(error)
    strings = [name for name, spec in specs.items() if spec.dtype == tf.string]
    if strings:
        raise NotAcceptedError(
            Reason.STRINGS,
            f"its input {strings[0]!r} takes strings that IOS-TF cannot generate, such "
            "as serialized tf.Examples. Give real inputs with --samples=FILE.tfrecord "
            "or FILE.npz (samples= in Python)",
        )
    raise NotAcceptedError(
        Reason.INPUTS_REJECTED,
        f"it does not accept random inputs ({first_line(errors[0])}). Give real inputs "
        "with --samples=FILE.npz (samples= in Python)",
    )


def rounded_inputs(inputs: Inputs) -> dict[str, tf.Tensor] | None:
    """Returns the inputs with a small change of all floats, like that of rounding.

    Returns None if no input is float.
    """
    random = np.random.default_rng(0)
    rounded = {}
    for name, tensor in inputs.items():
        rounded[name] = tensor
        if tensor.dtype in (tf.float32, tf.float64):
            # All numbers become larger in magnitude, because changes in both directions
            # would cancel out in means.
            factors = 1 + random.uniform(0, 2 * _ROUNDING, tensor.shape)
            rounded[name] = tf.constant(tensor.numpy() * factors, tensor.dtype)
    return rounded if any(rounded[n] is not inputs[n] for n in inputs) else None
