"""The engine as a runner."""

from __future__ import annotations

import numpy as np

from benchmarks import arrays
from benchmarks.frameworks.runner import Runner, Target, data_of
from benchmarks.network_search import find_schedules, schedule_json
from ios_tf.model.network import Network
from ios_tf.native import engine


class IosRunner(Runner):
    """The engine, with the best schedule or the sequential one."""

    def __init__(
        self, network: Network, target: Target, strategy: str = "both"
    ) -> None:
        self._device, self._dtype = target.device, target.dtype
        network = network.with_dtype(target.dtype)
        found = find_schedules(
            network, strategy, target.device, time_limit=target.time_limit
        )
        if strategy == "both":
            stats = found.stats
            self.notes = f"search {stats.seconds:.0f} s, {stats.measured} measurements"
        self._schedules = [
            schedule_json(region.schedule(found.schedules))
            for region in network.regions
        ]
        regions = data_of(network, target.dtype)
        self._programs = [
            engine.Program(
                data.block,
                schedule,
                [w for ws in data.weights for w in ws],
                self._device,
            )
            for data, schedule in zip(regions, self._schedules, strict=True)
        ]
        self._inputs = [
            [arrays.aligned(arrays.encoded(x, target.dtype)) for x in data.inputs]
            for data in regions
        ]
        self._outputs = [
            [
                arrays.aligned(np.empty(shape, inputs[0].dtype))
                for shape in program.output_shapes([x.shape for x in inputs])
            ]
            for program, inputs in zip(self._programs, self._inputs, strict=True)
        ]
        self._calls = [
            program.bind(inputs, outputs)
            for program, inputs, outputs in zip(
                self._programs, self._inputs, self._outputs, strict=True
            )
        ]
        self._profilers: list[engine.Profiler] = []
        if target.kind != "cpu":  # host memory would be copied to and fro
            self._profilers = [
                engine.Profiler(data.block, self._device) for data in regions
            ]

    def algorithms(self) -> list[str]:
        """The different algorithms of convolutions that are not direct."""
        return sorted({a for s in self._schedules for a in s.get("algorithms", ())})

    def run(self) -> None:
        for call in self._calls:
            call()

    def outputs(self) -> list[np.ndarray]:
        return [arrays.decoded(y, self._dtype) for ys in self._outputs for y in ys]

    def _timed(self, calls: int) -> float:
        if not self._profilers:
            return super()._timed(calls)
        return sum(
            float(profiler.measure([schedule], 0, calls, 1)[0, 0])
            for profiler, schedule in zip(self._profilers, self._schedules, strict=True)
        )
