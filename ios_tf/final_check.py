"""The final check: a whole network with its schedules against itself sequential.

Blocks are searched one by one, with their inputs in a layout and a cache state of
their own; what counts is the network. A converted model is never slower than its own
sequential schedule.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping

from tensorflow.core.framework import graph_pb2

from ios_tf import optimizer
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.graphs import FrozenSignature
from ios_tf.optimizer import Collected
from ios_tf.scheduler import Schedule, sequential_schedule


@dataclasses.dataclass(frozen=True)
class Checked:
    """The graph to keep.

    Attributes:
      graph_def: with its schedules in attributes.
      schedules: those of its blocks, by signature.
      sequential_ms, scheduled_ms: latencies of all regions together.
      fell_back: the schedules were slower than the sequential ones.
    """

    graph_def: graph_pb2.GraphDef
    schedules: Mapping[str, Schedule]
    sequential_ms: float
    scheduled_ms: float
    fell_back: bool


def check(
    frozen: FrozenSignature,
    collected: Collected,
    schedules: Mapping[str, Schedule],
    batch_size: int,
    cost_model: MeasuredCostModel,
    may_fall_back: bool,
) -> Checked:
    """Rewrites a graph with `schedules`, or sequentially where that is faster."""
    sequential = {
        signature: sequential_schedule(problem)
        for signature, problem in collected.problems.items()
    }
    found = {signature: schedules[signature] for signature in collected.problems}
    choices = [sequential]
    if any(found[s].stages != sequential[s].stages for s in found):
        choices.append(found)
    device = cost_model.device.kind
    graphs = [rewrite(frozen, choice, batch_size, device) for choice in choices]
    programs = [
        optimizer.lowered_programs(
            dataclasses.replace(frozen, graph_def=graph), batch_size, device
        )
        for graph in graphs
    ]
    latencies = cost_model.compare_programs(programs)
    fell_back = may_fall_back and latencies[-1] > latencies[0]
    kept = 0 if fell_back else -1
    return Checked(
        graphs[kept],
        sequential if fell_back else found,
        latencies[0],
        latencies[kept],
        fell_back,
    )


def rewrite(
    frozen: FrozenSignature,
    schedules: Mapping[str, Schedule],
    batch_size: int,
    device: str = "cpu",
) -> graph_pb2.GraphDef:
    """The signature's graph with these schedules, by signature of their blocks."""
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        for signature, schedule in schedules.items():
            path = os.path.join(directory, f"{signature}.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(schedule.to_json())
        return optimizer.rewrite(frozen, batch_size, directory, device)
