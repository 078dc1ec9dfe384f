"""SavedModels: loaded with their signatures, and written as they are to be called."""

from __future__ import annotations

import dataclasses
import os
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
class Interface:
    """Tags and signatures, by which a MetaGraph is called: TensorFlow loads neither.

    Attributes:
      tags: of the MetaGraph.
      signature_defs: by the signatures' names.
    """

    tags: Sequence[str] = (tf.saved_model.SERVING,)
    signature_defs: Mapping[str, meta_graph_pb2.SignatureDef] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True)
class Signatures:
    """The signatures of a SavedModel, and what they need of it.

    Nothing else of it is kept, such as what an optimizer knows of its variables, or the
    copy that Keras writes of each.

    Attributes:
      signatures: its functions, by name.
      resources: its assets, its tables and what fills them, and the variables that the
        functions read.
      endpoints: the functions of its root that compute what a signature does, by name.
      lost: the names of its root's other functions, which `save` cannot write.
    """

    signatures: Mapping[str, Any]
    resources: Sequence[Any]
    endpoints: Mapping[str, Endpoint] = dataclasses.field(default_factory=dict)
    lost: Sequence[str] = ()


def load(directory: str, tags: Sequence[str] | None = None) -> Signatures:
    """Loads the signatures of a SavedModel, of which there is at least one.

    Args:
      directory: of the SavedModel.
      tags: of the MetaGraph to load, where there are several.

    Raises:
      UserError: it cannot be loaded, or has no signatures.
    """
    _meta_graph(directory, tags)  # which says more than TensorFlow
    try:
        loaded = tf.saved_model.load(directory, tags=list(tags) if tags else None)
    # Truncated files, unregistered ops: TensorFlow's own line says it.
    except Exception as error:
        reason = why_unreadable(directory) or first_line(error)
        if "Failed to find any matching files" in reason:
            reason = "the files of its variables are missing (variables/variables.*)"
        raise UserError(f"{directory}: cannot be loaded: {reason}") from error
    if not loaded.signatures:
        advice = without_signatures(loaded)
        raise UserError(f"{directory}: the SavedModel has no signatures; {advice}")
    signatures = dict(loaded.signatures)
    found, lost = endpoints.find(loaded)
    captured = _captured(signatures.values())
    resources = []
    unused = 0
    for trackable in trackable_view.TrackableView(loaded).descendants():
        if isinstance(trackable, load_v1_in_v2._Initializer):
            resources.append(_without_weights(trackable))
        elif isinstance(trackable, (asset.Asset, resource.CapturableResource)):
            resources.append(trackable)
        elif isinstance(trackable, tf.Variable):
            if id(trackable.handle) in captured:
                resources.append(trackable)
            else:
                unused += trackable.dtype.size * (trackable.shape.num_elements() or 0)
    del loaded, trackable
    malloc.release_unused(unused)
    return Signatures(signatures, resources, found, lost)


def without_signatures(loaded: Any) -> str:
    """Describes what to do with a loaded SavedModel without signatures."""
    names = list(endpoints.functions_of(loaded))
    if not names:
        return "it has no functions to make one of either, so there is nothing to run"
    function = f"loaded.{names[0]}.get_concrete_function(tf.TensorSpec(SHAPE, DTYPE))"
    return (
        f"in Python, with loaded = tf.saved_model.load(DIRECTORY), call "
        f"ios_tf.optimize({function}), or give its function a signature by "
        f"tf.saved_model.save(loaded, OTHER, signatures={function}) and convert OTHER"
        + (f" (its functions are {', '.join(names)})" if len(names) > 1 else "")
    )


def _captured(functions: Iterable[Any]) -> set[int]:
    """The identities of the tensors that functions capture."""
    return {id(t) for function in functions for t in function.captured_inputs}


def interface(directory: str, tags: Sequence[str] | None = None) -> Interface:
    """That of the MetaGraph which `load` loads of a SavedModel.

    Raises:
      UserError: there is no such MetaGraph, or several.
    """
    graph = _meta_graph(directory, tags)
    if graph is None:
        return Interface()
    return Interface(list(graph.meta_info_def.tags), dict(graph.signature_def))


