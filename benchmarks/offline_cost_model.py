"""Offline cost model: reads latencies from a database, without the device."""

from __future__ import annotations

from ios_tf.cost.database import LatencyDatabase
from ios_tf.cost.stage_key import lane_key, stage_key
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage, Strategy
from ios_tf.scheduler.search import UnknownLatencyError


class OfflineCostModel:
    """Measures nothing, so that a search uses only stages measured earlier."""

    def __init__(self, database: LatencyDatabase) -> None:
        self._database = database
        self._group_keys: dict[tuple[str, tuple[int, ...]], str] = {}

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds.

        Raises:
          UnknownLatencyError: the stage is not in the database.
        """
        keys = [stage_key(problem, stage, self._group_keys)]
        if stage.strategy is Strategy.CONCURRENT and len(stage.groups) == 1:
            # If lanes share the device, a single group is stored under its lane key.
            keys.append(lane_key(problem, stage.groups[0], 1, self._group_keys))
        for key in keys:
            latency = self._database.get(key)
            if latency is not None:
                return latency.median_ms
        raise UnknownLatencyError(
            f"block {problem.name!r}: the {stage.strategy.value} stage "
            f"{[list(group) for group in stage.groups]} was never measured"
        )
