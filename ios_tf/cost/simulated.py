"""Simulated cost model: an analytic device, for tests and for exploring without one.

The latency of a stage is

    stage overhead + max(longest lane, work of the whole stage at full device speed)

An operator alone takes a launch plus its roofline time (arithmetic or memory, the
longer) divided by its occupancy: the part of the multiprocessors' time that its tiles
of output elements fill, counted in waves. Groups go to lanes longest first. The second
term keeps lanes from sharing more than the device has. A merge is one operator that
reads its input once and computes all output elements with the kernel of the costliest
part.

It is a model of why inter-operator scheduling pays. Its devices have the numbers of
data sheets; latencies that matter are measured.
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
    """A device by the parameters that simulated latencies depend on.

    Attributes:
      flops_per_ms: operations (as `Problem.flops` counts them) of the full device, in
        32 bits; in 16 bits there are twice as many.
      bytes_per_ms: memory traffic of the full device.
      multiprocessors: each works on one tile at a time.
      tile: output elements that fill a multiprocessor.
      launch_ms: fixed cost of an operator.
      stage_ms: fixed cost of a stage's barrier.
      lanes: groups that run side by side.
    """

    flops_per_ms: float = 10e9
    bytes_per_ms: float = 1e9
    multiprocessors: int = 100
    tile: int = 10_000
    launch_ms: float = 0.005
    stage_ms: float = 0.005
    lanes: int = 8


# Multiply-adds and bytes at what large convolutions reach of the data sheet, about
# two thirds and four fifths; launches from a CUDA graph.
DEVICES = {
    "h200": SimulatedDevice(165e9, 3.84e9, 132, 8192, 0.002, 0.004, 16),  # TF32
    "a100": SimulatedDevice(52e9, 1.6e9, 108, 8192, 0.0025, 0.005, 16),  # TF32
    "v100": SimulatedDevice(5.2e9, 0.72e9, 80, 8192, 0.004, 0.006, 16),
    "k80": SimulatedDevice(1.4e9, 0.19e9, 13, 8192, 0.008, 0.01, 16),
}


class SimulatedCostModel:
    """Deterministic stage latencies of a simulated device. A LaneCostModel."""

    lanes_divide_device = False

    def __init__(self, device: SimulatedDevice = SimulatedDevice()) -> None:
        self.device = device
        self.lanes = device.lanes
        self._works: dict[str, list[_Work]] = {}  # block signature -> its operators'

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], lanes: int
    ) -> float:
        """The latency in ms of a group alone; every lane has the whole device."""
        return self.stage_latency(problem, Stage(Strategy.CONCURRENT, (group,)))

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        if stage.strategy is Strategy.MERGE:
            (group,) = stage.groups
            works = [[self._merged(problem, group)]]
        else:
            of_block = self._of_block(problem)
            works = [[of_block[op] for op in group] for group in stage.groups]
        lengths = [sum(work.alone_ms for work in group) for group in works]
        lanes = [0.0] * self.device.lanes
        for group_ms in sorted(lengths, reverse=True):
            heapq.heapreplace(lanes, lanes[0] + group_ms)
        full_ms = sum(work.full_ms for group in works for work in group)
        return self.device.stage_ms + max(max(lanes), full_ms)

    def _of_block(self, problem: Problem) -> list[_Work]:
        if problem.signature not in self._works:
            self._works[problem.signature] = [
                self._work(problem, op) for op in range(len(problem))
            ]
        return self._works[problem.signature]

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
        size = _BYTES_PER_ELEMENT.get(problem.dtype, 4)
        full_ms = max(
            flops * size / 4 / device.flops_per_ms, traffic * size / device.bytes_per_ms
        )
        tiles = math.ceil(elements / device.tile)
        waves = math.ceil(tiles / device.multiprocessors)
        occupancy = tiles / (waves * device.multiprocessors)
        return _Work(full_ms, device.launch_ms + full_ms / occupancy)


@dataclasses.dataclass(frozen=True)
class _Work:
    full_ms: float  # at the full speed of the device
    alone_ms: float  # by itself, with its launch
