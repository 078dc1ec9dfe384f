"""The settings of searches: a cache keeps for each what was found by it."""

from __future__ import annotations

import dataclasses
from typing import Any

from ios_tf.scheduler import (
    PAPER_PRUNING,
    Pruning,
    greedy_schedule,
    sequential_schedule,
)
from ios_tf.tuning.parts import DEFAULT_PATTERNS, Patterns

DEFAULT_STRATEGY = "both"
BASELINES = {"sequential": sequential_schedule, "greedy": greedy_schedule}


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """Settings that searches of equal blocks share if they find the same schedule.

    Attributes:
      strategy: one of `search`, or a baseline.
      pruning, patterns: what stages and units there are.
      algorithms: by which convolutions may be computed, beside the direct one.
    """

    strategy: str = DEFAULT_STRATEGY
    pruning: Pruning = PAPER_PRUNING
    patterns: Patterns = DEFAULT_PATTERNS
    algorithms: tuple[str, ...] = ()

    @property
    def searches(self) -> bool:
        """Whether the strategy is one that searches, and not a baseline."""
        return self.strategy not in BASELINES

    def to_json(self) -> dict[str, Any]:
        """The settings as the file of a schedule has them."""
        return {
            "strategy_option": self.strategy,
            # No limit has two spellings.
            "max_groups": self.pruning.max_groups or 0,
            "max_group_size": self.pruning.max_group_size or 0,
            "units": list(self.patterns.units),
            "borders": list(self.patterns.borders),
            "algorithms_option": list(self.algorithms),
        }
