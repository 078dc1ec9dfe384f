"""Turns signatures of a SavedModel into frozen graphs, and graphs into functions."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import re
import types
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.eager import wrap_function
from tensorflow.python.framework import convert_to_constants

from ios_tf.errors import UserError, first_line
from ios_tf.model import defaults, function_library
from ios_tf.model.captured_variables import (
    Converter,
    large_filters,
    large_tables,
    mark_filters,
    mark_variables,
    variables_of,
)
from ios_tf.model.not_converted import (
    ChangesVariableError,
    NoFunctionError,
    NotConvertedError,
    NotOptimizedError,
)
from ios_tf.native import grappler
from ios_tf.native.graph import FLOAT32, Graph, Precision
from ios_tf.options import USUAL_IMAGE_SIZE
from ios_tf.reasons import Reason

_LARGE_BYTES = 1 << 12


@dataclasses.dataclass(frozen=True)
class FrozenSignature:
    """A signature whose variables are constants of its graph.

    Attributes:
      graph_def: the graph. The functions of control flow are in its library.
      inputs: maps argument names to the placeholders' tensors, in the function's order.
      outputs: maps names of output tensors to (tensor name, static shape).
      structure: maps output names to the nested structures of their tensors. The
        components of all structures, in order, are the entries of `outputs`.
      captures: maps names of placeholder nodes to the captured resources, such as
        tables.
      changes: the placeholder of a resource that a call changes, such as a table; None
        if calls do not change any.
      image_size: replaces the heights and widths that the inputs leave open.
      assigned: maps placeholders to the values that variables had before any call, for
        variables that a call assigns and on which no output depends.
      precision: the precision of the graph's blocks.
      is_light: whether this is the result of `without_weights`.
    """

    graph_def: graph_pb2.GraphDef
    inputs: Mapping[str, tf.TensorSpec]
    outputs: Mapping[str, tuple[str, tf.TensorShape]]
    structure: Mapping[str, Any]
    captures: Mapping[str, tf.Tensor]
    changes: str | None = None
    image_size: tuple[int, int] = USUAL_IMAGE_SIZE
    assigned: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    precision: Precision = FLOAT32
    is_light: bool = False

    def key(self) -> tuple[Any, ...]:
        """A key that is equal for signatures that compute the same with equal names."""
        return (
            hashlib.sha256(
                function_library.with_plain_names(self.graph_def).SerializeToString(
                    deterministic=True
                )
            ).hexdigest(),
            tuple((name, spec.name) for name, spec in self.inputs.items()),
            tuple((name, tensor) for name, (tensor, _) in self.outputs.items()),
            tuple((name, id(tensor)) for name, tensor in self.captures.items()),
        )

    @functools.cached_property
    def without_weights(self) -> FrozenSignature:
        """The signature with a single number as the value of each large filter.

        This is enough if the values of the weights do not matter, and much faster:
        weights are most of the graph's bytes, and every optimizer copies them several
        times.
        """
        if self.is_light:
            return self
        filters = set()
        for node in self.graph_def.node:
            if node.op in function_library.WITH_FILTERS:
                # The slice is empty for an Einsum with only one input.
                filters.update(name.partition(":")[0] for name in node.input[1:2])
        light = function_library.without_nodes(self.graph_def)
        for node in self.graph_def.node:
            content = node.attr["value"].tensor if node.op == "Const" else None
            if (
                content is None
                or node.name not in filters
                or content.dtype != tf.float32.as_datatype_enum
                or len(content.tensor_content) < _LARGE_BYTES
            ):
                light.node.append(node)
                continue
            one = light.node.add(name=node.name, op=node.op, device=node.device)
            one.input.extend(node.input)
            one.attr["dtype"].type = content.dtype
            tensor = one.attr["value"].tensor
            tensor.dtype = content.dtype
            tensor.tensor_shape.CopyFrom(content.tensor_shape)
            # TensorFlow repeats a single value for all elements. The value is computed
            # from the weights, so that equal weights get equal values.
            tensor.float_val.append(1 + zlib.crc32(content.tensor_content) / 2**32)
        return dataclasses.replace(self, graph_def=light, is_light=True)

    def with_precision(self, precision: Precision) -> FrozenSignature:
        """The signature with another precision. Both share the graph that is opened."""
        light = dataclasses.replace(self.without_weights, precision=precision)
        light.__dict__["opened"] = self.without_weights.opened
        if self.is_light:
            return light
        signature = dataclasses.replace(self, precision=precision)
        signature.__dict__["without_weights"] = light
        return signature

    def open(self) -> Graph:
        """Opens the graph on the native side for queries."""
        return Graph(
            self.graph_def, self.placeholders(), self.fetches(), self.image_size
        )

    @functools.cached_property
    def opened(self) -> Graph:
        """The graph on the native side, open as long as this object exists."""
        return self.open()

    def placeholders(self) -> list[tf.TensorSpec]:
        """The specs of all tensors that must be fed, with their names."""
        return [
            *self.inputs.values(),
            *(
                tf.TensorSpec(tensor.shape, tensor.dtype, f"{name}:0")
                for name, tensor in self.captures.items()
            ),
        ]

    def fetches(self) -> list[str]:
        """The names of all output tensors."""
        return [tensor for tensor, _ in self.outputs.values()]


def freeze(name: str, function: Any, keep_filters: bool = False) -> FrozenSignature:
    """Freezes one signature function of a loaded SavedModel.

    Args:
      name: the signature's name in errors.
      function: the function.
      keep_filters: whether large variables stay variables if they are only used as
        filters, or if no operator takes their values as constants.

    Raises:
      UserError: TensorFlow cannot turn the variables into constants.
      NoFunctionError: the variables must not become constants, or the signature has
        side effects and no outputs.
    """
    structure = dict(sorted(function.structured_outputs.items()))
    return _freeze(name, function, function._arg_keywords, structure, keep_filters)


def freeze_flat(
    name: str, function: Any, keep_filters: bool = False
) -> FrozenSignature:
    """Freezes any function as one that takes and returns flat tensors.

    Its inputs and outputs are `function.inputs` without captures, and
    `function.outputs`. The arguments and errors are those of `freeze`.
    """
    arguments = function.inputs[: len(function.inputs) - len(function.graph.captures)]
    keywords = [tensor.op.name for tensor in arguments]
    # The names are chosen such that their alphabetical order is the order of the
    # outputs, because dictionaries are flattened in the order of their keys.
    structure = {f"output_{i:04}": tensor for i, tensor in enumerate(function.outputs)}
    return _freeze(name, function, keywords, structure, keep_filters)


def _freeze(
    name: str,
    function: Any,
    keywords: Sequence[str],
    structure: Mapping[str, Any],
    keep_filters: bool,
) -> FrozenSignature:
    captures = {i.op.name: external for external, i in function.graph.captures}
    arguments = [t for t in function.inputs if t.op.name not in captures]
    whole = FrozenSignature(
        function.graph.as_graph_def(),
        {
            keyword: tf.TensorSpec(t.shape, t.dtype, t.name)
            for keyword, t in zip(keywords, arguments, strict=True)
        },
        {
            key: (output.name, output.shape)
            for key, output in zip(
                _component_names(structure), function.outputs, strict=True
            )
        },
        structure,
        captures,
    )
    if not whole.outputs and function_library.has_effects(whole.graph_def):
        raise NoFunctionError(
            Reason.NO_OUTPUTS, f"signature {name!r} has no outputs, only side effects"
        )
    try:
        return _with_constants(name, _inline(whole), function, keep_filters)
    except NotConvertedError:
        raise
    except Exception as error:
        raise UserError(
            f"TensorFlow cannot turn the variables of signature {name!r} into "
            f"constants: {first_line(error)}"
        ) from error


def _component_names(structure: Mapping[str, Any]) -> list[str]:
    """One name per output tensor: NAME, or NAME/i if the output has several tensors."""
    names = []
    for name, value in structure.items():
        count = len(tf.nest.flatten(value, expand_composites=True))
        names += [name] if count == 1 else [f"{name}/{i}" for i in range(count)]
    return names


def _inline(whole: FrozenSignature) -> FrozenSignature:
    """The signature with its functions inlined, except those of control flow."""
    inputs = whole.placeholders()
    outputs = whole.fetches()
    graph_def = defaults.settled(copy.deepcopy(whole.graph_def), inputs, outputs)
    function_library.keep_control_flow(graph_def)
    function_library.inline_where_convolutions_are(graph_def)
    for function in graph_def.library.function:
        # Removes an attribute that names equivalent functions for other devices,
        # because it prevents inlining.
        function.attr.pop("api_implements", None)
    if outputs:  # otherwise the graph becomes empty, and the optimizer refuses that
        try:
            graph_def = grappler.optimize(graph_def, inputs, outputs, ["function"])
        except tf.errors.OpError:
            _check_inlining(whole)  # raises if TensorFlow is at fault
            raise
    function_library.keep_biases_apart(graph_def)
    wanted = [*(spec.name for spec in whole.inputs.values()), *outputs]
    graph_def = function_library.pruned(graph_def, wanted)
    # Drops captures that are not used: in a TensorFlow 1 model, each signature captures
    # all variables of the graph.
    names = {node.name for node in graph_def.node}
    captures = {name: t for name, t in whole.captures.items() if name in names}
    return dataclasses.replace(whole, graph_def=graph_def, captures=captures)


def _check_inlining(whole: FrozenSignature) -> None:
    """Raises NotOptimizedError if TensorFlow cannot inline a signature's own graph."""
    inputs, outputs = whole.placeholders(), whole.fetches()
    try:
        grappler.optimize(whole.graph_def, inputs, outputs, ["function"])
    except tf.errors.OpError as error:
        raise NotOptimizedError(
            f"TensorFlow cannot inline the graph's functions: {first_line(error)}"
        ) from error


