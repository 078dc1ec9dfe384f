"""The files that frameworks load: a model in their formats, and its inputs."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf.callers.frameworks import Model
from ios_tf.conversion.onnx_export import export_onnx
from ios_tf.files import write_bytes


class Forms:
    """The files of a model in the formats that frameworks load.

    Each format is written when it is first needed.
    """

    def __init__(self, original: Model, directory: str) -> None:
        self.original = original.path
        self.converted = os.path.join(directory, "converted")
        self._model = original
        self._directory = directory

    def path(self, form: str) -> str:
        """Returns the path of the model in a format; writes it if necessary."""
        return str(getattr(self, form))

    @functools.cached_property
    def onnx(self) -> str:
        path = os.path.join(self._directory, "model.onnx")
        export_onnx(
            self.original,
            path,
            signature=self._model.signature,
            tags=self._model.tags,
            inputs=self._model.arrays(),
        )
        return path

    @functools.cached_property
    def litert(self) -> str:
        path = os.path.join(self._directory, "model.tflite")
        converter = tf.lite.TFLiteConverter.from_saved_model(
            self.original, signature_keys=[self._model.signature], tags=self._model.tags
        )
        write_bytes(path, converter.convert())
        return path


def store_inputs(inputs: Mapping[str, tf.Tensor], directory: str) -> str:
    """Writes the inputs of a call to a .npz file; returns its path."""
    arrays: dict[str, Any] = {name: np.asarray(x) for name, x in inputs.items()}
    for name, array in arrays.items():
        if array.dtype == object:  # strings; such a file cannot hold Python objects
            arrays[name] = array.astype("S")
    path = os.path.join(directory, "inputs.npz")
    np.savez(path, **arrays)
    return path
