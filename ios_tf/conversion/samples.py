"""Reads real inputs of a model from the `samples` that a user passes.

The sources are arrays, a .npz file, a directory, or TFRecords of tf.Examples or of
TensorFlow Serving's warmup requests.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import empty_pb2, unknown_fields
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2

from ios_tf.errors import UserError, first_line

# The requests in a SavedModel that TensorFlow Serving runs after loading it.
WARMUP = os.path.join("assets.extra", "tf_serving_warmup_requests")
KINDS = "a .npz file, a directory of .npz files or images, or a .tfrecord file"
_IMAGES = (".png", ".jpg", ".jpeg")
# The fields of a PredictionLog (tensorflow_serving/apis/prediction_log.proto). The
# second constant means requests for classification and regression.
_PREDICT = 6
_WITH_EXAMPLES = (2, 3)

Specs = Mapping[str, tf.TensorSpec]
# Maps names of inputs to arrays of samples, whose first dimension is the number of
# samples. The name _UNNAMED means the only input.
_Arrays = Mapping[str, np.ndarray]
_UNNAMED = ""


class Samples:
    """Real inputs of a model.

    Attributes:
      source: the origin of the samples, for errors.
    """

    def __init__(
        self,
        source: str,
        groups: Sequence[_Arrays] = (),
        images: Sequence[str] = (),
        records: Sequence[bytes] = (),
    ) -> None:
        self.source = source
        self._groups = groups
        self._images = images
        self._records = records
        if not groups and not images and not records:
            raise UserError(f"{source} has no samples. Samples must be {KINDS}")

    def of_signature(self, signature: str, specs: Specs) -> dict[str, np.ndarray]:
        """Returns the samples as arrays by input name.

        The first dimension is the number of samples.

        Raises:
          UserError: the samples do not match these inputs.
        """
        groups = list(self._groups)
        if self._images:
            groups.append(self._decoded_images(specs))
        groups += self._parsed_records(signature, specs)
        if not groups:
            raise UserError(f"{self.source} has no request for signature {signature!r}")
        named = [self._named(group, specs) for group in groups]
        joined = {}
        for name, spec in specs.items():
            parts = [group[name] for group in named]
            if len({part.shape[1:] for part in parts}) > 1:
                raise UserError(
                    f"{self.source}: samples of input {name!r} have different shapes, "
                    f"such as {parts[0].shape[1:]} and {parts[-1].shape[1:]}. Give "
                    "samples of one shape"
                )
            joined[name] = self._checked(name, spec, np.concatenate(parts))
        if len({len(array) for array in joined.values()}) > 1:
            counts = ", ".join(f"{len(a)} of {n!r}" for n, a in joined.items())
            raise UserError(
                f"{self.source} must have the same number of samples for each input, "
                f"but has {counts}"
            )
        return joined

    def _named(self, group: _Arrays, specs: Specs) -> _Arrays:
        if set(group) == {_UNNAMED}:
            if len(specs) > 1:
                raise UserError(
                    f"{self.source} does not name the inputs of its samples, but the "
                    f"signature has several inputs. Name the arrays {', '.join(specs)}"
                )
            return dict(zip(specs, group.values(), strict=True))
        for name in group:
            if name not in specs:
                raise UserError(
                    f"{self.source}: {name!r} is not an input. The inputs are "
                    + ", ".join(specs)
                )
        for name in specs:
            if name not in group:
                raise UserError(f"{self.source} has no samples of input {name!r}")
        return group

    def _checked(self, name: str, spec: tf.TensorSpec, array: np.ndarray) -> np.ndarray:
        if not array.ndim or not len(array):
            raise UserError(f"{self.source} has no samples of input {name!r}")
        shape = spec.shape
        fits = shape.rank is None or shape.is_compatible_with(array.shape[1:])
        if shape.rank:
            fits |= shape[1:].is_compatible_with(array.shape[1:])
        if not fits:
            raise UserError(
                f"{self.source}: a sample of shape {list(array.shape[1:])} does not "
                f"match input {name!r} of shape {spec.shape}"
            )
        wanted = spec.dtype.as_numpy_dtype  # object for strings
        kinds = "SUO" if spec.dtype == tf.string else "biuf"
        if array.dtype.kind not in kinds or not np.can_cast(
            array.dtype, wanted, "same_kind"
        ):
            raise UserError(
                f"{self.source}: input {name!r} has type {spec.dtype.name}, but its "
                f"samples have type {array.dtype}"
            )
        return array.astype(wanted)

    def _decoded_images(self, specs: Specs) -> _Arrays:
        shape = next(iter(specs.values())).shape if len(specs) == 1 else None
        if shape is None or shape.rank != 4 or shape[3] not in (1, 3, 4, None):
            raise UserError(
                f"{self.source} has image files, but the signature does not have a "
                "single input of images [N,H,W,C]. Give a .npz file"
            )
        height, width = shape[1], shape[2]
        images = []
        for path in self._images:
            try:
                image = tf.io.decode_image(
                    tf.io.read_file(path), shape[3] or 3, expand_animations=False
                )
            except tf.errors.OpError as error:
                raise UserError(
                    f"{path} is not an image: {first_line(error)}"
                ) from None
            # Resizes to the size of the first image if the size is open, because all
            # samples of a batch must have the same size.
            height, width = height or image.shape[0], width or image.shape[1]
            images.append(tf.image.resize(image, (height, width)).numpy())
        stacked = np.stack(images)
        dtype = next(iter(specs.values())).dtype
        if dtype.is_integer:
            stacked = np.clip(np.rint(stacked), 0, dtype.max).astype(
                dtype.as_numpy_dtype
            )
        return {_UNNAMED: stacked}

    def _parsed_records(self, signature: str, specs: Specs) -> Iterator[_Arrays]:
        for record in self._records:
            try:
                # A tf.Example has only field 1.
                numbers = {number for number, _ in _fields(record)}
                if numbers & {_PREDICT, *_WITH_EXAMPLES}:  # a PredictionLog
                    yield from _request(record, signature)
                else:
                    yield self._parsed_example(record, specs)
            except (DecodeError, ValueError) as error:
                raise UserError(
                    f"{self.source} has a record that is neither a tf.Example nor a "
                    f"PredictionLog: {first_line(error)}"
                ) from None

    def _parsed_example(self, record: bytes, specs: Specs) -> _Arrays:
        example = tf.train.Example.FromString(record)
        features = example.features.feature
        only = next(iter(specs.values())) if len(specs) == 1 else None
        if (
            only is not None
            and only.dtype == tf.string
            and not set(features) & {*specs}
        ):
            # Passes the record as it is, because the model parses tf.Examples itself.
            return {_UNNAMED: np.array([record], dtype=object)}
        arrays = {}
        for name, spec in specs.items():
            if name not in features:
                raise UserError(
                    f"{self.source}: a tf.Example has no feature {name!r}. It has "
                    + (", ".join(sorted(features)) or "none")
                )
            kind = features[name].WhichOneof("kind")
            values = list(getattr(features[name], kind).value) if kind else []
            shape = [1] if spec.shape.rank is None else [1, *spec.shape.as_list()[1:]]
            shape = [-1 if size is None else size for size in shape]
            dtype = object if kind == "bytes_list" else spec.dtype.as_numpy_dtype
            try:
                arrays[name] = np.array(values, dtype=dtype).reshape(shape)
            except ValueError:
                raise UserError(
                    f"{self.source}: feature {name!r} has {len(values)} values, which "
                    f"do not match the shape {spec.shape} of the input"
                ) from None
        return arrays


def samples_of(given: Any) -> Samples | None:
    """Reads a user's samples; returns None for None.

    Args:
      given: a path; an array, if the model has one input; a mapping from names of
        inputs to arrays; or a list of arrays or mappings. The first dimension of each
        array counts samples.

    Raises:
      UserError: `given` is none of these, or it cannot be read.
    """
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        return _read(os.fspath(given))
    groups = given if isinstance(given, (list, tuple)) else [given]
    return Samples("samples", [_group(one) for one in groups])


def warmup_samples(directory: str) -> Samples | None:
    """Returns the warmup requests in a SavedModel; None if none can be read."""
    path = os.path.join(directory, WARMUP)
    with contextlib.suppress(UserError, tf.errors.OpError):
        if os.path.isfile(path):
            return _read(path)
    return None


def use_samples(
    users: Sequence[Callable[[Samples], None]],
    given: Samples | None,
    warmup: Samples | None,
) -> None:
    """Passes real samples, if the user or the model has some, to functions.

    Raises:
      UserError: the samples that the user has given do not match any of the functions.
    """
    samples, errors = given or warmup, []
    if samples is None:
        return
    for use in users:
        try:
            use(samples)
        except UserError as error:
            errors.append(error)
    # Errors of warmup requests in the model are ignored, because the requests may be
    # outdated.
    if given and errors and len(errors) == len(users):
        raise errors[0]


def _group(given: Any) -> _Arrays:
    named = given if isinstance(given, Mapping) else {_UNNAMED: given}
    arrays = {str(name): np.asarray(value) for name, value in named.items()}
    # Arrays of strings may have the type object, but then all arrays must have it.
    kinds = {array.dtype == object for array in arrays.values()}
    if len(kinds) != 1 or not all(array.ndim for array in arrays.values()):
        raise UserError(
            "samples must be arrays whose first dimension counts samples, mappings "
            f"from names of inputs to such arrays, or {KINDS}. They cannot be of type "
            f"{type(given).__name__}"
        )
    return arrays


def _read(path: str) -> Samples:
    if os.path.isdir(path):
        files = sorted(os.path.join(path, name) for name in os.listdir(path))
        arrays = [_npz(file) for file in files if file.endswith(".npz")]
        images = [file for file in files if file.lower().endswith(_IMAGES)]
        return Samples(path, arrays, images)
    if not os.path.exists(path):
        raise UserError(f"samples={path}: no such file or directory")
    if path.endswith(".npz"):
        return Samples(path, [_npz(path)])
    if path.endswith(".tfrecord") or os.path.basename(path) == os.path.basename(WARMUP):
        try:
            records = [one.numpy() for one in tf.data.TFRecordDataset(path)]
        except tf.errors.OpError as error:
            raise UserError(f"{path} cannot be read: {first_line(error)}") from None
        return Samples(path, records=records)
    raise UserError(f"samples={path}: samples must be {KINDS}")


def _npz(path: str) -> _Arrays:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise UserError(f"{path} is not a .npz file: {first_line(error)}") from None


def _request(record: bytes, signature: str) -> Iterator[_Arrays]:
    """Yields the inputs of a PredictionLog, if it is a request for this signature."""
    for number, log in _fields(record):
        for part, request in _fields(log):
            if part != 1:
                continue
            fields = _fields(request)
            asked = b"serving_default"
            for model in (value for key, value in fields if key == 1):
                asked = dict(_fields(model)).get(3, asked)
            if asked.decode() != signature:
                continue
            if number == _PREDICT:
                entries = (dict(_fields(v)) for key, v in fields if key == 2)
                yield {
                    entry[1].decode(): tf.make_ndarray(
                        tensor_pb2.TensorProto.FromString(entry[2])
                    )
                    for entry in entries
                }
            elif number in _WITH_EXAMPLES:
                examples = [
                    example
                    for key, value in fields
                    if key == 2
                    for _, listed in _fields(value)
                    for one, example in _fields(listed)
                    if one == 1
                ]
                yield {_UNNAMED: np.array(examples, dtype=object)}


def _fields(message: bytes) -> list[tuple[int, bytes]]:
    """Returns (number, content) of a serialized message's length-delimited fields."""
    try:
        fields = unknown_fields.UnknownFieldSet(empty_pb2.Empty.FromString(message))
    except DecodeError:
        raise ValueError("the record is not a protocol buffer") from None
    return [(one.field_number, one.data) for one in fields if one.wire_type == 2]


def rows(
    arrays: Mapping[str, np.ndarray], specs: Specs, batch_size: int, first: int
) -> dict[str, tf.Tensor]:
    """Returns the arguments of a call: the samples from number `first` on.

    If the batch is larger than the number of samples, samples are repeated.
    """
    arguments = {}
    for name, spec in specs.items():
        array = arrays[name]
        if spec.shape.rank == array.ndim - 1:  # a call takes one sample
            chosen = array[first % len(array)]
        else:
            size = (spec.shape[0] if spec.shape.rank else None) or batch_size
            chosen = array[(first + np.arange(size)) % len(array)]
        arguments[name] = tf.constant(
            chosen.tolist() if spec.dtype == tf.string else chosen, spec.dtype
        )
    return arguments
