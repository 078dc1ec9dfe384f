"""Writes an optimized function as a SavedModel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.trackable.base import Trackable

from ios_tf.conversion.originals import KERAS_ENDPOINT, Original
from ios_tf.conversion.report import Report
from ios_tf.errors import UserError, first_line
from ios_tf.model import function_library, saved_models
from ios_tf.model.outputs import size_of, written_directory
from ios_tf.report.document import PATH
from ios_tf.report.document import write as write_report

_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def save_function(
    original: Original,
    compute: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
    variables: Sequence[tf.Variable],
    report: Report,
    directory: str,
    overwrite: bool,
) -> None:
    """Writes a function as a SavedModel that contains a report.

    Args:
      original: the function that was optimized. The signature has its inputs and
        outputs.
      compute: computes flat outputs from flat inputs.
      variables: the variables that `compute` reads beside those of the original.
      report: the report of the optimization.
      directory: the directory to write.
      overwrite: whether to replace a SavedModel at `directory`.

    Raises:
      UserError: the directory exists or cannot be written, or the function reads a
        resource that cannot be saved.
    """
    call = original.call

    def function(*args: Any, **kwargs: Any) -> Any:
        return call.result(compute(call.tensors(args, kwargs)))

    with written_directory(directory, overwrite) as temporary:
        args, kwargs = call.specs
        names = [_SIGNATURE]
        if original.endpoint == KERAS_ENDPOINT:
            names.append(KERAS_ENDPOINT)
            endpoint = tf.function(function, input_signature=args, autograph=False)
        else:
            function.__signature__ = call.signature  # type: ignore[attr-defined]
            endpoint = tf.function(function, autograph=False)
        concrete = endpoint.get_concrete_function(*args, **kwargs)
        signatures = dict.fromkeys(names, _as_signature(concrete))
        resources = _resources(original, concrete)
        loaded = saved_models.Signatures(signatures, resources)
        try:
            saved_models.save(
                loaded,
                signatures,
                temporary,
                variables=variables,
                functions={original.endpoint: endpoint},
            )
        # TensorFlow raises many kinds of errors for functions that it cannot save.
        except Exception as error:
            raise UserError(
                f"TensorFlow cannot save the function {original.name!r}: "
                f"{first_line(error)}"
            ) from error
        report = dataclasses.replace(
            report, output=directory, output_bytes=size_of(temporary, PATH)
        )
        write_report(report.to_json(), temporary)


def _as_signature(concrete: Any) -> Any:
    """A function with flat outputs, because a signature cannot have nested outputs.

    The outputs are named output_0, output_1 and so on, as TensorFlow names the outputs
    of a function that returns a sequence.
    """
    outputs = concrete.structured_outputs
    values = outputs.values() if isinstance(outputs, Mapping) else outputs
    if _is_tensor(values) or all(map(_is_tensor, values)):
        return concrete

    def flat(*args: Any, **kwargs: Any) -> dict[str, tf.Tensor]:
        results = tf.nest.flatten(concrete(*args, **kwargs), expand_composites=True)
        tensors = filter(tf.is_tensor, results)
        return {f"output_{i}": tensor for i, tensor in enumerate(tensors)}

    args, kwargs = concrete.structured_input_signature
    return tf.function(flat, autograph=False).get_concrete_function(*args, **kwargs)


def _is_tensor(value: Any) -> bool:
    return tf.is_tensor(value) or isinstance(value, tf.TypeSpec)


def _resources(original: Original, concrete: Any) -> list[Any]:
    """The variables, tables and assets of the original that a function captures.

    Raises:
      UserError: the function reads a table that the original does not own.
    """
    found: list[Any] = []
    if isinstance(original.owner, Trackable):
        found, _ = saved_models.resources_of(original.owner, [concrete])
    if not found and _reads_tables(concrete):
        raise UserError(
            f"the function {original.name!r} cannot be saved, because it reads a table "
            "that belongs to another object. Convert the SavedModel with "
            "ios_tf.convert, or pass the loaded model instead of its signature to "
            "ios_tf.optimize"
        )
    return [*found, *original.function.variables]


def _reads_tables(concrete: Any) -> bool:
    graph_def = concrete.graph.as_graph_def()
    return any("Table" in node.op for node in function_library.nodes(graph_def))
