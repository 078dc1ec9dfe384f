"""export-onnx: writes a rewritten graph with its merged convolutions as ONNX."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib.util
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from ios_tf.conversion.output_differences import compare_outputs
from ios_tf.errors import UserError, first_line
from ios_tf.files import write_bytes
from ios_tf.model import frozen_graphs, function_library, saved_models
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.inputs import Given, accepted_inputs
from ios_tf.model.loading import saved_model
from ios_tf.native.names import ANNOTATIONS, MERGED
from ios_tf.reasons import Decision, Reason
from ios_tf.report import document

OPSET = 17
# The largest allowed difference, relative to the largest value. Adding in another order
# causes a far smaller difference.
TOLERANCE = 1e-3
# Matches the start of tf2onnx's messages about one of its passes that failed.
_PASS = re.compile(r"^rewriter <.*?>: (exception )?")
# Matches the name that a merged convolution has.
_MERGED = re.compile(re.escape(MERGED) + r"(_\d+)?$")


@dataclasses.dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
      signature: the exported signature.
      merged: the number of merged convolutions. Each replaces several convolutions of
          the original model.
      difference: largest absolute difference between ONNX Runtime's outputs and
        TensorFlow's, divided by the largest absolute value; None if not checked.
    """

    signature: str
    merged: int
    difference: float | None

    @property
    def decisions(self) -> list[Decision]:
        """Says that the outputs were not compared, and why."""
        if self.difference is not None:
            return []
        text = "the outputs were not compared, because ONNX Runtime is not installed "
        text += "(pip install onnxruntime)"
        return [Decision(Reason.NO_ONNX_RUNTIME, text)]

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        decisions = [decision.to_json() for decision in self.decisions]
        return {**dataclasses.asdict(self), "decisions": decisions}


def export_onnx(
    model: Any,
    output: str | os.PathLike[str],
    *,
    batch_size: int = 1,
    signature: str | None = None,
    tags: Sequence[str] | None = None,
    inputs: Mapping[str, Given] | None = None,
    opset: int = OPSET,
) -> Exported:
    """Writes a signature of a model as an ONNX file.

    A converted model is exported with its rewritten graph: each merge stage is one
    convolution and a split. Inputs and outputs keep the signature's names. If ONNX
    Runtime is installed, its outputs are compared with TensorFlow's before the file is
    written.

    Args:
      model: as for `ios_tf.convert`; usually a model that `convert` wrote.
      output: the file to write.
      batch_size: the batch size of the comparison if the model's is dynamic.
      signature: the signature to export; by default `serving_default` or the only one.
      tags: as for `ios_tf.convert`.
      inputs: inputs of the comparison by name: arrays, or shapes of random arrays.
      opset: version of ONNX's operators.

    Raises:
      UserError: one line that says what is wrong with the input, that tf2onnx is
        missing, or that tf2onnx cannot export the model.
    """
    tf2onnx = _tf2onnx()
    output = os.fspath(output)
    _check_directory(output)
    with saved_model(model) as source:
        loaded = saved_models.load(source, tags)
        name = saved_models.choose_signature(signature, loaded)
        function = loaded.signatures[name]
        frozen = frozen_graphs.freeze(name, function)
        if frozen.captures:
            raise UserError(
                f"signature {name!r} uses tables or other resources, which ONNX does "
                "not support. Export a signature without them"
            )
        plain = dataclasses.replace(
            frozen, graph_def=_without_schedules(frozen.graph_def)
        )
        content = _to_onnx(tf2onnx, plain, name, opset)
        image_size = document.image_size(source)
        difference = _difference(content, function, batch_size, inputs, image_size)
    if difference is not None and not difference <= TOLERANCE:
        raise UserError(
            f"ONNX Runtime's outputs differ from TensorFlow's by {difference:.1e}, so "
            f"{output} is not written"
        )
    write_bytes(output, content)
    merged = sum(
        node.op == "Conv2D" and _MERGED.search(node.name) is not None
        for node in frozen.graph_def.node
    )
    return Exported(name, merged, difference)


