"""The final check: a whole network with its schedules against itself sequential.

Blocks are searched one by one, with their inputs in a layout and a cache state of
their own; what counts is the network. A converted model is never slower than its own
sequential schedule.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow.core.framework import graph_pb2

from ios_tf import optimizer
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.graphs import FrozenSignature
from ios_tf.optimizer import Collected
from ios_tf.scheduler import Schedule, sequential_schedule


@dataclasses.dataclass(frozen=True)
class CheckedSize:
    """What was measured at one batch size.

    Attributes:
      schedules: those that are kept, by signature of their blocks.
      sequential_ms, scheduled_ms: latencies of all regions together.
      fell_back: the schedules were slower than the sequential ones.
    """

    schedules: Mapping[str, Schedule]
    sequential_ms: float
    scheduled_ms: float
    fell_back: bool


@dataclasses.dataclass(frozen=True)
class Checked:
    """The graph to keep, with its schedules in attributes, and why, by batch size."""

    graph_def: graph_pb2.GraphDef
    sizes: Mapping[int, CheckedSize]


def check(
    frozen: FrozenSignature,
    collected: Mapping[int, Collected],
    schedules: Mapping[str, Schedule],
    cost_model: MeasuredCostModel,
    may_fall_back: bool,
) -> Checked:
    """Rewrites a graph with `schedules`, or sequentially where that is faster.

    Args:
      frozen: the graph.
      collected: what was collected from it, by batch size.
      schedules: by signature, those of all blocks.
      cost_model: what measures.
      may_fall_back: false keeps `schedules` even where they are slower.
    """
    problems = {s: p for c in collected.values() for s, p in c.problems.items()}
    sequential = {s: sequential_schedule(problem) for s, problem in problems.items()}
    found = {signature: schedules[signature] for signature in problems}
    choices = [sequential]
    if any(found[s].stages != sequential[s].stages for s in found):
        choices.append(found)
    device = cost_model.device.kind
    batch_sizes = list(collected)
    graphs = [rewrite(frozen, choice, batch_sizes, device) for choice in choices]
    sizes = {}
    for batch_size, of_size in collected.items():
        latencies = cost_model.compare_programs(
            [
                _programs(dataclasses.replace(frozen, graph_def=g), batch_size, device)
                for g in graphs
            ]
        )
        cost_model.release()
        fell_back = may_fall_back and latencies[-1] > latencies[0]
        kept = sequential if fell_back else found
        sizes[batch_size] = CheckedSize(
            {signature: kept[signature] for signature in of_size.problems},
            latencies[0],
            latencies[0 if fell_back else -1],
            fell_back,
        )
    if len({size.fell_back for size in sizes.values()}) == 1:
        graph = graphs[0 if sizes[batch_sizes[0]].fell_back else -1]
    else:
        kept = {s: k for size in sizes.values() for s, k in size.schedules.items()}
        graph = rewrite(frozen, kept, batch_sizes, device)
    return Checked(graph, sizes)


def rewrite(
    frozen: FrozenSignature,
    schedules: Mapping[str, Schedule],
    batch_sizes: Sequence[int],
    device: str = "cpu",
) -> graph_pb2.GraphDef:
    """The signature's graph with these schedules, by signature of their blocks."""
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        for signature, schedule in schedules.items():
            path = os.path.join(directory, f"{signature}.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(schedule.to_json())
        return optimizer.rewrite(frozen, batch_sizes, directory, device)


def _programs(
    frozen: FrozenSignature, batch_size: int, device: str
) -> list[dict[str, Any]]:
    """{"block", "schedule"} of every region at one of the batch sizes of a graph."""
    programs = []
    for program in optimizer.lowered_programs(frozen, batch_size, device):
        # What the region sees: not every tensor need have one entry per image.
        size = program["block"]["inputs"][0][0]
        (schedule,) = (
            entry["schedule"]
            for entry in program["schedules"]
            if entry["batch_size"] == size
        )
        programs.append({"block": program["block"], "schedule": schedule})
    return programs
