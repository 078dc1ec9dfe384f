"""Cost model: the interfaces the search asks, and how samples become one number."""

from __future__ import annotations

import abc
import statistics
from collections.abc import Sequence
from typing import Protocol

from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage
from ios_tf.scheduler.search import CostModel

__all__ = ["CostModel", "LaneCostModel", "SampledCostModel"]


class LaneCostModel(CostModel, Protocol):
    """A cost model that also knows what one group takes on a part of the device.

    Attributes:
      lanes: the most lanes the device has; a stage has one per group, up to these.
    """

    lanes: int

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], lanes: int
    ) -> float:
        """The latency in ms of a group alone, on one of so many lanes."""


class SampledCostModel(abc.ABC):
    """A cost model that observes a stage several times; its latency is the median."""

    @abc.abstractmethod
    def stage_latencies(self, problem: Problem, stage: Stage) -> Sequence[float]:
        """Latencies of one stage in milliseconds, one per repetition."""

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        return statistics.median(self.stage_latencies(problem, stage))
