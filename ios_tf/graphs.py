"""Signatures of a SavedModel as frozen graphs, and back again."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.checkpoint import trackable_view
from tensorflow.python.eager import wrap_function
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.trackable import asset, resource

from ios_tf.errors import UserError
from ios_tf.source import first_line


@dataclasses.dataclass(frozen=True)
class FrozenSignature:
    """A signature whose variables are constants of its graph.

    Attributes:
      graph_def: the graph; functions of control flow are in its library.
      inputs: argument name -> the placeholder's tensor, in the function's order.
      outputs: output name -> (tensor name, static shape).
      captures: name of a placeholder node -> the resource (a table, ...) it stands
        for.
    """

    graph_def: graph_pb2.GraphDef
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tuple[str, tf.TensorShape]]
    captures: Mapping[str, tf.Tensor]

    def key(self) -> tuple[Any, ...]:
        """Equal for signatures that compute the same under the same names."""
        return (
            hashlib.sha256(
                self.graph_def.SerializeToString(deterministic=True)
            ).hexdigest(),
            tuple((name, spec.name) for name, spec in self.inputs.items()),
            tuple((name, tensor) for name, (tensor, _) in self.outputs.items()),
            tuple((name, id(tensor)) for name, tensor in self.captures.items()),
        )


def load(directory: str) -> Any:
    """Loads a SavedModel with at least one signature.

    Raises:
      UserError: it cannot be loaded, or has no signatures.
    """
    try:
        loaded = tf.saved_model.load(directory)
    # Truncated files, unregistered ops, several tags: TensorFlow's own line says it.
    except Exception as error:
        raise UserError(
            f"{directory}: cannot be loaded: {first_line(error)}"
        ) from error
    if not loaded.signatures:
        raise UserError(f"{directory}: the SavedModel has no signatures")
    return loaded


def no_signature(name: str, loaded: Any) -> str:
    """What to say about a signature that does not exist."""
    return f"there is no signature {name!r}; the model has " + ", ".join(
        sorted(loaded.signatures)
    )


def choose_signature(wanted: str | None, loaded: Any) -> str:
    """The name of the signature to use: by default `serving_default` or the only one.

    Raises:
      UserError: there is no such signature.
    """
    keys = sorted(loaded.signatures)
    name = wanted or ("serving_default" if len(keys) > 1 else keys[0])
    if name not in keys:
        raise UserError(no_signature(name, loaded))
    return name


def freeze(name: str, function: Any) -> FrozenSignature:
    """Freezes one signature function of a loaded SavedModel.

    Raises:
      UserError: TensorFlow cannot turn its variables into constants.
    """
    try:
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            function, lower_control_flow=False, aggressive_inlining=True
        )
        graph_def = frozen.graph.as_graph_def()
    except Exception as error:
        raise UserError(
            f"signature {name!r} cannot be frozen: {first_line(error)}"
        ) from error
    captured = {
        internal.op.name: external for external, internal in function.graph.captures
    }
    arguments = [t for t in function.inputs if t.op.name not in captured]
    remaining = {tensor.op.name for tensor in frozen.inputs}
    keys = sorted(function.structured_outputs)
    return FrozenSignature(
        graph_def,
        {
            keyword: tf.TensorSpec(t.shape, t.dtype, t.name)
            for keyword, t in zip(function._arg_keywords, arguments, strict=True)
        },
        {
            key: (frozen_output.name, output.shape)
            for key, output, frozen_output in zip(
                keys, function.outputs, frozen.outputs, strict=True
            )
        },
        {name: t for name, t in captured.items() if name in remaining},
    )


def rebuild(frozen: FrozenSignature, graph_def: graph_pb2.GraphDef) -> Any:
    """The function of `frozen`, computed by `graph_def`, ready to be a signature."""
    imported = wrap_function.function_from_graph_def(
        graph_def,
        [spec.name for spec in frozen.inputs.values()],
        [tensor for tensor, _ in frozen.outputs.values()],
        captures=dict(frozen.captures),
    )

    def signature(**arguments: tf.Tensor) -> dict[str, tf.Tensor]:
        results = imported(*(arguments[name] for name in frozen.inputs))
        outputs = {}
        for result, (name, (_, shape)) in zip(
            results, frozen.outputs.items(), strict=True
        ):
            # Shape functions of the rewritten graph may know less than before.
            result.set_shape(shape)
            outputs[name] = result
        return outputs

    return tf.function(signature, autograph=False).get_concrete_function(
        **{
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in frozen.inputs.items()
        }
    )


def save(loaded: Any, functions: Mapping[str, Any], directory: str) -> None:
    """Writes a SavedModel of `functions` with the tables and assets of `loaded`.

    Args:
      loaded: the SavedModel the functions come from.
      functions: signature key -> function; one function may have several keys.
      directory: must not exist.
    """
    root = tf.Module()
    root.resources = []
    root.assets = []
    for trackable in trackable_view.TrackableView(loaded).descendants():
        if isinstance(trackable, asset.Asset):
            root.assets.append(trackable)
        # Variables are constants by now.
        elif isinstance(trackable, resource.CapturableResource) and not isinstance(
            trackable, tf.Variable
        ):
            root.resources.append(trackable)
    tf.saved_model.save(
        root,
        directory,
        signatures=dict(functions),
        options=tf.saved_model.SaveOptions(
            namespace_whitelist=sorted(_namespaces(functions.values()))
        ),
    )


def _namespaces(functions: Iterable[Any]) -> set[str]:
    """The "Name" of ops that are called "Name>Op": custom ones."""
    found = set()
    for function in functions:
        graph_def = function.graph.as_graph_def()
        for node in nodes(graph_def):
            namespace, separator, _ = node.op.partition(">")
            if separator:
                found.add(namespace)
    return found


def nodes(graph_def: graph_pb2.GraphDef) -> Iterable[Any]:
    """All nodes of a graph, those of its functions included."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def
