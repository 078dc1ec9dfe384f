"""Finds the schedules of a model's blocks: cache, dynamic program, final check."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import BlockCostModel, compare_within_memory
from ios_tf.cost.database import LatencyDatabase
from ios_tf.scheduler import (
    Problem,
    Pruning,
    Schedule,
    Stage,
    greedy_schedule,
    search,
    sequential_schedule,
    split_schedules,
)
from ios_tf.scheduler import Progress as SearchProgress
from ios_tf.tuning.algorithms import choose, with_algorithms
from ios_tf.tuning.parts import DEFAULT_PATTERNS, Part, Patterns, joined, parts_of
from ios_tf.tuning.progress import Progress

if TYPE_CHECKING:  # it needs TensorFlow, which not every search has
    from ios_tf.tuning.cache import ScheduleCache

BASELINES = {"sequential": sequential_schedule, "greedy": greedy_schedule}
# Of several schedules measured the fastest one looks faster than it is.
_WORTHWHILE = 0.98


@dataclasses.dataclass
class SearchStats:
    """The effort of a model's searches.

    Attributes:
      blocks: parts that one dynamic program schedules, equal ones counted once.
      cached: those of them whose schedule was in the cache.
      cut: block name -> cuts made only to make the search possible.
      stopped: block signature -> how much faster than the schedule that was found
        another one could be, as a fraction, where the search was stopped.
      too_large: names of blocks that could not be measured, or not all of what was to
        be, in the memory that was free.
      measured: stages, groups and schedules that were measured.
      reused: stages and groups that had been measured before.
      bounded: candidates that need not be measured, as they could not win.
      seconds: time of all searches.
    """

    blocks: int = 0
    cached: int = 0
    cut: dict[str, int] = dataclasses.field(default_factory=dict)
    stopped: dict[str, float] = dataclasses.field(default_factory=dict)
    too_large: set[str] = dataclasses.field(default_factory=set)
    measured: int = 0
    reused: int = 0
    bounded: int = 0
    seconds: float = 0.0


class Searcher:
    """Schedules blocks for one device with one strategy.

    Equal stages are measured once, across all blocks it is given, and across all
    searches that share the database.

    Attributes:
      cost_model: what measures.
      searches: whether the strategy is one that searches, and not a baseline, which,
        asked for by name, is not replaced by something better.
      time_limit: seconds for the searches of all blocks of a call together.
    """

    def __init__(
        self,
        cost_model: BlockCostModel,
        strategy: str,
        pruning: Pruning,
        cache: ScheduleCache | None = None,
        show_progress: bool = False,
        database: LatencyDatabase | None = None,
        patterns: Patterns = DEFAULT_PATTERNS,
        time_limit: float = 0.0,
        winograd: bool = False,
    ) -> None:
        """`time_limit`: 0: none. What a search has found by then is used.

        `winograd`: whether searches choose the algorithms of convolutions, too.
        """
        self.cost_model = cost_model
        self._cached = CachedCostModel(cost_model, database)
        self.searches = strategy not in BASELINES
        self.time_limit = time_limit or math.inf
        self._strategy = strategy
        self._pruning = pruning
        self._cache = cache
        self._show_progress = show_progress
        self._patterns = patterns
        self._winograd = winograd

    def schedule_all(
        self, problems: Iterable[Problem]
    ) -> tuple[dict[str, Schedule], SearchStats]:
        """The schedules of blocks, by signature, and what they took.

        Their metadata holds `latency_ms`, `sequential_ms` and, where it was measured,
        `greedy_ms`: the sums over their parts, of which there are `parts`.
        """
        problems = list(problems)
        stats = SearchStats()
        start = time.monotonic()
        parts: dict[str, list[Part]] = {}
        for problem in problems:
            found, forced = parts_of(problem, self._pruning, self._patterns)
            parts[problem.signature] = found
            if forced:
                stats.cut[problem.name] = forced
        unique = {
            part.problem.signature: part.problem for ps in parts.values() for part in ps
        }
        stats.blocks = len(unique)
        before = self.cost_model.measurements
        schedules: dict[str, Schedule] = {}
        for signature, problem in unique.items():
            schedule = self._look_up(problem)
            if schedule:
                schedules[signature] = schedule
        stats.cached = len(schedules)
        waiting = [p for s, p in unique.items() if s not in schedules]
        left = sum(map(_weight, waiting))
        end = start + self.time_limit
        for i, problem in enumerate(waiting):
            algorithms = self._algorithms(problem, end, stats)
            # The time that one search leaves goes to the others.
            now = time.monotonic()
            share = (end - now) * _weight(problem) / left if _weight(problem) else 0.0
            left -= _weight(problem)
            schedule = self._search(
                problem,
                algorithms,
                f"block {i + 1}/{len(waiting)}:",
                now + share,
                stats,
            )
            self.cost_model.release()
            if problem.name not in stats.too_large:
                self._keep(schedule)
            schedules[problem.signature] = schedule
        stats.measured = self.cost_model.measurements - before
        stats.reused = self._cached.reused
        result = {
            problem.signature: self._join(problem, parts[problem.signature], schedules)
            for problem in problems
        }
        stats.seconds = time.monotonic() - start
        return result, stats

    def alternatives(
        self, problems: Iterable[Problem], found: Mapping[str, Schedule]
    ) -> list[dict[str, Schedule]]:
        """Other schedules of a network's blocks, by signature, that might be better.

        Of those that were `found`, all without their algorithms: alone a convolution
        finds its filters in caches that they do not all fit into. And some that split
        all blocks alike: what one block leaves in the caches of a core, the next one
        then finds there, and no lane waits for the others between them. Only a
        measurement of the whole network can tell. None for a baseline.
        """
        if not self.searches:
            return []
        others = []
        if any(schedule.algorithms for schedule in found.values()):
            others.append(
                {s: dataclasses.replace(f, algorithms={}) for s, f in found.items()}
            )
        by_count: dict[int, dict[str, Schedule]] = {}
        for problem in problems:
            for split in self._splits(problem):
                signature = problem.signature
                by_count.setdefault(split.stages[0].micro_batches, dict(found))[
                    signature
                ] = dataclasses.replace(split, algorithms=found[signature].algorithms)
        return others + list(by_count.values())

    def _splits(self, problem: Problem) -> list[Schedule]:
        if self._strategy != "both" or not self.cost_model.lanes_divide_device:
            return []
        return split_schedules(problem, self.cost_model.lanes)

    def _look_up(self, problem: Problem) -> Schedule | None:
        if not self._cache:
            return None
        schedule = self._cache.get(
            problem, self._strategy, self._pruning, self._patterns, self._winograd
        )
        # Given more time than then, there may be a better one.
        stopped_after = schedule.metadata.get("stopped_after") if schedule else None
        if stopped_after and self.time_limit > stopped_after:
            return None
        return schedule

    def _join(
        self, problem: Problem, parts: list[Part], schedules: dict[str, Schedule]
    ) -> Schedule:
        of_parts = [(part, schedules[part.problem.signature]) for part in parts]
        if len(parts) == 1:
            schedule = of_parts[0][1]
            return dataclasses.replace(
                schedule, metadata={**schedule.metadata, "parts": 1}
            )
        totals: collections.Counter[str] = collections.Counter()
        for _, schedule in of_parts:
            for key in ("latency_ms", "sequential_ms"):
                totals[key] += schedule.metadata[key]
        metadata = {"block": problem.name, "parts": len(parts), **totals}
        schedule = dataclasses.replace(joined(problem, of_parts), metadata=metadata)
        # Servers and others that know only the whole block find it, too.
        if not self._look_up(problem):
            self._keep(schedule)
        return schedule

    def _keep(self, schedule: Schedule) -> None:
        if self._cache:
            self._cache.put(
                schedule, self._strategy, self._pruning, self._patterns, self._winograd
            )

    def _algorithms(
        self, problem: Problem, end: float, stats: SearchStats
    ) -> dict[int, str]:
        """Those of a block's operators; of all of them where the time allows."""
        if not self._winograd or not self.searches:
            return {}
        algorithms: dict[int, str] = {}
        try:
            algorithms, complete = choose(
                problem, self._cached, stop=lambda: time.monotonic() > end
            )
            if not complete:
                stats.stopped[problem.signature] = 1.0
        except MemoryError:
            stats.too_large.add(problem.name)
        self.cost_model.release()
        return algorithms

    def _search(
        self,
        problem: Problem,
        algorithms: Mapping[int, str],
        label: str,
        deadline: float,
        stats: SearchStats,
    ) -> Schedule:
        """That of a block with these algorithms."""
        schedule, gap = self._search_stages(
            with_algorithms(problem, algorithms), label, deadline, stats
        )
        if gap is not None:
            stats.stopped.setdefault(problem.signature, gap)
        metadata = dict(schedule.metadata)
        if problem.signature in stats.stopped:
            metadata["stopped_after"] = self.time_limit
        return dataclasses.replace(
            schedule,
            signature=problem.signature,
            algorithms=algorithms,
            metadata=metadata,
        )

    def _search_stages(
        self, problem: Problem, label: str, deadline: float, stats: SearchStats
    ) -> tuple[Schedule, float | None]:
        """A block's schedule; where the search was stopped, how much faster than it
        another one could be."""
        start = time.monotonic()
        before = self.cost_model.measurements
        bar = Progress(label) if self._show_progress else None
        sequential = sequential_schedule(problem)
        choices, gap = self._choices(problem, bar, deadline, stats)
        candidates = list({s.stages: s for s in [*choices, sequential]}.values())
        latencies = self._latencies(problem, candidates, deadline)
        if len(latencies) < len(candidates):
            choices = [one for one in choices if one.stages in latencies]
            gap = 1.0 if gap is None else gap
        if math.inf in latencies.values():
            stats.too_large.add(problem.name)
        if latencies[sequential.stages] == math.inf:
            # The other latencies are of no use without it.
            latencies = dict.fromkeys(latencies, 0.0)
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
        return dataclasses.replace(best, metadata=metadata), gap

    def _choices(
        self,
        problem: Problem,
        bar: Progress | None,
        deadline: float,
        stats: SearchStats,
    ) -> tuple[list[Schedule], float | None]:
        """The schedules to choose from, and `_search_stages`'s second result.

        A sum of stage latencies is an estimate; the whole block decides. What is most
        likely to win comes first: time may end.
        """
        if not self.searches:
            return [BASELINES[self._strategy](problem)], None
        sequential = sequential_schedule(problem)
        if _is_chain(problem):
            return [sequential, *self._splits(problem)], None
        found: list[Schedule] = []
        gap: float | None = None
        try:
            found, gap = self._found(problem, bar, deadline, stats)
        except MemoryError:
            stats.too_large.add(problem.name)
            self.cost_model.release()
        choices = [sequential, *found[:1], *self._splits(problem)]
        if self._strategy in ("both", "parallel"):
            choices.append(greedy_schedule(problem))
        return choices + found[1:], gap

    def _latencies(
        self, problem: Problem, candidates: Sequence[Schedule], deadline: float
    ) -> dict[tuple[Stage, ...], float]:
        """Milliseconds, by stages, of as many as the time allows."""
        stages = [schedule.stages for schedule in candidates]
        latencies = compare_within_memory(
            lambda some: self.cost_model.compare(
                problem, some, max(deadline - time.monotonic(), 0.0)
            ),
            stages,
            self.cost_model.release,
        )
        return dict(zip(stages, latencies, strict=False))

    def _found(
        self,
        problem: Problem,
        bar: Progress | None,
        deadline: float,
        stats: SearchStats,
    ) -> tuple[list[Schedule], float | None]:
        """The schedule of the lowest cost, and near ties of it; `_search_stages`'s
        second result."""

        def update(done: SearchProgress) -> None:
            if bar:
                bar.update(
                    done.done,
                    f"{len(problem)} operators, {done.stages_asked} of "
                    f"{done.stages_total} stages measured",
                )

        result = search(
            problem,
            self._cached,
            self._strategy,
            self._pruning,
            update,
            self._cached.lower_bound,
            1 - _WORTHWHILE,
            self._patterns.units_of(problem),
            tie=1 - _WORTHWHILE,
            stop=lambda: time.monotonic() > deadline,
        )
        stats.bounded += result.stats.stages_total - result.stats.stages_asked
        return [result.schedule, *result.near_ties], result.gap


def _weight(problem: Problem) -> int:
    """The part of the time a search gets: there are more stages than operators."""
    return 0 if _is_chain(problem) else len(problem) ** 2


def _is_chain(problem: Problem) -> bool:
    """Whether every operator reads the one before: there is nothing to schedule."""
    return all(
        problem.predecessors[op] >> (op - 1) & 1 for op in range(1, len(problem))
    )
