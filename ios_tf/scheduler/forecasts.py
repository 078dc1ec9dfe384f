"""Forecasts: tell devices early what a search will ask for, so that none of them idles.

A search asks for a few latencies, waits for them, and then decides what to ask for
next. A single device is always busy with this, but many devices are not. So a forecast
predicts what the search will ask for. Predicted stages are called likely, because the
search may not ask for all of them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from ios_tf.scheduler.dynamic_programming import DynamicProgram
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage

# A stage in one of its forms (concurrent or merge): the index of the form, and the
# index of the stage in the state space.
Form = tuple[int, int]
# At any time, the number of likely stages is at most this fraction of the stages that
# the search has asked for. Small blocks would otherwise be measured completely.
_LIKELY_PER_ASKED = 0.25


class Forecast(Protocol):
    """Measures latencies before a search asks for them."""

    def expect_bounds(self, problem: Problem, stages: Sequence[Stage]) -> None:
        """The search will ask for the lower bounds of these stages."""

    def expect_stages(
        self, problem: Problem, stages: Sequence[Stage], likely: bool = False
    ) -> list[str]:
        """The search will ask for these latencies; with `likely`, it may not.

        Likely stages replace earlier likely stages.

        Returns:
          A key of each stage, for `arrived`. Stages that do the same work have equal
          keys.
        """

    def spare(self, problem: Problem) -> int:
        """The number of likely stages of this block that devices have time for.

        It is 0 while devices have enough other stages to measure.
        """

    def arrived(self, keys: Iterable[str]) -> set[str]:
        """The subset of the keys whose latencies have arrived."""


@dataclasses.dataclass
class Forecaster:
    """Predicts what a search will ask for.

    The search uses likely latencies as soon as they arrive. So with several devices, it
    may find a schedule other than the one that it would find with a single device. The
    latency of either schedule is within the search's tolerance.
    """

    forecast: Forecast
    problem: Problem
    stage: Callable[[Form], Stage]
    # The likely forms, with the keys of the forecast.
    _likely: list[tuple[str, Form]] = dataclasses.field(default_factory=list)
    _asked: int = 0

    def expect(
        self,
        needed: Sequence[Form],
        program: DynamicProgram,
        least_ms: np.ndarray,
        known_ms: np.ndarray,
        limit_ms: float,
    ) -> None:
        """Announces the needed forms, and enough likely ones to keep devices busy.

        The likely forms are those of the cheapest schedules by their lower bounds.

        Args:
          needed: the forms that the search asks for next.
          program: the search's dynamic program.
          least_ms: float64[forms, stages], latencies, or lower bounds of them;
            infinite if a form does not exist.
          known_ms: float64[forms, stages], latencies; infinite if they are not known.
          limit_ms: the search does not need schedules that cost this or more.
        """
        problem, forecast = self.problem, self.forecast
        forecast.expect_stages(problem, [self.stage(form) for form in needed])
        self._asked += len(needed)
        most = math.ceil(_LIKELY_PER_ASKED * self._asked)
        spare = min(forecast.spare(problem), most, least_ms.size)
        if spare <= 0 or math.isinf(limit_ms):
            return
        cost_ms = program.cheapest_with_each(limit_ms)
        (stages,) = np.nonzero(cost_ms < limit_ms)
        # The least cost of a schedule with each form of these stages.
        cost_ms = cost_ms[stages] - program.stage_ms[stages] + least_ms[:, stages]
        rows, columns = np.nonzero((cost_ms < limit_ms) & np.isinf(known_ms[:, stages]))
        order = _lowest(cost_ms[rows, columns], spare + len(needed))
        forms = zip(rows[order].tolist(), stages[columns[order]].tolist(), strict=True)
        asked = set(needed)
        likely = [form for form in forms if form not in asked][:spare]
        keys = forecast.expect_stages(problem, [*map(self.stage, likely)], likely=True)
        self._likely = list(zip(keys, likely, strict=True))

    def arrived(self) -> list[Form]:
        """The likely forms whose latencies have arrived since the last call."""
        known = self.forecast.arrived([key for key, _ in self._likely])
        arrived = [form for key, form in self._likely if key in known]
        self._likely = [(key, form) for key, form in self._likely if key not in known]
        self._asked += len(arrived)
        return arrived

    def end(self) -> None:
        """Withdraws the likely stages, because the search has ended."""
        self.forecast.expect_stages(self.problem, [], likely=True)


def _lowest(values: np.ndarray, count: int) -> np.ndarray:
    """The indices of the lowest values, ascending; at most this many."""
    if count >= len(values):
        return np.argsort(values)
    lowest = np.argpartition(values, count)[:count]
    return lowest[np.argsort(values[lowest])]
