"""One function of a model on its way: found, tried, planned, rewritten, compared.

Shared by `convert`, which writes the result, and `optimize`, which returns it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
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
from ios_tf.errors import UserError
from ios_tf.model import graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature, NotOptimizedError
from ios_tf.model.graph_optimizer import Collected
from ios_tf.model.weights import Weights
from ios_tf.native import engine
from ios_tf.scheduler import (
    Problem,
    Schedule,
    sequential_schedule,
)
from ios_tf.tuning.searcher import NetworkSearcher


@dataclasses.dataclass(frozen=True)
class Function:
    """One function of a model: several signatures may share it.

    Attributes:
      frozen: its graph.
      collected: its blocks, by batch size; empty: it is not converted.
      reference: the original.
      other_networks: batch sizes for which it has other blocks: nothing is scheduled
        for these.
    """

    frozen: FrozenSignature
    collected: Mapping[int, Collected]
    reference: Reference
    other_networks: Sequence[int] = ()

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
          name: what errors and notes call it.
          original: computes what `frozen` does, which was made of it.
          batch_sizes: those to schedule for; none if it is not to be converted.
          image_size: in place of the heights and widths that its inputs leave open.
          device: "cpu" or "gpu".
          weights: where its variables are kept that are not the original's.

        Raises:
          UserError: it is converted already.
          NotOptimizedError: TensorFlow fails to infer its shapes, or to optimise it.
        """
        if batch_sizes and graph_optimizer.is_converted(frozen):
            raise UserError(
                f"signature {name!r} is converted already; convert the original model"
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
                raise error.__cause__ or error from None  # the mistake is ours
        bounds = {size for one in collected.values() for size in one.bound_sizes}
        reference = Reference(
            name, original, frozen, device, _told_size(collected), bounds
        )
        function = cls(frozen, collected, reference)
        kept = of_one_network(collected)
        others = [size for size in collected if size not in kept]
        function = dataclasses.replace(function, collected=kept, other_networks=others)
        _check_memory(name, function)
        return function

    @property
    def image_size(self) -> tuple[int, int] | None:
        """That it is scheduled for, where its inputs leave some of it open."""
        shapes = [spec.shape for spec in self.frozen.inputs.values()]
        if not any(s.rank and s.rank > 2 and None in s.as_list()[1:] for s in shapes):
            return None
        return _told_size(self.collected) or self.frozen.image_size

    @property
    def problems(self) -> dict[str, Problem]:
        """The blocks of all batch sizes, by signature."""
        return {s: p for c in self.collected.values() for s, p in c.problems.items()}

    def rewrite_sequential(self, device: str) -> Any:
        """Its graph with sequential schedules: to try it before the search."""
        if not self.problems:
            return self.frozen.graph_def
        sequential = {s: sequential_schedule(p) for s, p in self.problems.items()}
        return graph_optimizer.rewrite(
            self.frozen, sequential, list(self.collected), device
        )

    def compare(
        self,
        found: Callable[..., Any],
        graph_def: Any,
        batch_sizes: Sequence[int],
        timed: bool,
        portable: bool = False,
    ) -> Comparison:
        """Compares what was made of `graph_def` with the original.

        Args:
          found: what should compute the same.
          graph_def: the graph it was made of, with schedules.
          batch_sizes: those it was scheduled for. The outputs are compared at another
            one, too, and if latencies are not wanted only at the first of these.
          timed: whether to measure latencies.
          portable: whether to measure those in TensorFlow alone, too.

        Raises:
          UserError: it computes something else.
        """
        another = next(size for size in itertools.count(3) if size not in batch_sizes)
        compared = [*(batch_sizes if timed else batch_sizes[:1]), another]
        batch_sizes = self.timed_sizes(batch_sizes)
        if self.fixed_batch_size():
            compared = list(batch_sizes)
        return self.reference.compare(
            found, graph_def, compared, batch_sizes if timed else (), portable
        )

    def timed_sizes(self, batch_sizes: Sequence[int]) -> Sequence[int]:
        """The batch sizes to measure latencies at."""
        fixed = self.fixed_batch_size()
        if fixed:
            return [fixed]
        return [size for size in batch_sizes if size not in self.other_networks]

    def fixed_batch_size(self) -> int | None:
        """How many images the blocks are scheduled for, where no batch size says it."""
        inputs = self.frozen.inputs.values()
        if not self.problems or any(
            spec.shape.rank is None or None in spec.shape.as_list()[:1]
            for spec in inputs
        ):
            return None
        first = next(iter(self.problems.values()))
        return first.block["inputs"][0][0]

    def describe_fixed_batch_size(self) -> str:
        """Says why a batch size does not change how many images it computes."""
        fixed = self.fixed_batch_size()
        shapes = [spec.shape for spec in self.frozen.inputs.values()]
        leading = {shape[0] for shape in shapes if shape.rank}
        if leading == {fixed} and all(s.is_fully_defined() for s in shapes):
            return f"has the fixed batch size {fixed}"
        # The number may be fixed, or follow another dimension or an input's value.
        return "has no input whose first dimension is open"


@contextlib.contextmanager
def of_signature(name: str) -> Iterator[None]:
    """Says of which signature TensorFlow's optimizers fail."""
    try:
        yield
    except NotOptimizedError as error:
        raise NotOptimizedError(f"signature {name!r}: {error}") from error


def _told_size(collected: Mapping[int, Collected]) -> tuple[int, int] | None:
    """The image size that a graph asks for, if it does, at the first batch size."""
    return next((of_size.image_size for of_size in collected.values()), None)


def with_their_batch_sizes(functions: Mapping[int, Function]) -> dict[int, Function]:
    """Functions, of which those that compute a fixed number of images have one size.

    Raises:
      UserError: several sizes are asked for, and no function takes them.
    """
    several = [f for f in functions.values() if len(f.collected) > 1 and f.problems]
    fixed = [function for function in several if function.fixed_batch_size()]
    if fixed and len(fixed) == len(several):
        sizes = ", ".join(map(str, fixed[0].collected))
        raise UserError(
            f"signature {fixed[0].reference.name!r} "
            f"{fixed[0].describe_fixed_batch_size()}, so that it cannot be scheduled "
            f"for the batch sizes {sizes}; give one batch size"
        )
    return {
        number: dataclasses.replace(
            function, collected=dict(list(function.collected.items())[:1])
        )
        if function in fixed
        else function
        for number, function in functions.items()
    }


def of_one_network(collected: Mapping[int, Collected]) -> dict[int, Collected]:
    """The batch sizes at which a function is the same network.

    It need not be for all: `x[2:]` of a batch of 2 has no images, and what computes
    with them is no operator there. Of several networks that of most operators is
    taken, and then that of most sizes.
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
    """Whether the function can be run, where the system would end the process.

    Whoever runs an operator has what it reads and what it writes, and something
    beside them.
    """
    for size, collected in function.collected.items():
        for problem in collected.problems.values():
            block = problem.block
            shapes = [*block["inputs"], *problem.shapes]
            of_element = 4 if block.get("dtype", "float32") == "float32" else 2
            largest = max(map(math.prod, shapes)) * of_element
            try:
                engine.check_memory(3 * largest)
            except engine.EngineMemoryError:
                raise UserError(
                    f"signature {name!r} at batch size {size} has tensors of "
                    f"{largest / 2**30:.1f} GiB: there is not enough memory to run it"
                ) from None


def _network(collected: Collected) -> list[Any]:
    """The blocks without what may depend on the batch size."""
    blocks = []
    for found in collected.blocks:
        block = collected.problems[found["signature"]].block
        inputs = [(len(shape), shape[-1]) for shape in block["inputs"]]
        blocks.append((found["names"], block["operators"], inputs, block["outputs"]))
    return blocks


def computed_directly(schedules: Mapping[str, Schedule]) -> dict[str, Schedule]:
    """Schedules without the algorithms of their convolutions, which round otherwise."""
    return {
        signature: dataclasses.replace(schedule, algorithms={})
        for signature, schedule in schedules.items()
    }


@dataclasses.dataclass(frozen=True)
class Plan:
    """The plan for a function with blocks.

    Attributes:
      function: the function.
      checked: the schedules of its blocks.
      regions: what was measured of its regions, if they are several.
      left: the numbers of regions that stay TensorFlow's.
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
        """Keeps what is faster: of the schedules, and of the regions."""
        device = searcher.cost_model.device.kind
        collected = function.collected
        plan = cls(
            function,
            network_check.check(function.frozen, collected, schedules, searcher),
        )
        if keeps_all:
            return plan
        sizes = function.timed_sizes(list(collected))
        first = next(iter(collected.values()))
        rewrite = functools.partial(plan.rewrite, device)
        inputs = function.reference.inputs(sizes)
        if inputs:
            regions = region_check.measure(
                function.frozen, rewrite, first, inputs, device
            )
            left = {n for one in regions if not one.is_faster() for n in one.regions}
        else:
            regions = region_check.measure_made_up(
                function.frozen, rewrite, first, sizes, device
            )
            left = {block["region"] for block in first.blocks}
            left -= {n for one in regions if one.is_faster() for n in one.regions}
        return dataclasses.replace(plan, regions=regions, left=frozenset(left))

    @property
    def gains(self) -> bool:
        """Whether a region is left that is not TensorFlow's."""
        blocks = next(iter(self.function.collected.values())).blocks
        return any(block["region"] not in self.left for block in blocks)

    def is_faster(self, comparison: Comparison) -> bool:
        """Whether a function that gains is worth having, by what was measured.

        If it cannot be called, only its regions were: each that is kept is faster.
        """
        if not comparison.converted_ms:
            return bool(self.regions)
        return comparison.is_faster()

    def verdict(self, comparison: Comparison | None) -> Verdict:
        """The same, or that the measurements do not decide it.

        Without a comparison the latencies of regions decide.
        """
        if comparison and self.gains and comparison.converted_ms:
            return comparison.verdict()
        if any(one.verdict() is Verdict.UNDECIDED for one in self.regions):
            return Verdict.UNDECIDED
        faster = comparison is not None and self.is_faster(comparison)
        return Verdict.FASTER if faster else Verdict.NOT_FASTER

    def rewrite(
        self, device: str, materialise_merges: bool = True
    ) -> graph_pb2.GraphDef:
        """The function's graph with its schedules."""
        return graph_optimizer.rewrite(
            self.function.frozen,
            self.checked.schedules,
            list(self.function.collected),
            device,
            self.left,
            materialise_merges,
        )
