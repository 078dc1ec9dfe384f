"""Loads the MODEL argument: a SavedModel, a Keras file, a network by name."""

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
from ios_tf.model.leftovers import remove_abandoned_steps, step_directory
from ios_tf.native import malloc

KERAS_PREFIX = "keras:"
MODELS_PREFIX = "models:"
# Messages of Keras about layers and functions whose code is not in a file.
_NEEDS_CODE = re.compile(
    r"Could not locate (class|function)|Unknown \w+( \w+)?: |is a Python lambda"
    r"|safe_mode=False|custom_object"
)
_CODE_ADVICE = (
    ". The command line runs no Python code of models: in Python, load the model with "
    "its code (custom_objects=..., and safe_mode=False for a Lambda), call "
    "model.export(DIRECTORY), and convert DIRECTORY"
)
_KERAS_FILES = (".keras", ".h5", ".hdf5")


@contextlib.contextmanager
def saved_model(
    model: Any,
    weights: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[str]:
    """Gives the directory of a SavedModel for `model`, for the time of the block.

    Args:
      model: a SavedModel directory, the path of a `.keras` or `.h5` file, `keras:NAME`
        for a network of `keras.applications`, `models:NAME` for one of
        `ios_tf.models`, or a `keras.Model`.
      weights: for `keras:NAME`: "imagenet", or None for random ones.
      say: gets a line of information about the model.

    Raises:
      UserError: `model` is none of these.
    """
    # All that makes such directories, but for `optimize`, begins with a model.
    remove_abandoned_steps()
    keras_model = keras_model_of(model, weights, say)
    if keras_model is None:
        path = validation.path("model", model)
        _check_saved_model(path)
        yield path
        return
    with step_directory() as directory:
        path = os.path.join(directory, "model")
        try:
            export_for_inference(keras_model, path)
        # Keras and TensorFlow raise various errors, as for models that are not built.
        except Exception as error:
            raise UserError(
                f"the Keras model {keras_model.name!r} cannot be exported: "
                f"{first_line(error)}"
            ) from error
        size = _batch_size(keras_model)
        if size is not None:
            say(
                f"the Keras model {keras_model.name!r} is made for batches of {size}, "
                f"and exported for batches of any size; --batch_size={size} schedules "
                "for these"
            )
        del keras_model  # it may be all that keeps its weights in memory
        malloc.release_unused()  # or what is loaded next lies beside it
        yield path


def keras_model_of(
    model: Any,
    weights: str | None = None,
    say: Callable[[str], None] = lambda line: None,
    calibrated: bool = True,
) -> Any | None:
    """The Keras model that `model` names; None if it is a SavedModel's directory.

    The arguments and errors are those of `saved_model`; `calibrated` is that of
    `ios_tf.models.build`.
    """
    if weights is not None and not _has_prefix(model, KERAS_PREFIX):
        raise UserError(f"weights={weights!r} is only for MODEL keras:NAME")
    if _has_prefix(model, KERAS_PREFIX):
        name = model.removeprefix(KERAS_PREFIX)
        return _build_keras_application(name, weights, say, calibrated)
    if _has_prefix(model, MODELS_PREFIX):
        return _build_network(model.removeprefix(MODELS_PREFIX), say, calibrated)
    if isinstance(model, (str, os.PathLike)):
        path = validation.path("model", model)
        if not path.endswith(_KERAS_FILES) or tf.io.gfile.isdir(path):
            return None
        return _load_keras_file(path)
    if hasattr(model, "export"):
        return model
    raise UserError(
        "a model is a SavedModel directory, a .keras or .h5 file, keras:NAME, "
        f"models:NAME or a keras.Model, not {type(model).__name__}"
    )


def traced(model: Any) -> tuple[Any, Sequence[Any]]:
    """A Keras model's function for inference, traced, and the specs of its arguments.

    Raises:
      UserError: it cannot be traced.
    """
    try:
        function, specs = inference_function(model)
        return function.get_concrete_function(), specs
    # Keras and TensorFlow raise various errors, as for models that are not built.
    except Exception as error:
        raise UserError(
            f"the Keras model {model.name!r} cannot be traced: {first_line(error)}"
        ) from error


def export_for_inference(model: Any, path: str) -> None:
    """Writes a Keras model as `model.export` does, but for inference.

    That traces what follows Resizing, CenterCrop and random layers for training.
    """
    import keras

    if keras2.is_model(model):
        function, _ = inference_function(model)
        keras2.save(model, function, path)
        return
    try:
        if not isinstance(model, keras.Model):
            raise ImportError
        function, _ = inference_function(model)
    except ImportError:  # another version of Keras, or another package
        model.export(path, verbose=False)
        return
    # Keras's lists of layers and variables take several times as long to write.
    module = tf.Module()
    module.kept = [variable.value for variable in model.variables]
    module.serve = function
    if _has_resources(function.get_concrete_function(), module.kept):
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", function)
        archive.write_out(path, verbose=False)
        return
    tf.saved_model.save(
        module, path, signatures={"serve": function, "serving_default": function}
    )


def _has_resources(function: Any, variables: Sequence[tf.Variable]) -> bool:
    """Whether it captures others than the variables, such as tables."""
    handles = {id(variable.handle) for variable in variables}
    return any(
        tensor.dtype in (tf.resource, tf.variant) and id(tensor) not in handles
        for tensor in function.captured_inputs
    )


def _batch_size(model: Any) -> int | None:
    """Reads of a Keras model's inputs what an export forgets."""
    inputs = tf.nest.flatten(getattr(model, "inputs", None) or [])
    sizes = (one.shape[0] for one in inputs)
    return min((size for size in sizes if size is not None), default=None)


def inference_function(model: Any) -> tuple[Any, Sequence[Any]]:
    """A Keras model as a tf.function for inference, and the specs of its arguments.

    Raises:
      ValueError: its inputs are not known yet.
      ImportError: not with this version of Keras, or not with its backend.
    """
    import keras

    def serve(*inputs: Any) -> Any:
        return model(*inputs, training=False)

    if keras2.is_model(model):
        specs = keras2.input_specs(model)
        return tf.function(serve, input_signature=specs, autograph=False), specs
    if keras.backend.backend() != "tensorflow":
        raise ImportError("Keras runs on another backend than TensorFlow")
    from keras.src.export.export_utils import get_input_signature, make_tf_tensor_spec

    signature = get_input_signature(model)
    specs = tf.nest.map_structure(make_tf_tensor_spec, list(signature))
    return tf.function(serve, input_signature=specs, autograph=False), specs


def _has_prefix(model: Any, prefix: str) -> bool:
    return isinstance(model, str) and model.startswith(prefix)


def _check_saved_model(path: str) -> None:
    _check_exists(path)
    if not tf.io.gfile.isdir(path):
        described = other_formats.described_file(path)
        raise UserError(
            f"{path} is {described}"
            if described
            else f"{path}: not a SavedModel directory, a .keras or .h5 file, "
            "keras:NAME or models:NAME"
        )
    if not tf.saved_model.contains_saved_model(path):
        described = other_formats.described_directory(path)
        raise UserError(
            f"{path} is {described}"
            if described
            else f"{path}: not a SavedModel (it has no saved_model.pb)"
        )
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
    except tf.errors.OpError as error:  # such as a filesystem it does not know
        raise UserError(f"{path}: cannot be read: {first_line(error)}") from error
    if is_prefix:
        raise UserError(f"{path} is {other_formats.CHECKPOINT}")
    # TensorFlow says of what lies in an unreadable directory that it does not exist.
    raise UserError(why_unreadable(path) or f"{path}: no such file or directory")


def _check_regular(path: str) -> None:
    if is_special(path):  # which TensorFlow would wait for
        raise UserError(f"{path}: is no regular file")
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
    if is_archive and not zipfile.is_zipfile(path):  # Keras says that there is no file
        raise UserError(f"{path}: Keras cannot load it: it is no zip archive")
    version = keras2.version_of_file(path)
    package = (keras2.package() if version else None) or keras
    try:
        return package.saving.load_model(path, compile=False)
    # Keras raises all kinds of errors for what is wrong inside of the file.
    except Exception as error:
        if version and package is keras:
            raise UserError(
                f"{path}: Keras {version} wrote it, and Keras {keras.__version__} "
                f"cannot load it. {keras2.ADVICE}"
            ) from error
        reason, advice = first_line(error), ""
        if "No model config found" in reason:
            raise UserError(f"{path} is {other_formats.WEIGHTS}") from error
        if _NEEDS_CODE.search(reason):
            # Keras's own advice is for Python.
            reason, advice = reason.partition(". ")[0], _CODE_ADVICE
        raise UserError(f"{path}: Keras cannot load it: {reason}{advice}") from error


def _build_keras_application(
    name: str, weights: str | None, say: Callable[[str], None], calibrated: bool
) -> Any:
    import keras

    names = [
        n
        for n in dir(keras.applications)
        if n[:1].isupper() and callable(getattr(keras.applications, n))
    ]
    if name not in names:
        raise UserError(
            f"keras:{name}: no such network in keras.applications; there is "
            + _nearest(name, names)
        )
    if weights is None:
        say(f"keras:{name} gets random weights; --weights=imagenet for trained ones")
        keras.utils.set_random_seed(0)
    try:
        model = getattr(keras.applications, name)(weights=weights)
    except Exception as error:  # a failed download, an unknown set of weights
        raise UserError(f"keras:{name}: {first_line(error)}") from error
    if weights is None and calibrated:
        from ios_tf.models.calibration import calibrate_application

        calibrate_application(model)
    return model


def _build_network(name: str, say: Callable[[str], None], calibrated: bool) -> Any:
    name, _, graphs = name.partition(":")
    if graphs and name != "randwire":
        raise UserError(f"models:{name} is not made of graphs: leave out :{graphs}")
    if name not in models.NETWORKS:
        raise UserError(
            f"models:{name}: no such network; there is "
            + _nearest(name, list(models.NETWORKS))
        )
    say(f"models:{name} gets random weights")
    try:
        return models.build(name, graphs=graphs, calibrated=calibrated)
    except ImportError as error:  # networkx, for random graphs
        raise UserError(
            f"models:{name} needs {error.name}: pip install 'ios-tf[models]'"
        ) from error


def _nearest(name: str, names: list[str]) -> str:
    return ", ".join(difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names)
