"""The measured cost model: stages run on the device, through IosStageLatency."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence

import tensorflow as tf

from ios_tf import _native
from ios_tf.cost.cost_model import SampledCostModel
from ios_tf.scheduler import Problem, Stage, Strategy


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How a latency is measured.

    Attributes:
      warmup: runs before, unmeasured.
      number: runs per measurement.
      repeat: measurements; their median counts.
    """

    warmup: int = 2
    number: int = 3
    repeat: int = 3

    def __post_init__(self) -> None:
        for field, least in (("warmup", 0), ("number", 1), ("repeat", 1)):
            value = getattr(self, field)
            if not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{field} must be a whole number >= {least}, not {value!r}"
                )


class MeasuredCostModel(SampledCostModel):
    """Latencies of stages on a device, in milliseconds.

    Attributes:
      measurements: how many candidates have been measured.
    """

    def __init__(
        self, device: str = "cpu", measurement: Measurement = Measurement()
    ) -> None:
        self._device = device
        self._measurement = measurement
        self._programs: dict[str, str] = {}  # block signature -> its JSON
        self.measurements = 0

    def stage_latencies(self, problem: Problem, stage: Stage) -> list[float]:
        """Latencies of one stage in milliseconds, `repeat` of them."""
        self.measurements += 1
        return self._run(problem, [stage], self._measurement)

    def compare(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        rounds: int = 7,
    ) -> list[float]:
        """The median latencies of several schedules of a block.

        They are measured in turn, so that what disturbs the machine disturbs all
        alike.
        """
        self.measurements += len(candidates)
        latencies: list[list[float]] = [[] for _ in candidates]
        number = self._measurement.number
        for i in range(rounds):
            warmup = max(self._measurement.warmup, 1) if i == 0 else 1
            once = Measurement(warmup, number, 1)
            for stages, found in zip(candidates, latencies, strict=True):
                found += self._run(problem, stages, once)
        return [statistics.median(found) for found in latencies]

    def _run(
        self, problem: Problem, stages: Sequence[Stage], measurement: Measurement
    ) -> list[float]:
        operators, stage_ids, group_ids = [], [], []
        for stage_id, stage in enumerate(stages):
            for group_id, group in enumerate(stage.groups):
                operators += group
                stage_ids += [stage_id] * len(group)
                group_ids += [group_id] * len(group)
        strategies = [int(stage.strategy is Strategy.MERGE) for stage in stages]
        program = self._programs.get(problem.signature)
        if program is None:
            program = json.dumps(problem.block, separators=(",", ":"))
            self._programs[problem.signature] = program
        with tf.device("CPU:0"):
            latencies = _native.ops().ios_stage_latency(
                *(
                    tf.constant(values, tf.int32)
                    for values in (operators, stage_ids, group_ids, strategies)
                ),
                program=program,
                device=self._device,
                warmup=measurement.warmup,
                number=measurement.number,
                repeat=measurement.repeat,
            )
        return latencies.numpy().tolist()
