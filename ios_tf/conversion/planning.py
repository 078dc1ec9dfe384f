"""One function of a model on its way: found, tried, searched, rewritten, compared.

Shared by `convert`, which writes the result, and `optimize`, which returns it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.core.framework import graph_pb2

from ios_tf.conversion import network_check, region_check
from ios_tf.conversion.comparison import Comparison, Reference
from ios_tf.conversion.region_check import RegionLatency
from ios_tf.conversion.report import Report, SizeReport
from ios_tf.cost import Measurement, open_database
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.errors import UserError
from ios_tf.model import graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.function_library import (
    CONVOLUTIONS,
    count_convolutions,
    hidden_convolutions,
    other_convolutions,
)
from ios_tf.model.graph_optimizer import Collected
from ios_tf.model.weights import Weights
from ios_tf.native import devices, plugin
from ios_tf.scheduler import (
    STRATEGIES,
    Problem,
    Pruning,
    Schedule,
    sequential_schedule,
)
from ios_tf.tuning.cache import ScheduleCache, default_directory, latency_database
from ios_tf.tuning.parts import Patterns
from ios_tf.tuning.searcher import BASELINES, Searcher, SearchStats

_UNKNOWN = "their shapes are unknown, or they are of a kind the engine does not have"


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The target and settings of a search: arguments of `convert` of the same names.

    Raises:
      UserError: one of them is none.
    """

    batch_size: int | Sequence[int] = 1
    device: str = "auto"
    strategy: str = "both"
    max_groups: int = 8
    max_group_size: int = 3
    time_limit: float = 300.0
    units: Sequence[str] = ()
    borders: Sequence[str] = ()
    cache_dir: str | None = None
    warmup: int = 2
    number: int = 3
    repeat: int = 3
    keep_slower: bool = False
    winograd: bool = True

    def __post_init__(self) -> None:
        sizes = self._sizes()
        if not sizes:
            raise UserError("batch_size must name at least one batch size")
        for size in sizes:
            if not isinstance(size, int) or size < 1:
                raise UserError(f"batch_size must be a whole number >= 1, not {size!r}")
            if sizes.count(size) > 1:
                raise UserError(f"batch_size is to name {size} once")
        if self.strategy not in STRATEGIES:
            raise UserError(f"strategy must be one of {', '.join(STRATEGIES)}")
        if not self.time_limit >= 0:
            raise UserError(
                f"time_limit must be at least 0 seconds, not {self.time_limit!r}"
            )
        try:
            self._pruning()
            self._measurement()
        except ValueError as error:
            raise UserError(str(error)) from None

    @property
    def batch_sizes(self) -> list[int]:
        """Those to schedule for, the smallest one first."""
        return sorted(self._sizes())

    def _sizes(self) -> list[int]:
        several = isinstance(self.batch_size, Sequence)
        several = several and not isinstance(self.batch_size, str)
        return list(self.batch_size) if several else [self.batch_size]

    def _pruning(self) -> Pruning:
        return Pruning(self.max_group_size, self.max_groups)

    def _measurement(self) -> Measurement:
        return Measurement(self.warmup, self.number, self.repeat)

    @contextlib.contextmanager
    def searcher(
        self, say: Callable[[str], None], progress: bool
    ) -> Iterator[Searcher]:
        """A searcher that measures on this machine and keeps the schedules it finds."""
        device = devices.choose(self.device, say)
        name = plugin.device_fingerprint(device.engine)
        cache_dir = self.cache_dir or default_directory()
        database = open_database(latency_database(cache_dir), name)
        with contextlib.closing(database):
            yield Searcher(
                MeasuredCostModel(device, self._measurement()),
                self.strategy,
                self._pruning(),
                ScheduleCache(cache_dir, name),
                progress,
                database,
                Patterns(tuple(self.units), tuple(self.borders)),
                self.time_limit,
                self.winograd and device.kind == "cpu",
            )

    @property
    def keeps_all(self) -> bool:
        """Whether what is slower than TensorFlow is kept: asked for, or a baseline."""
        return self.keep_slower or self.strategy in BASELINES

    def report(self, searcher: Searcher, output: str | None) -> Report:
        """An empty report of what is done with `searcher`."""
        device = plugin.device_fingerprint(searcher.cost_model.device.engine)
        sizes = {size: SizeReport() for size in self.batch_sizes}
        return Report(output, device, sizes)


