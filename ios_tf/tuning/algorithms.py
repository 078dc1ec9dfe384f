"""Chooses by what each convolution is computed, by measuring it alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ios_tf.cost.cost_model import CostModel
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage

_WINOGRAD = ("winograd_2x2", "winograd_4x4")
_GEMM = "gemm"

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
    return (*_WINOGRAD, _GEMM) if winograd else (_GEMM,)


def choose(
    problem: Problem,
    cost_model: CostModel,
    algorithms: Collection[str],
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[int, str], bool]:
    """The fastest algorithms of a block's operators that are not computed directly.

    Args:
      problem: the block.
      cost_model: measures each operator, by each algorithm, as a stage of its own.
      algorithms: those that may be chosen.
      stop: asked before each operator: the others are computed directly.

    Returns:
      The algorithms, and whether all operators were asked for.
    """
    of_operators = [
        [algorithm for algorithm in of_op if algorithm in algorithms]
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
    # What takes longest first: time may end.
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
    return chosen, True


def with_algorithms(problem: Problem, algorithms: Mapping[int, str]) -> Problem:
    """The block with these algorithms in its operators; another signature."""
    if not algorithms:
        return problem
    block = Schedule((), algorithms=algorithms).applied_to(problem.block)
    return Problem.from_json(engine.problem(block))
