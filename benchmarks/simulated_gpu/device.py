"""Simulated devices: the numbers that latencies are computed from, and their origins.

Rates, bandwidths, multiprocessors and registers are those of NVIDIA's data sheets.
Four numbers are calibrated, all on the paper's V100 at batch 1, by
`python -m benchmarks simulated --calibrate`: `launch_ms` and `stage_ms`, which are
its authors' engine's, and `_STEP_MS` and `_CONTENTION`, which other devices share.
"""

from __future__ import annotations

import dataclasses

# Of the memory's bandwidth in data sheets, what copies of large tensors usually reach.
_BANDWIDTH = 0.8
# Of the bytes per clock of the L2 cache, likewise: an assumption.
_CACHE = 0.7
# Calibrated: a load from global memory and the barrier after it, on a V100.
_STEP_MS = 0.000418
# Calibrated.
_CONTENTION = 0.58


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """How a device multiplies matrices in one precision.

    Attributes:
      flops_per_ms: of the whole device; a multiply-add is two.
      tiles: rows and columns of the product that one CTA computes, for all kernels
        there are.
      depth: how far a CTA goes along the common dimension in one step.
      element_bytes: of an element in memory.
      prefetched: steps whose loads are under way at any time.
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
      bytes_per_ms: memory traffic of the full device.
      cache_bytes_per_ms: what all multiprocessors together read from the L2 cache;
        small tiles read more of it for each multiplication.
      multiprocessors: how many it has.
      launch_ms: from one kernel of a group to the next.
      stage_ms: the fork and join of a stage of several groups; one group needs none.
      accumulators: elements of products that the CTAs on one multiprocessor have in
        registers, half of all of these: so many CTAs are there at a time.
      step_ms: from the loads of a CTA's step to their use; other CTAs compute
        meanwhile.
      contention: how much of the longest lane's time what runs beside it takes. 0: what
        it takes at the full device's speed; 1: what it takes alone; the geometric mean
        with these weights between.
      lanes: groups that run side by side.
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
        """That of an element type."""
        return self.single if dtype == "float32" else self.half


# The tiles are in the names of cuDNN's kernels, as profilers show them:
# volta_scudnn_128x64, ..._tilesize64x64x32_stage4. Tensor cores' CTAs load as many
# steps ahead as "stage" says, less the one that they compute; the others one.
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
    # H200 SXM: 494 TFLOPS in TF32, 989 in 16 bits, 4.8 TB/s. That it has as many bytes
    # of L2 a clock as the A100, 5120, is an assumption; so are launches from a CUDA
    # graph, here and there: there was nothing to calibrate them on.
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
    # V100 SXM2: 15.7 TFLOPS, 125 on tensor cores, 0.9 TB/s, 2048 bytes of L2 a clock.
    # Launches are calibrated: those of the authors' engine, on streams.
    "v100": SimulatedDevice(
        Arithmetic(15.7e9, _CUDA_CORE_TILES, 8, 4),
        Arithmetic(125e9, _TENSOR_CORE_TILES, 32, 2),
        0.9e9 * _BANDWIDTH,
        3.13e9 * _CACHE,
        multiprocessors=80,
        launch_ms=0.0099,
        stage_ms=0.0177,
    ),
    # One of the two GPUs of a K80: 4.37 TFLOPS, 0.24 TB/s, twice the registers of the
    # others and no faster arithmetic in 16 bits; 512 bytes of L2 a clock are an
    # assumption. Launches as on the V100.
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
