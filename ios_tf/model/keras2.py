"""Models of Keras 2, which the package tf_keras provides beside Keras 3."""

from __future__ import annotations

import json
import sys
import types
import zipfile
from collections.abc import Sequence
from typing import Any

from tensorflow.python.checkpoint import trackable_view
from tensorflow.python.trackable import asset, resource

ADVICE = (
    "Install tf_keras (pip install tf_keras). Or call model.export(DIRECTORY) in the "
    "environment in which the model was made, and convert the SavedModel in DIRECTORY"
)


def is_model(given: Any) -> bool:
    """Whether an object is a model of tf_keras."""
    # A model of tf_keras can only exist if tf_keras has been imported.
    package = sys.modules.get("tf_keras")
    return package is not None and isinstance(given, package.Model)


def package() -> types.ModuleType | None:
    """The package tf_keras; None if it cannot be imported."""
    try:
        import tf_keras
    except ImportError:
        return None
    return tf_keras


def version_of_file(path: str) -> str | None:
    """Returns the version of Keras that wrote a file, if it is Keras 2 or older.

    Returns None if Keras 3 wrote the file, or if the version is unknown.
    """
    try:
        version = _version(path)
    # Errors are ignored here, because loading a damaged file reports the damage later.
    except Exception:
        return None
    return version if version.partition(".")[0] in ("1", "2") else None


def _version(path: str) -> str:
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as archive:
            return str(json.loads(archive.read("metadata.json"))["keras_version"])
    import h5py

    with h5py.File(path) as file:
        version = file.attrs["keras_version"]
    return version.decode() if isinstance(version, bytes) else str(version)


def input_specs(model: Any) -> Sequence[Any]:
    """The specs of a model's arguments, with batches of any size.

    Raises:
      ValueError: the inputs are not known yet.
    """
    specs = model.save_spec(dynamic_batch=True)
    if specs is None:
        raise ValueError(
            "the shapes of its inputs are not known yet. Call the model once on an "
            "input, or call its build()"
        )
    arguments, _ = specs
    return list(arguments)


def resources(model: Any) -> list[Any]:
    """The tables of a model, with their assets, which a SavedModel must keep."""
    kinds = (asset.Asset, resource.CapturableResource)
    trackables = trackable_view.TrackableView(model).descendants()
    return [one for one in trackables if isinstance(one, kinds)]
