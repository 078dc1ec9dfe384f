"""Kernels of operators on a simulated device: their times, and the resources they use.

A convolution is an implicit product of matrices. Its result has one row per output
pixel and one column per filter; the common dimension is window * channels. CTAs (thread
blocks) compute the product by tiles, in steps along the common dimension. The first
step only loads.
The time of a step is the longest of three: a multiprocessor computes the tiles of all
its CTAs, it reads their operands from the L2 cache, or one CTA waits for its loads and
computes. CTAs run in waves. The model takes the fastest of the device's tiles, as
cuDNN's heuristics and the engine's search of plans do.

All other operators, such as pools, sums and depthwise convolutions, move bytes. An
operator with fewer CTAs than the device has multiprocessors gets only a share of the
bandwidth. Reading weights counts, too. A concat takes no time, because its inputs are
written in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.simulated_gpu.device import Arithmetic, SimulatedDevice
from ios_tf.cost.work import VIEWS
from ios_tf.scheduler.problem import Problem

# Output elements of a CTA that moves bytes: 256 threads with four elements each.
_CTA_ELEMENTS = 1024
_PRODUCTS = ("conv2d", "conv2d_transpose", "matmul")


class Kernel(NamedTuple):
    """The time of one kernel in ms, without its launch.

    Attributes:
      alone_ms: time if the kernel has the device to itself.
      compute_ms: time of its arithmetic if its CTAs fill the device.
      bytes_ms: time of its memory traffic at the device's full bandwidth.
    """

    alone_ms: float
    compute_ms: float
    bytes_ms: float


class Product(NamedTuple):
    """A product of matrices, or several products of the same size.

    Attributes:
      rows, columns: size of the result.
      common: the dimension that is summed over.
      copies: number of products of this size: the groups of a convolution.
    """

    rows: int
    columns: int
    common: int
    copies: int = 1


def kernels_of(problem: Problem, op: int, device: SimulatedDevice) -> list[Kernel]:
    """Returns the kernels of an operator in execution order."""
    operator = problem.block["operators"][op]
    elements = math.prod(problem.shapes[op])
    channels = problem.shapes[op][-1]
    read = _elements_read(problem, op)
    window = _window(problem, [op])
    make = _Maker(device, problem.dtype)
    if operator["type"] in VIEWS:
        return []
    if operator["type"] == "sepconv":
        pixels = elements // channels
        # `flops` covers both parts: channels * (window + filters) per pixel.
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
    """Returns the one kernel of a merge: all filters, padded to the largest window."""
    first = group[0]
    filters = sum(problem.shapes[op][-1] for op in group)
    pixels = math.prod(problem.shapes[first][:-1])
    channels = math.ceil(_common(problem, first) / _window(problem, [first]))
    common = channels * _window(problem, group)
    make = _Maker(device, problem.dtype)
    read = _elements_read(problem, first)
    return make.product(Product(pixels, filters, common), read)


class _Maker:
    """Makes kernels for one device and one element type."""

    def __init__(self, device: SimulatedDevice, dtype: str) -> None:
        self._device = device
        self._arithmetic = device.arithmetic(dtype)
        self._elements_per_ms = device.bytes_per_ms / self._arithmetic.element_bytes

    def moving(self, written: int, moved: int) -> Kernel:
        """Returns a kernel that moves `moved` elements and computes almost nothing."""
        bytes_ms = moved / self._elements_per_ms
        ctas = math.ceil(written / _CTA_ELEMENTS)
        occupancy = min(1.0, ctas / self._device.multiprocessors)
        return Kernel(bytes_ms / occupancy, 0.0, bytes_ms)

    def product(self, product: Product, read: int) -> Kernel:
        """Returns a kernel that multiplies `read` input elements by weights."""
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
    """Returns the ms of a product with one tile size: alone, and on a full device."""
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
        """Returns the ms of one step of all `ctas` CTAs on a multiprocessor."""
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
    """Returns the number of products that are summed per output element."""
    return math.ceil(problem.flops[op] / (2 * math.prod(problem.shapes[op])))


def _window(problem: Problem, group: Iterable[int]) -> int:
    """Returns the area of the smallest window that covers the kernels of all."""
    kernels = [problem.block["operators"][op].get("kernel", (1, 1)) for op in group]
    return math.prod(max(sizes) for sizes in zip(*kernels, strict=True))


def _elements_read(problem: Problem, op: int) -> int:
    """Returns the number of elements of an operator's inputs."""
    block_inputs = problem.block["inputs"]
    return sum(
        math.prod(problem.shapes[ref] if ref >= 0 else block_inputs[-1 - ref])
        for ref in problem.inputs[op]
    )
