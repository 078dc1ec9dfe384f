"""Kernels of operators on a simulated device: how long they take alone, and what of it.

A convolution is an implicit product of matrices: as many rows as the output has pixels,
as many columns as filters, and window * channels in common. CTAs compute it by tiles,
in steps along the common dimension; the first step only loads. In the time of a step a
multiprocessor computes the tiles of all CTAs it has, or reads their operands from the
L2 cache, or one of them waits for its loads and computes, whichever takes longest. CTAs
run in waves. Of the device's tiles the fastest is taken, as cuDNN's heuristics and the
engine's search of plans do.

Everything else - pools, sums, depthwise convolutions - moves bytes, at a share of the
bandwidth if it has fewer CTAs than the device has multiprocessors. Weights are read,
too. A concat takes nothing: what it joins is written where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.simulated_gpu.device import Arithmetic, SimulatedDevice
from ios_tf.scheduler.problem import Problem

# Output elements of a CTA that moves bytes: 256 threads, each of four elements.
_CTA_ELEMENTS = 1024
_PRODUCTS = ("conv2d", "conv2d_transpose", "matmul")
_VIEWS = ("concat", "slice")


class Kernel(NamedTuple):
    """The time of one kernel in ms, without its launch.

    Attributes:
      alone_ms: with the device for itself.
      compute_ms: of the device's arithmetic, if its CTAs fill the device.
      bytes_ms: of the device's bandwidth.
    """

    alone_ms: float
    compute_ms: float
    bytes_ms: float


class Product(NamedTuple):
    """A product of matrices, or several equal ones.

    Attributes:
      rows, columns: of the result.
      common: the dimension that is summed over.
      copies: how many: the groups of a convolution.
    """

    rows: int
    columns: int
    common: int
    copies: int = 1


def kernels_of(problem: Problem, op: int, device: SimulatedDevice) -> list[Kernel]:
    """The kernels of an operator, one after the other."""
    operator = problem.block["operators"][op]
    elements = math.prod(problem.shapes[op])
    channels = problem.shapes[op][-1]
    read = _elements_read(problem, op)
    window = _window(problem, [op])
    make = _Maker(device, problem.dtype)
    if operator["type"] in _VIEWS:
        return []
    if operator["type"] == "sepconv":
        pixels = elements // channels
        # Both of its parts are in its work: channels * (window + filters) a pixel.
        between = problem.flops[op] // (2 * pixels * (window + channels))
        return [
            make.moving(pixels * between, read + between * (pixels + window)),
            make.product(Product(pixels, channels, between), pixels * between),
        ]
    if operator["type"] not in _PRODUCTS:
        return [make.moving(elements, read + elements)]
    common = _common(problem, op)
    groups = operator.get("groups", 1)
    if groups > 1 and common == window:  # depthwise
        return [make.moving(elements, read + elements + channels * window)]
    pixels = elements // channels
    return [make.product(Product(pixels, channels // groups, common, groups), read)]


def merged_kernel(
    problem: Problem, group: Sequence[int], device: SimulatedDevice
) -> Kernel:
    """The kernel of a merge: all filters, padded to the largest window, in one."""
    first = group[0]
    filters = sum(problem.shapes[op][-1] for op in group)
    pixels = math.prod(problem.shapes[first][:-1])
    channels = math.ceil(_common(problem, first) / _window(problem, [first]))
    common = channels * _window(problem, group)
    make = _Maker(device, problem.dtype)
    read = _elements_read(problem, first)
    return make.product(Product(pixels, filters, common), read)


class _Maker:
    """Makes kernels for one device and one type of elements."""

    def __init__(self, device: SimulatedDevice, dtype: str) -> None:
        self._device = device
        self._arithmetic = device.arithmetic(dtype)
        self._elements_per_ms = device.bytes_per_ms / self._arithmetic.element_bytes

    def moving(self, written: int, moved: int) -> Kernel:
        """One that reads and writes `moved` elements, and computes next to nothing."""
        bytes_ms = moved / self._elements_per_ms
        ctas = math.ceil(written / _CTA_ELEMENTS)
        occupancy = min(1.0, ctas / self._device.multiprocessors)
        return Kernel(bytes_ms / occupancy, 0.0, bytes_ms)

    def product(self, product: Product, read: int) -> Kernel:
        """One that multiplies what it reads by weights."""
        rows, columns, common, copies = product
        moved = read + copies * columns * (rows + common)
        bytes_ms = moved / self._elements_per_ms
        alone_ms, compute_ms = min(
            tiled_ms(product, tile, self._arithmetic, self._device)
            for tile in self._arithmetic.tiles
        )
        return Kernel(max(alone_ms, bytes_ms), compute_ms, bytes_ms)


def tiled_ms(
    product: Product,
    tile: tuple[int, int],
    arithmetic: Arithmetic,
    device: SimulatedDevice,
) -> tuple[float, float]:
    """Milliseconds of a product by tiles of one size: alone, and in a full device."""
    rows, columns = tile
    multiprocessors = device.multiprocessors
    resident = max(1, device.accumulators // (rows * columns))
    flops = 2 * rows * columns * arithmetic.depth
    read = (rows + columns) * arithmetic.depth * arithmetic.element_bytes
    own_ms = multiprocessors * max(
        flops / arithmetic.flops_per_ms, read / device.cache_bytes_per_ms
    )
    waiting_ms = device.step_ms / arithmetic.prefetched

    def step_ms(ctas: int) -> float:
        """The time of a step of each CTA on a multiprocessor."""
        return max(waiting_ms + own_ms, ctas * own_ms)

    steps = math.ceil(product.common / arithmetic.depth) + 1
    ctas = product.copies
    ctas *= math.ceil(product.rows / rows) * math.ceil(product.columns / columns)
    waves, rest = divmod(ctas, resident * multiprocessors)
    alone_ms = waves * step_ms(resident)
    if rest:
        alone_ms += step_ms(math.ceil(rest / multiprocessors))
    full_ms = ctas * step_ms(resident) / (resident * multiprocessors)
    return steps * alone_ms, steps * full_ms


def _common(problem: Problem, op: int) -> int:
    """The terms of an output element's sum."""
    return math.ceil(problem.flops[op] / (2 * math.prod(problem.shapes[op])))


def _window(problem: Problem, group: Iterable[int]) -> int:
    """The smallest window that has room for the kernels of all."""
    kernels = [problem.block["operators"][op].get("kernel", (1, 1)) for op in group]
    return math.prod(max(sizes) for sizes in zip(*kernels, strict=True))


def _elements_read(problem: Problem, op: int) -> int:
    """The elements of an operator's inputs."""
    block_inputs = problem.block["inputs"]
    return sum(
        math.prod(problem.shapes[ref] if ref >= 0 else block_inputs[-1 - ref])
        for ref in problem.inputs[op]
    )
