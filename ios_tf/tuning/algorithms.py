"""Chooses by what each convolution is computed, by measuring it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ios_tf.cost.cost_model import CostModel
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage
from ios_tf.scheduler.problem import operators_of
from ios_tf.scheduler.units import product_before

_WINOGRAD = ("winograd_2x2", "winograd_4x4")
_GEMM = "gemm"
_ROWS = "rows"

# How much of the time of the one before it another algorithm may take: those that come
# later need more memory, and round more.
_WORTHWHILE = 0.95


def allowed(device: str, winograd: bool = True) -> tuple[str, ...]:
    """The algorithms that a device has beside the direct one.

    Args:
      device: its kind, "cpu" or another.
      winograd: whether Winograd's minimal filtering may be among them.
    """
    if device != "cpu":
        return ()
    return (*(_WINOGRAD if winograd else ()), _GEMM, _ROWS)


def choose(
    problem: Problem,
    cost_model: CostModel,
    algorithms: Collection[str],
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[int, str], bool]:
    """The fastest algorithms of a block's operators that are not computed directly.

    Args:
      problem: the block.
      cost_model: measures each operator, by each algorithm, as a stage of its own;
        a depthwise convolution together with the 1x1 before it, which it computes
        itself where it goes row by row.
      algorithms: those that may be chosen.
      stop: asked before each operator: the others are computed directly.

    Returns:
      The algorithms, and whether all operators were asked for.
    """
    alone = set(algorithms) - {_ROWS}
    of_operators = [
        [algorithm for algorithm in of_op if algorithm in alone]
        for of_op in problem.algorithms
    ]
    variants = {
        algorithm: with_algorithms(
            problem,
            {op: algorithm for op, a in enumerate(of_operators) if algorithm in a},
        )
        for algorithm in dict.fromkeys(a for of_op in of_operators for a in of_op)
    }
    chosen: dict[int, str] = {}
    # The longest operators first: time may end.
    for op in sorted(range(len(problem)), key=lambda op: -problem.flops[op]):
        if not of_operators[op]:
            continue
        if stop():
            return chosen, False
        stage = Stage.concurrent(problem, 1 << op)
        best = cost_model.stage_latency(problem, stage)
        for algorithm in of_operators[op]:
            latency = cost_model.stage_latency(variants[algorithm], stage)
            if latency < _WORTHWHILE * best:
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
    together = {
        op: 1 << op | product_before(problem, op)
        for op, of_op in enumerate(problem.algorithms)
        if _ROWS in of_op
    }
    if not together:
        return chosen, True
    # Operators that others compute have no algorithms of their own.
    products = {op for mask in together.values() for op in operators_of(mask)}
    others = {op: a for op, a in chosen.items() if op not in products}
    before = with_algorithms(problem, chosen)
    by_rows = with_algorithms(problem, others | dict.fromkeys(together, _ROWS))
    for op, mask in together.items():
        if stop():
            return chosen, False
        stage = Stage.concurrent(problem, mask)
        latency = cost_model.stage_latency(by_rows, stage)
        if latency < _WORTHWHILE * cost_model.stage_latency(before, stage):
            for computed in operators_of(mask):
                chosen.pop(computed, None)
            chosen[op] = _ROWS
    return chosen, True


def with_algorithms(problem: Problem, algorithms: Mapping[int, str]) -> Problem:
    """The block with these algorithms in its operators; another signature."""
    if not algorithms:
        return problem
    block = Schedule((), algorithms=algorithms).applied_to(problem.block)
    return Problem.from_json(engine.problem(block))
