"""Loads SavedModels with their signatures, and writes them with the same interface."""

from __future__ import annotations

import copy
import dataclasses
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.checkpoint import trackable_view
from tensorflow.python.eager import wrap_function
from tensorflow.python.saved_model import load_v1_in_v2, loader_impl
from tensorflow.python.trackable import asset, autotrackable, resource

from ios_tf.errors import UserError, first_line
from ios_tf.files import why_unreadable
from ios_tf.model import endpoints, function_library
from ios_tf.model.endpoints import Endpoint
from ios_tf.native import malloc


@dataclasses.dataclass(frozen=True)
class Signatures:
    """The signatures of a SavedModel, and the resources that they need.

    Everything else is dropped, for example the state of an optimizer, and the second
    copy of each variable that Keras writes.

    Attributes:
      signatures: the signature functions by name.
      resources: the assets, the tables with their initializers, and the variables that
        the functions read.
      endpoints: the functions of the model's root that compute the same as a signature,
        by name.
      lost: the names of the root's other functions, which `save` cannot write.
      tags: the tags of the MetaGraph.
      signature_defs: its SignatureDefs by name. They have method names and defaults
        that TensorFlow's functions do not have.
    """

    signatures: Mapping[str, Any]
    resources: Sequence[Any]
    endpoints: Mapping[str, Endpoint] = dataclasses.field(default_factory=dict)
    lost: Sequence[str] = ()
    tags: Sequence[str] = (tf.saved_model.SERVING,)
    signature_defs: Mapping[str, meta_graph_pb2.SignatureDef] = dataclasses.field(
        default_factory=dict
    )


def load(directory: str, tags: Sequence[str] | None = None) -> Signatures:
    """Loads the signatures of a SavedModel, at least one.

    `tags` choose the MetaGraph to load, if there are several.

    Raises:
      UserError: the SavedModel cannot be loaded, or has no signatures.
    """
    try:
        interface = _interface(directory, tags)  # its errors say more than TensorFlow's
        loaded = tf.saved_model.load(directory, tags=list(tags) if tags else None)
    except UserError:
        raise
    # For other errors, such as truncated files and unregistered ops, TensorFlow's own
    # message is good.
    except Exception as error:
        reason = why_unreadable(directory) or first_line(error)
        if "Failed to find any matching files" in reason:
            reason = "the files of its variables are missing (variables/variables.*)"
        raise UserError(f"{directory} cannot be loaded: {reason}") from error
    if not loaded.signatures:
        advice = without_signatures(loaded)
        raise UserError(f"{directory}: the SavedModel has no signatures. {advice}")
    signatures = dict(loaded.signatures)
    found, lost = endpoints.find(loaded)
    resources, unused = resources_of(loaded, signatures.values())
    del loaded
    malloc.release_unused(unused)
    return Signatures(signatures, resources, found, lost, *interface)


def resources_of(owner: Any, functions: Iterable[Any]) -> tuple[list[Any], int]:
    """The resources below an object that functions need (see `Signatures`).

    Returns:
      The resources, and the bytes of the variables that no function reads.
    """
    captured = _captured(functions)
    resources = []
    unused = 0
    for trackable in trackable_view.TrackableView(owner).descendants():
        if isinstance(trackable, load_v1_in_v2._Initializer):
            resources.append(_without_weights(trackable))
        elif isinstance(trackable, (asset.Asset, resource.CapturableResource)):
            resources.append(trackable)
        elif isinstance(trackable, tf.Variable):
            if id(trackable.handle) in captured:
                resources.append(trackable)
            else:
                unused += trackable.dtype.size * (trackable.shape.num_elements() or 0)
    return resources, unused


def without_signatures(loaded: Any) -> str:
    """Returns advice for a loaded SavedModel without signatures."""
    names = list(endpoints.functions_of(loaded))
    if not names:
        return (
            "The SavedModel also has no functions that could become signatures, so "
            "nothing in it can be run"
        )
    function = f"loaded.{names[0]}.get_concrete_function(tf.TensorSpec(SHAPE, DTYPE))"
    return (
        f"In Python, with loaded = tf.saved_model.load(DIRECTORY), call "
        f"ios_tf.optimize({function}), or give its function a signature by "
        f"tf.saved_model.save(loaded, OTHER, signatures={function}) and convert OTHER"
        + (f" (its functions are {', '.join(names)})" if len(names) > 1 else "")
    )


def _captured(functions: Iterable[Any]) -> set[int]:
    """The identities of the tensors that functions capture."""
    return {id(t) for function in functions for t in function.captured_inputs}


def _interface(
    directory: str, tags: Sequence[str] | None
) -> tuple[Sequence[str], Mapping[str, meta_graph_pb2.SignatureDef]]:
    """The tags and SignatureDefs of the MetaGraph with these tags, or of the only one.

    Raises:
      UserError: there is no such MetaGraph, or there are several.
    """
    graphs = loader_impl.parse_saved_model(directory).meta_graphs
    if not graphs:  # TensorFlow would ask for tags instead
        raise UserError(f"{directory} is not a SavedModel (it has no MetaGraph)")
    by_tags = {tuple(sorted(graph.meta_info_def.tags)): graph for graph in graphs}
    flags = " or ".join(f"--tags={','.join(one)}" for one in by_tags)
    if tags:
        if tuple(sorted(tags)) not in by_tags:
            raise UserError(
                f"{directory} has no MetaGraph with the tags {','.join(tags)}. "
                f"Use {flags}"
            )
        graph = by_tags[tuple(sorted(tags))]
    elif len(by_tags) > 1:
        raise UserError(
            f"{directory} has {len(by_tags)} MetaGraphs. Select one with {flags}"
        )
    else:
        graph = graphs[0]
    # Copies do not keep the memory of the whole MetaGraph.
    definitions = {key: copy.deepcopy(d) for key, d in graph.signature_def.items()}
    return list(graph.meta_info_def.tags), definitions


