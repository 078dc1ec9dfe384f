"""Loads the MODEL argument: a SavedModel, a Keras file or a network by name."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from ios_tf import models, validation
from ios_tf.errors import UserError, first_line
from ios_tf.files import is_special, why_unreadable
from ios_tf.model import keras2, other_formats
from ios_tf.model.temp_dirs import remove_abandoned_steps, step_directory
from ios_tf.native import malloc

KERAS_PREFIX = "keras:"
MODELS_PREFIX = "models:"
# Matches messages of Keras about layers and functions whose code is not in the file.
_NEEDS_CODE = re.compile(
    r"Could not locate (class|function)|Unknown \w+( \w+)?: |is a Python lambda"
    r"|safe_mode=False|custom_object"
)
_CODE_ADVICE = (
    ". The command line does not run Python code of models. In Python, load the model "
    "with its code (custom_objects=..., and safe_mode=False for a Lambda), call "
    "model.export(DIRECTORY), and convert DIRECTORY"
)
_KERAS_FILES = (".keras", ".h5", ".hdf5")


@contextlib.contextmanager
def saved_model(
    model: Any,
    weights: str | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Iterator[str]:
    """Yields the directory of a SavedModel for `model`, valid inside the block.

    Args:
      model: as for `ios_tf.convert`.
      weights: for `keras:NAME`: "imagenet", or None for random weights.
      log: called with lines of information about the model.

    Raises:
      UserError: `model` does not name a model.
    """
    # Removes old step directories here, because all users of step directories except
    # `optimize` call this function first.
    remove_abandoned_steps()
    keras_model = keras_model_of(model, weights, log)
    if keras_model is None:
        path = validation.path("model", model)
        _check_saved_model(path)
        yield path
        return
    with step_directory() as directory:
        path = os.path.join(directory, "model")
        try:
            export_for_inference(keras_model, path)
        # Keras and TensorFlow raise many kinds of errors, such as for unbuilt models.
        except Exception as error:
            raise UserError(
                f"the Keras model {keras_model.name!r} cannot be exported: "
                f"{first_line(error)}"
            ) from error
        size = _batch_size(keras_model)
        if size is not None:
            log(
                f"the Keras model {keras_model.name!r} has the fixed batch size "
                f"{size}, but is exported for any batch size. Use --batch_size={size} "
                f"to schedule it for batches of {size}"
            )
        # Frees the Keras model's weights before they are loaded again from the
        # SavedModel.
        del keras_model
        malloc.release_unused()
        yield path


def keras_model_of(
    model: Any,
    weights: str | None = None,
    log: Callable[[str], None] = lambda line: None,
    calibrated: bool = True,
) -> Any | None:
    """The Keras model that `model` names; None if it is a SavedModel's directory.

    The arguments and errors are those of `saved_model`. `calibrated` is the argument of
    `ios_tf.models.build`.
    """
    if weights is not None and not _has_prefix(model, KERAS_PREFIX):
        raise UserError(
            f"weights={weights!r} can only be used with a model keras:NAME. Leave out "
            "weights for other models"
        )
    if _has_prefix(model, KERAS_PREFIX):
        name = model.removeprefix(KERAS_PREFIX)
        return _build_keras_application(name, weights, log, calibrated)
    if _has_prefix(model, MODELS_PREFIX):
        return _build_network(model.removeprefix(MODELS_PREFIX), log, calibrated)
    if isinstance(model, (str, os.PathLike)):
        path = validation.path("model", model)
        if not path.endswith(_KERAS_FILES) or tf.io.gfile.isdir(path):
            return None
        return _load_keras_file(path)
    if hasattr(model, "export"):
        return model
    raise UserError(
        "the model must be a SavedModel directory, a .keras or .h5 file, keras:NAME, "
        f"models:NAME or a keras.Model, not {type(model).__name__}"
    )


def traced(model: Any) -> tuple[Any, Sequence[Any]]:
    """A Keras model's traced function for inference, and the specs of its arguments.

    Raises:
      UserError: the model cannot be traced.
    """
    try:
        function, specs = inference_function(model)
        return function.get_concrete_function(), specs
    # Keras and TensorFlow raise many kinds of errors, such as for unbuilt models.
    except Exception as error:
        raise UserError(
            f"the Keras model {model.name!r} cannot be traced: {first_line(error)}"
        ) from error


def export_for_inference(model: Any, path: str) -> None:
    """Writes a Keras model like `model.export`, but traced for inference.

    `model.export` is not used, because it traces layers after Resizing, CenterCrop and
    random layers in training mode.
    """
    import keras

    is_keras2 = keras2.is_model(model)
    try:
        if not is_keras2 and not isinstance(model, keras.Model):
            raise ImportError
        function, _ = inference_function(model)
    except ImportError:  # another version of Keras, or another package
        model.export(path, verbose=False)
        return
    # Writes a plain module, because writing Keras's lists of layers and variables takes
    # several times as long.
    module = tf.Module()
    if is_keras2:
        module.kept = list(model.variables)
        module.resources = keras2.resources(model)
    else:
        module.kept = [variable.value for variable in model.variables]
    if not is_keras2 and _has_resources(function.get_concrete_function(), module.kept):
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", function)
        archive.write_out(path, verbose=False)
        return
    module.serve = function
    tf.saved_model.save(
        module, path, signatures={"serve": function, "serving_default": function}
    )


def _has_resources(function: Any, variables: Sequence[tf.Variable]) -> bool:
    """Whether a function captures resources besides `variables`, such as tables."""
    handles = {id(variable.handle) for variable in variables}
    return any(
        tensor.dtype in (tf.resource, tf.variant) and id(tensor) not in handles
        for tensor in function.captured_inputs
    )


def _batch_size(model: Any) -> int | None:
    """Returns the smallest fixed batch size of a Keras model's inputs, or None."""
    inputs = tf.nest.flatten(getattr(model, "inputs", None) or [])
    sizes = (one.shape[0] for one in inputs)
    return min((size for size in sizes if size is not None), default=None)


