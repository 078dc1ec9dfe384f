"""Finds the schedules of a model's blocks: cache, dynamic program, final check."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

from ios_tf.cache import ScheduleCache
from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.progress import Progress
from ios_tf.scheduler import (
    BlockTooLargeError,
    Problem,
    Pruning,
    Schedule,
    greedy_schedule,
    search,
    sequential_schedule,
)
from ios_tf.scheduler import Progress as SearchProgress

_BASELINES = {"sequential": sequential_schedule, "greedy": greedy_schedule}
# Of several schedules measured the fastest one looks faster than it is.
_WORTHWHILE = 0.98


@dataclasses.dataclass
class SearchStats:
    """What the searches of a model took.

    Attributes:
      searched: blocks that were searched.
      cached: blocks whose schedule was in the cache.
      too_large: names of blocks that were too large for the dynamic program.
      measurements: candidates that were measured.
      seconds: time of all searches.
    """

    searched: int = 0
    cached: int = 0
    too_large: list[str] = dataclasses.field(default_factory=list)
    measurements: int = 0
    seconds: float = 0.0


class Searcher:
    """Schedules blocks for one device with one strategy.

    Equal stages are measured once, across all blocks it is given.

    Attributes:
      cost_model: what measures.
      searches: whether the strategy is one that searches, and not a baseline, which,
        asked for by name, is not replaced by something better.
    """

    def __init__(
        self,
        cost_model: MeasuredCostModel,
        strategy: str,
        pruning: Pruning,
        cache: ScheduleCache | None = None,
        show_progress: bool = False,
    ) -> None:
        self.cost_model = cost_model
        self._cached = CachedCostModel(cost_model)
        self.searches = strategy not in _BASELINES
        self._strategy = strategy
        self._pruning = pruning
        self._cache = cache
        self._show_progress = show_progress

    def schedule_all(
        self, problems: Iterable[Problem]
    ) -> tuple[dict[str, Schedule], SearchStats]:
        """The schedules of blocks, by signature, and what they took.

        Their metadata holds `latency_ms`, `sequential_ms` and, where it was measured,
        `greedy_ms`: those of the whole block.
        """
        stats = SearchStats()
        schedules: dict[str, Schedule] = {}
        waiting = []
        for problem in problems:
            cached = self._cache and self._cache.get(
                problem, self._strategy, self._pruning
            )
            if cached:
                schedules[problem.signature] = cached
                stats.cached += 1
            else:
                waiting.append(problem)
        start = time.monotonic()
        before = self.cost_model.measurements
        for i, problem in enumerate(waiting):
            schedule = self._search(problem, f"block {i + 1}/{len(waiting)}:", stats)
            self.cost_model.release()
            schedules[problem.signature] = schedule
            stats.searched += 1
            if self._cache:
                self._cache.put(schedule, self._strategy, self._pruning)
        stats.measurements = self.cost_model.measurements - before
        stats.seconds = time.monotonic() - start
        return schedules, stats

    def _search(self, problem: Problem, label: str, stats: SearchStats) -> Schedule:
        start = time.monotonic()
        before = self.cost_model.measurements
        bar = Progress(label) if self._show_progress else None

        def update(done: SearchProgress) -> None:
            if bar:
                bar.update(
                    done.done,
                    f"{len(problem)} operators, {done.stages_asked} of "
                    f"{done.stages_total} stages measured",
                )

        sequential = sequential_schedule(problem)
        if _is_chain(problem):
            choices = [sequential]
        elif not self.searches:
            choices = [_BASELINES[self._strategy](problem)]
        else:
            try:
                found = search(
                    problem,
                    self._cached,
                    self._strategy,
                    self._pruning,
                    update,
                    self._cached.lower_bound,
                    1 - _WORTHWHILE,
                ).schedule
                choices = [found, sequential]
            except BlockTooLargeError:
                stats.too_large.append(problem.name)
                choices = [sequential]
            # A sum of stage latencies is an estimate; the whole block decides.
            if self._strategy in ("both", "parallel"):
                choices.append(greedy_schedule(problem))
        measured = list({s.stages: s for s in [*choices, sequential]}.values())
        latencies = dict(
            zip(
                (schedule.stages for schedule in measured),
                self.cost_model.compare(problem, [s.stages for s in measured]),
                strict=True,
            )
        )
        best = min(choices, key=lambda schedule: latencies[schedule.stages])
        limit = _WORTHWHILE * latencies[sequential.stages]
        if self.searches and latencies[best.stages] > limit:
            best = sequential
        metadata = {
            "block": problem.name,
            "latency_ms": latencies[best.stages],
            "sequential_ms": latencies[sequential.stages],
            "measurements": self.cost_model.measurements - before,
            "search_seconds": round(time.monotonic() - start, 3),
        }
        greedy_ms = latencies.get(greedy_schedule(problem).stages)
        if greedy_ms is not None:
            metadata["greedy_ms"] = greedy_ms
        if bar:
            bar.close(
                f"{len(problem)} operators, {len(best.stages)} stages, "
                f"{metadata['sequential_ms']:.2f} -> {metadata['latency_ms']:.2f} ms"
            )
        return dataclasses.replace(best, metadata=metadata)


def _is_chain(problem: Problem) -> bool:
    """Whether every operator reads the one before: there is nothing to schedule."""
    return all(
        problem.predecessors[op] >> (op - 1) & 1 for op in range(1, len(problem))
    )
