"""The steps of converting one function: find, try, plan, rewrite and compare.

Both `convert`, which writes the result, and `optimize`, which returns it, use these
steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.core.framework import graph_pb2

from ios_tf.conversion import network_check, region_check
from ios_tf.conversion.comparison import Comparison
from ios_tf.conversion.reference import Reference
from ios_tf.conversion.region_check import RegionLatency
from ios_tf.cost.verdict import Verdict
from ios_tf.cost.work import element_size
from ios_tf.errors import UserError
from ios_tf.model import graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.graph_optimizer import Collected
from ios_tf.model.not_converted import NotOptimizedError
from ios_tf.model.weights import Weights
from ios_tf.native import engine
from ios_tf.native.graph import Precision
from ios_tf.scheduler import Load, Problem, Schedule, sequential_schedule
from ios_tf.scheduler.problem import batch_sizes_of
from ios_tf.tuning.searcher import NetworkSearcher


@dataclasses.dataclass(frozen=True)
class Function:
    """One function of a model. Several signatures may share it.

    Attributes:
      frozen: the function as a frozen graph.
      collected: the blocks, by batch size or `Load` (batch size and number of callers).
        Empty if nothing is converted.
      reference: the original, for comparisons.
      other_networks: batch sizes at which the function has other blocks. Nothing is
        scheduled for these sizes.
      device: "cpu" or "gpu".
    """

    frozen: FrozenSignature
    collected: Mapping[int, Collected]
    reference: Reference
    other_networks: Sequence[int] = ()
    device: str = "cpu"

    @classmethod
    def find(
        cls,
        name: str,
        original: Any,
        frozen: FrozenSignature,
        batch_sizes: Sequence[int],
        image_size: tuple[int, int],
        device: str,
        weights: Weights,
    ) -> Function:
        """Finds the blocks of a function.

        Args:
          name: the function's name in errors and notes.
          original: the original, from which `frozen` was made.
          batch_sizes: the batch sizes or loads to schedule for; empty if the function
            is not to be converted.
          image_size, device: as in `FrozenSignature` and `Function`.
          weights: stores variables of the converted function that the original does not
              have.

        Raises:
          UserError: the function is already converted.
          NotOptimizedError: TensorFlow fails to infer the function's shapes, or to
            optimise it.
        """
        if batch_sizes and graph_optimizer.is_converted(frozen):
            raise UserError(
                f"signature {name!r} is already converted. Convert the original model"
            )
        with of_signature(name):
            frozen = unfolded = dataclasses.replace(frozen, image_size=image_size)
            if batch_sizes:
                frozen = graph_optimizer.fold_constants(frozen)
                frozen = weights.with_scaled_filters(frozen)
            try:
                collected = {
                    size: graph_optimizer.collect(frozen, size, device)
                    for size in batch_sizes
                }
            except NotOptimizedError as error:
                graph_optimizer.check_shapes(unfolded, batch_sizes)
                # TensorFlow can infer the shapes of the original, so IOS-TF has caused
                # this error.
                raise error.__cause__ or error from None
        bounds = {size for one in collected.values() for size in one.bound_sizes}
        reference = Reference(
            name, original, frozen, device, _told_size(collected), bounds
        )
        kept = largest_consistent_batch_sizes(collected)
        others = [size for size in collected if size not in kept]
        function = cls(frozen, kept, reference, others, device)
        _check_memory(name, function)
        return function

    @property
    def image_size(self) -> tuple[int, int] | None:
        """The image size for which schedules are made.

        None if the inputs have a fixed size.
        """
        shapes = [spec.shape for spec in self.frozen.inputs.values()]
        if not any(s.rank and s.rank > 2 and None in s.as_list()[1:] for s in shapes):
            return None
        return _told_size(self.collected) or self.frozen.image_size

    @property
    def problems(self) -> dict[str, Problem]:
        """The blocks of all batch sizes, by signature."""
        return {s: p for c in self.collected.values() for s, p in c.problems.items()}

    def with_precision(self, precision: Precision) -> Function:
        """Returns the function with blocks in another precision."""
        frozen = self.frozen.with_precision(precision)
        return dataclasses.replace(
            self,
            frozen=frozen,
            collected={
                size: graph_optimizer.collect(frozen, size, self.device)
                for size in self.collected
            },
            reference=self.reference.with_frozen(frozen),
        )

    def rewrite_sequential(self) -> Any:
        """The graph with sequential schedules, for a trial before the search."""
        if not self.problems:
            return self.frozen.graph_def
        sequential = {s: sequential_schedule(p) for s, p in self.problems.items()}
        return graph_optimizer.rewrite(
            self.frozen, sequential, list(self.collected), self.device
        )

    def compare(
        self,
        found: Callable[..., Any],
        graph_def: Any,
        batch_sizes: Sequence[int],
        timed: bool,
        portable: bool = False,
    ) -> Comparison:
        """Compares a function, which was made from `graph_def`, with the original.

        Outputs are compared at the scheduled `batch_sizes` (if not `timed`, only at the
        first one) and at one other size. `timed` says whether to measure latencies. See
        `Reference.compare` for the other arguments and for errors.
        """
        compared = self.compared_sizes(batch_sizes, timed)
        batch_sizes = self.timed_sizes(batch_sizes)
        return self.reference.compare(
            found, graph_def, compared, batch_sizes if timed else (), portable
        )

    def compared_sizes(
        self, batch_sizes: Sequence[int], timed: bool = True
    ) -> list[int]:
        """Returns the batch sizes at which outputs are compared (see `compare`)."""
        fixed = self.fixed_batch_size()
        if fixed:
            return [fixed]
        plain = batch_sizes_of(batch_sizes)
        another = next(size for size in itertools.count(3) if size not in plain)
        return [*(plain if timed else plain[:1]), another]

    def timed_sizes(self, batch_sizes: Sequence[int]) -> Sequence[int]:
        """Returns the batch sizes or loads for which latencies are measured."""
        fixed = self.fixed_batch_size()
        if fixed:
            loads = (Load(fixed, Load.of(size).callers) for size in batch_sizes)
            return list(dict.fromkeys(loads))
        return [size for size in batch_sizes if size not in self.other_networks]

    def fixed_batch_size(self) -> int | None:
        """The scheduled number of images if each input has a fixed first dimension.

        None if the batch dimension of an input is open.
        """
        inputs = self.frozen.inputs.values()
        if not self.problems or any(
            spec.shape.rank is None or None in spec.shape.as_list()[:1]
            for spec in inputs
        ):
            return None
        first = next(iter(self.problems.values()))
        return first.block["inputs"][0][0]

    def describe_fixed_batch_size(self) -> str:
        """Returns why a batch size does not change the number of images, as text."""
        fixed = self.fixed_batch_size()
        shapes = [spec.shape for spec in self.frozen.inputs.values()]
        leading = {shape[0] for shape in shapes if shape.rank}
        if leading == {fixed} and all(s.is_fully_defined() for s in shapes):
            return f"has the fixed batch size {fixed}"
        # The reason is not more exact, because the number of images may be fixed, or
        # depend on another dimension or on the value of an input.
        return "has no input whose first dimension is open"


@contextlib.contextmanager
def of_signature(name: str) -> Iterator[None]:
    """Adds a signature's name to the messages of NotOptimizedError."""
    try:
        yield
    except NotOptimizedError as error:
        raise NotOptimizedError(f"signature {name!r}: {error}") from error


