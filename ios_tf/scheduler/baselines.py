"""Baseline schedules the paper compares with (section 6): sequential and greedy."""

from __future__ import annotations

from ios_tf.scheduler.problem import Problem, operators_of
from ios_tf.scheduler.schedule import Schedule, Stage


def sequential_schedule(problem: Problem) -> Schedule:
    """One operator a stage, in the block's order."""
    stages = [Stage.concurrent(problem, 1 << op) for op in range(len(problem))]
    return Schedule(tuple(stages), problem.signature)


def greedy_schedule(problem: Problem) -> Schedule:
    """Every stage runs, concurrently, all operators that are ready."""
    stages = []
    done = 0
    while done != problem.all_operators:
        ready = 0
        for op in operators_of(problem.all_operators & ~done):
            if not problem.predecessors[op] & ~done:
                ready |= 1 << op
        stages.append(Stage.concurrent(problem, ready))
        done |= ready
    return Schedule(tuple(stages), problem.signature)