# Operations that only read a resource (a variable or a table). All other operations may
# write to the resource.
_READS = frozenset(
    ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")
    + ("VarIsInitializedOp", "DestroyResourceOp")
    + ("LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2")
)
# Operations for which TensorFlow can replace an input from a variable by a constant.
_TAKE_CONSTANTS = frozenset(
    ("ReadVariableOp", "ResourceGather", "ResourceGatherNd")
    + function_library.FUNCTION_CALLS
)


def _with_constants(
    name: str, inlined: FrozenSignature, function: Any, keep_filters: bool
) -> FrozenSignature:
    variables = variables_of(function)
    kinds = {  # placeholder -> whether the resource is a variable
        placeholder: placeholder in variables
        for placeholder, tensor in inlined.captures.items()
        if tensor.dtype == tf.resource
    }
    uses = list(function_library.uses(inlined.graph_def, {one: one for one in kinds}))
    changed = [one for one, op, calls in uses if not calls and op not in _READS]
    changes = next((one for one in reversed(changed) if not kinds[one]), None)
    assigned = {one for one in changed if kinds[one]}
    outputs = inlined.fetches()
    needed = function_library.computed_from(inlined.graph_def, outputs)
    for placeholder in changed:
        if placeholder in assigned & needed:
            raise ChangesVariableError(name, variables[placeholder].name)
    left = {one for one, op, _ in uses if kinds[one] and op not in _TAKE_CONSTANTS}
    left |= assigned
    filters = {}
    if keep_filters:
        filters = large_filters(inlined.graph_def, inlined.captures, outputs)
        tables = large_tables(inlined.graph_def, inlined.captures)
        left |= (filters.keys() | tables.keys()) & variables.keys()
    graph_def, _ = convert_to_constants._replace_variables_by_constants(
        Converter(inlined.graph_def, inlined.captures, function, variables, left)
    )
    # TensorFlow drops the control inputs of nodes that read variables. Such an input
    # may be a check of the arguments that must run first, so it is restored.
    function_library.wait_as_before(inlined.graph_def, graph_def)
    function_library.drop_references(graph_def)
    mark_filters(graph_def, filters)
    placeholders = {node.name for node in graph_def.node if node.op == "Placeholder"}
    captures = {n: t for n, t in inlined.captures.items() if n in placeholders}
    mark_variables(graph_def, captures)
    return dataclasses.replace(
        inlined,
        graph_def=graph_def,
        captures=captures,
        changes=changes,
        assigned={one: variables[one].read() for one in sorted(assigned)},
    )


