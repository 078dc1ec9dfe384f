"""Describes converted networks for the report: blocks, stages, operators, latencies.

Usually, a block of the report is a part of the network that one dynamic program
schedules. But if a stage contains operators of several parts, these parts are one
block. For example, one stage may split the batch of the whole network.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ios_tf.conversion import network_check
from ios_tf.conversion.planning import Plan
from ios_tf.conversion.report import Report
from ios_tf.cost.work import Work, work_of
from ios_tf.model import graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.native import engine
from ios_tf.native.devices import Device
from ios_tf.reasons import Decision, Reason
from ios_tf.scheduler import Load, Problem, Schedule, Stage, Strategy
from ios_tf.scheduler.problem import mask_of, operators_of, union_of
from ios_tf.tuning.algorithms import GEMM, ROWS, with_algorithms
from ios_tf.tuning.parts import part_of
from ios_tf.tuning.roofline import Roofline
from ios_tf.tuning.searcher import NetworkSearcher

# The time limit in seconds for the measurements that the report of a function needs: a
# fixed part, and a part for each operator of each batch size, up to a bound. Searches
# have measured most of these latencies before.
_SECONDS = 20.0
_SECONDS_PER_OPERATOR = 0.04
_MOST_SECONDS = 60.0
# (Device, type) -> the roofline, which is measured once in a process.
_ROOFLINES: dict[tuple[str, str], Roofline] = {}
# Algorithms that compute every product of a convolution, unlike Winograd's. None is the
# algorithm of an operator that has no choice of algorithms.
_EVERY_PRODUCT = (None, "direct", GEMM)
# Members of an operator's JSON object that are not attributes.
_NOT_ATTRIBUTES = ("name", "type", "inputs", "algorithm")


def with_networks(
    report: Report, plans: Sequence[Plan], searcher: NetworkSearcher
) -> Report:
    """Adds the networks of functions: one JSON object for each batch size.

    Latencies are null if there was too little time or memory to measure them. A
    decision says so.
    """
    networks: list[dict[str, Any]] = []
    rooflines: dict[str, Roofline | None] = {}
    decisions: list[Decision] = []
    for plan in plans:
        blocks: list[_Block] = []
        frozen = plan.without_weights()
        for size in plan.checked.sizes:
            network, of_network = _network(plan, frozen, size, searcher)
            networks.append(network)
            blocks += of_network
        measuring = _Measuring(searcher, sum(len(one.operators) for one in blocks))
        for dtype in sorted({p.dtype for p in plan.function.problems.values()}):
            rooflines.setdefault(dtype, measuring.roofline(dtype))
        for block in sorted(blocks, key=lambda one: -one.operations):
            block.measure(measuring)
        decisions += measuring.decisions(plan.function.reference.name)
    known = {
        dtype: roofline.raised(rate for one in networks for rate in _rates(one, dtype))
        for dtype, roofline in rooflines.items()
        if roofline
    }
    for operator in (one for network in networks for one in network["operators"]):
        if operator["precision"] in known:
            work = Work(operator["operations"], operator["bytes"])
            found = known[operator["precision"]].floor_ms(operator["type"], work)
            operator["floor_ms"] = found
    return dataclasses.replace(
        report,
        networks=[*report.networks, *networks],
        roofline=next(iter(known.values()), report.roofline),
    ).with_decisions(*decisions)


def _rates(network: Mapping[str, Any], dtype: str) -> Iterator[float]:
    """The GFLOP/s of each operator that computes exactly its own products."""
    operators = network["operators"]
    # An operator with the algorithm ROWS may compute the operator that it reads, too,
    # unless that has the algorithm GEMM.
    computed = {
        ref for op in operators if op["algorithm"] == ROWS for ref in op["inputs"]
    }
    for index, one in enumerate(operators):
        separate = one["algorithm"] == GEMM or index not in computed
        complete = one["algorithm"] in _EVERY_PRODUCT and separate
        if complete and one["precision"] == dtype and one["ms"]:
            yield one["operations"] / one["ms"] / 1e6


class _Measuring:
    """Measures latencies in limited time, which depends on the number of operators."""

    def __init__(self, searcher: NetworkSearcher, operators: int) -> None:
        self.searcher = searcher
        self._seconds = min(_SECONDS + _SECONDS_PER_OPERATOR * operators, _MOST_SECONDS)
        self._deadline = time.monotonic() + self._seconds
        # The numbers of latencies that were wanted, and that are missing because of the
        # time or the memory.
        self._wanted = self._too_late = self._too_large = 0

    def decisions(self, signature: str) -> list[Decision]:
        """Says which latencies of a signature are missing, and why."""
        reasons = {
            "measuring all of them would take longer than "
            f"{self._seconds:.0f} s": self._too_late,
            "too little memory was free": self._too_large,
        }
        return [
            Decision(
                Reason.LATENCIES_MISSING,
                f"signature {signature!r}: the report lacks {count} of {self._wanted} "
                f"latencies of operators, stages and groups, because {why}",
            )
            for why, count in reasons.items()
            if count
        ]

    def stage_ms(self, problem: Problem, stage: Stage) -> float | None:
        return self._within(lambda: self.searcher.stage_latency(problem, stage))

    def group_ms(self, problem: Problem, stage: Stage) -> list[float | None] | None:
        """The latencies of a stage's groups, each alone on its lane."""
        if stage.strategy is not Strategy.CONCURRENT or len(stage.groups) < 2:
            return None
        measure = self.searcher.group_latency
        lanes = len(stage.groups)
        return [
            self._within(functools.partial(measure, problem, group, lanes))
            for group in stage.groups
        ]

    def roofline(self, dtype: str) -> Roofline | None:
        device = self.searcher.cost_model.device
        key = device.engine, dtype
        if key not in _ROOFLINES:
            try:
                _ROOFLINES[key] = Roofline.measured(self.searcher, device.kind, dtype)
            except MemoryError:
                self.searcher.cost_model.release()
                return None
        return _ROOFLINES[key]

    def _within(self, measure: Callable[[], Any]) -> Any:
        self._wanted += 1
        if time.monotonic() > self._deadline:
            self._too_late += 1
            return None
        try:
            return measure()
        except MemoryError:
            self._too_large += 1
            self.searcher.cost_model.release()
            return None


