"""Simulated cost model: an analytic device, for tests and for exploring without one.

The latency of a stage is

    stage overhead + max(longest lane, work of the whole stage at full device speed)

An operator alone takes a launch plus its roofline time (arithmetic or memory, the
longer) divided by its occupancy: the part of the device that its output elements
fill. Groups go to lanes longest first. The second term keeps lanes from sharing more
than the device has. A merge is one operator that reads its input once and computes
all output elements with the kernel of the costliest part.

It is a model of why inter-operator scheduling pays, not of a particular machine.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Iterable

from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage, Strategy

_BYTES_PER_ELEMENT = {"float16": 2, "bfloat16": 2}


@dataclasses.dataclass(frozen=True)
class SimulatedDevice:
    """What the simulated latencies depend on.

    Attributes:
      flops_per_ms: arithmetic the full device does.
      bytes_per_ms: memory traffic the full device does.
      full_elements: output elements of an operator that fill the device.
      launch_ms: fixed cost of an operator.
      stage_ms: fixed cost of a stage's barrier.
      lanes: groups that run side by side.
    """

    flops_per_ms: float = 10e9
    bytes_per_ms: float = 1e9
    full_elements: int = 1_000_000
    launch_ms: float = 0.005
    stage_ms: float = 0.005
    lanes: int = 8


class SimulatedCostModel:
    """Deterministic stage latencies of a simulated device."""

    def __init__(self, device: SimulatedDevice = SimulatedDevice()) -> None:
        self.device = device

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        if stage.strategy is Strategy.MERGE:
            (group,) = stage.groups
            works = [[self._merged(problem, group)]]
        else:
            works = [[self._work(problem, op) for op in ops] for ops in stage.groups]
        lengths = [sum(work.alone_ms for work in group) for group in works]
        lanes = [0.0] * self.device.lanes
        for group_ms in sorted(lengths, reverse=True):
            heapq.heapreplace(lanes, lanes[0] + group_ms)
        full_ms = sum(work.full_ms for group in works for work in group)
        return self.device.stage_ms + max(max(lanes), full_ms)

    def _work(self, problem: Problem, op: int) -> _Work:
        elements = math.prod(problem.shapes[op])
        return self._roofline(
            problem, problem.flops[op], self._read(problem, op) + elements, elements
        )

    def _merged(self, problem: Problem, group: Iterable[int]) -> _Work:
        elements = {op: math.prod(problem.shapes[op]) for op in group}
        total = sum(elements.values())
        flops = total * max(problem.flops[op] / elements[op] for op in elements)
        read = max(self._read(problem, op) for op in elements)
        return self._roofline(problem, flops, read + total, total)

    def _read(self, problem: Problem, op: int) -> int:
        block_inputs = problem.block["inputs"]
        return sum(
            math.prod(problem.shapes[ref] if ref >= 0 else block_inputs[-1 - ref])
            for ref in problem.inputs[op]
        )

    def _roofline(
        self, problem: Problem, flops: float, traffic: int, elements: int
    ) -> _Work:
        device = self.device
        traffic_bytes = traffic * _BYTES_PER_ELEMENT.get(problem.dtype, 4)
        full_ms = max(flops / device.flops_per_ms, traffic_bytes / device.bytes_per_ms)
        occupancy = min(1.0, elements / device.full_elements)
        return _Work(full_ms, device.launch_ms + full_ms / occupancy)


@dataclasses.dataclass(frozen=True)
class _Work:
    full_ms: float  # at the full speed of the device
    alone_ms: float  # by itself, with its launch
