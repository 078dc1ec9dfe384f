"""Schedules with every legal merge."""

from ios_tf.scheduler import Problem, Schedule, Stage


def merge_everything(problem: Problem) -> Schedule:
    """A schedule with all legal merges; other operators run one by one."""
    classes = problem.merge_classes
    stages, done = [], 0
    for i in range(len(problem)):
        if done >> i & 1:
            continue
        # All members of a class read the same tensor, so they are ready together.
        merge = next((m for m in classes if m >> i & 1 and not m & done), 0)
        stages.append(
            Stage.merge(merge) if merge else Stage.concurrent(problem, 1 << i)
        )
        done |= merge or 1 << i
    return Schedule(tuple(stages), problem.signature)
