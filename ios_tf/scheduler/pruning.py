"""Pruning: limits on the schedule space that is searched (paper, section 4.3)."""

from __future__ import annotations

import dataclasses

from ios_tf.validation import search_limit


@dataclasses.dataclass(frozen=True)
class Pruning:
    """Limits that every stage obeys.

    Attributes:
      max_group_size: operators per group, the paper's r; None or 0 is unlimited.
      max_groups: groups per stage, the paper's s; None or 0 is unlimited. The
        operators of a merge stage count as one group each.
      single_source: allows only groups that consist of one operator and all of its
        (direct and indirect) successors inside the state. Table 1 of the paper counts
        this smaller space.

    Raises:
      UserError: a limit is not a whole number >= 0.
    """

    max_group_size: int | None = 3
    max_groups: int | None = 8
    single_source: bool = False

    def __post_init__(self) -> None:
        for field in ("max_group_size", "max_groups"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, search_limit(field, value))


PAPER_PRUNING = Pruning()
UNPRUNED = Pruning(max_group_size=None, max_groups=None)
