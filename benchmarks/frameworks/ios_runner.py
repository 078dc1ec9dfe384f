"""Runs a network on the engine of IOS-TF."""

from __future__ import annotations

import numpy as np

from benchmarks import arrays
from benchmarks.frameworks.runner import Runner, Target, data_of
from benchmarks.gpu_memory import GpuMemory
from benchmarks.network import Network
from benchmarks.network_search import find_schedules
from ios_tf.native import engine


class IosRunner(Runner):
    """The engine, with the best schedule or the sequential one."""

    def __init__(
        self, network: Network, target: Target, strategy: str = "auto"
    ) -> None:
        self._dtype = target.dtype
        network = network.with_dtype(target.dtype)
        found = find_schedules(
            network, strategy, target.device, time_limit=target.time_limit
        )
        if strategy == "auto":
            stats = found.stats
            self.notes = f"search {stats.seconds:.0f} s, {stats.measured} measurements"
        regions = data_of(network, target.dtype)
        self._programs = [
            engine.Program(
                data.block,
                region.schedule(found.schedules).json_object(),
                data.flat_weights(),
                target.device,
            )
            for region, data in zip(network.regions, regions, strict=True)
        ]
        inputs = [
            [arrays.aligned(arrays.encoded(x, target.dtype)) for x in data.inputs]
            for data in regions
        ]
        self._outputs = [
            [
                arrays.aligned(np.empty(shape, arrays_in[0].dtype))
                for shape in program.output_shapes([x.shape for x in arrays_in])
            ]
            for program, arrays_in in zip(self._programs, inputs, strict=True)
        ]
        self._gpu = None if target.kind == "cpu" else GpuMemory(target.ordinal)
        # Use GPU memory, because host arrays would be copied in every run.
        bound = [
            self._gpu.bind(*of_region)
            if self._gpu
            else (of_region[0].bind(*of_region[1:]), [])
            for of_region in zip(self._programs, inputs, self._outputs, strict=True)
        ]
        self._calls = [call for call, _ in bound]
        self._addresses = [addresses for _, addresses in bound]

    def run(self) -> None:
        for call in self._calls:
            call()

    def synchronize(self) -> None:
        if self._gpu:
            self._gpu.synchronize()

    def outputs(self) -> list[np.ndarray]:
        if self._gpu:
            for arrays_out, addresses in zip(
                self._outputs, self._addresses, strict=True
            ):
                for array, address in zip(arrays_out, addresses, strict=True):
                    self._gpu.download(address, array)
        return [arrays.decoded(y, self._dtype) for ys in self._outputs for y in ys]