def _told_size(collected: Mapping[int, Collected]) -> tuple[int, int] | None:
    """Returns the image size that a graph requires, or None if it requires none."""
    return next((of_size.image_size for of_size in collected.values()), None)


def drop_extra_batch_sizes(functions: Mapping[int, Function]) -> dict[int, Function]:
    """Keeps one batch size for each function that processes a fixed number of images.

    Raises:
      UserError: several batch sizes are requested, but no function has an open batch
          dimension.
    """
    several = {
        number: f
        for number, f in functions.items()
        if len(batch_sizes_of(f.collected)) > 1 and f.problems
    }
    fixed = {number: f for number, f in several.items() if f.fixed_batch_size()}
    if fixed and len(fixed) == len(several):
        function = next(iter(fixed.values()))
        sizes = ", ".join(map(str, batch_sizes_of(function.collected)))
        raise UserError(
            f"signature {function.reference.name!r} "
            f"{function.describe_fixed_batch_size()}, so it cannot be scheduled for "
            f"the batch sizes {sizes}. Give one batch size"
        )
    kept = dict(functions)
    for number, function in fixed.items():
        first, *_ = batch_sizes_of(function.collected)
        collected = {k: one for k, one in function.collected.items() if int(k) == first}
        kept[number] = dataclasses.replace(function, collected=collected)
    return kept


def largest_consistent_batch_sizes(
    collected: Mapping[int, Collected],
) -> dict[int, Collected]:
    """Returns the blocks of batch sizes at which a function has the same operators.

    At some batch sizes, a function may have other operators. For example, `x[2:]` has
    no images for a batch of 2, so the operators that read this slice are not in the
    blocks. Batch sizes with the same operators form a group. The result is the group
    with the most operators or, among equal ones, with the most batch sizes.
    """
    networks: list[list[int]] = []
    for size, network in collected.items():
        for sizes in networks:
            if _network(collected[sizes[0]]) == _network(network):
                sizes.append(size)
                break
        else:
            networks.append([size])

    def worth(sizes: Sequence[int]) -> tuple[int, int]:
        blocks = collected[sizes[0]].blocks
        return sum(len(block["names"]) for block in blocks), len(sizes)

    return {size: collected[size] for size in max(networks, key=worth, default=[])}


