"""Simulated cost model: latencies of stages on an analytic device.

The latency of a stage is

    fork and join, if it has several groups + longest lane + time lost to other lanes

The time of a lane is the sum of its kernels' launches and their times alone. Groups are
assigned to lanes, the longest first. The other lanes slow down the longest lane little
if their CTAs find free multiprocessors and bandwidth. They cost at least the time of
their work at the full device's speed; see `SimulatedDevice.contention`. A merge is one
operator.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.simulated_gpu.device import SimulatedDevice
from benchmarks.simulated_gpu.kernels import Kernel, kernels_of, merged_kernel
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage, Strategy


class SimulatedCostModel:
    """Deterministic stage latencies of a simulated device."""

    def __init__(self, device: SimulatedDevice) -> None:
        self.device = device
        self._loads: dict[str, list[_Load]] = {}  # by block signature

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        if stage.strategy is Strategy.MERGE:
            (group,) = stage.groups
            return self._load([merged_kernel(problem, group, self.device)]).lane_ms
        of_block = self._of_block(problem)
        groups = [_sum(of_block[op] for op in group) for group in stage.groups]
        if len(groups) == 1:
            return groups[0].lane_ms
        longest, *others = sorted(_on_lanes(groups, self.device.lanes), reverse=True)
        beside_ms = self._beside_ms(_sum(others))
        return self.device.stage_ms + longest.lane_ms + beside_ms

    def _beside_ms(self, others: _Load) -> float:
        """Returns the ms that the other lanes add to the longest lane's time."""
        full_ms = max(others.compute_ms, others.bytes_ms)
        if not full_ms:
            return 0.0
        return float(full_ms * (others.alone_ms / full_ms) ** self.device.contention)

    def _of_block(self, problem: Problem) -> list[_Load]:
        if problem.signature not in self._loads:
            self._loads[problem.signature] = [
                self._load(kernels_of(problem, op, self.device))
                for op in range(len(problem))
            ]
        return self._loads[problem.signature]

    def _load(self, kernels: Sequence[Kernel]) -> _Load:
        alone_ms, compute_ms, bytes_ms = map(
            sum, zip(*kernels, (0.0,) * 3, strict=True)
        )
        launches_ms = len(kernels) * self.device.launch_ms
        return _Load(launches_ms + alone_ms, alone_ms, compute_ms, bytes_ms)


class _Load(NamedTuple):
    """The total time in ms of consecutive kernels; see Kernel.

    Attributes:
      lane_ms: time of a lane that has the device to itself, including launches.
    """

    lane_ms: float
    alone_ms: float
    compute_ms: float
    bytes_ms: float


def _sum(loads: Iterable[_Load]) -> _Load:
    return _Load(*map(sum, zip(*loads, strict=True)))


def _on_lanes(groups: Sequence[_Load], lanes: int) -> Sequence[_Load]:
    """Assigns groups to the least loaded lane, longest first; returns lane loads."""
    if len(groups) <= lanes:
        return groups
    loads = [_Load(0.0, 0.0, 0.0, 0.0)] * lanes
    for group in sorted(groups, reverse=True):
        heapq.heapreplace(loads, _sum((loads[0], group)))
    return loads
