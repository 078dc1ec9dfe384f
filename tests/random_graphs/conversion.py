"""Converts a frozen signature as `ios_tf.convert` does, with random schedules."""

from __future__ import annotations

from typing import Any

import numpy as np

from ios_tf.conversion.planning import largest_consistent_batch_sizes
from ios_tf.model import graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage
from ios_tf.scheduler.problem import mask_of, operators_of
from ios_tf.scheduler.units import product_before
from random_graphs.differences import Result
from random_graphs.program import Settings
from random_graphs.sessions import is_dynamic


def convert(frozen: FrozenSignature, settings: Settings, result: Result) -> Any:
    """Converts a signature as `ios_tf.convert` does, with random schedules."""
    folded = graph_optimizer.fold_constants(frozen)
    sizes = list(settings.batch_sizes)
    collected = {size: graph_optimizer.collect(folded, size) for size in sizes}
    if not any(map(is_dynamic, frozen.inputs.values())):
        sizes = sizes[:1]
    collected = largest_consistent_batch_sizes(
        {size: collected[size] for size in sizes}
    )
    sizes = list(collected)
    first = collected[sizes[0]]
    result.regions = len({block["region"] for block in first.blocks})
    for block in first.blocks:
        result.operators.update(first.problems[block["signature"]].types)
    random = np.random.default_rng(settings.seed)
    schedules = {}
    for size in sizes:
        for signature, problem in collected[size].problems.items():
            schedules[signature] = random_schedule(problem, random)
            engine.check_schedule(problem.block, schedules[signature].to_json())
    return graph_optimizer.rewrite(folded, schedules, sizes)


def random_schedule(problem: Problem, random: np.random.Generator) -> Schedule:
    """A random valid schedule: concurrent, merged and split stages, algorithms."""
    done, stages = 0, []
    eager = random.uniform(0.3, 1.0)
    while done != problem.all_operators:
        ready = inside = 0
        for op in operators_of(problem.all_operators & ~done):
            before = problem.predecessors[op]
            if not before & ~done:
                ready |= 1 << op
            if not before & ~(done | inside) and random.random() < eager:
                inside |= 1 << op
        mergeable = [
            merge_class & ready
            for merge_class in problem.merge_classes
            if (merge_class & ready).bit_count() > 1
        ]
        if mergeable and random.random() < 0.7:
            members = list(operators_of(mergeable[random.integers(len(mergeable))]))
            stage = Stage.merge(mask_of(members))
        else:
            inside = inside or ready & -ready
            if random.random() < 0.2:
                stage = Stage.split(inside, int(random.integers(2, 5)))
            else:
                stage = Stage.concurrent(problem, inside)
        stages.append(stage)
        done |= stage.operators
    algorithms = {
        op: str(random.choice(of_op))
        for op, of_op in enumerate(problem.algorithms)
        if of_op and random.random() < 0.5
    }
    # An operator with the algorithm "rows" also computes the 1x1 convolution before it,
    # which then needs no algorithm.
    for op in [op for op, name in algorithms.items() if name == "rows"]:
        for product in operators_of(product_before(problem, op)):
            algorithms.pop(product, None)
    return Schedule(tuple(stages), problem.signature, algorithms=algorithms)
