"""Partition: a large block cut into parts that are scheduled one after the other.

The networks' own blocks are not always separated by a single tensor: a NASNet cell
reads two earlier ones. They are separated by waists: positions in the operators'
order where much fewer tensors are live than on either side.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

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
    live = _live_tensors(units)
    ends = [
        position + 1
        for position in range(count)
        if _is_border(units, position, borders)
    ]
    cuts = [0, *[end for end in ends if end < count], count]
    runs = list(itertools.pairwise(cuts))
    if not borders:
        runs = [part for begin, end in runs for part in _at_waists(begin, end, live)]
    forced = 0
    parts = []
    while runs:
        begin, end = runs.pop(0)
        mask = mask_of(range(begin, end))
        if end - begin == 1 or fits(mask):
            parts.append(mask)
            continue
        middle = _narrowest(begin, end, live)
        forced += 1
        runs[:0] = [(begin, middle), (middle, end)]
    return parts, forced


def _is_border(units: Units, position: int, borders: Sequence[str]) -> bool:
    names = [units.problem.names[op] for op in operators_of(units.masks[position])]
    return any(re.search(pattern, name) for pattern in borders for name in names)


def _live_tensors(units: Units) -> list[int]:
    """At every position of the units' order, tensors that are read from there on."""
    problem = units.problem
    place = {op: i for i, mask in enumerate(units.masks) for op in operators_of(mask)}
    span: dict[int, tuple[int, int]] = {}  # tensor -> where written, where last read
    for op in range(len(problem)):
        for ref in problem.inputs[op]:
            written, read = span.get(ref, (place[ref] if ref >= 0 else -1, -1))
            span[ref] = (written, max(read, place[op]))
    live = [0] * (len(units.masks) + 1)
    for written, read in span.values():
        for position in range(written + 1, read + 1):
            live[position] += 1
    return live


def _at_waists(begin: int, end: int, live: Sequence[int]) -> list[tuple[int, int]]:
    """Cuts a run of more than _SMALL units where it has a waist, and so on."""
    if end - begin <= _SMALL:
        return [(begin, end)]
    waists = []
    for position in range(begin + 1, end):
        sides = min(
            max(live[begin + 1 : position], default=0),
            max(live[position + 1 : end], default=0),
        )
        if 2 * live[position] <= sides:
            waists.append(position)
    if not waists:
        return [(begin, end)]
    best = min(waists, key=lambda p: (live[p], abs(2 * p - begin - end)))
    return _at_waists(begin, best, live) + _at_waists(best, end, live)


def _narrowest(begin: int, end: int, live: Sequence[int]) -> int:
    """Where to cut a run that is too large: not too close to its ends."""
    margin = (end - begin) // 4
    inner = range(begin + max(margin, 1), end - max(margin, 1) + 1)
    return min(inner, key=lambda p: (live[p], abs(2 * p - begin - end)))
