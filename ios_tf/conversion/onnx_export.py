"""export-onnx: a rewritten graph, with its merged convolutions, for other runtimes."""

from __future__ import annotations

import contextlib
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

from ios_tf.conversion.differences import compare_outputs
from ios_tf.errors import UserError, first_line
from ios_tf.files import write_bytes
from ios_tf.model import frozen_graphs, function_library, saved_models
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.inputs import Given, accepted_inputs
from ios_tf.model.loading import saved_model
from ios_tf.native.names import ANNOTATIONS, MERGED

OPSET = 17
# Largest difference over the largest value; other summation orders stay far below.
TOLERANCE = 1e-3
# Such messages of tf2onnx start with its function in which something failed.
_PASS = re.compile(r"^rewriter <.*?>: (exception )?")
# The optimizer gives the convolution of a merge stage such a name.
_MERGED = re.compile(re.escape(MERGED) + r"(_\d+)?$")


@dataclasses.dataclass(frozen=True)
class Exported:
    """The result of an export.

    Attributes:
      signature: the one that was exported.
      merged: convolutions that each stand for several of the original model.
      difference: largest absolute difference between ONNX Runtime's outputs and
        TensorFlow's over the largest absolute value; None: not checked.
    """

    signature: str
    merged: int
    difference: float | None


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

    Of a converted model that is the rewritten graph: convolutions of merge stages are
    one convolution and a split. Inputs and outputs keep the signature's names. Where
    ONNX Runtime is installed, its outputs for random inputs are compared with
    TensorFlow's before anything is written.

    Args:
      model: as of `ios_tf.convert`; mostly what that wrote.
      output: the file to write.
      batch_size: of the comparison, where the model's is dynamic.
      signature: the one to export; by default `serving_default` or the only one.
      tags: as of `ios_tf.convert`.
      inputs: of the comparison: arrays, or shapes of random ones, by name.
      opset: version of ONNX's operators.

    Raises:
      UserError: one line that says what is wrong with the input, that tf2onnx is
        missing, or that it cannot export the model.
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
                "not have; export a signature without them"
            )
        plain = dataclasses.replace(
            frozen, graph_def=_without_schedules(frozen.graph_def)
        )
        content = _to_onnx(tf2onnx, plain, name, opset)
        difference = _difference(content, function, batch_size, inputs)
    if difference is not None and not difference <= TOLERANCE:
        raise UserError(
            f"ONNX Runtime's outputs differ from TensorFlow's by {difference:.1e}; "
            f"{output} is not written"
        )
    write_bytes(output, content)
    return Exported(name, _merged_convolutions(frozen.graph_def), difference)


def _tf2onnx() -> ModuleType:
    try:
        import tf2onnx
    except ImportError as error:
        raise UserError(
            f"export-onnx needs {error.name}: pip install 'ios-tf[onnx]'"
        ) from None
    return tf2onnx


class _Errors(logging.Handler):
    """Keeps what tf2onnx logs of what it cannot do, with tracebacks or without."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages += record.getMessage().strip().splitlines()[:1]


@contextlib.contextmanager
def _logged_errors() -> Iterator[list[str]]:
    """Collects the errors that tf2onnx logs; the terminal does not get them."""
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
    """The graph as plain TensorFlow: tf2onnx optimises it in this process."""
    plain = graph_pb2.GraphDef()
    plain.CopyFrom(graph_def)
    for node in function_library.nodes(plain):
        for attribute in ANNOTATIONS:
            node.attr.pop(attribute, None)
    return plain


def _merged_convolutions(graph_def: graph_pb2.GraphDef) -> int:
    return sum(
        node.op == "Conv2D" and _MERGED.search(node.name) is not None
        for node in graph_def.node
    )


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
        # Unsupported operators and versions, too large a model: all kinds of errors.
        except Exception as error:
            reason = errors[0] if errors else first_line(error)
            raise _cannot_export(frozen, name, reason) from error
    # Of an operator it does not know it makes one that ONNX does not know, either.
    if errors:
        raise _cannot_export(frozen, name, errors[0])
    return content


def _cannot_export(frozen: FrozenSignature, name: str, reason: str) -> UserError:
    """Says why, in words of the model: tf2onnx names what it is written of."""
    strings = [key for key, spec in frozen.inputs.items() if spec.dtype == tf.string]
    # It drops nodes that read strings, and then misses the input in one of its passes.
    if strings and _PASS.match(reason):
        reason = (
            f"its input {strings[0]!r} is of strings, of which ONNX reads no images "
            "and no records; export a signature of numbers"
        )
    return UserError(
        f"tf2onnx cannot export signature {name!r}: {_PASS.sub('', reason)}"
    )


def _difference(
    content: bytes, function: Any, batch_size: int, given: Mapping[str, Given] | None
) -> float | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    inputs, expected = accepted_inputs(function, batch_size, given)
    try:
        session = onnxruntime.InferenceSession(
            content, providers=["CPUExecutionProvider"]
        )
        found = session.run(
            list(expected),
            # .numpy() of a scalar is no array.
            {name: np.asarray(value) for name, value in inputs.items()},
        )
    except Exception as error:
        raise UserError(
            f"ONNX Runtime cannot run the exported model: {first_line(error)}"
        ) from error
    difference, _ = compare_outputs(dict(zip(expected, found, strict=True)), expected)
    return difference or 0.0


def _check_directory(output: str) -> None:
    """Fails now rather than after the work."""
    if os.path.isdir(output):
        raise UserError(f"{output}: is a directory, must be a file to write")
    if not os.access(os.path.dirname(output) or ".", os.W_OK):
        raise UserError(f"{output}: its directory does not exist or is not writable")
