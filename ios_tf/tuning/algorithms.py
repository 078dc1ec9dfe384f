"""Chooses by what each convolution is computed, by measuring it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

from ios_tf.cost.cost_model import CostModel
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage
from ios_tf.scheduler.problem import operators_of
from ios_tf.scheduler.units import product_before
from ios_tf.tuning.parts import part_of

_WINOGRAD = ("winograd_2x2", "winograd_4x4")
GEMM = "gemm"
_ROWS = "rows"

# How much of the time of those before it an algorithm may take: minimal filtering needs
# more memory and rounds more, the others only have to be seen to be faster.
_WORTHWHILE = {_WINOGRAD[0]: 0.95, _WINOGRAD[1]: 0.95, GEMM: 0.99, _ROWS: 0.99}


def allowed(device: str, winograd: bool = True) -> tuple[str, ...]:
    """The algorithms that a device has beside the direct one.

    Args:
      device: its kind, "cpu" or another.
      winograd: whether Winograd's minimal filtering may be among them.
    """
    if device != "cpu":
        return ()
    return (*(_WINOGRAD if winograd else ()), GEMM, _ROWS)


def choose(
    problem: Problem,
    cost_model: CostModel,
    algorithms: Collection[str],
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[int, str], bool]:
    """The fastest algorithms of a block's operators that are not computed directly.

    Args:
      problem: the block.
      cost_model: measures each operator, by each algorithm, as a part of its own: a
        whole block may need much memory, and has to be filled. A depthwise convolution
        is measured together with the 1x1 before it, which it computes itself where it
        goes row by row.
      algorithms: those that may be chosen.
      stop: asked before each operator: the others are computed directly.

    Returns:
      The algorithms, and whether all operators were asked for.
    """
    chosen: dict[int, str] = {}
    # The longest operators first: time may end.
    for op in sorted(range(len(problem)), key=lambda op: -problem.flops[op]):
        others = [a for a in problem.algorithms[op] if a in algorithms and a != _ROWS]
        if not others:
            continue
        if stop():
            return chosen, False
        alone = part_of(problem, 1 << op).problem
        best = _latency(alone, cost_model)
        for algorithm in others:
            latency = _latency(with_algorithms(alone, {0: algorithm}), cost_model)
            if latency < _WORTHWHILE[algorithm] * best:
                best, chosen[op] = latency, algorithm
    if _ROWS not in algorithms:
        return chosen, True
    return _by_rows(problem, cost_model, chosen, stop)


def _by_rows(
    problem: Problem,
    cost_model: CostModel,
    chosen: dict[int, str],
    stop: Callable[[], bool],
) -> tuple[dict[int, str], bool]:
    """The same, where depthwise convolutions may go row by row."""
    before = with_algorithms(problem, chosen)
    for op, of_op in enumerate(problem.algorithms):
        if _ROWS not in of_op:
            continue
        if stop():
            return chosen, False
        # Operators that others compute have no algorithms of their own.
        product = product_before(problem, op)
        together = part_of(problem, 1 << op | product)
        rows = {together.operators.index(op): _ROWS}
        by_rows = _latency(with_algorithms(together.problem, rows), cost_model)
        now = _latency(part_of(before, 1 << op | product).problem, cost_model)
        if by_rows < _WORTHWHILE[_ROWS] * now:
            for computed in operators_of(product):
                chosen.pop(computed, None)
            chosen[op] = _ROWS
    return chosen, True


def with_products(problem: Problem, schedule: Schedule) -> Schedule:
    """The schedule, with products of matrices for all that is computed directly."""
    computed = 0
    for op, algorithm in schedule.algorithms.items():
        if algorithm == _ROWS:
            computed |= product_before(problem, op)
    products = {
        op: GEMM
        for op, of_op in enumerate(problem.algorithms)
        if GEMM in of_op and not computed >> op & 1
    }
    return dataclasses.replace(schedule, algorithms={**products, **schedule.algorithms})


def _latency(problem: Problem, cost_model: CostModel) -> float:
    """Of all operators of a part, which is small: it is made to be measured."""
    return cost_model.stage_latency(
        problem, Stage.concurrent(problem, problem.all_operators)
    )


def with_algorithms(problem: Problem, algorithms: Mapping[int, str]) -> Problem:
    """The block with these algorithms in its operators; another signature."""
    if not algorithms:
        return problem
    block = Schedule((), algorithms=algorithms).applied_to(problem.block)
    return Problem.from_json(engine.problem(block))
