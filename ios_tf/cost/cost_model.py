"""Cost model: the interface the search asks, and how samples become one number."""

from __future__ import annotations

import abc
import statistics
from collections.abc import Sequence

from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage
from ios_tf.scheduler.search import CostModel

__all__ = ["CostModel", "SampledCostModel"]


class SampledCostModel(abc.ABC):
    """A cost model that observes a stage several times; its latency is the median."""

    @abc.abstractmethod
    def stage_latencies(self, problem: Problem, stage: Stage) -> Sequence[float]:
        """Latencies of one stage in milliseconds, one per repetition."""

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        return statistics.median(self.stage_latencies(problem, stage))
