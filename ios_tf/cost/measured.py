"""The measured cost model: stages run on the device, through IosStageLatency."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.cost.cost_model import DEFAULT_MEASUREMENT, Measurement
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.cost.samples import Sample
from ios_tf.errors import first_line
from ios_tf.native import malloc, plugin
from ios_tf.native.devices import CPU, Device
from ios_tf.scheduler import Problem, Schedule, Stage


class MeasuredCostModel(ProfiledCostModel):
    """Latencies of stages and networks, measured in TensorFlow. A NetworkCostModel."""

    def __init__(
        self,
        device: Device = CPU,
        measurement: Measurement = DEFAULT_MEASUREMENT,
    ) -> None:
        super().__init__(device.engine, measurement)
        self.device = device
        self._programs: dict[str, str] = {}  # block signature -> its JSON

    def compare_programs(
        self,
        candidates: Sequence[Sequence[Mapping[str, Any]]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies of variants of a network: see NetworkCostModel."""
        texts = [
            [(_text(one["block"]), _text(one["schedule"])) for one in programs]
            for programs in candidates
        ]
        return self._compare(texts, self._sample, seconds)

    def _sample(
        self, candidate: Sequence[tuple[str, str]], measurement: Measurement
    ) -> Sample:
        """Takes one sample of programs that run one after the other."""
        samples = [self._run(*program, measurement)[0] for program in candidate]
        return Sample(
            sum(sample.ms for sample in samples),
            any(sample.disturbed for sample in samples),
        )

    def release(self) -> None:
        """Frees everything the device holds for the blocks measured so far."""
        plugin.runtime().ios_tf_release_profilers()
        malloc.return_freed()

    def _measure(
        self,
        problem: Problem,
        stages: Sequence[Stage],
        measurement: Measurement,
        lanes: int = 0,
    ) -> list[Sample]:
        if problem.signature not in self._programs:
            self._programs[problem.signature] = _text(problem.block)
        program = self._programs[problem.signature]
        schedule = Schedule(tuple(stages)).to_json()
        return self._run(program, schedule, measurement, lanes)

    def _run(
        self,
        program: str,
        schedule: str,
        measurement: Measurement,
        lanes: int = 0,
    ) -> list[Sample]:
        with tf.device("CPU:0"):  # the op reads the schedule on the host
            text = tf.constant(schedule)
        with tf.device(self.device.tensorflow):
            try:
                latencies, disturbed = plugin.ops().ios_stage_latency(
                    text,
                    program=program,
                    device=self.device.kind,
                    warmup=measurement.warmup_runs,
                    number=measurement.runs,
                    repeat=measurement.sample_count,
                    lanes=lanes,
                )
            except tf.errors.ResourceExhaustedError as error:
                raise MemoryError(first_line(error)) from None
        values = zip(
            latencies.numpy().tolist(), disturbed.numpy().tolist(), strict=True
        )
        return [Sample(*value) for value in values]


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
