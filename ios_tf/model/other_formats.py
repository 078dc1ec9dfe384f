"""Recognises unsupported model formats by file name, and says what to do."""

from __future__ import annotations

import os
import re

import tensorflow as tf

_GIVE_SOURCE = "Give the SavedModel or .keras file that it was made from"
CHECKPOINT = (
    "a checkpoint, which holds values of variables but no graph. In Python, build the "
    "model, restore the checkpoint, and write a SavedModel (model.export(DIRECTORY) or "
    "tf.saved_model.save)"
)
WEIGHTS = (
    "weights without a model. In Python, build the model, call model.load_weights, and "
    "write it with model.export(DIRECTORY)"
)
# Pairs of a pattern for the end of a file name and a description of the format.
_FILES = (
    (
        r"/?saved_model\.pb(txt)?",
        "the graph of a SavedModel. Give the directory that contains it",
    ),
    (
        r"\.(pb|pbtxt|graphdef)",
        "a frozen graph without signatures. In Python, import it with "
        "tf.graph_util.import_graph_def and write a SavedModel with "
        "tf.compat.v1.saved_model.simple_save",
    ),
    (r"\.weights\.h5", WEIGHTS),
    (r"\.ckpt(-\d+)?|\.index|\.meta|\.data-\d+-of-\d+|/checkpoint", CHECKPOINT),
    (
        r"\.tflite|\.lite",
        f"a TensorFlow Lite model, which only TensorFlow Lite can run. {_GIVE_SOURCE}",
    ),
    (
        r"\.onnx",
        "an ONNX model. Give the TensorFlow model that it was exported from, or turn "
        "the ONNX model into a SavedModel with a tool such as onnx2tf",
    ),
    (
        r"\.(pt|pth|safetensors)",
        "a PyTorch model or its weights. ios_tf converts TensorFlow models only",
    ),
    (
        r"\.(json|ya?ml)",
        "the description of a model without weights. In Python, build the model, "
        "load its weights, and write it with model.export(DIRECTORY)",
    ),
    (
        r"\.(zip|tar|tgz|tar\.gz|tar\.bz2)",
        "an archive. Unpack it, and give the SavedModel directory in it",
    ),
)


def described_file(path: str) -> str | None:
    """Describes a file by its name, with advice; None if the name is unknown."""
    for end, text in _FILES:
        if re.search(f"(?:{end})$", path, re.IGNORECASE):
            return text
    return None


def described_directory(path: str) -> str | None:
    """Describes a directory without a saved_model.pb; None if it is unknown."""
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(path))
    versions = [
        name
        for name in names
        if tf.saved_model.contains_saved_model(os.path.join(path, name))
    ]
    if versions:
        best = max(versions, key=lambda name: (name.isdecimal() and int(name), name))
        return (
            f"a directory of SavedModels. Give one of them, {os.path.join(path, best)}"
        )
    if "checkpoint" in names or any(name.endswith(".index") for name in names):
        return CHECKPOINT
    if {"config.json", "model.weights.h5"} <= {*names}:
        return (
            "an unpacked .keras file. Pack its files as a zip archive named MODEL.keras"
        )
    if "model.json" in names:
        return f"a TensorFlow.js model. {_GIVE_SOURCE}"
    for name in names:
        if name.endswith((".keras", ".h5", ".hdf5")) and not name.endswith(
            ".weights.h5"
        ):
            return f"the directory of a Keras file. Give {os.path.join(path, name)}"
    return next(filter(None, map(described_file, names)), None)