def no_signature(name: str, loaded: Any) -> str:
    """The message for a signature that does not exist."""
    return f"there is no signature {name!r}. The model has " + ", ".join(
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


def save(
    loaded: Signatures,
    signatures: Mapping[str, Any],
    directory: str,
    variables: Sequence[tf.Variable] = (),
    functions: Mapping[str, Any] = types.MappingProxyType({}),
) -> None:
    """Writes a SavedModel of `signatures` with the tables and assets of `loaded`.

    Args:
      loaded: the SavedModel from which the functions were made.
      signatures: maps the name of each signature of `loaded` to a function that takes
        the same arguments. Several signatures may have the same function.
      directory: the directory to write to.
      variables: variables that the functions may read and `loaded` does not have.
      functions: more functions for the root of the SavedModel, by name.

    Raises:
      UserError: a file cannot be written, for example because the disk is full.
    """
    captured = _captured(signatures.values())
    weights = [v for v in variables if id(v.handle) in captured]
    resources = []
    for one in loaded.resources:
        if not isinstance(one, tf.Variable):
            resources.append(one)
        elif id(one.handle) in captured:  # most variables are constants by now
            # The variables are marked as not trainable, because only some of the
            # model's weights are variables.
            one._trainable = False
            weights.append(one)
    root = autotrackable.AutoTrackable()
    root._weights, root._resources = weights, resources
    for name, endpoint in loaded.endpoints.items():
        setattr(root, name, endpoint.rebuild(signatures))
    for name, function in functions.items():
        setattr(root, name, function)
    namespaces = {  # of custom ops, which have names such as "Namespace>Op"
        node.op.partition(">")[0]
        for function in signatures.values()
        for node in function_library.nodes(function.graph.as_graph_def())
        if ">" in node.op
    }
    options = tf.saved_model.SaveOptions(namespace_whitelist=sorted(namespaces))
    # Switches AutoGraph off: it is not needed, and writes temporary files that stay if
    # the process is killed.
    write = tf.autograph.experimental.do_not_convert(tf.saved_model.save)
    try:
        write(root, directory, signatures=dict(signatures), options=options)
    except (OSError, tf.errors.OpError) as error:
        if directory not in str(error):  # not an error of a file
            raise
        raise UserError(
            f"{directory} cannot be written: {first_line(error)}"
        ) from error
    names = {
        key: dict(
            zip(
                function._arg_keywords,
                loaded.signatures[key]._arg_keywords,
                strict=True,
            )
        )
        for key, function in signatures.items()
    }
    _write_interface(directory, loaded, names)


def _write_interface(
    directory: str, loaded: Signatures, names: Mapping[str, Mapping[str, str]]
) -> None:
    """Writes the parts of a SavedModel's interface that TensorFlow cannot save.

    `names`: for each signature, maps saved input names to original input names.
    """
    saved_model = loader_impl.parse_saved_model(directory)
    (meta_graph,) = saved_model.meta_graphs
    meta_graph.meta_info_def.tags[:] = loaded.tags
    objects = meta_graph.object_graph_def.nodes
    (signature_map,) = (
        objects[child.node_id]
        for child in objects[0].children
        if child.local_name == "signatures"
    )
    for child in signature_map.children:
        keywords = objects[child.node_id].bare_concrete_function.argument_keywords
        keywords[:] = [names[child.local_name][saved] for saved in keywords]
    for key, of_signature in names.items():
        signature = meta_graph.signature_def[key]
        for saved, name in of_signature.items():
            if name != saved:
                signature.inputs[name].CopyFrom(signature.inputs[saved])
                del signature.inputs[saved]
        original = loaded.signature_defs.get(key)
        if original:
            # The method name must be kept, because TensorFlow Serving accepts calls by
            # this method only.
            signature.method_name = original.method_name
            for name, value in original.defaults.items():
                signature.defaults[name].CopyFrom(value)
    path = os.path.join(directory, tf.saved_model.SAVED_MODEL_FILENAME_PB)
    tf.io.gfile.remove(path)  # not every filesystem overwrites files
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(saved_model.SerializeToString(deterministic=True))


def _without_weights(initializer: Any) -> Any:
    """Returns an initializer of a TF1 model that captures only the tensors it needs.

    When TensorFlow loads an initializer, it captures all variables of the graph.
    """
    function = initializer._init_fn
    outputs = [tensor.name for tensor in function.outputs]
    waits = [operation.name for operation in function.graph.control_outputs]
    captures = {i.op.name: external for external, i in function.graph.captures}
    inputs = [t.name for t in function.inputs if t.op.name not in captures]
    graph_def = function_library.pruned(
        function.graph.as_graph_def(), [*inputs, *outputs, *waits]
    )
    left = {node.name for node in graph_def.node}
    smaller = load_v1_in_v2._Initializer(
        wrap_function.function_from_graph_def(
            graph_def,
            inputs,
            [*outputs, *waits],
            captures={n: t for n, t in captures.items() if n in left},
        ),
        initializer._asset_paths,
    )
    smaller.variables = [
        variable
        for variable in function.graph.variables
        if any(variable.handle is captures.get(name) for name in left)
    ]
    return smaller
