"""Runner: a network made ready on the engine or on a peer, to be run and timed.

Frameworks are imported when a runner is made: a process needs only its own.
"""

from __future__ import annotations

import abc
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import arrays
from benchmarks.frameworks.weights import random_weights
from ios_tf.model.network import Network

# Runs of one measurement together take at least so long.
_LEAST_MS = 30.0
# Seconds: of waiting for threads to rest, at most, and between looks at them.
_REST, _LOOK = 0.5, 0.005


def runs_taking(least_ms: float, once_ms: float) -> int:
    """How many runs of `once_ms` take some `least_ms` together."""
    return max(1, round(least_ms / max(once_ms, 1e-3)))


def _come_to_rest() -> None:
    """Returns when no thread of the process works, or after `_REST` seconds.

    Threads of some pools look for work long after the last: ONNX Runtime's for 35 ms.
    """
    end = time.perf_counter() + _REST
    while time.perf_counter() < end:
        busy = time.process_time()
        time.sleep(_LOOK)
        if time.process_time() - busy < _LOOK / 10:
            return


@dataclasses.dataclass(frozen=True)
class Target:
    """The target that a network is prepared for.

    Attributes:
      device: as the engine calls it: "cpu", "gpu", "gpu:1,tf32=off".
      dtype: of all tensors: "float32", "float16", "bfloat16".
      threads: of the CPU.
      time_limit: of the engine's search, in seconds; 0: none.
    """

    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    time_limit: float = 0.0

    @property
    def kind(self) -> str:
        """ "cpu" or "gpu"."""
        return self.device.partition(",")[0].partition(":")[0]

    @property
    def ordinal(self) -> int:
        """Which GPU, of those of its kind."""
        return int(self.device.partition(",")[0].partition(":")[2] or 0)

    @property
    def platform(self) -> str:
        """ "cpu" or "cuda", as PyTorch and ONNX Runtime call it."""
        return "cuda" if self.kind == "gpu" else "cpu"

    @property
    def tf32(self) -> bool:
        """Whether float32 may be rounded to TF32 in products."""
        return not self.device.endswith("tf32=off")


@dataclasses.dataclass(frozen=True)
class Data:
    """A region with random weights and inputs, float32, as every runner gets them."""

    block: Mapping[str, Any]
    weights: Sequence[Sequence[np.ndarray]]
    inputs: Sequence[np.ndarray]


def data_of(network: Network, dtype: str) -> list[Data]:
    """The same numbers in every process; ones that `dtype` represents exactly."""
    random = np.random.default_rng(0)
    regions = []
    for region in network.regions:
        block = {**region.block, "dtype": dtype}
        weights = [
            [arrays.rounded(w, dtype) for w in ws]
            for ws in random_weights(block, random)
        ]
        inputs = [
            arrays.rounded(random.uniform(-1, 1, shape), dtype)
            for shape in block["inputs"]
        ]
        regions.append(Data(block, weights, inputs))
    return regions


class Runner(abc.ABC):
    """A network that is ready to run.

    Attributes:
      notes: what the table should say about it, or "".
    """

    notes = ""

    @abc.abstractmethod
    def __init__(self, network: Network, target: Target) -> None:
        """Compiles, tunes and loads."""

    @abc.abstractmethod
    def run(self) -> None:
        """Runs all regions once; on a GPU it may return before they are done."""

    def synchronize(self) -> None:
        """Returns when all runs are done."""
        return

    @abc.abstractmethod
    def outputs(self) -> list[np.ndarray]:
        """The outputs of all regions in the latest run, channels last."""

    def calls(self) -> int:
        """How many runs make a measurement."""
        self._timed(3)
        return runs_taking(_LEAST_MS, self._timed(2))

    def time(self, calls: int) -> float:
        """Milliseconds of a run, the mean of so many, after unmeasured ones.

        It returns when the process is at rest: who is measured next has the cores.
        """
        self._timed(max(1, calls // 3))
        milliseconds = self._timed(calls)
        _come_to_rest()
        return milliseconds

    def _timed(self, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            self.run()
        self.synchronize()
        return (time.perf_counter() - start) * 1e3 / calls


class FunctionRunner(Runner):
    """A peer that makes one function of each region."""

    def __init__(self, network: Network, target: Target) -> None:
        self.target = target
        self.start()
        self._functions = []
        regions = data_of(network, target.dtype)
        while regions:  # weights are large: what is loaded is let go
            self._functions.append(self.function(regions.pop(0)))
        self._results: list[Any] = []
        self.run()
        self.synchronize()

    def start(self) -> None:
        """Sets the framework up."""
        return

    @abc.abstractmethod
    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        """Returns a function that runs a region on its inputs."""

    @abc.abstractmethod
    def array(self, tensor: Any) -> np.ndarray:
        """An output of a function, channels last."""

    def run(self) -> None:
        self._results = [function() for function in self._functions]

    def outputs(self) -> list[np.ndarray]:
        self.synchronize()
        return [self.array(y) for results in self._results for y in results]
