"""The measured cost model: stages run on the device, through IosStageLatency."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import time
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
# How many are measured, however long it takes: what is now, what was found, another.
_LEAST_CANDIDATES = 3


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
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies of several schedules of a block: see BlockCostModel."""
        program = self._program(problem)
        schedules = [Schedule(tuple(stages)).to_json() for stages in candidates]
        programs = [[(program, schedule)] for schedule in schedules]
        return self._compare(programs, seconds)

    def compare_programs(
        self,
        candidates: Sequence[Sequence[Mapping[str, Any]]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies of several forms of a network, of the first at least.

        A form is the {"block", "schedule"} objects of all its regions; its latency is
        their sum. `seconds` is as for `compare`.
        """
        return self._compare(
            [
                [(_text(one["block"]), _text(one["schedule"])) for one in programs]
                for programs in candidates
            ],
            seconds,
        )

    def _compare(
        self, candidates: Sequence[Sequence[tuple[str, str]]], seconds: float
    ) -> list[float]:
        # In turn, so that what disturbs the machine disturbs all alike.
        end = time.monotonic() + seconds
        latencies: list[list[float]] = []
        once = Measurement(max(self.measurement.warmup, 1), self.measurement.number, 1)
        for number, candidate in enumerate(candidates):
            if number >= _LEAST_CANDIDATES and time.monotonic() > end:
                break
            latencies.append([self._milliseconds(candidate, once)])
        self.measurements += len(latencies)
        once = dataclasses.replace(once, warmup=1)
        for done in range(1, _ROUNDS):
            fastest = min(map(statistics.median, latencies))
            long = fastest > _LONG_MS
            if long and (done == _LONG_ROUNDS or time.monotonic() > end):
                break
            once = Measurement(0, 1, 1) if long else once
            for candidate, found in zip(candidates, latencies, strict=False):
                if not long or statistics.median(found) < _HOPELESS * fastest:
                    found.append(self._milliseconds(candidate, once))
        return [statistics.median(found) for found in latencies]

    def _milliseconds(
        self, candidate: Sequence[tuple[str, str]], measurement: Measurement
    ) -> float:
        return sum(self._run(*program, measurement)[0] for program in candidate)

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
