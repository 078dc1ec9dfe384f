"""Compares the latencies of regions with TensorFlow's latencies of the same nodes.

A region that is not faster is left to TensorFlow. If a graph has several regions, each
is cut out of the graph and called with tensors that the network computes. A single
region is not timed here, because the comparison of the whole network decides. If the
network cannot be called, all regions (also a single one) are timed with random tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from ios_tf.conversion import timing
from ios_tf.conversion.comparison import Timed
from ios_tf.conversion.made_up_inputs import CannotCompareError, Inputs, made_up_inputs
from ios_tf.model import function_library, graph_optimizer, subgraphs
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.graph_optimizer import Collected
from ios_tf.native.names import REGION, SHAPE_OF_WEIGHT
from ios_tf.scheduler import Load


@dataclasses.dataclass(frozen=True)
class RegionLatency(Timed):
    """The latencies of one region, or of several, and of the same nodes in TensorFlow.

    Usually this is one region. Several regions that pass tensors to each other are
    timed together.

    Attributes:
      regions: the numbers of the regions, as in `Collected.blocks`.
      name: the name of the regions in messages.
    """

    regions: tuple[int, ...]
    name: str


def measure(
    frozen: FrozenSignature,
    rewrite: Callable[[], graph_pb2.GraphDef],
    collected: Collected,
    inputs: Mapping[int, Inputs],
    device: str,
) -> list[RegionLatency]:
    """Times the regions of a graph, if there are several.

    Args:
      frozen: the original.
      rewrite: returns the original's graph with schedules.
      collected: the blocks of the original, at any batch size.
      inputs: the inputs of the signature, by batch size or load.
      device: "cpu" or "gpu".
    """
    if len(set(collected.regions.values())) < 2:
        return []
    lowered = graph_optimizer.lowered(frozen, rewrite(), device)
    parts = _parts(frozen, lowered)
    if len(parts) < 2:
        return []
    names = sorted({name for part in parts for name in part.inputs})
    compute = subgraphs.tensors(frozen, frozen.graph_def, names)
    with timing.running(plugin=False, device=device):
        values = {
            load: dict(
                zip(names, compute(*(one[n] for n in frozen.inputs)), strict=True)
            )
            for load, one in inputs.items()
        }
    return [
        _timed(part, frozen, lowered, collected.regions, values, device)
        for part in parts
    ]


def measure_made_up(
    frozen: FrozenSignature,
    rewrite: Callable[[], graph_pb2.GraphDef],
    collected: Collected,
    batch_sizes: Sequence[int],
    device: str,
) -> list[RegionLatency]:
    """Times the regions of a graph that cannot be called, with random tensors.

    Regions that do not accept random tensors are left out. The arguments are as for
    `measure`, with batch sizes or loads instead of inputs.
    """
    lowered = graph_optimizer.lowered(frozen, rewrite(), device)
    measured = []
    for part in _parts(frozen, lowered):
        tensors = subgraphs.tensors(frozen, frozen.graph_def, part.inputs).outputs
        specs = {
            name: tf.TensorSpec(tensor.shape, tensor.dtype)
            for name, tensor in zip(part.inputs, tensors, strict=True)
        }
        # Errors are ignored, because the shapes of random tensors may contradict each
        # other: it is not known how the shapes of a region's inputs depend on each
        # other.
        with contextlib.suppress(CannotCompareError, tf.errors.OpError, ValueError):
            values = {load: made_up_inputs(specs, int(load)) for load in batch_sizes}
            measured.append(
                _timed(part, frozen, lowered, collected.regions, values, device)
            )
    return measured


@dataclasses.dataclass(frozen=True)
class _Part:
    """A part of a graph that has the same inputs and outputs in the lowered graph.

    Attributes:
      regions: names of the part's region nodes, which pass tensors to each other.
      inputs: names of the tensors that the part reads. Both graphs have these tensors,
        except those that only the original reads, such as the shape of another tensor.
      outputs: (name in the lowered graph, name in the original) of each result.
    """

    regions: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]


def _parts(frozen: FrozenSignature, lowered: graph_pb2.GraphDef) -> list[_Part]:
    """Returns the parts of a graph.

    Regions that pass tensors to each other are in one part.
    """
    originals = {node.name: node for node in frozen.graph_def.node}
    nodes = {node.name: node for node in lowered.node}
    order = [node.name for node in lowered.node if node.op == REGION]
    inputs: dict[str, set[str]] = {region: set() for region in order}
    linked: dict[str, set[str]] = {region: set() for region in order}
    for region in order:
        # Follows nodes that only the lowered graph has, such as a Transpose, up to
        # nodes that both graphs have.
        left = list(nodes[region].input)
        while left:
            tensor = left.pop()
            node = nodes[function_library.node_of(tensor)]
            # Weights are not inputs of the part, because the part reads the weights'
            # variables itself, as the network does.
            if tensor[0] == "^" or SHAPE_OF_WEIGHT in node.attr:
                continue
            if node.op == REGION:
                linked[region].add(node.name)
                linked[node.name].add(region)
            elif subgraphs.is_common(node, originals):
                inputs[region].add(subgraphs.full_name(tensor))
            else:
                left += node.input
    results = subgraphs.results_of_regions(frozen, lowered)
    parts = []
    for first in order:
        together = function_library.reachable([first], linked)
        regions = [region for region in order if region in together]
        outputs = dict.fromkeys(
            (one, truth) for region, one, truth in results if region in together
        )
        if first != regions[0] or not outputs:
            continue
        read = set().union(*(inputs[region] for region in regions))
        read |= subgraphs.other_inputs(frozen, read, [truth for _, truth in outputs])
        parts.append(_Part(tuple(regions), tuple(sorted(read)), tuple(outputs)))
    return parts


def _timed(
    part: _Part,
    frozen: FrozenSignature,
    lowered: graph_pb2.GraphDef,
    number: Mapping[str, int],
    values: Mapping[int, Mapping[str, tf.Tensor]],
    device: str,
) -> RegionLatency:
    """Measures the latencies of a part: in TensorFlow, and with its regions.

    `number` has the number of each operator's region, and `values` has the values of
    the part's inputs, by batch size or load.
    """
    ones, truths = zip(*part.outputs, strict=True)
    times = {}
    for load, tensors in values.items():
        arguments = [tensors[name] for name in part.inputs]
        specs = {name: _spec(tensors[name]) for name in part.inputs}
        calls = [
            subgraphs.between(frozen, frozen.graph_def, specs, truths),
            subgraphs.between(frozen, lowered, specs, ones),
        ]
        times[load] = timing.latencies(
            [timing.turn(False, device, call, *arguments) for call in calls],
            Load.of(load).callers,
        )
    regions = {
        number[operator]
        for node in lowered.node
        if node.name in part.regions
        for operator in graph_optimizer.operators_of(graph_optimizer.program_of(node))
        if operator in number
    }
    return RegionLatency(
        tuple(sorted(regions)),
        graph_optimizer.describe_region(lowered, part.regions[0]),
        latencies=times,
    )


def _spec(value: tf.Tensor) -> tf.TensorSpec:
    shape = value.shape.as_list()
    if len(shape) < 2:  # the tensor may be a shape, whose length must be known
        return tf.TensorSpec(shape, value.dtype)
    return tf.TensorSpec([None, *shape[1:]], value.dtype)
