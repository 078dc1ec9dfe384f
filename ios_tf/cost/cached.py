"""Cached cost model: stages that do the same work are measured once.

It also gives lower bounds of the latencies of stages. They are computed from the
latencies of groups, because a block has far fewer groups than stages. Let t(g) be the
latency of group g if it runs alone on one of the stage's lanes. If lanes divide the
device:

    stage latency >= the least time in which lanes can do all t(g), each g on one lane

because a group is not faster beside other groups than alone on the same lane.
`least_time` is a lower bound of that time. A stage with one group uses the whole
device, which is at most as fast as all its lanes together. Its bound is t(g) / lanes.

If lanes share the device, a group that runs alone uses all of the device. The bound is
then the largest t(g). For a stage with one group, t(g) is the latency of the stage.

A merge does the work of all of its operators, so that it is not faster than any of
these operators alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ios_tf.cost.cost_model import LaneCostModel, Observer
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import Latency, Sample
from ios_tf.cost.stage_key import lane_key, stage_key
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage, Strategy
from ios_tf.scheduler.search import CostModel


class CachedCostModel:
    """A cost model that asks another one for latencies that the database does not have.

    One instance serves all blocks of a model, on one device.

    Attributes:
      measured: number of latencies for which the other cost model was asked.
      reused: number of latencies that were in the database.
    """

    def __init__(
        self, cost_model: CostModel, database: LatencyDatabase | None = None
    ) -> None:
        """By default, the database is in memory."""
        self._cost_model = cost_model
        self._lanes = cost_model if isinstance(cost_model, LaneCostModel) else None
        self._observer = cost_model if isinstance(cost_model, Observer) else None
        self._database = LatencyDatabase(None, "") if database is None else database
        self._parts: dict[tuple[str, tuple[int, ...], int], float] = {}
        self._group_keys: dict[tuple[str, tuple[int, ...]], str] = {}
        # Estimated latencies (from disturbed samples). They are used in this search,
        # and measured again in the next search.
        self._estimates: dict[str, Latency] = {}
        self.measured = 0
        self.reused = 0

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        if (
            stage.strategy is Strategy.CONCURRENT
            and len(stage.groups) == 1
            and self._lanes
            and not self._lanes.lanes_divide_device
        ):
            return self._part(problem, stage.groups[0], 1)
        key = stage_key(problem, stage, self._group_keys)
        return self._latency(key, problem, stage, 0)

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], groups: int
    ) -> float:
        """The latency in ms of a group alone on its lane of a stage of `groups`.

        The other cost model must be a LaneCostModel.
        """
        if not self._lanes:
            raise TypeError(
                "group_latency() needs a cost model that is a LaneCostModel"
            )
        lanes = min(groups, self._lanes.lanes)
        divided = self._lanes.lanes_divide_device
        return self._part(problem, group, lanes if divided else 1)

    def lower_bound(self, problem: Problem, stage: Stage) -> float:
        """A lower bound of a stage's latency in ms; see the module's docstring.

        The other cost model must be a LaneCostModel.
        """
        if not self._lanes:
            raise TypeError("lower bounds need a cost model with lanes (LaneCostModel)")
        if stage.strategy is Strategy.MERGE:
            return max(
                self.stage_latency(problem, Stage(Strategy.CONCURRENT, ((op,),)))
                for op in stage.groups[0]
            )
        if not self._lanes.lanes_divide_device:
            return max(self._part(problem, group, 1) for group in stage.groups)
        most = self._lanes.lanes
        if len(stage.groups) == 1:
            return self._part(problem, stage.groups[0], most) / most
        lanes = min(len(stage.groups), most)
        parts = [self._part(problem, group, lanes) for group in stage.groups]
        return least_time(parts, lanes)

    def _part(self, problem: Problem, group: tuple[int, ...], lanes: int) -> float:
        name = (problem.signature, group, lanes)
        if name not in self._parts:
            key = lane_key(problem, group, lanes, self._group_keys)
            stage = Stage(Strategy.CONCURRENT, (group,))
            self._parts[name] = self._latency(key, problem, stage, lanes)
        return self._parts[name]

    def _latency(self, key: str, problem: Problem, stage: Stage, lanes: int) -> float:
        """A latency in ms, known or measured; for `lanes` see SampledCostModel."""
        known = self._known(key)
        if known is None:
            with self._database.measuring():
                known = self._known(key)  # another process may have measured it
                if known is None:
                    known = self._measure(problem, stage, lanes)
                    if known.disturbed or not self._accepts(known):
                        self._estimates[key] = known
                    else:
                        self._database.put(key, known)
                    self.measured += 1
                    return known.median_ms
        self.reused += 1
        return known.median_ms

    def _known(self, key: str) -> Latency | None:
        if key in self._estimates:
            return self._estimates[key]
        latency = self._database.get(key)
        if latency and not self._accepts(latency):
            return None  # it was measured less precisely than this search requires
        return latency

    def _accepts(self, latency: Latency) -> bool:
        return not self._observer or self._observer.measurement.accepts(latency)

    def _measure(self, problem: Problem, stage: Stage, lanes: int) -> Latency:
        if self._observer:
            return self._observer.observe(problem, stage, lanes)
        if lanes and self._lanes:
            group = stage.groups[0]
            return Latency.of(
                [Sample(self._lanes.group_latency(problem, group, lanes))]
            )
        return Latency.of([Sample(self._cost_model.stage_latency(problem, stage))])


def least_time(jobs: Sequence[float], lanes: int) -> float:
    """Returns a lower bound of the time in which `lanes` lanes can do all jobs.

    One bound is the sum of all jobs divided by the number of lanes. For each k, there
    is another bound: of the k * lanes + 1 longest jobs, some lane does at least k + 1,
    which takes at least as long as the k + 1 shortest of them.
    """
    longest = sorted(jobs, reverse=True)
    times = [sum(jobs) / lanes]
    for last in range(0, len(longest), lanes):
        shared = last // lanes + 1
        times.append(sum(longest[last - shared + 1 : last + 1]))
    return max(times)
