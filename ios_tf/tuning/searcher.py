"""Schedules a model's blocks: from the cache, or by searches in limited time."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import (
    MAX_SEARCHES,
    BlockCostModel,
    NetworkCostModel,
    RemoteCostModel,
)
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import RECORDER
from ios_tf.scheduler import Problem, Schedule, Stage, sequential_schedule
from ios_tf.tuning.algorithms import GEMM, choose, with_algorithms, with_products
from ios_tf.tuning.block_search import BlockSearch, SearchStats, splits
from ios_tf.tuning.parts import Part, parts_of
from ios_tf.tuning.progress import Progress
from ios_tf.tuning.search_progress import SearchProgress, search_weight
from ios_tf.tuning.settings import SearchSettings

if TYPE_CHECKING:  # imports TensorFlow, which not every search needs
    from ios_tf.tuning.cache import ScheduleCache

_Model = TypeVar("_Model", bound=BlockCostModel)
# Blocks are searched again if devices have withdrawn latencies, but at most this many
# times in total.
_MAX_REPEATS = 3


class Searcher(Generic[_Model]):
    """Schedules blocks for one device with the same settings.

    Equal stages are measured once across all blocks, and across all searches that share
    the database.

    Attributes:
      cost_model: measures the latencies.
      searches: true if the strategy is not a baseline. The schedules of a baseline,
        which the user has asked for, are not replaced by better ones.
      progress: shows how far the searches are.
      time_limit: seconds for the searches of all blocks of a call together.
    """

    def __init__(
        self,
        cost_model: _Model,
        settings: SearchSettings,
        cache: ScheduleCache | None = None,
        database: LatencyDatabase | None = None,
        time_limit: float = 0.0,
        progress: Progress | None = None,
    ) -> None:
        """If `time_limit` is 0, there is no limit.

        At the limit, the best schedules found by then are used.
        """
        self.cost_model = cost_model
        self.searches = settings.searches
        self._settings = settings
        self._cached = CachedCostModel(cost_model, database)
        self._remote = cost_model if isinstance(cost_model, RemoteCostModel) else None
        self.time_limit = time_limit or math.inf
        self._cache = cache
        self.progress = progress or Progress(shown=False)
        self._parts: dict[str, tuple[Sequence[Part], int]] = {}

    def schedule_all(
        self, problems: Iterable[Problem]
    ) -> tuple[dict[str, Schedule], SearchStats]:
        """The schedules of blocks, by signature, and the effort of the searches.

        A schedule's metadata contains `parts`, the number of the block's parts, and
        `latency_ms` and `sequential_ms`, which are sums over the parts. For a block of
        one part it also contains `greedy_ms`, if that was measured.
        """
        problems = list(problems)
        stats = SearchStats()
        start = time.monotonic()
        parts: dict[str, Sequence[Part]] = {}
        for problem in problems:
            found, forced = self.parts_of(problem)
            parts[problem.signature] = found
            if forced:
                stats.cut[problem.name] = forced
        unique = {
            part.problem.signature: part.problem for ps in parts.values() for part in ps
        }
        stats.blocks = len(unique)
        before = self.cost_model.measurements
        known = {s: self._look_up(problem) for s, problem in unique.items()}
        schedules = {s: schedule for s, schedule in known.items() if schedule}
        stats.cached = len(schedules)
        waiting = [p for s, p in unique.items() if s not in schedules]
        left = sum(map(search_weight, waiting))
        end = start + self.time_limit
        # The algorithms of all blocks are chosen before the first search, because on a
        # CPU this choice gains more than the schedules.
        shown = SearchProgress(self.progress, waiting)
        chosen: dict[str, dict[int, str]] = {}

        def choose_algorithms(problem: Problem) -> None:
            chosen[problem.signature] = self._algorithms(problem, end, stats)
            shown.chosen(problem)

        def search(problem: Problem) -> None:
            nonlocal left
            # Each search gets a share of the remaining time, so that later searches get
            # the time that earlier ones did not use. With a remote cost model, searches
            # run at the same time, so each of them gets all of the remaining time.
            now = time.monotonic()
            weight = search_weight(problem)
            share = 1.0 if self._remote else weight / left
            left -= weight
            with RECORDER.watched() as load:
                schedule = self._search(
                    problem,
                    chosen[problem.signature],
                    now + share * (end - now),
                    stats,
                    functools.partial(shown.searching, problem),
                )
            shown.searched(problem, schedule)
            if any(found.busy for found in (*load_of_algorithms, *load)):
                schedule = _disturbed(schedule)
            self.cost_model.release()
            schedules[problem.signature] = schedule
            if problem.name not in stats.too_large:
                self._keep(schedule)

        for _ in range(_MAX_REPEATS):
            withdrawn = self._cached.withdrawn
            with RECORDER.watched() as load_of_algorithms:
                self._for_each(choose_algorithms, waiting)
            self._for_each(search, waiting)
            if self._remote:
                with self._remote.turn():
                    self._cached.settle()
            if self._cached.withdrawn == withdrawn:
                break
        stats.measured = self.cost_model.measurements - before
        stats.reused = self._cached.reused
        result = {
            problem.signature: self._join(problem, parts[problem.signature], schedules)
            for problem in problems
        }
        stats.seconds = time.monotonic() - start
        return result, stats

    def parts_of(self, problem: Problem) -> tuple[Sequence[Part], int]:
        """The parts that a block is searched in, and the number of forced cuts.

        A cut is forced if it was made only because a part was too large to search.
        """
        if problem.signature not in self._parts:
            self._parts[problem.signature] = parts_of(
                problem, self._settings.pruning, self._settings.patterns
            )
        return self._parts[problem.signature]

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of a stage in ms. Equal stages are measured only once."""
        return self._cached.stage_latency(problem, stage)

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], groups: int
    ) -> float:
        """The latency of a group in ms, alone on its lane of a stage of `groups`."""
        return self._cached.group_latency(problem, group, groups)

    def alternatives(
        self, problems: Iterable[Problem], found: Mapping[str, Schedule]
    ) -> list[dict[str, Schedule]]:
        """Other schedules of a network's blocks, by signature, that might be better.

        The alternatives are:

        - The `found` schedules without one of the algorithms, and with none of them.
        - The `found` schedules with matrix products (`gemm`) wherever possible. A
          convolution that is measured alone has its filters in the processor's caches,
          but in the network it does not. Matrix products suffer less from this, because
          they prefetch filters.
        - Sequential schedules, with the `found` algorithms and with none of them.
        - Schedules that split all blocks in the same way. The results of one block then
          stay in the core's caches for the next block, and lanes do not wait for each
          other between blocks.

        Only a measurement of the whole network shows which is best. For a baseline
        strategy, the list is empty.
        """
        if not self.searches:
            return []
        problems = list(problems)
        kinds = {a for f in found.values() for a in f.algorithms.values()}
        sequential = {
            p.signature: dataclasses.replace(
                sequential_schedule(p), algorithms=found[p.signature].algorithms
            )
            for p in problems
        }
        others = [_without(kinds, found), _without(kinds, sequential), sequential]
        if GEMM in self._settings.algorithms:
            others.append(
                {p.signature: with_products(p, found[p.signature]) for p in problems}
            )
        if len(kinds) > 1:
            others += [_without({kind}, found) for kind in sorted(kinds)]
        by_count: dict[int, dict[str, Schedule]] = {}
        for problem in problems:
            for split in splits(problem, self._settings, self.cost_model):
                signature = problem.signature
                by_count.setdefault(split.stages[0].micro_batches, dict(found))[
                    signature
                ] = dataclasses.replace(split, algorithms=found[signature].algorithms)
        return _different(found, others + list(by_count.values()))

    def _for_each(
        self, function: Callable[[Problem], None], problems: Sequence[Problem]
    ) -> None:
        """Calls a function for each problem; for a remote cost model, in threads."""
        remote = self._remote
        if remote is None:
            for problem in problems:
                function(problem)
            return

        def in_turn(problem: Problem) -> None:
            with remote.turn():
                function(problem)

        with contextlib.ExitStack() as stack:
            pool = futures.ThreadPoolExecutor(MAX_SEARCHES)
            # After an error, the other searches end when the cost model is closed.
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            for done in futures.as_completed(
                [pool.submit(in_turn, problem) for problem in problems]
            ):
                done.result()

    def _look_up(self, problem: Problem) -> Schedule | None:
        schedule = self._cache.get(problem, self._settings) if self._cache else None
        if schedule is None:
            return None
        # Servers use a schedule that was chosen on a busy machine, but a search
        # replaces the schedule. A search that was stopped is repeated if there is more
        # time now.
        stopped_after = schedule.metadata.get("stopped_after") or math.inf
        if schedule.metadata.get("disturbed") or self.time_limit > stopped_after:
            return None
        return schedule

    def _join(
        self, problem: Problem, parts: Sequence[Part], schedules: dict[str, Schedule]
    ) -> Schedule:
        of_parts = [
            (part.operators, schedules[part.problem.signature]) for part in parts
        ]
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
        schedule = dataclasses.replace(
            Schedule.of_parts(of_parts, problem.signature), metadata=metadata
        )
        if any(part.metadata.get("disturbed") for _, part in of_parts):
            schedule = _disturbed(schedule)
        # The schedule of the whole block is stored in addition to those of its parts,
        # because other users of the cache, such as servers, look up whole blocks.
        if not self._look_up(problem):
            self._keep(schedule)
        return schedule

    def _keep(self, schedule: Schedule) -> None:
        if self._cache:
            self._cache.put(schedule, self._settings)

    def _algorithms(
        self, problem: Problem, end: float, stats: SearchStats
    ) -> dict[int, str]:
        """Chooses the algorithms of as many operators as the time allows."""
        if not self._settings.algorithms or not self.searches:
            return {}
        algorithms: dict[int, str] = {}
        try:
            algorithms, complete = choose(
                problem,
                self._cached,
                self._settings.algorithms,
                stop=lambda: time.monotonic() > end,
                forecast=self._cached.forecast,
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
        deadline: float,
        stats: SearchStats,
        progress: Callable[[float], None],
    ) -> Schedule:
        """Searches for the schedule of a block with these algorithms."""
        schedule = BlockSearch(
            self.cost_model,
            self._cached,
            self._settings,
            with_algorithms(problem, algorithms),
            problem,
            deadline,
            stats,
            progress,
        ).run()
        metadata = dict(schedule.metadata)
        if problem.signature in stats.stopped:
            metadata["stopped_after"] = self.time_limit
        return dataclasses.replace(
            schedule,
            signature=problem.signature,
            algorithms=algorithms,
            metadata=metadata,
        )


# The searcher of a conversion, which also measures whole networks.
NetworkSearcher = Searcher[NetworkCostModel]


def _disturbed(schedule: Schedule) -> Schedule:
    """Marks a schedule that was chosen by disturbed measurements."""
    return dataclasses.replace(
        schedule, metadata={**schedule.metadata, "disturbed": True}
    )


def _without(
    kinds: Collection[str], schedules: Mapping[str, Schedule]
) -> dict[str, Schedule]:
    """Returns the schedules with direct computation instead of these algorithms."""
    return {
        signature: dataclasses.replace(
            schedule,
            algorithms={o: a for o, a in schedule.algorithms.items() if a not in kinds},
        )
        for signature, schedule in schedules.items()
    }


def _different(
    found: Mapping[str, Schedule], others: Iterable[dict[str, Schedule]]
) -> list[dict[str, Schedule]]:
    """Returns schedules from `others` that differ from `found` and each other."""
    known = [_runs(found)]
    kept = []
    for other in others:
        if _runs(other) not in known:
            known.append(_runs(other))
            kept.append(other)
    return kept


def _runs(schedules: Mapping[str, Schedule]) -> dict[str, Any]:
    return {signature: (s.stages, s.algorithms) for signature, s in schedules.items()}