def inference_function(model: Any) -> tuple[Any, Sequence[Any]]:
    """A Keras model as a tf.function for inference, and the specs of its arguments.

    Raises:
      ValueError: the model's inputs are not known yet.
      ImportError: this version of Keras, or its backend, is not supported.
    """
    import keras

    def serve(*inputs: Any) -> Any:
        return model(*inputs, training=False)

    if keras2.is_model(model):
        specs = keras2.input_specs(model)
        return tf.function(serve, input_signature=specs, autograph=False), specs
    if keras.backend.backend() != "tensorflow":
        raise ImportError("Keras uses a backend other than TensorFlow")
    from keras.src.export.export_utils import get_input_signature, make_tf_tensor_spec

    signature = get_input_signature(model)
    specs = tf.nest.map_structure(make_tf_tensor_spec, list(signature))
    return tf.function(serve, input_signature=specs, autograph=False), specs


def _has_prefix(model: Any, prefix: str) -> bool:
    return isinstance(model, str) and model.startswith(prefix)


def _check_saved_model(path: str) -> None:
    _check_exists(path)
    if not tf.io.gfile.isdir(path):
        described = other_formats.described_file(path) or (
            "not a SavedModel directory, a .keras or .h5 file, keras:NAME or "
            "models:NAME"
        )
        raise UserError(f"{path} is {described}")
    if not tf.saved_model.contains_saved_model(path):
        described = other_formats.described_directory(path)
        described = described or "not a SavedModel (it has no saved_model.pb)"
        raise UserError(f"{path} is {described}")
    for name in (
        tf.saved_model.SAVED_MODEL_FILENAME_PB,
        tf.saved_model.SAVED_MODEL_FILENAME_PBTXT,
    ):
        _check_regular(os.path.join(path, name))


