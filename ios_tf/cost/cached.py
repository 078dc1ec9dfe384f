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

from collections.abc import Iterable, Sequence

from ios_tf.cost.cost_model import BlockCostModel, RemoteCostModel, StageRequest
from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.samples import Latency
from ios_tf.cost.stage_key import lane_key, stage_key
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage, Strategy


class CachedCostModel:
    """A cost model that asks another cost model only if the database has no latency.

    One instance serves all blocks of a model, on one device. The methods of a
    `Forecast` need a RemoteCostModel as the other cost model.

    Attributes:
      measured: number of latencies for which the other cost model was asked.
      reused: number of latencies that were in the database.
      withdrawn: number of latencies that a remote cost model has withdrawn.
    """

    def __init__(
        self, cost_model: BlockCostModel, database: LatencyDatabase | None = None
    ) -> None:
        """By default, the database is in memory."""
        self._cost_model = cost_model
        self._remote = cost_model if isinstance(cost_model, RemoteCostModel) else None
        self._database = LatencyDatabase(None, "") if database is None else database
        self._parts: dict[tuple[str, tuple[int, ...], int], float] = {}
        self._group_keys: dict[tuple[str, tuple[int, ...]], str] = {}
        # Estimated latencies (from disturbed samples). They are used in this search,
        # and measured again in the next search.
        self._estimates: dict[str, Latency] = {}
        # The keys of requests to a remote cost model, and of its latencies that are
        # neither confirmed nor withdrawn.
        self._requested: set[str] = set()
        self._unconfirmed: set[str] = set()
        self.withdrawn = 0
        self.measured = 0
        self.reused = 0

    @property
    def forecast(self) -> CachedCostModel | None:
        """This object if the other cost model measures several latencies at a time."""
        return self if self._remote else None

    def spare(self, problem: Problem) -> int:
        """See `Forecast`."""
        assert self._remote
        return self._remote.spare(problem.signature)

    def settle(self) -> None:
        """Waits until all latencies of the remote cost model are final."""
        assert self._remote
        self._remote.wait_until(self._is_settled)

    def _is_settled(self) -> bool:
        self._take()
        return not self._unconfirmed

    def expect_bounds(self, problem: Problem, stages: Iterable[Stage]) -> None:
        """See `Forecast`."""
        pieces = {piece: None for stage in stages for piece in self._pieces(stage)}
        self._request(
            self._piece_request(problem, group, lanes)
            for group, lanes in pieces
            if (problem.signature, group, lanes) not in self._parts
        )

    def expect_stages(
        self, problem: Problem, stages: Iterable[Stage], likely: bool = False
    ) -> list[str]:
        """See `Forecast`."""
        requests = [self._stage_request(problem, stage) for stage in stages]
        self._request(requests, problem.signature if likely else "")
        return [request.key for request in requests]

    def arrived(self, keys: Iterable[str]) -> set[str]:
        """See `Forecast`."""
        self._take()
        return {key for key in keys if self._known(key) is not None}

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        return self._latency(self._stage_request(problem, stage))

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], groups: int
    ) -> float:
        """The latency in ms of a group alone on its lane of a stage of `groups`."""
        lanes = min(groups, self._cost_model.lanes)
        divided = self._cost_model.lanes_divide_device
        return self._piece(problem, group, lanes if divided else 1)

    def lower_bound(self, problem: Problem, stage: Stage) -> float:
        """A lower bound of a stage's latency in ms; see the module's docstring."""
        device = self._cost_model
        latencies = [
            self._piece(problem, group, lanes) for group, lanes in self._pieces(stage)
        ]
        if stage.strategy is Strategy.MERGE or not device.lanes_divide_device:
            return max(latencies)
        if len(latencies) == 1:
            return latencies[0] / device.lanes
        return least_time(latencies, min(len(latencies), device.lanes))

    def _pieces(self, stage: Stage) -> list[tuple[tuple[int, ...], int]]:
        """The groups whose latencies give a stage's bound: (group, number of lanes).

        Each group is measured alone, on one of this many lanes. If the number is 0, the
        group is measured as a stage, which uses the whole device.
        """
        if stage.strategy is Strategy.MERGE:
            return [((op,), 0) for op in stage.groups[0]]
        if not self._cost_model.lanes_divide_device:
            return [(group, 1) for group in stage.groups]
        count, most = len(stage.groups), self._cost_model.lanes
        lanes = most if count == 1 else min(count, most)
        return [(group, lanes) for group in stage.groups]

    def _piece(self, problem: Problem, group: tuple[int, ...], lanes: int) -> float:
        name = (problem.signature, group, lanes)
        if name not in self._parts:
            request = self._piece_request(problem, group, lanes)
            self._parts[name] = self._latency(request)
        return self._parts[name]

    def _piece_request(
        self, problem: Problem, group: tuple[int, ...], lanes: int
    ) -> StageRequest:
        stage = Stage(Strategy.CONCURRENT, (group,))
        if lanes == 0:
            return self._stage_request(problem, stage)
        key = lane_key(problem, group, lanes, self._group_keys)
        return StageRequest(key, problem, stage, lanes)

    def _stage_request(self, problem: Problem, stage: Stage) -> StageRequest:
        if (
            stage.strategy is Strategy.CONCURRENT
            and len(stage.groups) == 1
            and not self._cost_model.lanes_divide_device
        ):
            return self._piece_request(problem, stage.groups[0], 1)
        key = stage_key(problem, stage, self._group_keys)
        return StageRequest(key, problem, stage, 0)

    def _latency(self, request: StageRequest) -> float:
        """A latency in ms, known or measured."""
        known = self._known(request.key)
        if known is None:
            if self._remote:
                known = self._wait(request)
                self.measured += 1
                return known.median_ms
            with self._database.measuring():
                # Another process may have measured this latency while this process
                # waited for the lock.
                known = self._known(request.key)
                if known is None:
                    known = self._cost_model.observe(
                        request.problem, request.stage, request.lanes
                    )
                    self._store(request.key, known)
                    self.measured += 1
                    return known.median_ms
        self.reused += 1
        return known.median_ms

    def _wait(self, request: StageRequest) -> Latency:
        """Waits until a remote device has measured a latency."""
        assert self._remote
        while True:
            self._take()
            known = self._known(request.key)
            if known is not None:
                return known
            if request.key not in self._requested:
                self._requested.add(request.key)
                self._remote.request([request])
            self._remote.wait(request.key)

    def _take(self) -> None:
        """Takes over the latencies that have arrived from a remote cost model.

        A latency is an estimate until the remote cost model confirms it. Only confirmed
        latencies are stored in the database.
        """
        assert self._remote
        arrivals = self._remote.collect()
        self._estimates.update(arrivals.latencies)
        self._unconfirmed.update(arrivals.latencies)
        for key in arrivals.confirmed:
            self._unconfirmed.discard(key)
            if key in self._estimates:
                self._store(key, self._estimates.pop(key))
        for key in arrivals.withdrawn:
            self._unconfirmed.discard(key)
            self._requested.discard(key)
            self._estimates.pop(key, None)
        self._unconfirmed.difference_update(arrivals.estimated)
        if arrivals.withdrawn:
            self.withdrawn += len(arrivals.withdrawn)
            self._parts.clear()

    def _request(self, requests: Iterable[StageRequest], likely: str = "") -> None:
        assert self._remote
        new = {}
        for request in requests:
            if request.key not in self._requested and self._known(request.key) is None:
                new[request.key] = request
        if not likely:
            self._requested.update(new)
        self._remote.request(list(new.values()), likely)

    def _store(self, key: str, latency: Latency) -> None:
        if self._cost_model.measurement.accepts(latency):
            self._database.put(key, latency)
        else:
            self._estimates[key] = latency

    def _known(self, key: str) -> Latency | None:
        if key in self._estimates:
            return self._estimates[key]
        latency = self._database.get(key)
        if latency and not self._cost_model.measurement.accepts(latency):
            return None  # the latency is less precise than this search requires
        return latency


def least_time(jobs: Sequence[float], lanes: int) -> float:
    """Returns a lower bound of the time in which `lanes` lanes can do all jobs.

    One bound is the sum of all jobs divided by the number of lanes. For each k, there
    is another bound. Take the k * lanes + 1 longest jobs: some lane does at least k + 1
    of these. This takes at least the sum of the k + 1 shortest ones among them.
    """
    longest = sorted(jobs, reverse=True)
    times = [sum(jobs) / lanes]
    for last in range(0, len(longest), lanes):
        shared = last // lanes + 1
        times.append(sum(longest[last - shared + 1 : last + 1]))
    return max(times)