@dataclasses.dataclass(frozen=True)
class _Block:
    """A block of the report, whose latencies are measured later.

    Attributes:
      described, operators: the JSON objects of the block and of its operators.
      problem: the block as a problem of its own, with the chosen algorithms.
      stages: the stages of `described`, with the numbers of operators in `problem`.
    """

    described: dict[str, Any]
    operators: Sequence[dict[str, Any]]
    problem: Problem
    stages: Sequence[Stage]

    @property
    def operations(self) -> int:
        return sum(operator["operations"] for operator in self.operators)

    def measure(self, measuring: _Measuring) -> None:
        """Adds the latencies to the JSON objects."""
        described = self.described["stages"]
        for stage, one in zip(self.stages, described, strict=True):
            one["ms"] = measuring.stage_ms(self.problem, stage)
        for number, operator in enumerate(self.operators):
            single = Stage.concurrent(self.problem, 1 << number)
            operator["ms"] = measuring.stage_ms(self.problem, single)
        for stage, one in zip(self.stages, described, strict=True):
            one["group_ms"] = measuring.group_ms(self.problem, stage)
        self.described["scheduled_ms"] = _sum(one["ms"] for one in described)
        self.described["sequential_ms"] = _sum(one["ms"] for one in self.operators)
        measuring.searcher.cost_model.release()


def _network(
    plan: Plan, frozen: FrozenSignature, batch_size: int, searcher: NetworkSearcher
) -> tuple[dict[str, Any], list[_Block]]:
    """The network at a batch size, without latencies, and its blocks.

    `frozen`: the function with the schedules of the plan.
    """
    collected = plan.function.collected[batch_size]
    checked = plan.checked.sizes[batch_size]
    regions: dict[int, list[_Block]] = {}
    operators: list[dict[str, Any]] = []
    for block in collected.blocks:
        problem = collected.problems[block["signature"]]
        schedule = checked.schedules[block["signature"]]
        first = len(operators)
        operators += _operators(problem, schedule, block["names"], first)
        regions.setdefault(block["region"], []).extend(
            _blocks(problem, schedule, operators, first, searcher)
        )
    device = searcher.cost_model.device
    arenas = _arenas(frozen, collected.regions, batch_size, device)
    network = {
        "signature": plan.function.reference.name,
        "batch_size": int(batch_size),
        "callers": Load.of(batch_size).callers,
        "sequential_ms": checked.sequential_ms or None,
        "sequential_algorithms_ms": checked.sequential_algorithms_ms,
        "scheduled_ms": checked.scheduled_ms or None,
        "operators": operators,
        "regions": [
            {
                "number": number,
                "kept": number not in plan.left,
                "arena_bytes": arenas.get(number),
                "blocks": [block.described for block in blocks],
            }
            for number, blocks in regions.items()
        ],
    }
    return network, [block for blocks in regions.values() for block in blocks]