def _meta_graph(
    directory: str, tags: Sequence[str] | None
) -> meta_graph_pb2.MetaGraphDef | None:
    """The MetaGraph with these tags, or the only one; None: it cannot be read."""
    try:
        graphs = loader_impl.parse_saved_model(directory).meta_graphs
    except (OSError, tf.errors.OpError):  # loading it says what is wrong
        return None
    if not graphs:  # of which TensorFlow says that they need tags
        raise UserError(f"{directory}: not a SavedModel (it has no MetaGraph)")
    by_tags = {tuple(sorted(graph.meta_info_def.tags)): graph for graph in graphs}
    flags = " or ".join(f"--tags={','.join(one)}" for one in by_tags)
    if tags:
        if tuple(sorted(tags)) not in by_tags:
            raise UserError(
                f"{directory}: there is no MetaGraph with the tags {','.join(tags)}; "
                f"say {flags}"
            )
        return by_tags[tuple(sorted(tags))]
    if len(by_tags) > 1:
        raise UserError(
            f"{directory}: has {len(by_tags)} MetaGraphs: say which one, {flags}"
        )
    return graphs[0]


def no_signature(name: str, loaded: Any) -> str:
    """The message for a signature that does not exist."""
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


def save(
    loaded: Signatures,
    signatures: Mapping[str, Any],
    directory: str,
    interface: Interface = Interface(),
    variables: Sequence[tf.Variable] = (),
) -> None:
    """Writes a SavedModel of `signatures` with the tables and assets of `loaded`.

    Args:
      loaded: the SavedModel the functions come from.
      signatures: for the name of each signature of `loaded`, a function that takes the
        same arguments. Several signatures may have the same function.
      directory: to write to.
      interface: whose tags, method names and defaults of signatures it gets.
      variables: those that `loaded` does not have, and the functions may read.
    """
    captured = _captured(signatures.values())
    weights = [v for v in variables if id(v.handle) in captured]
    resources = []
    for one in loaded.resources:
        if not isinstance(one, tf.Variable):
            resources.append(one)
        elif id(one.handle) in captured:  # most are constants by now
            # Training would find only these few of the model's weights.
            one._trainable = False
            weights.append(one)
    root = autotrackable.AutoTrackable()
    root._weights, root._resources = weights, resources
    for name, endpoint in loaded.endpoints.items():
        setattr(root, name, endpoint.rebuild(signatures))
    # There is no Python to convert; AutoGraph would write some to temporary files,
    # which a process that is killed leaves.
    tf.autograph.experimental.do_not_convert(tf.saved_model.save)(
        root,
        directory,
        signatures=dict(signatures),
        options=tf.saved_model.SaveOptions(
            namespace_whitelist=sorted(_namespaces(signatures.values()))
        ),
    )
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
    _write_interface(directory, interface, names)


def _write_interface(
    directory: str, interface: Interface, names: Mapping[str, Mapping[str, str]]
) -> None:
    """Gives a SavedModel what TensorFlow cannot save.

    `names`: by signature, those of its inputs by the names that they were saved by.
    """
    saved_model = loader_impl.parse_saved_model(directory)
    (meta_graph,) = saved_model.meta_graphs
    meta_graph.meta_info_def.tags[:] = interface.tags
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
        original = interface.signature_defs.get(key)
        if original:
            # TensorFlow Serving calls the signature by this method only.
            signature.method_name = original.method_name
            for name, value in original.defaults.items():
                signature.defaults[name].CopyFrom(value)
    path = os.path.join(directory, tf.saved_model.SAVED_MODEL_FILENAME_PB)
    tf.io.gfile.remove(path)  # not every filesystem writes over what is there
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(saved_model.SerializeToString(deterministic=True))


def _without_weights(initializer: Any) -> Any:
    """A TF1 model's initializer, capturing only what it needs.

    As TensorFlow loads it, it captures all variables of its graph.
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


def _namespaces(signatures: Iterable[Any]) -> set[str]:
    """The "Name" of ops that are called "Name>Op": custom ones."""
    found = set()
    for function in signatures:
        graph_def = function.graph.as_graph_def()
        for node in function_library.nodes(graph_def):
            namespace, separator, _ = node.op.partition(">")
            if separator:
                found.add(namespace)
    return found