@dataclasses.dataclass(frozen=True)
class Function:
    """One function of a model: several signatures may share it."""

    frozen: FrozenSignature
    collected: Mapping[int, Collected]  # by batch size; empty: it is not converted
    reference: Reference

    @classmethod
    def find(
        cls,
        name: str,
        original: Any,
        frozen: FrozenSignature,
        batch_sizes: Sequence[int],
        device: str,
        weights: Weights,
    ) -> Function:
        """Finds the blocks of a function.

        Args:
          name: what errors and notes call it.
          original: computes what `frozen` does, which was made of it.
          batch_sizes: those to schedule for; none if it is not to be converted.
          device: "cpu" or "gpu".
          weights: where its variables are kept that are not the original's.

        Raises:
          UserError: it is converted already, or is another network for each size.
        """
        if batch_sizes:
            if graph_optimizer.is_converted(frozen):
                raise UserError(
                    f"signature {name!r} is converted already; convert the "
                    "original model"
                )
            frozen = graph_optimizer.fold_constants(frozen)
            frozen = weights.with_scaled_filters(frozen)
        collected = {
            size: graph_optimizer.collect(frozen, size, device) for size in batch_sizes
        }
        function = cls(frozen, collected, Reference(name, original, frozen, device))
        _check_batch_sizes(name, function)
        return function

    @property
    def problems(self) -> dict[str, Problem]:
        """The blocks of all batch sizes, by signature."""
        return {s: p for c in self.collected.values() for s, p in c.problems.items()}

    def rewrite_sequential(self, device: str) -> Any:
        """Its graph with sequential schedules: to try it before the search."""
        if not self.problems:
            return self.frozen.graph_def
        sequential = {s: sequential_schedule(p) for s, p in self.problems.items()}
        return network_check.rewrite(
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
            compared = batch_sizes
        return self.reference.compare(
            found, graph_def, compared, batch_sizes if timed else (), portable
        )

    def timed_sizes(self, batch_sizes: Sequence[int]) -> Sequence[int]:
        """The batch sizes to measure latencies at."""
        fixed = self.fixed_batch_size()
        return [fixed] if fixed else batch_sizes

    def fixed_batch_size(self) -> int | None:
        """How many images the blocks compute, where inputs leave no other number."""
        inputs = self.frozen.inputs.values()
        if not self.problems or any(
            spec.shape.rank is None or None in spec.shape.as_list()[:1]
            for spec in inputs
        ):
            return None
        first = next(iter(self.problems.values()))
        return first.block["inputs"][0][0]


def note_comparisons(report: Report, comparisons: Sequence[Comparison]) -> None:
    """Says in the report how the results differ from the originals."""
    report.comparisons = list(comparisons)
    for comparison in comparisons:
        report.notes += comparison.notes
        sizes = ", ".join(map(str, comparison.slower_in_tensorflow()))
        if sizes:
            report.notes.append(
                f"signature {comparison.signature!r} takes longer than the original at "
                f"batch size {sizes} where this package is not installed"
            )


def note_slower(report: Report, comparison: Comparison) -> None:
    """Says in the report that a function stays as it was."""
    report.notes.append(
        f"signature {comparison.signature!r} stays TensorFlow's, which is as fast "
        "here and now: " + _beside(comparison.converted_ms, comparison.tensorflow_ms)
    )


def _beside(ms: Mapping[int, float], tensorflow_ms: Mapping[int, float]) -> str:
    return ", ".join(
        f"{one:.2f} ms against {tensorflow_ms[size]:.2f} at batch size {size}"
        for size, one in ms.items()
    )


def note_search(report: Report, stats: SearchStats) -> None:
    report.different_blocks = stats.blocks
    report.cached_blocks = stats.cached
    report.measurements = stats.measured
    report.reused = stats.reused
    report.bounded = stats.bounded
    report.search_seconds = stats.seconds
    report.notes += [
        f"block {name} is too large to search and cut in {cuts + 1} or more parts; "
        "--max_groups and --max_group_size make searches smaller"
        for name, cuts in stats.cut.items()
    ]
    if stats.too_large:
        report.notes.append(
            f"{len(stats.too_large)} blocks could not be measured, or not all that was "
            "to be, in the memory that was free; where nothing could be, they run "
            "sequentially"
        )
    if stats.stopped:
        unsearched = max(stats.stopped.values())
        report.notes.append(
            f"the searches of {len(stats.stopped)} blocks ended with the time limit: "
            "by what was measured, schedules at most "
            f"{unsearched:.0%} faster may exist; --time_limit gives more time"
            if unsearched < 1
            else f"the searches of {len(stats.stopped)} blocks ended with the time "
            "limit before they had seen all stages; --time_limit gives more time"
        )


def _check_batch_sizes(name: str, function: Function) -> None:
    """Whether the function is one network, with the batch sizes it is scheduled for."""
    sizes = list(function.collected)
    if len(sizes) == 1 or not function.problems:
        return
    fixed = function.fixed_batch_size()
    if fixed:
        raise UserError(
            f"signature {name!r} {_describe_fixed(function, fixed)}: it cannot be "
            f"scheduled for {', '.join(map(str, sizes))}"
        )
    first = function.collected[sizes[0]]
    for size in sizes[1:]:
        if _network(function.collected[size]) != _network(first):
            raise UserError(
                f"signature {name!r} computes another network for batch size {size} "
                f"than for {sizes[0]}: schedule it for one of them"
            )


def _describe_fixed(function: Function, fixed: int) -> str:
    leading = {
        spec.shape[0] for spec in function.frozen.inputs.values() if spec.shape.rank
    }
    if leading == {fixed}:
        return f"has the fixed batch size {fixed}"
    # Its inputs have no batch, or one that it takes apart.
    return f"computes {fixed} image{'s' * (fixed > 1)} in every call"


def _network(collected: Collected) -> list[Any]:
    """The blocks without what may depend on the batch size."""
    blocks = []
    for found in collected.blocks:
        block = collected.problems[found["signature"]].block
        inputs = [(len(shape), shape[-1]) for shape in block["inputs"]]
        blocks.append((found["names"], block["operators"], inputs, block["outputs"]))
    return blocks


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
        searcher: Searcher,
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
        sizes = list(collected)
        regions = region_check.measure(
            function.frozen,
            functools.partial(plan.rewrite, device),
            collected[sizes[0]],
            function.reference.inputs(function.timed_sizes(sizes)),
            device,
        )
        left = {n for one in regions if not one.is_faster() for n in one.regions}
        return dataclasses.replace(plan, regions=regions, left=frozenset(left))

    @property
    def gains(self) -> bool:
        """Whether a region is left that is not TensorFlow's."""
        blocks = next(iter(self.function.collected.values())).blocks
        return any(block["region"] not in self.left for block in blocks)

    def rewrite(
        self, device: str, materialise_merges: bool = True
    ) -> graph_pb2.GraphDef:
        """The function's graph with its schedules."""
        return network_check.rewrite(
            self.function.frozen,
            self.checked.schedules,
            list(self.function.collected),
            device,
            self.left,
            materialise_merges,
        )

    def note(self, report: Report, schedules: Mapping[str, Schedule]) -> None:
        """Says in the report what was found for the function.

        `schedules`: what the searches gave.
        """
        for batch_size, size in self.checked.sizes.items():
            if size.fell_back:
                report.notes.append(
                    f"the schedules that were found for batch size {batch_size} are no "
                    "faster than the sequential ones in the whole network: those are "
                    "used"
                )
            blocks = [
                block
                for block in self.function.collected[batch_size].blocks
                if block["region"] not in self.left
            ]
            of_size = report.sizes[batch_size]
            of_size.sequential_ms += size.sequential_ms
            of_size.scheduled_ms += size.scheduled_ms
            of_size.add(size.schedules[block["signature"]] for block in blocks)
        # They are the same for all batch sizes.
        for block in blocks:
            report.operators += len(block["names"])
            report.blocks += schedules[block["signature"]].metadata["parts"]
        report.regions += self.regions
        report.notes += [
            f"{one.name} stays TensorFlow's, which is as fast here and now: "
            + _beside(one.region_ms, one.tensorflow_ms)
            for one in self.regions
            if not one.is_faster()
        ]


def note_the_rest(converted: Sequence[Function], report: Report) -> None:
    """Says in the report what the schedules do not cover."""
    left: collections.Counter[str] = collections.Counter()
    outside = 0
    inside: collections.Counter[str] = collections.Counter()
    # They are the same for all batch sizes.
    reports = [next(iter(f.collected.values())).report for f in converted]
    for function, of_function in zip(converted, reports, strict=True):
        left.update(of_function.get("left_to_tensorflow", {}))
        graph_def = function.frozen.graph_def
        outside += count_convolutions(graph_def.node)
        inside += hidden_convolutions(graph_def)
    report.left_to_tensorflow = dict(left)
    fixed = [(f, f.fixed_batch_size()) for f in converted]
    report.notes += {
        f"the model {_describe_fixed(function, size)}: it is scheduled for that": None
        for function, size in fixed
        if size and size not in report.sizes
    }
    if not outside and not inside:
        others = set().union(
            *(other_convolutions(f.frozen.graph_def) for f in converted)
        )
        names = f" the engine knows, but {', '.join(sorted(others))}" if others else ""
        report.notes.append(f"the model has no convolution{names}")
        return
    report.notes += [
        f"{count} convolutions inside of {where} are left to TensorFlow"
        for where, count in inside.items()
    ]
    unscheduled = sum(left[op] for op in CONVOLUTIONS)
    if unscheduled:
        refused = [r for of_function in reports for r in of_function.get("refused", ())]
        report.notes.append(
            f"{unscheduled} of {outside} convolutions are left to TensorFlow: "
            + (_reasons(refused) or _UNKNOWN)
        )


def _reasons(refused: Sequence[Mapping[str, str]]) -> str:
    """The most frequent reasons for which nodes were refused, and those nodes."""
    nodes = collections.defaultdict(list)
    for refusal in refused:
        nodes[refusal["reason"]].append(refusal["node"])
    most = sorted(nodes, key=lambda reason: -len(nodes[reason]))[:3]
    return "; ".join(f"{_some(nodes[reason])}: {reason}" for reason in most)


def _some(names: Sequence[str]) -> str:
    """One or two names, and how many more there are."""
    more = len(names) - 2
    return ", ".join(names[:2]) + (f" and {more} more" if more > 0 else "")
