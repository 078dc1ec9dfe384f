"""Simulated devices: the numbers that latencies are computed from, and their origins.

Rates, bandwidths, multiprocessors and registers come from NVIDIA's data sheets.
Four numbers were fitted to the paper's latencies on a V100 at batch 1. Of these,
`launch_ms` and `stage_ms` are specific to the paper's engine, and all devices share
`_STEP_MS` and `_CONTENTION`. A CTA is a thread block of CUDA.
"""

from __future__ import annotations

import dataclasses

# Share of the data sheet's memory bandwidth that copies of large tensors usually reach.
_BANDWIDTH = 0.8
# Share of the L2 cache's bytes per clock that is reached; an assumption.
_CACHE = 0.7
# Calibrated on a V100: time of a load from global memory and the barrier after it.
_STEP_MS = 0.000418
# Calibrated; see SimulatedDevice.contention.
_CONTENTION = 0.58


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """Parameters of a device's matrix products in one precision.

    Attributes:
      flops_per_ms: rate of the whole device; a multiply-add counts as two.
      tiles: (rows, columns) of the product that one CTA computes, for each available
        kernel.
      depth: elements of the common dimension that a CTA covers in one step.
      element_bytes: size of an element in memory.
      prefetched: number of steps whose loads are under way at any time.
    """

    flops_per_ms: float
    tiles: tuple[tuple[int, int], ...]
    depth: int
    element_bytes: int
    prefetched: int = 1


@dataclasses.dataclass(frozen=True)
class SimulatedDevice:
    """A device by the parameters that simulated latencies depend on.

    Attributes:
      single: arithmetic in 32 bits.
      half: arithmetic in 16 bits.
      bytes_per_ms: memory bandwidth of the full device.
      cache_bytes_per_ms: rate at which all multiprocessors together read the L2 cache.
        Small tiles read more bytes per multiplication.
      multiprocessors: number of multiprocessors.
      launch_ms: time from one kernel of a group to the next.
      stage_ms: time of the fork and join of a stage with several groups; a stage with
        one group needs neither.
      accumulators: product elements that the CTAs on one multiprocessor keep in
        registers. They take half of the registers and limit the resident CTAs.
      step_ms: time from the loads of a CTA's step to their use; other CTAs compute
        during this time.
      contention: weight that determines how much the other lanes delay the longest
        lane. 0: by their time at the full device's speed; 1: by their time alone;
        between: by the weighted geometric mean of both.
      lanes: number of groups that run concurrently.
    """

    single: Arithmetic
    half: Arithmetic
    bytes_per_ms: float
    cache_bytes_per_ms: float
    multiprocessors: int
    launch_ms: float
    stage_ms: float
    accumulators: int = 32 * 1024
    step_ms: float = _STEP_MS
    contention: float = _CONTENTION
    lanes: int = 16

    def arithmetic(self, dtype: str) -> Arithmetic:
        """Returns the arithmetic for an element type."""
        return self.single if dtype == "float32" else self.half


# The tile sizes come from the names of cuDNN's kernels, as profilers show them:
# volta_scudnn_128x64, ..._tilesize64x64x32_stage4. CTAs on tensor cores load ahead one
# step fewer than "stage" says, because they compute that step. Other CTAs load one step
# ahead.
_CUDA_CORE_TILES = ((128, 128), (128, 64), (128, 32), (64, 64), (32, 32))
_TENSOR_CORE_TILES = (
    (256, 128),
    (128, 256),
    (128, 128),
    (128, 64),
    (64, 128),
    (64, 64),
)

DEVICES = {
    # H200 SXM: 494 TFLOPS in TF32, 989 in 16 bits, 4.8 TB/s. We assume the L2 bandwidth
    # of the A100, 5120 bytes per clock. The launch times of both GPUs, from a CUDA
    # graph, are also assumptions: there was nothing to calibrate them on.
    "h200": SimulatedDevice(
        Arithmetic(494e9, _TENSOR_CORE_TILES, 32, 4, prefetched=3),
        Arithmetic(989e9, _TENSOR_CORE_TILES, 64, 2, prefetched=3),
        4.8e9 * _BANDWIDTH,
        8.99e9 * _CACHE,
        multiprocessors=132,
        launch_ms=0.002,
        stage_ms=0.004,
    ),
    # A100 SXM, 80 GB: 156 TFLOPS in TF32, 312 in 16 bits, 2.039 TB/s.
    "a100": SimulatedDevice(
        Arithmetic(156e9, _TENSOR_CORE_TILES, 32, 4, prefetched=3),
        Arithmetic(312e9, _TENSOR_CORE_TILES, 64, 2, prefetched=3),
        2.039e9 * _BANDWIDTH,
        7.22e9 * _CACHE,
        multiprocessors=108,
        launch_ms=0.0025,
        stage_ms=0.005,
    ),
    # V100 SXM2: 15.7 TFLOPS, 125 on tensor cores, 0.9 TB/s, 2048 L2 bytes per clock.
    # The launch times are calibrated on the paper's engine, which uses streams.
    "v100": SimulatedDevice(
        Arithmetic(15.7e9, _CUDA_CORE_TILES, 8, 4),
        Arithmetic(125e9, _TENSOR_CORE_TILES, 32, 2),
        0.9e9 * _BANDWIDTH,
        3.13e9 * _CACHE,
        multiprocessors=80,
        launch_ms=0.0099,
        stage_ms=0.0177,
    ),
    # One of the two GPUs of a K80: 4.37 TFLOPS, 0.24 TB/s. It has twice the registers
    # of the others, and its 16-bit arithmetic is not faster. 512 L2 bytes per clock are
    # an assumption. The launch times are as on the V100.
    "k80": SimulatedDevice(
        Arithmetic(4.37e9, _CUDA_CORE_TILES, 8, 4),
        Arithmetic(4.37e9, _CUDA_CORE_TILES, 8, 2),
        0.24e9 * _BANDWIDTH,
        0.45e9 * _CACHE,
        multiprocessors=13,
        launch_ms=0.0099,
        stage_ms=0.0177,
        accumulators=64 * 1024,
    ),
}
