"""Schedules that need no search: the paper's baselines (section 6), and splits."""

from __future__ import annotations

from ios_tf.scheduler.problem import Problem, mask_of, operators_of
from ios_tf.scheduler.schedule import Schedule, Stage


def sequential_schedule(problem: Problem) -> Schedule:
    """Every stage runs one operator, in the block's order."""
    stages = [Stage.concurrent(problem, 1 << op) for op in range(len(problem))]
    return Schedule(tuple(stages), problem.signature)


def split_schedules(problem: Problem, lanes: int) -> list[Schedule]:
    """Schedules of one stage, split into micro-batches in several ways.

    The first schedule has one micro-batch per lane, or per image if there are fewer
    images. The others have more micro-batches, of one, two or four images each, because
    a core's caches may have room for few images only. The list is empty for a batch of
    one image.

    Args:
      problem: the block.
      lanes: the number of lanes of the device.
    """
    batch_size = problem.batch_size
    least = min(lanes, batch_size)
    counts = {least, *(batch_size // size for size in (1, 2, 4))}
    return [
        Schedule((Stage.split(problem.all_operators, count),), problem.signature)
        for count in sorted(counts)
        if count > 1 and count >= least
    ]


def greedy_schedule(problem: Problem) -> Schedule:
    """Every stage runs all operators that are ready, concurrently."""
    stages = []
    done = 0
    while done != problem.all_operators:
        ready = mask_of(
            op
            for op in operators_of(problem.all_operators & ~done)
            if not problem.predecessors[op] & ~done
        )
        stages.append(Stage.concurrent(problem, ready))
        done |= ready
    return Schedule(tuple(stages), problem.signature)


# By the names of their strategies.
BASELINES = {"sequential": sequential_schedule, "greedy": greedy_schedule}
