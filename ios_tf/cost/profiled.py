"""The profiled cost model: stages run on the engine's C API, without TensorFlow."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from ios_tf import engine
from ios_tf.cost.cost_model import SampledCostModel
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Schedule, Stage, Strategy


class ProfiledCostModel(SampledCostModel):
    """Latencies of stages on a device, in milliseconds. A LaneCostModel.

    Args:
      device: "cpu", "cuda", … (cc/engine/backend.h, GetBackend).
      warmup, number, repeat: unmeasured runs, runs per measurement, measurements; the
        median counts.

    Attributes:
      lanes: the most lanes the device has.
      measurements: how many candidates have been measured.
    """

    def __init__(self, device: str, warmup: int, number: int, repeat: int) -> None:
        self._device = device
        self._how = {"warmup": warmup, "number": number, "repeat": repeat}
        self._profilers: dict[str, engine.Profiler] = {}
        self.lanes = engine.lane_count(device)
        self.measurements = 0

    def stage_latencies(self, problem: Problem, stage: Stage) -> list[float]:
        """Latencies of one stage in milliseconds, `repeat` of them."""
        self.measurements += 1
        return self._measure(problem, [[stage]])[0]

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], lanes: int
    ) -> float:
        """The latency in ms of a group alone, on one of so many lanes."""
        self.measurements += 1
        stage = Stage(Strategy.CONCURRENT, (group,))
        return statistics.median(self._measure(problem, [[stage]], lanes)[0])

    def release(self) -> None:
        """Frees what the device holds of the blocks measured so far."""
        self._profilers.clear()

    def _measure(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        lanes: int = 0,
    ) -> list[list[float]]:
        if problem.signature not in self._profilers:
            self._profilers[problem.signature] = engine.Profiler(
                problem.block, self._device
            )
        profiler = self._profilers[problem.signature]
        schedules = [
            json.loads(Schedule(tuple(stages)).to_json()) for stages in candidates
        ]
        return profiler.measure(schedules, lanes=lanes, **self._how).tolist()
