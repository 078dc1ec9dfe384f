"""Native operations on a frozen signature: finds blocks and writes schedules."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from ios_tf.errors import first_line
from ios_tf.model import frozen_graphs
from ios_tf.model.constants import with_single_factors
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.not_converted import NotOptimizedError
from ios_tf.native import grappler
from ios_tf.native.graph import Graph
from ios_tf.native.names import ANNOTATIONS, MERGED, NO_SHAPES, REGION
from ios_tf.scheduler import Load, Problem, Schedule, document


@dataclasses.dataclass(frozen=True)
class Collected:
    """The blocks that the optimizer found in a graph.

    Attributes:
      problems: maps signatures to the blocks to schedule. Equal blocks have one
          problem.
      blocks: {"signature", "names", "region"} of every block, in graph order.
      report: the optimizer's counts: operators, regions, nodes left to TensorFlow.
    """

    problems: Mapping[str, Problem]
    blocks: Sequence[Mapping[str, Any]]
    report: Mapping[str, Any]

    @property
    def regions(self) -> dict[str, int]:
        """The number of each operator's region, by the operator's name."""
        return {
            name: block["region"] for block in self.blocks for name in block["names"]
        }

    @property
    def bound_sizes(self) -> list[tuple[int, int, int]]:
        """Input sizes on both sides of each size at which the computation changes.

        Each element is (batch, height, width).
        """
        return [(n, h, w) for n, h, w in self.report.get("bound_sizes", ())]

    @property
    def image_size(self) -> tuple[int, int] | None:
        """The height and width of images that the graph requires.

        None if the inputs have a fixed size, or if the graph accepts the size that was
        tried first.
        """
        size = self.report.get("image_size")
        return None if size is None else (size[0], size[1])


def is_converted(frozen: FrozenSignature) -> bool:
    """Whether the graph carries schedules."""
    return any(ANNOTATIONS[0] in node.attr for node in frozen.graph_def.node)


def fold_constants(frozen: FrozenSignature) -> FrozenSignature:
    """The signature with its constant subgraphs evaluated.

    Keras writes a batch norm as arithmetic with variables. Folding turns it into one
    multiplication and one addition, which the native importer recognises.
    """
    graph_def = with_single_factors(frozen.graph_def, frozen.fetches())
    prepared = dataclasses.replace(frozen, graph_def=graph_def)
    try:
        graph_def = _fold(prepared)
    except tf.errors.OpError:
        check_folding(frozen)  # raises if TensorFlow is at fault
        raise
    return dataclasses.replace(frozen, graph_def=graph_def)


def check_folding(frozen: FrozenSignature) -> None:
    """Tries TensorFlow's constant folding on a signature's own graph.

    Raises:
      NotOptimizedError: folding fails, or TensorFlow cannot import the folded graph
        although it can import the original one.
    """
    # TensorFlow raises many kinds of errors for graphs that it cannot import.
    try:
        frozen_graphs.rebuild(frozen, frozen.graph_def)
    except Exception:
        return
    try:
        frozen_graphs.rebuild(frozen, _fold(frozen))
    except Exception as error:
        raise NotOptimizedError(
            "TensorFlow's constant folding fails for the original graph "
            f"({first_line(error)})"
        ) from error


def check_shapes(frozen: FrozenSignature, batch_sizes: Sequence[int]) -> None:
    """Lets TensorFlow infer the shapes of a signature's own graph.

    Raises:
      NotOptimizedError: TensorFlow cannot infer them.
    """
    graph_def = _fold(frozen)
    for size in batch_sizes:
        collect(dataclasses.replace(frozen, graph_def=graph_def), size)


def collect(frozen: FrozenSignature, batch_size: int, device: str = "cpu") -> Collected:
    """Finds the blocks of a graph.

    Args:
      frozen: the signature.
      batch_size: replaces an unknown leading dimension of the inputs. A `Load` also
        has the number of callers to schedule for.
      device: "cpu" or "gpu". Operators that cannot run there are left to TensorFlow.

    Raises:
      NotOptimizedError: TensorFlow cannot infer the graph's shapes.
    """
    try:
        graph, load = frozen.without_weights.opened, Load.of(batch_size)
        data = graph.blocks(int(load), device, load.callers, frozen.precision)
    except tf.errors.OpError as error:
        if NO_SHAPES.encode() not in error.experimental_payloads:
            raise
        raise NotOptimizedError(
            "TensorFlow's inference of shapes fails for the graph "
            f"({first_line(error)})"
        ) from error
    problems = [Problem.from_json(problem) for problem in data["problems"]]
    return Collected(
        {problem.signature: problem for problem in problems},
        data["blocks"],
        data.get("report", {}),
    )


def rewrite(
    frozen: FrozenSignature,
    schedules: Mapping[str, Schedule],
    batch_sizes: Sequence[int],
    device: str = "cpu",
    left: Collection[int] = (),
    materialise_merges: bool = True,
) -> graph_pb2.GraphDef:
    """The signature's graph with schedules in node attributes and merged convolutions.

    Args:
      frozen: the signature that `collect` was called with, or its `without_weights`.
      schedules: the schedules by block signature.
      batch_sizes: one or more batch sizes or loads that `collect` was called with.
      device: the device that `collect` was called with.
      left: the numbers of the regions that are left to TensorFlow.
      materialise_merges: whether convolutions that all loads merge become one
        convolution of the graph. Otherwise only the engine merges them.
    """
    texts = {signature: schedule.to_json() for signature, schedule in schedules.items()}
    loads = [(int(size), Load.of(size).callers) for size in batch_sizes]
    return _opened(frozen).rewritten(
        loads, device, texts, left, materialise_merges, frozen.precision
    )


def lowered(
    frozen: FrozenSignature,
    graph_def: graph_pb2.GraphDef | None = None,
    device: str = "cpu",
) -> graph_pb2.GraphDef:
    """The graph that runs with the plugin: each region is one node.

    `graph_def`: the graph with schedules, if this is not the graph of `frozen`.
    """
    if graph_def is not None:
        frozen = dataclasses.replace(frozen, graph_def=graph_def)
    return _opened(frozen).lowered(1, device)


def lowered_programs(
    frozen: FrozenSignature, batch_size: int = 1, device: str = "cpu"
) -> list[dict[str, Any]]:
    """Returns "block" and "schedules" of each region that the engine would run.

    Each schedule is an object {"batch_size": …, "callers": …, "schedule": …}
    (cc/tensorflow/ops/program_json.h).
    """
    return [
        program_of(node)
        for node in frozen.without_weights.opened.lowered(batch_size, device).node
        if node.op == REGION
    ]


def describe_region(graph_def: graph_pb2.GraphDef, name: str) -> str:
    """Describes a region of a lowered graph by its number and operators."""
    regions = [node for node in graph_def.node if node.op == REGION]
    (number,) = (i for i, node in enumerate(regions, 1) if node.name == name)
    names = [
        operator["name"]
        for operator in program_of(regions[number - 1])["block"]["operators"]
    ]
    return (
        f"region {number} of {len(regions)} ({len(names)} operators, from {names[0]} "
        f"to {names[-1]})"
    )


def program_of(node: node_def_pb2.NodeDef) -> dict[str, Any]:
    """The program of a region of a lowered graph."""
    # The program is parsed with limits, because it may come from an untrusted model.
    data = node.attr["program"].s
    return document.parse(data, f"the program of {node.name}", len(data))


def operators_of(program: Mapping[str, Any]) -> list[str]:
    """The names of a program's operators.

    A merged convolution has the name of its first part.
    """
    operators = program["block"]["operators"]
    return [operator["name"].partition(MERGED)[0] for operator in operators]


def _opened(frozen: FrozenSignature) -> Graph:
    """Returns the graph on the native side. A graph without weights stays open."""
    return frozen.opened if frozen.is_light else frozen.open()


def _fold(frozen: FrozenSignature) -> graph_pb2.GraphDef:
    return grappler.optimize(
        frozen.graph_def, frozen.placeholders(), frozen.fetches(), ["constfold"]
    )
