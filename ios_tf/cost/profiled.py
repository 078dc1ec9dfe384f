"""The profiled cost model: stages run on the engine's C API, without TensorFlow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ios_tf.cost.cost_model import DEFAULT_MEASUREMENT, Measurement, SampledCostModel
from ios_tf.cost.samples import Sample
from ios_tf.native import engine
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Schedule, Stage


class ProfiledCostModel(SampledCostModel):
    """Latencies of stages on a device, in milliseconds. A BlockCostModel.

    Args:
      device: "cpu", "gpu", … (cc/engine/backend/backend.h, GetBackend).
      measurement: how the model measures.
    """

    def __init__(
        self, device: str, measurement: Measurement = DEFAULT_MEASUREMENT
    ) -> None:
        super().__init__(measurement)
        self._device = device
        self._profilers: dict[str, engine.Profiler] = {}
        self.lanes = engine.lane_count(device)
        self.lanes_divide_device = engine.lanes_divide_device(device)

    def sample(self, problem: Problem, stage: Stage, lanes: int) -> list[Sample]:
        """Takes `measurement.sample_count` samples of one stage."""
        return self._measure(problem, [stage], self.measurement, lanes)

    def compare(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies of several schedules of a block: see BlockCostModel."""

        def sample(stages: Sequence[Stage], measurement: Measurement) -> Sample:
            return self._measure(problem, stages, measurement)[0]

        return self._compare(candidates, sample, seconds)

    def release(self) -> None:
        """Frees everything the device holds for the blocks measured so far."""
        self._profilers.clear()

    def _measure(
        self,
        problem: Problem,
        stages: Sequence[Stage],
        measurement: Measurement,
        lanes: int = 0,
    ) -> list[Sample]:
        if problem.signature not in self._profilers:
            self._profilers[problem.signature] = engine.Profiler(
                problem.block, self._device
            )
        (latencies,), (disturbed,) = self._profilers[problem.signature].sample(
            [Schedule(tuple(stages)).json_object()],
            warmup=measurement.warmup_runs,
            number=measurement.runs,
            repeat=measurement.sample_count,
            lanes=lanes,
        )
        values = zip(latencies.tolist(), disturbed.tolist(), strict=True)
        return [Sample(*value) for value in values]
