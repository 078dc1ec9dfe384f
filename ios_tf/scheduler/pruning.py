"""How much of the schedule space a search looks at (paper, section 4.3)."""

from __future__ import annotations

import dataclasses

from ios_tf.validation import whole


@dataclasses.dataclass(frozen=True)
class Pruning:
    """The limits every stage obeys.

    Attributes:
      max_group_size: operators per group, the paper's r; None or 0 is unlimited.
      max_groups: groups per stage, the paper's s; None or 0 is unlimited. The
        operators of a merge stage count as one group each.
      single_source: only groups that are the successor closure, inside the state,
        of one operator: the restricted space the paper's Table 1 counts.

    Raises:
      UserError: a limit is no whole number >= 0.
    """

    max_group_size: int | None = 3
    max_groups: int | None = 8
    single_source: bool = False

    def __post_init__(self) -> None:
        for field in ("max_group_size", "max_groups"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, whole(field, value, 0))

    def group_size_limit(self, largest: int) -> int:
        """r, but no more than the largest group there can be."""
        return min(self.max_group_size or largest, largest)

    def groups_limit(self, most: int) -> int:
        """s, but no more than the most groups there can be."""
        return min(self.max_groups or most, most)


PAPER_PRUNING = Pruning()
UNPRUNED = Pruning(max_group_size=None, max_groups=None)
