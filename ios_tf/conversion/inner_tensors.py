"""Compares tensors inside of a network: the results of regions, and logits.

An output hides a mistake if it saturates, as a softmax does, or hardly depends on the
input. The tensors from which the output is computed reveal the mistake.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from ios_tf.conversion import timing
from ios_tf.conversion.made_up_inputs import Inputs, rounded_inputs
from ios_tf.conversion.output_differences import (
    allowed_difference,
    judged_by_value,
    noise_of,
    tolerance,
)
from ios_tf.differences import relative_difference, spread
from ios_tf.model import function_library, graph_optimizer, subgraphs
from ios_tf.model.frozen_graphs import FrozenSignature

# Operations whose output may hide a difference of their input. Their inputs are
# compared only if no other layer follows. Elsewhere there may be hundreds of such
# operations, for example the Sigmoid of each Swish, and the result of a region that
# contains them shows the difference.
_SATURATING = (
    "Softmax",
    "LogSoftmax",
    "Sigmoid",
    "Tanh",
    "ArgMax",
    "TopKV2",
    "CombinedNonMaxSuppression",
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
)

_LAYERS = (*function_library.CONVOLUTIONS, "MatMul")
# Prefix of the keys of logits that are added to a signature's outputs.
_LOGITS = "logits of "


@dataclasses.dataclass(frozen=True)
class InnerTensor:
    """A tensor that the original and the converted graph both compute.

    Attributes:
      name: its name in messages.
      is_region: whether it is the result of a region.
      difference: the difference between the graphs, relative to the spread.
      allowed: the largest difference that rounding explains.
      moves: whether the tensor depends on the network's input.
      by_itself: the difference and the allowed difference if the tensor is computed
        from the original's tensors before it. This excludes rounding errors that
        earlier layers have amplified. None if this was not necessary.
    """

    name: str
    is_region: bool
    difference: float
    allowed: float
    moves: bool
    by_itself: tuple[float, float] | None = None

    @property
    def differs(self) -> bool:
        if self.by_itself and self.by_itself[0] <= self.by_itself[1]:
            return False
        return self.difference > self.allowed


def compare(
    frozen: FrozenSignature,
    graph_def: graph_pb2.GraphDef,
    inputs: Inputs,
    others: Inputs,
    device: str,
) -> list[InnerTensor]:
    """Compares the results of regions, and the inputs of saturating operators.

    Args:
      frozen: the original.
      graph_def: the original's graph with schedules.
      inputs, others: arguments of the same shapes with different values, which show how
        much a tensor depends on the input.
      device: "cpu" or "gpu".
    """
    # The logits become outputs of the signature, because a region that contains the
    # softmax would otherwise not return them.
    saturating = _last_saturating(frozen)
    frozen = with_logits(frozen)
    lowered = graph_optimizer.lowered(frozen, graph_def, device)
    pairs = _pairs(frozen, lowered, saturating)
    if not pairs:
        return []
    found = subgraphs.tensors(frozen, lowered, [one for _, one, _ in pairs])
    expected = subgraphs.tensors(frozen, frozen.graph_def, [one for _, _, one in pairs])
    rounded = rounded_inputs(inputs) or inputs
    with timing.running(plugin=False, device=device):
        values = [
            found(*(inputs[name] for name in frozen.inputs)),
            *(
                expected(*(given[name] for name in frozen.inputs))
                for given in (inputs, rounded, others)
            ),
        ]
    exact = tolerance(frozen, device)
    known = {spec.name: inputs[name] for name, spec in frozen.inputs.items()}
    known |= {one: truth for (_, one, _), truth in zip(pairs, values[1], strict=True)}
    compared = []
    for (region, one, _), *tensors in zip(pairs, *values, strict=True):
        if not tensors[1].dtype.is_floating:
            continue
        ours, truth, near, other = (tensor.numpy() for tensor in tensors)
        moved = spread(truth, other)
        scale = None if judged_by_value(exact) else moved or None
        name = f"the tensor {one}"
        if region:
            name = graph_optimizer.describe_region(lowered, region)
        difference = relative_difference(ours, truth, scale)
        allowed = allowed_difference(exact, noise_of(near, truth, scale))
        by_itself = None
        if difference > allowed:
            alone, near = _from_originals(frozen, lowered, one, known, device)
            by_itself = (
                relative_difference(alone, truth, scale),
                allowed_difference(exact, noise_of(near, alone, scale)),
            )
        moves = moved is None or moved > 0
        compared.append(
            InnerTensor(name, bool(region), difference, allowed, moves, by_itself)
        )
    return compared


def _from_originals(
    frozen: FrozenSignature,
    lowered: graph_pb2.GraphDef,
    name: str,
    known: Mapping[str, tf.Tensor],
    device: str,
) -> list[np.ndarray]:
    """Computes a tensor of a lowered graph from the nearest tensors of the original.

    So differences do not add up over the layers of a network. `known` has values of
    the original by the names of tensors.

    Returns:
      The tensor, and the tensor for values that are changed a little.
    """
    given = {key: known[key] for key in subgraphs.sources(lowered, name, known)}
    specs = {
        key: tf.TensorSpec(value.shape, value.dtype) for key, value in given.items()
    }
    function = subgraphs.between(frozen, lowered, specs, [name])
    rounded = rounded_inputs(given) or given
    with timing.running(plugin=False, device=device):
        return [function(*values.values())[0].numpy() for values in (given, rounded)]


def worst(tensors: Sequence[InnerTensor]) -> InnerTensor | None:
    """Returns the first tensor that differs too much, or else the most different."""
    differing = (one for one in tensors if one.differs)
    largest = max(tensors, key=lambda one: one.difference, default=None)
    return next(differing, largest)


def with_logits(frozen: FrozenSignature) -> FrozenSignature:
    """The signature with the inputs of saturating nodes as additional outputs."""
    saturating = _last_saturating(frozen)
    logits = dict.fromkeys(
        subgraphs.full_name(node.input[0])
        for node in frozen.graph_def.node
        if node.name in saturating
    )
    structure = next(iter(frozen.outputs.values()))[1]
    outputs = dict(frozen.outputs)
    for name in logits:
        outputs[_LOGITS + name] = (name, structure)
    return dataclasses.replace(frozen, outputs=outputs)


def _last_saturating(frozen: FrozenSignature) -> set[str]:
    """The saturating nodes between the last layers and the outputs."""
    outputs = [name for name, _ in frozen.outputs.values()]
    reached = function_library.computed_from(frozen.graph_def, outputs, _LAYERS)
    return {
        node.name
        for node in frozen.graph_def.node
        if node.op in _SATURATING and node.name in reached
    }


def _pairs(
    frozen: FrozenSignature, lowered: graph_pb2.GraphDef, saturating: Container[str]
) -> list[tuple[str, str, str]]:
    """Returns the tensors to compare.

    Each element is (region or "", tensor of the lowered graph, tensor of the original).
    """
    results = subgraphs.results_of_regions(frozen, lowered)
    originals: Mapping[str, tf.compat.v1.NodeDef] = {
        node.name: node for node in frozen.graph_def.node
    }
    known = {truth for _, _, truth in results}
    kept = {node.name for node in lowered.node}
    logits = [
        ("", subgraphs.full_name(node.input[0]), subgraphs.full_name(before.input[0]))
        for node in lowered.node
        if node.name in saturating and subgraphs.is_common(node, originals)
        for before in [originals[node.name]]
    ]
    logits += [
        ("", name, name)
        for key, (name, _) in frozen.outputs.items()
        if key.startswith(_LOGITS) and name.partition(":")[0] in kept
    ]
    others = dict.fromkeys(pair for pair in logits if pair[2] not in known)
    return [*results, *others]
