"""Chooses the algorithm of each convolution by measuring it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from ios_tf.native import engine
from ios_tf.scheduler import CostModel, Forecast, Problem, Schedule, Stage
from ios_tf.scheduler.problem import operators_of, union_of
from ios_tf.scheduler.units import product_before
from ios_tf.tuning.parts import part_of

_WINOGRAD = ("winograd_2x2", "winograd_4x4")
GEMM = "gemm"
ROWS = "rows"

# An algorithm is chosen if its time is below this fraction of the best time so far. The
# fraction is smaller for Winograd's minimal filtering, which needs more memory and
# rounds more. The other algorithms only have to be measurably faster.
_WORTHWHILE = {_WINOGRAD[0]: 0.95, _WINOGRAD[1]: 0.95, GEMM: 0.99, ROWS: 0.99}


def allowed(device: str, winograd: bool = True) -> tuple[str, ...]:
    """The algorithms that a device has besides the direct one.

    Args:
      device: the device's kind, "cpu" or another.
      winograd: whether to include Winograd's minimal filtering.
    """
    if device != "cpu":
        return ()
    return (*(_WINOGRAD if winograd else ()), GEMM, ROWS)


def choose(
    problem: Problem,
    cost_model: CostModel,
    algorithms: Collection[str],
    stop: Callable[[], bool] = lambda: False,
    forecast: Forecast | None = None,
) -> tuple[dict[int, str], bool]:
    """Finds the operators of a block that have a faster algorithm than the direct one.

    Args:
      problem: the block.
      cost_model: measures each operator with each algorithm, as a small block of its
        own, because the tensors of a whole block may need much memory. With the
        algorithm `rows`, a depthwise convolution may also compute the 1x1 convolution
        before it, so these two operators are measured together: separately, as one,
        and separately with the algorithms `gemm` and `rows`.
      algorithms: the algorithms that may be chosen.
      stop: called before each operator; if it returns true, the remaining operators are
        computed directly.
      forecast: learns early which latencies are needed.

    Returns:
      The chosen algorithms by operator, and whether all operators were measured.
    """
    chosen: dict[int, str] = {}
    # The operators with the most work come first, because the time may be over before
    # the others are measured.
    by_work = sorted(range(len(problem)), key=lambda op: -problem.flops[op])
    variants = _announced(
        (_variants(problem, op, algorithms) for op in by_work), forecast
    )
    for op, direct, others in variants:
        if not others:
            continue
        if stop():
            return chosen, False
        best = latency_of(direct, cost_model)
        for algorithm, variant in others.items():
            latency = latency_of(variant, cost_model)
            if latency < _WORTHWHILE[algorithm] * best:
                best, chosen[op] = latency, algorithm
    if ROWS not in algorithms:
        return chosen, True
    return _by_rows(problem, cost_model, algorithms, chosen, stop, forecast)


def _by_rows(
    problem: Problem,
    cost_model: CostModel,
    algorithms: Collection[str],
    chosen: dict[int, str],
    stop: Callable[[], bool],
    forecast: Forecast | None,
) -> tuple[dict[int, str], bool]:
    """Like `choose`, for depthwise convolutions and the algorithm `rows`."""
    before = with_algorithms(problem, chosen)
    depthwise = [op for op, of_op in enumerate(problem.algorithms) if ROWS in of_op]
    variants = _announced(
        (_with_rows(problem, before, op, GEMM in algorithms) for op in depthwise),
        forecast,
    )
    for op, now, others in variants:
        if stop():
            return chosen, False
        best = latency_of(now, cost_model)
        for algorithm, variant in others.items():
            latency = latency_of(variant, cost_model)
            if latency < _WORTHWHILE[ROWS] * best:
                best, chosen[op] = latency, ROWS
                for product in operators_of(product_before(problem, op)):
                    chosen.pop(product, None)
                    if algorithm == GEMM:
                        chosen[product] = GEMM
    return chosen, True


# An operator, a small problem that computes it as before, and the small problems that
# compute it by other algorithms.
_Variants = tuple[int, Problem, dict[str, Problem]]


def _variants(problem: Problem, op: int, algorithms: Collection[str]) -> _Variants:
    others = [a for a in problem.algorithms[op] if a in algorithms and a != ROWS]
    alone = part_of(problem, 1 << op).problem if others else problem
    return op, alone, {a: with_algorithms(alone, {0: a}) for a in others}


def _with_rows(
    problem: Problem, before: Problem, op: int, separately: bool
) -> _Variants:
    # With ROWS, `op` also computes the 1x1 convolution before it, unless that has the
    # algorithm GEMM.
    product = product_before(problem, op)
    operators = 1 << op | product
    together = part_of(problem, operators)
    number = together.operators.index
    by_rows = {number(op): ROWS}
    others = {ROWS: with_algorithms(together.problem, by_rows)}
    if product and separately:
        separate = {number(producer): GEMM for producer in operators_of(product)}
        others[GEMM] = with_algorithms(together.problem, {**separate, **by_rows})
    return op, part_of(before, operators).problem, others


def _announced(
    variants: Iterable[_Variants], forecast: Forecast | None
) -> Iterable[_Variants]:
    """Announces the latencies of all variants, if there is a forecast."""
    if not forecast:
        return variants
    variants = list(variants)
    for _, now, others in variants:
        for form in [now, *others.values()] if others else []:
            stage = Stage.concurrent(form, form.all_operators)
            forecast.expect_stages(form, [stage])
    return variants


def with_products(problem: Problem, schedule: Schedule) -> Schedule:
    """Returns the schedule with `gemm` instead of `direct` where this is possible."""
    computed = union_of(
        product_before(problem, op)
        for op, algorithm in schedule.algorithms.items()
        if algorithm == ROWS
    )
    products = {
        op: GEMM
        for op, of_op in enumerate(problem.algorithms)
        if GEMM in of_op and not computed >> op & 1
    }
    return dataclasses.replace(schedule, algorithms={**products, **schedule.algorithms})


def latency_of(problem: Problem, cost_model: CostModel) -> float:
    """Returns the latency of a small problem whose operators form a single stage."""
    return cost_model.stage_latency(
        problem, Stage.concurrent(problem, problem.all_operators)
    )


def with_algorithms(problem: Problem, algorithms: Mapping[int, str]) -> Problem:
    """Returns the block with these algorithms in its operators and a new signature."""
    if not algorithms:
        return problem
    block = Schedule((), algorithms=algorithms).applied_to(problem.block)
    return Problem.from_json(engine.problem(block))
