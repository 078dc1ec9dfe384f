"""The machine's roofline: the engine's peak rate and its bandwidth, by measuring.

Most operators are not faster than their floor: the longer of the times that the
operations need at the peak rate and that the bytes need at the bandwidth. There are two
exceptions: convolutions by Winograd's minimal filtering, which compute fewer products,
and operators whose tensors stay in the processor's caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ios_tf.cost.work import SUM, VIEWS, Work, block_of, convolution, work_of
from ios_tf.native import engine
from ios_tf.scheduler import CostModel, Problem
from ios_tf.tuning.algorithms import GEMM, latency_of, with_algorithms

# Convolutions that should reach the peak and fit into a core's own caches: kernel size,
# height and width, channels.
_CONVOLUTIONS = ((3, 35, 96), (1, 35, 192))
# The shape of the tensors of a sum. The two addends and their sum have 64 MB together.
_SUM_SHAPE = [1, 650, 128, 64]
_SUM_SHAPE_HALF = [1, 1300, 128, 64]
# The number of images per batch on a GPU. A single image would not keep all of the
# GPU's processors busy.
_GPU_IMAGES = 16


@dataclasses.dataclass(frozen=True)
class Roofline:
    """The highest rates that the engine reached on this machine.

    Attributes:
      gflop_per_s: the rate of floating-point operations.
      gb_per_s: the rate of bytes that are read or written.
    """

    gflop_per_s: float
    gb_per_s: float

    @classmethod
    def measured(
        cls, cost_model: CostModel, device: str, dtype: str = "float32"
    ) -> Roofline:
        """Measures the rates. `device` is "cpu" or "gpu".

        Raises:
          MemoryError: too little memory is free.
        """
        images = 1 if device == "cpu" else _GPU_IMAGES
        rates = []
        for kernel, size, channels in _CONVOLUTIONS:
            shape = [images, size, size, channels]
            block = block_of(convolution(kernel, channels), shape, dtype)
            (work,) = work_of(block)
            problem = Problem.from_json(engine.problem(block))
            forms = [problem]
            if device == "cpu" and GEMM in problem.algorithms[0]:
                forms.append(with_algorithms(problem, {0: GEMM}))
            rates += [work.flop / latency_of(form, cost_model) / 1e6 for form in forms]
        shape = _SUM_SHAPE if dtype == "float32" else _SUM_SHAPE_HALF
        block = block_of(SUM, shape, dtype)
        (work,) = work_of(block)
        ms = latency_of(Problem.from_json(engine.problem(block)), cost_model)
        return cls(max(rates), work.bytes / ms / 1e6)

    def raised(self, rates: Iterable[float]) -> Roofline:
        """Returns a roofline whose peak is at least each of these rates in GFLOP/s."""
        highest = max([self.gflop_per_s, *rates])
        return dataclasses.replace(self, gflop_per_s=highest)

    def floor_ms(self, kind: str, work: Work) -> float:
        """The floor of an operator of type `kind`; 0 if it may need no copy."""
        if kind in VIEWS:
            return 0.0
        return max(work.flop / self.gflop_per_s / 1e6, work.bytes / self.gb_per_s / 1e6)