def _tf2onnx() -> ModuleType:
    try:
        import tf2onnx
    except ImportError as error:
        raise UserError(
            f"export-onnx needs {error.name}. Run pip install tf2onnx onnxruntime"
        ) from None
    return tf2onnx


class _Errors(logging.Handler):
    """Keeps the first line of each error that tf2onnx logs, without tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages += record.getMessage().strip().splitlines()[:1]


@contextlib.contextmanager
def _logged_errors() -> Iterator[list[str]]:
    """Collects the errors that tf2onnx logs, and keeps them from the terminal."""
    logger = logging.getLogger("tf2onnx")
    before = logger.handlers, logger.propagate, logger.level
    handler = _Errors()
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.ERROR)
    try:
        yield handler.messages
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])


def _without_schedules(graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """Removes schedules, so that the plugin does not use them in tf2onnx."""
    plain = copy.deepcopy(graph_def)
    for node in function_library.nodes(plain):
        for attribute in ANNOTATIONS:
            node.attr.pop(attribute, None)
    return plain


def _to_onnx(
    tf2onnx: ModuleType, frozen: FrozenSignature, name: str, opset: int
) -> bytes:
    inputs = {spec.name: key for key, spec in frozen.inputs.items()}
    outputs = {tensor: key for key, (tensor, _) in frozen.outputs.items()}
    with _logged_errors() as errors:
        try:
            proto, _ = tf2onnx.convert.from_graph_def(
                frozen.graph_def,
                name=name,
                input_names=list(inputs),
                output_names=list(outputs),
                opset=opset,
                tensors_to_rename={**inputs, **outputs},
            )
            content = proto.SerializeToString()
        # tf2onnx raises many kinds of errors for unsupported operators, unsupported
        # versions and too large models.
        except Exception as error:
            reason = errors[0] if errors else first_line(error)
            raise _cannot_export(frozen, name, reason) from error
    # tf2onnx only logs an error for an unknown operation, and exports a node that is
    # not valid in ONNX.
    if errors:
        raise _cannot_export(frozen, name, errors[0])
    return content


def _cannot_export(frozen: FrozenSignature, name: str, reason: str) -> UserError:
    """Returns an error about the model.

    The messages of tf2onnx name functions of tf2onnx, which do not help a user.
    """
    strings = [key for key, spec in frozen.inputs.items() if spec.dtype == tf.string]
    # tf2onnx drops nodes that read strings, and then one of its passes fails because
    # the input is missing.
    if strings and _PASS.match(reason):
        reason = (
            f"the signature's input {strings[0]!r} has strings, and ONNX cannot decode "
            "images or records from strings. Export a signature with numeric inputs"
        )
    return UserError(
        f"tf2onnx cannot export signature {name!r}: {_PASS.sub('', reason)}"
    )


def _difference(
    content: bytes,
    function: Any,
    batch_size: int,
    given: Mapping[str, Given] | None,
    image_size: tuple[int, int],
) -> float | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    inputs, expected = accepted_inputs(function, batch_size, given, image_size)
    try:
        session = onnxruntime.InferenceSession(
            content, providers=["CPUExecutionProvider"]
        )
        found = session.run(
            list(expected),
            # np.asarray is needed because .numpy() of a scalar does not return an
            # array.
            {name: np.asarray(value) for name, value in inputs.items()},
        )
    except Exception as error:
        raise UserError(
            f"ONNX Runtime cannot run the exported model: {first_line(error)}"
        ) from error
    difference, _ = compare_outputs(dict(zip(expected, found, strict=True)), expected)
    return difference or 0.0


def _check_directory(output: str) -> None:
    """Raises UserError if the file cannot be written. Called before the export."""
    if os.path.isdir(output):
        raise UserError(f"{output} is a directory. Give the name of the file to write")
    if not os.access(os.path.dirname(output) or ".", os.W_OK):
        raise UserError(
            f"{output}: the directory of this file does not exist or is not writable"
        )