def _check_exists(path: str) -> None:
    try:
        if tf.io.gfile.exists(path):
            return
        is_prefix = tf.io.gfile.exists(f"{path}.index")
    except tf.errors.OpError as error:  # such as an unknown filesystem
        raise UserError(f"{path} cannot be read: {first_line(error)}") from error
    if is_prefix:
        raise UserError(f"{path} is {other_formats.CHECKPOINT}")
    # The path may exist in an unreadable directory, which TensorFlow reports as
    # missing.
    raise UserError(why_unreadable(path) or f"{path}: no such file or directory")


def _check_regular(path: str) -> None:
    if is_special(path):  # TensorFlow would wait for data
        raise UserError(f"{path} is not a regular file")
    unreadable = why_unreadable(path)
    if unreadable:
        raise UserError(unreadable)


def _load_keras_file(path: str) -> Any:
    import keras

    _check_exists(path)
    _check_regular(path)
    if path.endswith(".weights.h5"):
        raise UserError(f"{path} is {other_formats.WEIGHTS}")
    is_archive = path.endswith(".keras") and os.path.isfile(path)
    if is_archive and not zipfile.is_zipfile(path):  # Keras would report a missing file
        raise UserError(
            f"Keras cannot load {path}, because the file is not a zip archive"
        )
    version = keras2.version_of_file(path)
    package = (keras2.package() if version else None) or keras
    try:
        return package.saving.load_model(path, compile=False)
    # Keras raises many kinds of errors for damaged or unknown content.
    except Exception as error:
        if version and package is keras:
            raise UserError(
                f"Keras {version} wrote {path}, and Keras {keras.__version__} cannot "
                f"load this file. {keras2.ADVICE}"
            ) from error
        reason, advice = first_line(error), ""
        if "No model config found" in reason:
            raise UserError(f"{path} is {other_formats.WEIGHTS}") from error
        if _NEEDS_CODE.search(reason):
            # Replaces Keras's own advice, which only helps in Python.
            reason, advice = reason.partition(". ")[0], _CODE_ADVICE
        raise UserError(f"Keras cannot load {path}: {reason}{advice}") from error


def _build_keras_application(
    name: str, weights: str | None, log: Callable[[str], None], calibrated: bool
) -> Any:
    import keras

    names = [
        n
        for n in dir(keras.applications)
        if n[:1].isupper() and callable(getattr(keras.applications, n))
    ]
    if name not in names:
        raise UserError(
            f"keras:{name} is not a network in keras.applications. Choose one of "
            + _nearest(name, names)
        )
    if weights is None:
        log(
            f"keras:{name} gets random weights. Use --weights=imagenet to load trained "
            "weights"
        )
        keras.utils.set_random_seed(0)
    try:
        model = getattr(keras.applications, name)(weights=weights)
    except Exception as error:  # such as a failed download or unknown weights
        raise UserError(f"keras:{name}: {first_line(error)}") from error
    if weights is None and calibrated:
        from ios_tf.models.calibration import calibrate_application

        calibrate_application(model)
    return model


def _build_network(name: str, log: Callable[[str], None], calibrated: bool) -> Any:
    name, _, graphs = name.partition(":")
    if graphs and name != "randwire":
        raise UserError(
            f"models:{name} does not read a file of graphs; only models:randwire does. "
            f"Write models:{name}"
        )
    if name not in models.NETWORKS:
        raise UserError(
            f"models:{name} is not a network in ios_tf.models. Choose one of "
            + _nearest(name, list(models.NETWORKS))
        )
    log(f"models:{name} gets random weights")
    try:
        return models.build(name, graphs=graphs, calibrated=calibrated)
    except ImportError as error:  # random graphs need networkx
        raise UserError(
            f"models:{name} needs {error.name}. Run pip install networkx"
        ) from error


def _nearest(name: str, names: list[str]) -> str:
    return ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names)
