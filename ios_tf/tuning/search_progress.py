"""The progress of the searches of a model's blocks."""

from __future__ import annotations

from collections.abc import Sequence

from ios_tf.scheduler import Problem, Schedule
from ios_tf.tuning.progress import Progress

# The share of a search's time that the choice of algorithms takes.
_OF_ALGORITHMS = 0.4


def search_weight(problem: Problem) -> int:
    """Returns the weight of a block, by which searches share the time.

    It is quadratic in the number of operators, because the number of stages grows
    faster than that of operators. For a chain, it is linear, because only a few
    schedules are compared.
    """
    return len(problem) if problem.is_chain else len(problem) ** 2


class SearchProgress:
    """Shows how many blocks have been searched, and the speedup of their schedules."""

    def __init__(self, progress: Progress, waiting: Sequence[Problem]) -> None:
        self._progress = progress
        self._blocks = len(waiting)
        self._searched = 0
        self._all = sum(map(search_weight, waiting)) or 1
        self._done = 0.0
        self._sequential_ms = self._scheduled_ms = 0.0

    def chosen(self, problem: Problem) -> None:
        """The algorithms of a block are chosen."""
        self._add(_OF_ALGORITHMS * search_weight(problem))

    def searching(self, problem: Problem, done: float) -> None:
        """A fraction of the search of a block is done."""
        self._update((1 - _OF_ALGORITHMS) * search_weight(problem) * done)

    def searched(self, problem: Problem, schedule: Schedule) -> None:
        """The search of a block is done."""
        self._searched += 1
        self._sequential_ms += schedule.metadata["sequential_ms"]
        self._scheduled_ms += schedule.metadata["latency_ms"]
        if self._scheduled_ms:
            ratio = self._sequential_ms / self._scheduled_ms
            self._progress.best(ratio, "sequential")
        self._add((1 - _OF_ALGORITHMS) * search_weight(problem))

    def _add(self, done: float) -> None:
        self._done += done
        self._update(0.0)

    def _update(self, more: float) -> None:
        done = min(1.0, (self._done + more) / self._all)
        self._progress.update(done, f"{self._searched} of {self._blocks} blocks")
