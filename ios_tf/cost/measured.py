"""The measured cost model: stages run on the device, through IosStageLatency."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from ios_tf.cost.cost_model import DEFAULT_MEASUREMENT, Measurement, SampledCostModel
from ios_tf.errors import first_line
from ios_tf.native import engine, malloc, plugin
from ios_tf.native.devices import CPU, Device
from ios_tf.scheduler import Problem, Schedule, Stage

# Measurements of each candidate when whole schedules are compared.
_ROUNDS = 7
# One run of so many milliseconds is measurement enough; and so many rounds, in which
# what takes so much longer than the fastest is measured no more.
_LONG_MS = 50.0
_LONG_ROUNDS = 3
_HOPELESS = 1.3


class MeasuredCostModel(SampledCostModel):
    """Latencies of stages on a device, in milliseconds. A LaneCostModel."""

    def __init__(
        self,
        device: Device = CPU,
        measurement: Measurement = DEFAULT_MEASUREMENT,
    ) -> None:
        super().__init__(measurement)
        self.device = device
        self._programs: dict[str, str] = {}  # block signature -> its JSON
        self.lanes = engine.lane_count(device.engine)
        self.lanes_divide_device = engine.lanes_divide_device(device.engine)

    def sample(self, problem: Problem, stage: Stage, lanes: int) -> list[float]:
        """Latencies of one stage in milliseconds, `measurement.repeat` of them."""
        schedule = Schedule((stage,)).to_json()
        return self._run(self._program(problem), schedule, self.measurement, lanes)

    def compare(
        self, problem: Problem, candidates: Sequence[Sequence[Stage]]
    ) -> list[float]:
        """The median latencies of several schedules of a block."""
        program = self._program(problem)
        schedules = [Schedule(tuple(stages)).to_json() for stages in candidates]
        return self._compare([[(program, schedule)] for schedule in schedules])

    def compare_programs(
        self, candidates: Sequence[Sequence[Mapping[str, Any]]]
    ) -> list[float]:
        """The median latencies of several forms of a network.

        A form is the {"block", "schedule"} objects of all its regions; its latency is
        their sum.
        """
        return self._compare(
            [
                [(_text(one["block"]), _text(one["schedule"])) for one in programs]
                for programs in candidates
            ]
        )

    def _compare(self, candidates: Sequence[Sequence[tuple[str, str]]]) -> list[float]:
        # In turn, so that what disturbs the machine disturbs all alike.
        self.measurements += len(candidates)
        latencies: list[list[float]] = [[] for _ in candidates]
        once = Measurement(max(self.measurement.warmup, 1), self.measurement.number, 1)
        hopeless = math.inf
        for i in range(_ROUNDS):
            if i > 0 and min(found[0] for found in latencies) > _LONG_MS:
                once = Measurement(0, 1, 1)
                hopeless = _HOPELESS * min(map(statistics.median, latencies))
                if i == _LONG_ROUNDS:
                    break
            elif i > 0:
                once = dataclasses.replace(once, warmup=1)
            for candidate, found in zip(candidates, latencies, strict=True):
                if found and statistics.median(found) > hopeless:
                    continue
                found.append(sum(self._run(*program, once)[0] for program in candidate))
        return [statistics.median(found) for found in latencies]

    def _program(self, problem: Problem) -> str:
        if problem.signature not in self._programs:
            self._programs[problem.signature] = _text(problem.block)
        return self._programs[problem.signature]

    def release(self) -> None:
        """Frees what the device holds of the blocks measured so far."""
        # Kernels of eager ops, and with them the engine's profilers, live in a cache.
        context.context().clear_kernel_cache()
        malloc.return_freed()

    def _run(
        self,
        program: str,
        schedule: str,
        measurement: Measurement,
        lanes: int = 0,
    ) -> list[float]:
        with tf.device("CPU:0"):  # whatever it measures, it reads it on the host
            text = tf.constant(schedule)
        with tf.device(self.device.tensorflow):
            try:
                latencies = plugin.ops().ios_stage_latency(
                    text,
                    program=program,
                    device=self.device.kind,
                    warmup=measurement.warmup,
                    number=measurement.number,
                    repeat=measurement.repeat,
                    lanes=lanes,
                )
            except tf.errors.ResourceExhaustedError as error:
                raise MemoryError(first_line(error)) from None
        return list(latencies.numpy().tolist())


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
