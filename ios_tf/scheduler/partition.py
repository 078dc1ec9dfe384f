"""Partition: cuts a large block into parts that are scheduled one after the other.

The cells of a network are not always connected by a single tensor: a NASNet cell reads
two earlier cells. But there are waists between cells. A waist is a position in the
order of operators at which far fewer tensors are live than at earlier and later
positions. A tensor is live at a position if it is written before and read after it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from ios_tf.scheduler.problem import mask_of, operators_of
from ios_tf.scheduler.units import Units

# Blocks of at most this many units are not cut at waists. They are easy to search, and
# each cut excludes some schedules.
_SMALL = 24


def partition(
    units: Units,
    fits: Callable[[int], bool],
    borders: Sequence[str] = (),
) -> tuple[list[int], int]:
    """Cuts a block into consecutive parts.

    Args:
      units: the block.
      fits: returns whether a part (a bitmask of units) is small enough for the dynamic
          program.
      borders: regular expressions; a part ends with a unit that has an operator whose
        name matches one of them. If there are any, the block is not cut at waists.

    Returns:
      The parts, as bitmasks of units in execution order, and the number of cuts that
      were made only because a part did not fit.
    """
    count = len(units.masks)
    positions = _Positions(units)
    ends = [i + 1 for i in range(count - 1) if _is_border(units, i, borders)]
    runs = list(itertools.pairwise([0, *ends, count]))
    if not borders:
        runs = [part for begin, end in runs for part in positions.at_waists(begin, end)]
    forced = 0
    parts = []
    while runs:
        begin, end = runs.pop(0)
        mask = mask_of(range(begin, end))
        if end - begin == 1 or fits(mask):
            parts.append(mask)
            continue
        middle = positions.narrowest(begin, end)
        forced += 1
        runs[:0] = [(begin, middle), (middle, end)]
    return parts, forced


def _is_border(units: Units, position: int, borders: Sequence[str]) -> bool:
    names = [units.problem.names[op] for op in operators_of(units.masks[position])]
    return any(re.search(pattern, name) for pattern in borders for name in names)


class _Positions:
    """Positions between consecutive units at which a block can be cut.

    Attributes:
      live: for every position, the number of tensors that are written before it and
        read after it.
    """

    def __init__(self, units: Units) -> None:
        problem = units.problem
        place = {
            op: i for i, mask in enumerate(units.masks) for op in operators_of(mask)
        }
        # For each tensor: the position at which it is written, and the position of its
        # last reader.
        span: dict[int, tuple[int, int]] = {}
        reads: list[set[int]] = [set() for _ in units.masks]
        for op in range(len(problem)):
            for ref in problem.inputs[op]:
                written, read = span.get(ref, (place[ref] if ref >= 0 else -1, -1))
                span[ref] = (written, max(read, place[op]))
                reads[place[op]].add(ref)
        self.live = [0] * (len(units.masks) + 1)
        for written, read in span.values():
            for position in range(written + 1, read + 1):
                self.live[position] += 1
        self._reads = list(map(len, reads))

    def at_waists(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Cuts more than _SMALL consecutive units at their best waist, recursively."""
        waists = [p for p in range(begin + 1, end) if self._is_waist(p, begin, end)]
        if end - begin <= _SMALL or not waists:
            return [(begin, end)]
        best = self._best(waists, begin, end)
        return self.at_waists(begin, best) + self.at_waists(best, end)

    def narrowest(self, begin: int, end: int) -> int:
        """Returns the best position for a cut, away from both ends."""
        margin = max((end - begin) // 4, 1)
        return self._best(range(begin + margin, end - margin + 1), begin, end)

    def _is_waist(self, position: int, begin: int, end: int) -> bool:
        before = max(self.live[begin + 1 : position], default=0)
        after = max(self.live[position + 1 : end], default=0)
        return 2 * self.live[position] <= min(before, after)

    def _best(self, positions: Iterable[int], begin: int, end: int) -> int:
        # Prefers cuts after a unit that reads many tensors, because such a unit joins
        # the branches at the end of a cell. Identical cells then become identical
        # parts.
        return min(
            positions,
            key=lambda p: (
                self.live[p],
                -self._reads[p - 1],
                abs(2 * p - begin - end),
            ),
        )
