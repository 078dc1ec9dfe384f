"""Partition: a large block cut into parts that are scheduled one after the other.

The networks' own blocks are not always separated by a single tensor: a NASNet cell
reads two earlier ones. They are separated by waists: positions in the operators'
order where much fewer tensors are live than on either side.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from ios_tf.scheduler.problem import mask_of, operators_of
from ios_tf.scheduler.units import Units

# Blocks of as many units or fewer have no waist: cutting costs schedules, and they
# are no trouble to search.
_SMALL = 24


def partition(
    units: Units,
    fits: Callable[[int], bool],
    borders: Sequence[str] = (),
) -> tuple[list[int], int]:
    """Cuts a block into consecutive parts.

    Args:
      units: the block.
      fits: whether the dynamic program can hold a part, a bitmask of units.
      borders: regular expressions; a part ends with a unit that has an operator whose
        name one of them matches. With any, there are no waists.

    Returns:
      The parts, bitmasks of units in the order to run them in, and how many cuts were
      made only because a part did not fit.
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
    """Places between the units, in their order, where a block can be cut.

    Attributes:
      live: at every position, tensors from before that are read from there on.
    """

    def __init__(self, units: Units) -> None:
        problem = units.problem
        place = {
            op: i for i, mask in enumerate(units.masks) for op in operators_of(mask)
        }
        span: dict[int, tuple[int, int]] = {}  # tensor -> where written, last read
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
        """Cuts a run of more than _SMALL units where it has a waist, and so on."""
        waists = [p for p in range(begin + 1, end) if self._is_waist(p, begin, end)]
        if end - begin <= _SMALL or not waists:
            return [(begin, end)]
        best = self._best(waists, begin, end)
        return self.at_waists(begin, best) + self.at_waists(best, end)

    def narrowest(self, begin: int, end: int) -> int:
        """Where to cut a run that is too large: not too close to its ends."""
        margin = max((end - begin) // 4, 1)
        return self._best(range(begin + margin, end - margin + 1), begin, end)

    def _is_waist(self, position: int, begin: int, end: int) -> bool:
        before = max(self.live[begin + 1 : position], default=0)
        after = max(self.live[position + 1 : end], default=0)
        return 2 * self.live[position] <= min(before, after)

    def _best(self, positions: Iterable[int], begin: int, end: int) -> int:
        # Equal cells end alike: with what joins their branches. So they are found to
        # be equal, wherever they are.
        return min(
            positions,
            key=lambda p: (
                self.live[p],
                -self._reads[p - 1],
                abs(2 * p - begin - end),
            ),
        )
