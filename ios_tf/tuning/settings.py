"""The settings of searches, which a cache stores together with the schedules."""

from __future__ import annotations

import dataclasses
from typing import Any

from ios_tf.scheduler import BASELINES, PAPER_PRUNING, Pruning
from ios_tf.tuning.parts import DEFAULT_PATTERNS, Patterns

DEFAULT_STRATEGY = "auto"


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """The settings that determine which schedules a search considers.

    Attributes:
      strategy: a strategy of `search`, or a baseline.
      pruning, patterns: the stages and units that are considered.
      algorithms: the algorithms that convolutions may use besides the direct one.
    """

    strategy: str = DEFAULT_STRATEGY
    pruning: Pruning = PAPER_PRUNING
    patterns: Patterns = DEFAULT_PATTERNS
    algorithms: tuple[str, ...] = ()

    @property
    def searches(self) -> bool:
        """True if the strategy searches, and is not a baseline."""
        return self.strategy not in BASELINES

    def to_json(self) -> dict[str, Any]:
        """The settings as a schedule's file stores them."""
        return {
            "strategy_option": self.strategy,
            # Stores 0 for None, because both mean that there is no limit.
            "max_groups": self.pruning.max_groups or 0,
            "max_group_size": self.pruning.max_group_size or 0,
            "units": list(self.patterns.units),
            "borders": list(self.patterns.borders),
            "algorithms_option": list(self.algorithms),
        }
