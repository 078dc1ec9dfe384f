"""The JSON document of a report: its schema, its place in a model, and its checks."""

from __future__ import annotations

import functools
import json
import os
import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastjsonschema

from ios_tf.errors import UserError
from ios_tf.files import is_special
from ios_tf.options import USUAL_IMAGE_SIZE
from ios_tf.printable import printable
from ios_tf.scheduler import document

# The version of the format (`version` in schema.json).
VERSION = 1
# The path of the document in a SavedModel.
PATH = "assets.extra/ios_tf_report.json"
# The largest size of a document that is read.
_MAX_BYTES = 64 << 20

Document = Mapping[str, Any]


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON schema of the document."""
    return json.loads((Path(__file__).parent / "schema.json").read_text())


def check(found: Any, allow_unknown: bool = False) -> Document:
    """Checks that a JSON value is a report; returns it.

    Args:
      found: the value.
      allow_unknown: whether objects may have members that the schema does not have. A
        report of a newer version of this package has such members.

    Raises:
      ValueError: the value is not a report. One line says where it differs from the
        schema.
    """
    if not isinstance(found, dict) or "verdict" not in found:
        raise ValueError("the file is not a report of ios_tf")
    if found.get("version") != VERSION:
        raise ValueError(
            f"the report has version {found.get('version')!r}, but this package reads "
            f"version {VERSION}"
        )
    try:
        _validator(allow_unknown)(found)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(printable(f"{error.message:.200}")) from None
    _check_references(found)
    return found


def read(path: str) -> Document:
    """Reads the report of a converted SavedModel, or a file that holds a report.

    Members that the schema does not have are ignored.

    Raises:
      UserError: there is no such file, or it is not a report.
    """
    try:
        text = _text(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} cannot be read: {reason}") from None
    try:
        found = document.parse(text, "the file", _MAX_BYTES)
        return check(found, allow_unknown=True)
    except ValueError as error:
        raise UserError(f"{path} cannot be shown: {error}") from None


def image_size(model: str) -> tuple[int, int]:
    """The height and width for which a model was converted.

    Returns the usual size if the model has no report, or accepts only one size.
    """
    try:
        height, width = read(model)["image_size"] or USUAL_IMAGE_SIZE
    except UserError:
        return USUAL_IMAGE_SIZE
    return int(height), int(width)


def _text(path: str) -> bytes:
    """The text of the report at a path, or of the SavedModel at it."""
    if "://" in path:
        return _remote_text(path)
    if os.path.isdir(path):
        inside = os.path.join(path, PATH)
        if not os.path.exists(inside):
            raise _no_report(path)
        path = inside
    if is_special(path):
        raise UserError(f"{path} is not a regular file")
    with open(path, "rb") as file:
        return file.read(_MAX_BYTES + 1)


def _remote_text(path: str) -> bytes:
    import tensorflow as tf

    try:
        if tf.io.gfile.isdir(path):
            inside = posixpath.join(path, PATH)
            if not tf.io.gfile.exists(inside):
                raise _no_report(path)
            path = inside
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read(_MAX_BYTES + 1)
    except tf.errors.OpError as error:
        raise UserError(f"{path} cannot be read: {error.message}") from None


def _no_report(path: str) -> UserError:
    return UserError(
        f"{path} has no report ({PATH}). Convert the model with this version of ios_tf"
    )


def write(found: Document, directory: str) -> None:
    """Writes a report into a SavedModel."""
    import tensorflow as tf

    path = posixpath.join(directory, PATH)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(found) + "\n")


@functools.cache
def _validator(allow_unknown: bool) -> Callable[[Any], Any]:
    rules = _without_closed_objects(schema()) if allow_unknown else schema()
    return fastjsonschema.compile(
        # The compiler knows drafts up to 7, which call "$defs" by another name.
        {**rules, "$schema": "http://json-schema.org/draft-07/schema#"}
    )


def _without_closed_objects(rules: Any) -> Any:
    """A schema that allows further members in every object."""
    if isinstance(rules, list):
        return [_without_closed_objects(one) for one in rules]
    if not isinstance(rules, dict):
        return rules
    return {
        name: _without_closed_objects(rule)
        for name, rule in rules.items()
        if not (name == "additionalProperties" and rule is False)
    }


def _check_references(found: Document) -> None:
    """Checks that all indices of operators exist, and that each group has a time."""
    for network in found["networks"]:
        count = len(network["operators"])
        for region in network["regions"]:
            for block in region["blocks"]:
                groups = [g for stage in block["stages"] for g in stage["groups"]]
                for op in [*block["operators"], *(op for g in groups for op in g)]:
                    # The schema accepts 1.0 as a whole number.
                    if not isinstance(op, int) or op >= count:
                        raise ValueError(
                            f"a block contains operator {op}, but its network has only "
                            f"{count} operators"
                        )
                for stage in block["stages"]:
                    times = stage["group_ms"]
                    if times is not None and len(times) != len(stage["groups"]):
                        raise ValueError(
                            f"a stage has {len(stage['groups'])} groups, but times of "
                            f"{len(times)} groups"
                        )