def _arenas(
    frozen: FrozenSignature, numbers: Mapping[str, int], batch_size: int, device: Device
) -> dict[int, int]:
    """Number of a region -> the bytes for the tensors inside of it, in one call."""
    arenas: dict[int, int] = {}
    for program in network_check.programs(frozen, batch_size, device.kind):
        names = graph_optimizer.operators_of(program)
        number = next((numbers[name] for name in names if name in numbers), None)
        # A conversion does not fail because a number is missing in its report.
        with contextlib.suppress(engine.EngineError):
            if number is not None:
                arenas[number] = engine.arena_bytes(
                    program["block"], program["schedule"], device.engine
                )
    return arenas


def _operators(
    problem: Problem, schedule: Schedule, names: Sequence[str], first: int
) -> Iterator[dict[str, Any]]:
    """A block's operators without latencies; the first one gets the number `first`."""
    works = work_of(problem.block)
    for op, operator in enumerate(problem.block["operators"]):
        algorithm = schedule.algorithms.get(op)
        if algorithm is None and problem.algorithms[op]:
            algorithm = "direct"
        yield {
            "name": names[op],
            "type": operator["type"],
            "attributes": {
                key: value
                for key, value in operator.items()
                if key not in _NOT_ATTRIBUTES
            },
            "inputs": [first + ref if ref >= 0 else None for ref in operator["inputs"]],
            "shape": list(problem.shapes[op]),
            "precision": problem.dtype,
            "algorithm": algorithm,
            "operations": works[op].flop,
            "bytes": works[op].bytes,
            "ms": None,
            "floor_ms": None,
        }


def _blocks(
    problem: Problem,
    schedule: Schedule,
    operators: list[dict[str, Any]],
    first: int,
    searcher: NetworkSearcher,
) -> Iterator[_Block]:
    """The report's blocks of a collected block, which begins at operator `first`."""
    parts, _ = searcher.parts_of(problem)
    masks = _joined([mask_of(part.operators) for part in parts], schedule.stages)
    for mask in masks:
        members = tuple(operators_of(mask))
        number = {op: index for index, op in enumerate(members)}
        alone = (
            problem if len(members) == len(problem) else part_of(problem, mask).problem
        )
        algorithms = {
            number[op]: a for op, a in schedule.algorithms.items() if op in number
        }
        alone = with_algorithms(alone, algorithms)
        stages = [
            stage.renumbered(number)
            for stage in schedule.stages
            if stage.operators & mask
        ]
        described = [
            {
                **stage.to_json(),
                "groups": [[first + members[op] for op in g] for g in stage.groups],
                "micro_batches": stage.micro_batches,
                "ms": None,
                "group_ms": None,
            }
            for stage in stages
        ]
        block = {
            "name": operators[first + members[0]]["name"],
            "operators": [first + op for op in members],
            "stages": described,
            "scheduled_ms": None,
            "sequential_ms": None,
        }
        yield _Block(block, [operators[first + op] for op in members], alone, stages)


def _joined(masks: Sequence[int], stages: Sequence[Stage]) -> list[int]:
    """Joins the parts (bitmasks of operators) that share a stage."""
    joined = list(masks)
    for stage in stages:
        together = [mask for mask in joined if mask & stage.operators]
        if len(together) > 1:
            position = joined.index(together[0])
            joined = [mask for mask in joined if mask not in together]
            joined.insert(position, union_of(together))
    return joined


def _sum(latencies: Iterator[float | None]) -> float | None:
    """The sum of latencies; None if any of them is unknown."""
    found = list(latencies)
    return None if None in found else sum(ms for ms in found if ms is not None)