def rebuild(
    frozen: FrozenSignature,
    graph_def: graph_pb2.GraphDef,
    variables: Mapping[str, tf.Tensor] = types.MappingProxyType({}),
) -> Any:
    """Makes a function from a graph that computes the same as the signature `frozen`.

    The function can be a signature of a SavedModel.

    `variables`: additional captures of `graph_def`, which `frozen` does not have, by
    placeholder.
    """
    renamed = copy.deepcopy(graph_def)
    function_library.lower_control_flow(renamed)
    function_library.rename_functions(renamed)
    names = {node.name for node in renamed.node}
    captures = {**frozen.captures, **variables}
    imported = wrap_function.function_from_graph_def(
        renamed,
        [spec.name for spec in frozen.inputs.values()],
        frozen.fetches(),
        captures={name: t for name, t in captures.items() if name in names},
    )

    def signature(*arguments: tf.Tensor) -> dict[str, Any]:
        results = iter(imported(*arguments))
        components = []
        for result, (_, shape) in zip(results, frozen.outputs.values(), strict=True):
            # Sets the shape, because shape inference may find less of it in the
            # rewritten graph.
            result.set_shape(shape)
            components.append(result)
        return tf.nest.pack_sequence_as(
            dict(frozen.structure), components, expand_composites=True
        )

    return tf.function(signature, autograph=False).get_concrete_function(
        *(
            tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in zip(
                _savable_names(frozen), frozen.inputs.values(), strict=True
            )
        )
    )


# Matches input names that TensorFlow can save. TF1 models may have others, such as
# "x:0".
_SAVABLE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-]*")


def _savable_names(frozen: FrozenSignature) -> list[str]:
    folded = [name.lower() for name in frozen.inputs]
    return [
        name
        if _SAVABLE.fullmatch(name) and folded.count(name.lower()) == 1
        else f"ios_tf_input_{i}"
        for i, name in enumerate(frozen.inputs)
    ]
