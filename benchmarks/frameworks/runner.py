"""Runner: a network that the engine or a peer has prepared to run and to time.

A framework is imported when its runner is made, so that a process imports only the
framework that it runs.
"""

from __future__ import annotations

import abc
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import arrays
from benchmarks.frameworks.weights import random_weights
from benchmarks.network import Network
from ios_tf.processes import wait_until_idle

# The least total time of the runs in one measurement.
_LEAST_MS = 30.0


def runs_taking(least_ms: float, once_ms: float) -> int:
    """Returns how many runs of `once_ms` take about `least_ms` together."""
    return max(1, round(least_ms / max(once_ms, 1e-3)))


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A network's SavedModel: its directory, and the signature and tags to use."""

    path: str
    signature: str | None = None
    tags: Sequence[str] | None = None


@dataclasses.dataclass(frozen=True)
class Target:
    """The target that a network is prepared for.

    Attributes:
      device: the engine's name of the device: "cpu", "gpu", "gpu:1,tf32=off".
      dtype: type of all tensors: "float32", "float16", "bfloat16".
      threads: number of CPU threads.
      time_limit: time limit of the engine's search in seconds; 0 means no limit.
      saved_model: the network's SavedModel; None if the network is only blocks.
      pythons: the Python interpreters of environments of peers, by name.
    """

    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    time_limit: float = 0.0
    saved_model: SavedModel | None = None
    pythons: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        """ "cpu" or "gpu"."""
        return self.device.partition(",")[0].partition(":")[0]

    @property
    def ordinal(self) -> int:
        """The index of the device among devices of its kind."""
        return int(self.device.partition(",")[0].partition(":")[2] or 0)

    @property
    def gpu(self) -> str:
        """The GPU's name in CUDA_VISIBLE_DEVICES, or its index if this is not set."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = visible.split(",") if visible else []
        return names[self.ordinal] if self.ordinal < len(names) else str(self.ordinal)

    @property
    def platform(self) -> str:
        """ "cpu" or "cuda", as PyTorch and ONNX Runtime call it."""
        return "cuda" if self.kind == "gpu" else "cpu"

    @property
    def tf32(self) -> bool:
        """True if products may round float32 to TF32."""
        return not self.device.endswith("tf32=off")


@dataclasses.dataclass(frozen=True)
class Data:
    """A region with the random float32 weights and inputs that every runner gets."""

    block: Mapping[str, Any]
    weights: Sequence[Sequence[np.ndarray]]
    inputs: Sequence[np.ndarray]

    @classmethod
    def of(cls, block: Mapping[str, Any], random: np.random.Generator) -> Data:
        """Returns data for a block, exact in the block's dtype."""
        dtype = block["dtype"]
        weights = [
            [arrays.rounded(w, dtype) for w in ws]
            for ws in random_weights(block, random)
        ]
        inputs = [
            arrays.rounded(random.uniform(-1, 1, shape), dtype)
            for shape in block["inputs"]
        ]
        return cls(block, weights, inputs)

    def flat_weights(self) -> list[np.ndarray]:
        """Returns the weights as `engine.Program` takes them."""
        return [w for ws in self.weights for w in ws]


def data_of(network: Network, dtype: str) -> list[Data]:
    """Returns data for all regions, the same in every process, exact in `dtype`."""
    random = np.random.default_rng(0)
    blocks = [{**region.block, "dtype": dtype} for region in network.regions]
    return [Data.of(block, random) for block in blocks]


class Runner(abc.ABC):
    """A network that is ready to run.

    Attributes:
      notes: remarks about the network for the table, or "".
      versions: versions of packages that only the runner knows.
    """

    notes = ""
    versions: Mapping[str, str] = {}

    @abc.abstractmethod
    def __init__(self, network: Network, target: Target) -> None:
        """Compiles, tunes and loads the network."""

    @abc.abstractmethod
    def run(self) -> None:
        """Runs all regions once; on a GPU, it may return before they are done."""

    def synchronize(self) -> None:
        """Waits until all runs are done."""
        return

    @abc.abstractmethod
    def outputs(self) -> list[np.ndarray]:
        """Returns the outputs of all regions in the latest run, channels last."""

    def calls(self) -> int:
        """Returns the number of runs for one measurement."""
        self._timed(3)
        return runs_taking(_LEAST_MS, self._timed(2))

    def time(self, calls: int) -> float:
        """Returns the mean ms of `calls` runs, after unmeasured runs.

        Waits until the process is idle, so that the next process can use all cores.
        """
        self._timed(max(1, calls // 3))
        milliseconds = self._timed(calls)
        wait_until_idle()
        return milliseconds

    def _timed(self, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            self.run()
        self.synchronize()
        return (time.perf_counter() - start) * 1e3 / calls