def _check_memory(name: str, function: Function) -> None:
    """Raises UserError if the free memory is too small to run the function.

    If the function ran anyway, the system would kill the process. An operator needs
    memory for its input, its output and some temporary data.
    """
    for size, collected in function.collected.items():
        for problem in collected.problems.values():
            block = problem.block
            shapes = [*block["inputs"], *problem.shapes]
            largest = max(map(math.prod, shapes)) * element_size(problem.dtype)
            try:
                engine.check_memory(3 * largest)
            except engine.EngineMemoryError:
                raise UserError(
                    f"signature {name!r} at batch size {size} has tensors of "
                    f"{largest / 2**30:.1f} GiB, and there is not enough free memory "
                    "to run it. Use a smaller batch size or image size"
                ) from None


def _network(collected: Collected) -> list[Any]:
    """Returns the properties of the blocks that do not depend on the batch size."""
    blocks = []
    for found in collected.blocks:
        block = collected.problems[found["signature"]].block
        inputs = [(len(shape), shape[-1]) for shape in block["inputs"]]
        blocks.append((found["names"], block["operators"], inputs, block["outputs"]))
    return blocks


def computed_directly(schedules: Mapping[str, Schedule]) -> dict[str, Schedule]:
    """Returns the schedules without algorithms, which round differently."""
    return {
        signature: dataclasses.replace(schedule, algorithms={})
        for signature, schedule in schedules.items()
    }


@dataclasses.dataclass(frozen=True)
class Plan:
    """The schedules of a function, and the regions that are left to TensorFlow.

    Attributes:
      regions: the latencies of its regions, if regions were timed one by one.
      left: the numbers of the regions that are left to TensorFlow.
    """

    function: Function
    checked: network_check.Checked
    regions: Sequence[RegionLatency] = ()
    left: frozenset[int] = frozenset()

    @classmethod
    def find(
        cls,
        function: Function,
        schedules: Mapping[str, Schedule],
        searcher: NetworkSearcher,
        keeps_all: bool,
    ) -> Plan:
        """Makes a plan with the fastest schedules and the regions that are faster.

        With `keeps_all`, all regions are kept.
        """
        device, collected = function.device, function.collected
        plan = cls(
            function,
            network_check.check(function.frozen, collected, schedules, searcher),
        )
        if keeps_all:
            return plan
        sizes = function.timed_sizes(list(collected))
        first = next(iter(collected.values()))
        inputs = function.reference.calls.inputs_at(sizes)
        if inputs:
            regions = region_check.measure(
                function.frozen, plan.rewrite, first, inputs, device
            )
            left = {n for one in regions if not one.is_faster() for n in one.regions}
        else:
            regions = region_check.measure_made_up(
                function.frozen, plan.rewrite, first, sizes, device
            )
            left = {block["region"] for block in first.blocks}
            left -= {n for one in regions if one.is_faster() for n in one.regions}
        return dataclasses.replace(plan, regions=regions, left=frozenset(left))

    @property
    def gains(self) -> bool:
        """Whether the engine computes at least one region of the function."""
        blocks = next(iter(self.function.collected.values())).blocks
        return any(block["region"] not in self.left for block in blocks)

    def is_faster(self, comparison: Comparison) -> bool:
        """Returns whether the function is faster, for a plan with regions.

        If the function could not be called, only its regions were timed, and all
        regions that are kept are faster.
        """
        if not comparison.latencies:
            return bool(self.regions)
        return comparison.is_faster()

    def verdict(self, comparison: Comparison | None) -> Verdict:
        """Returns whether the function is faster, or whether this is undecided.

        Without a timed comparison, the latencies of the regions decide.
        """
        if comparison and self.gains and comparison.latencies:
            return comparison.verdict()
        if any(one.verdict() is Verdict.UNDECIDED for one in self.regions):
            return Verdict.UNDECIDED
        faster = comparison is not None and self.is_faster(comparison)
        return Verdict.FASTER if faster else Verdict.NOT_FASTER

    def without_weights(self) -> FrozenSignature:
        """The function with its schedules, but without the values of its weights."""
        light = self.function.frozen.without_weights
        function = dataclasses.replace(self.function, frozen=light)
        graph_def = dataclasses.replace(self, function=function).rewrite()
        return dataclasses.replace(light, graph_def=graph_def)

    def rewrite(self, materialise_merges: bool = True) -> graph_pb2.GraphDef:
        """The function's graph with its schedules."""
        return graph_optimizer.rewrite(
            self.function.frozen,
            self.checked.schedules,
            list(self.function.collected),
            self.function.device,
            self.left,
            materialise_merges,
        )
