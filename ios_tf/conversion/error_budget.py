"""Chooses which operators compute in bfloat16, so that outputs stay exact enough.

The choice begins with all operators in bfloat16. If this changes an output too much,
groups of operators compute in float32 again, first those that gain the most accuracy
for the time that they cost.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf.conversion import inner_tensors, network_check, timing
from ios_tf.conversion.comparison import DifferenceError
from ios_tf.conversion.planning import Function
from ios_tf.cost.cost_model import compare_within_memory
from ios_tf.differences import relative_difference
from ios_tf.errors import UserError, first_line
from ios_tf.model import graph_optimizer, subgraphs
from ios_tf.native import engine
from ios_tf.native.devices import Device
from ios_tf.native.graph import FLOAT32, Precision
from ios_tf.options import BFLOAT16_ON_GPU, ModelOptions
from ios_tf.scheduler import Problem, Stage
from ios_tf.tables import rounded
from ios_tf.tuning.searcher import NetworkSearcher

# If not all operators can compute in bfloat16, those that do may use this share of the
# allowed error. The rest is a reserve, because the schedules that the search finds
# later round in other ways.
_SHARE = 0.9
# The largest number of groups of operators.
_MOST_GROUPS = 24
# The number of images with which the error of a single group is measured. It is small
# because there are many groups.
_IMAGES_OF_GROUPS = 16
# A group counts as slower in float32 by at least this many milliseconds, because the
# accuracy that it gains is divided by this time.
_LEAST_MS = 1e-6


@dataclasses.dataclass(frozen=True)
class Returned:
    """Operators that compute in float32, because bfloat16 is not exact enough.

    Attributes:
      operators: their names.
      error: the error of the network if only these operators compute in bfloat16.
      ms: how much longer they take in float32, for the first batch size.
    """

    operators: Sequence[str]
    error: float
    ms: float


@dataclasses.dataclass(frozen=True)
class Errors:
    """How much outputs differ from those in float32.

    Attributes:
      error: the largest difference of an output divided by its largest value.
      agreement: the share of images for which the largest value of the output is at the
        same position; None if the function is not a classifier.
      images: the number of images.
    """

    error: float
    agreement: float | None
    images: int


@dataclasses.dataclass(frozen=True)
class Choice:
    """The precision of a function's operators.

    Attributes:
      signature: the function's name.
      precision: "bfloat16", or "float32" if no operator computes in bfloat16.
      max_error: the largest allowed error.
      whole: the errors with all operators in bfloat16; None if they are not known.
      chosen: the errors with the chosen operators in bfloat16; None if there are none.
      returned: the operators that compute in float32.
      why: why no operator computes in bfloat16, as text.
    """

    signature: str
    precision: str
    max_error: float
    whole: Errors | None = None
    chosen: Errors | None = None
    returned: Sequence[Returned] = ()
    why: str = ""


def requested_precision(options: ModelOptions, device: Device) -> Precision:
    """The precision that the options ask for on a device.

    Raises:
      UserError: bfloat16 is requested, but the device does not have it.
    """
    if options.precision == "float32":
        return FLOAT32
    usable = device.kind == "cpu" and engine.has_bfloat16(device.engine)
    if usable:
        return Precision("bfloat16", max_error=options.max_error)
    if options.precision == "auto":
        return FLOAT32
    if device.kind == "gpu":
        raise UserError(BFLOAT16_ON_GPU)
    raise UserError(
        'precision="bfloat16" needs a processor with bfloat16 arithmetic, which this '
        'one does not have. Use precision="auto" or "float32"'
    )


def is_float32(function: Function) -> bool:
    """Returns whether blocks of the function are float32 in the original."""
    return any(one.dtype == "float32" for one in function.problems.values())


def within_budget(
    function: Function,
    precision: Precision,
    batch_sizes: Sequence[int],
    searcher: NetworkSearcher,
    keeps_all: bool,
) -> tuple[Function, Choice]:
    """Returns the function with as many operators in bfloat16 as the error allows.

    `precision` has the largest allowed error. With `keeps_all`, bfloat16 is used even
    if it is not faster.
    """
    narrow, choice = _most_exact(function, precision, batch_sizes, searcher)
    if narrow is function or keeps_all:
        return narrow, choice
    exact_ms, narrow_ms = _network_latencies([function, narrow], searcher)
    if narrow_ms < exact_ms:
        return narrow, choice
    why = f"the regions take {rounded(narrow_ms)} ms with bfloat16 and "
    why += f"{rounded(exact_ms)} ms without it"
    return function, _in_float32(choice, why)


def _most_exact(
    function: Function,
    precision: Precision,
    batch_sizes: Sequence[int],
    searcher: NetworkSearcher,
) -> tuple[Function, Choice]:
    """Does the work of `within_budget`, without the comparison of times."""
    choice = Choice(function.reference.name, "float32", precision.max_error)

    def unchanged(why: str) -> tuple[Function, Choice]:
        return function, dataclasses.replace(choice, why=why)

    # Errors are measured with the schedules of one batch size.
    first = next(iter(function.collected))
    single = dataclasses.replace(function, collected={first: function.collected[first]})
    whole = single.with_precision(precision)
    try:
        meter = _Meter(function, batch_sizes)
        errors = meter.errors(whole)
    except tf.errors.OpError as error:
        return unchanged(
            f"the error of bfloat16 could not be measured ({first_line(error)})"
        )
    if errors is None:
        return unchanged("the error of bfloat16 could not be measured")
    choice = dataclasses.replace(choice, whole=errors)
    if errors.error <= precision.max_error:
        choice = dataclasses.replace(choice, precision="bfloat16", chosen=errors)
        return function.with_precision(precision), choice
    useful = _most_useful_first(single, whole, meter, searcher)
    inexact = sorted(useful, key=lambda one: one.error, reverse=True)
    for candidates in (useful, inexact):
        count, chosen = _fewest(candidates, single, precision, meter)
        if chosen is None:
            continue
        narrow = function.with_precision(_without(precision, candidates[:count]))
        # The operators that are left may be too few for a region.
        if any(one.dtype == "bfloat16" for one in narrow.problems.values()):
            return narrow, dataclasses.replace(
                choice, precision="bfloat16", chosen=chosen, returned=candidates[:count]
            )
    return unchanged(
        f"bfloat16 changes an output by up to {errors.error:.2g} of its largest value, "
        f"and max_error is {precision.max_error:g}. No part of the network that was "
        "tried in bfloat16 is exact enough, either"
    )


def _without(precision: Precision, groups: Sequence[Returned]) -> Precision:
    names = itertools.chain.from_iterable(one.operators for one in groups)
    return dataclasses.replace(precision, float32_operators=frozenset(names))


def _fewest(
    candidates: Sequence[Returned],
    function: Function,
    precision: Precision,
    meter: _Meter,
) -> tuple[int, Errors | None]:
    """Finds how many of the first groups must compute in float32.

    Returns:
      The number of groups, and the errors of the network if exactly these groups
      compute in float32. The errors are None if all groups must compute in float32.
    """
    # The number is between `low` (too few groups) and `high` (enough groups).
    low, high = 0, len(candidates)
    best: Errors | None = None
    while high - low > 1:
        middle = (low + high) // 2
        found = meter.errors(
            function.with_precision(_without(precision, candidates[:middle]))
        )
        if found is not None and found.error <= _SHARE * precision.max_error:
            high, best = middle, found
        else:
            low = middle
    return high, best


def in_float32(choice: Choice, error: DifferenceError) -> Choice:
    """The choice after a conversion whose outputs differed too much."""
    why = f"with the schedules found, an output of {error.signature!r} differs by "
    return _in_float32(choice, choice.why or why + error.difference)


def _in_float32(choice: Choice, why: str) -> Choice:
    return dataclasses.replace(
        choice, precision="float32", chosen=None, returned=(), why=why
    )


class _Meter:
    """Measures the errors of a function in other precisions."""

    def __init__(self, function: Function, batch_sizes: Sequence[int]) -> None:
        self._device = function.device
        frozen = function.frozen
        self._calls: list[tuple[list[tf.Tensor], list[np.ndarray]]] = []
        sizes = function.compared_sizes(batch_sizes)
        calls = function.reference.calls.varied_inputs(sizes)
        # The outputs of some functions, such as the number of the best class, are not
        # floats. The tensors behind these outputs are measured then.
        for self._frozen in (frozen, inner_tensors.with_logits(frozen)):
            self._names = self._frozen.fetches()
            compute = subgraphs.tensors(frozen, frozen.graph_def, self._names)
            for inputs in calls:
                arguments = [inputs[name] for name in frozen.inputs]
                self._calls.append((arguments, self._run(compute, arguments)))
            if any(map(_is_float, self._calls[0][1] if self._calls else ())):
                break
            self._calls = []

    def errors(
        self, function: Function, most_images: int | None = None
    ) -> Errors | None:
        """The errors of the function in its precision; None if nothing is known."""
        graph_def = function.rewrite_sequential()
        lowered = graph_optimizer.lowered(self._frozen, graph_def, self._device)
        compute = subgraphs.tensors(self._frozen, lowered, self._names)
        error, images, agreements = 0.0, 0, []
        for arguments, expected in self._calls:
            found = self._run(compute, arguments)
            images += expected[0].shape[0] if expected[0].ndim else 1
            for one, truth in zip(found, expected, strict=True):
                if _is_float(truth):
                    error = max(error, relative_difference(one, truth))
            if _is_classifier(expected):
                best = found[0].argmax(axis=1) == expected[0].argmax(axis=1)
                agreements.append(best)
            if most_images and images >= most_images:
                break
        if not self._calls:
            return None
        agreement = float(np.concatenate(agreements).mean()) if agreements else None
        return Errors(error, agreement, images)

    def _run(
        self, compute: subgraphs.GraphFunction, arguments: Sequence[tf.Tensor]
    ) -> list[np.ndarray]:
        with timing.running(plugin=False, device=self._device):
            return [tensor.numpy() for tensor in compute(*arguments)]


def _is_float(array: np.ndarray) -> bool:
    return array.dtype != object and tf.as_dtype(array.dtype).is_floating


def _is_classifier(outputs: Sequence[np.ndarray]) -> bool:
    """Whether the only output has a number for each of several classes."""
    only = outputs[0]
    return (
        len(outputs) == 1 and only.ndim == 2 and only.shape[1] > 1 and _is_float(only)
    )


def _most_useful_first(
    function: Function, whole: Function, meter: _Meter, searcher: NetworkSearcher
) -> list[Returned]:
    """Groups of operators, sorted by the accuracy that float32 gains per millisecond.

    `function` computes in float32, and `whole` in bfloat16.
    """
    groups = _groups(whole, searcher)
    names = {name for group in groups for name in group}
    slow, fast = (_latencies(one, searcher) for one in (function, whole))
    found = []
    for group in groups:
        others = names.difference(group)
        precision = dataclasses.replace(
            whole.frozen.precision, float32_operators=frozenset(others)
        )
        alone = function.with_precision(precision)
        errors = meter.errors(alone, _IMAGES_OF_GROUPS)
        ms = sum(slow.get(name, 0.0) - fast.get(name, 0.0) for name in group)
        found.append(Returned(group, errors.error if errors else 0.0, ms))
    # The errors of groups are independent of each other, so their squares add up.
    return sorted(
        found, key=lambda one: one.error**2 / max(one.ms, _LEAST_MS), reverse=True
    )


def _groups(function: Function, searcher: NetworkSearcher) -> list[list[str]]:
    """The names of the operators in bfloat16, in groups of consecutive operators.

    A group has at least 1/24 of the network's work. It consists of whole parts, as they
    are scheduled, except that parts which are chains may be divided.
    """
    collected = _of_first_size(function)
    parts: list[tuple[list[str], int]] = []
    for block in collected.blocks:
        problem = collected.problems[block["signature"]]
        if problem.dtype != function.frozen.precision.dtype:
            continue
        for part in searcher.parts_of(problem)[0]:
            ops = part.operators
            for piece in zip(ops) if part.problem.is_chain else [ops]:
                names = [block["names"][op] for op in piece]
                parts.append((names, sum(problem.flops[op] for op in piece)))
    least = sum(flops for _, flops in parts) / _MOST_GROUPS
    groups: list[list[str]] = []
    size = least
    for names, flops in parts:
        if size >= least:
            groups.append([])
            size = 0
        groups[-1] += names
        size += flops
    return groups


def _latencies(function: Function, searcher: NetworkSearcher) -> Mapping[str, float]:
    """The latency of each operator in ms, by name, alone on the device."""
    found: dict[str, float] = {}
    collected = _of_first_size(function)
    for block in collected.blocks:
        problem: Problem = collected.problems[block["signature"]]
        for op, name in enumerate(block["names"]):
            stage = Stage.concurrent(problem, 1 << op)
            try:
                found[name] = searcher.stage_latency(problem, stage)
            except MemoryError:
                continue
        searcher.cost_model.release()
    return found


def _network_latencies(
    functions: Sequence[Function], searcher: NetworkSearcher
) -> list[float]:
    """The latencies in ms of all regions of functions, with sequential schedules."""
    networks = []
    for function in functions:
        size = next(iter(function.collected))
        frozen = function.frozen.without_weights
        light = dataclasses.replace(function, frozen=frozen)
        scheduled = dataclasses.replace(frozen, graph_def=light.rewrite_sequential())
        networks.append(network_check.programs(scheduled, size, function.device))
    latencies = compare_within_memory(
        searcher.cost_model.compare_programs, networks, searcher.cost_model.release
    )
    searcher.cost_model.release()
    return latencies


def _of_first_size(function: Function) -> Any:
    return next(iter(function.collected.values()))
