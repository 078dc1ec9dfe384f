"""Parts: pieces of a block that are scheduled as separate blocks."""

from __future__ import annotations

import dataclasses

from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import (
    BlockTooLargeError,
    Problem,
    Pruning,
    computed_by_readers,
    make_units,
    matching_units,
    partition,
)
from ios_tf.scheduler.problem import operators_of, union_of
from ios_tf.scheduler.state_space import build_state_space
from ios_tf.validation import pattern

# The largest number of transitions of a part. It is lower than MAX_TRANSITIONS, because
# a search visits all transitions again for every few stages that it measures.
_MAX_TRANSITIONS = 4_000_000


@dataclasses.dataclass(frozen=True)
class Patterns:
    """Regular expressions for names of operators, which replace the default rules.

    Attributes:
      units: operators that match the same pattern, with equal texts in the pattern's
        parentheses, are scheduled as one operator. If an operator matches no pattern
        and is a sum with only one reader, it is scheduled together with this reader.
      borders: a part ends with an operator that matches. Default: parts end where far
        fewer tensors are live than before and after.
    """

    units: tuple[str, ...] = ()
    borders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for text in (*self.units, *self.borders):
            pattern(text)

    def units_of(self, problem: Problem) -> list[int]:
        """The units of a block that have several operators, as bitmasks."""
        units = matching_units(problem, self.units)
        return units + computed_by_readers(problem, union_of(units))


DEFAULT_PATTERNS = Patterns()


@dataclasses.dataclass(frozen=True)
class Part:
    """Some operators of a block, as a separate block.

    Attributes:
      problem: the part.
      operators: for each operator of the part, its index in the block.
    """

    problem: Problem
    operators: tuple[int, ...]


def parts_of(
    problem: Problem,
    pruning: Pruning,
    patterns: Patterns = DEFAULT_PATTERNS,
    max_transitions: int | None = _MAX_TRANSITIONS,
) -> tuple[list[Part], int]:
    """Returns the parts of a block, in the order in which they run.

    Args:
      problem: the block.
      pruning: limits of the search.
      patterns: units and borders that the user asks for.
      max_transitions: a part with more transitions than this is cut. None means no
        limit.

    Returns:
      The parts, and the number of cuts that were made only because a part was too large
      to search.

    Raises:
      UserError: the patterns make units that depend on each other in a cycle.
    """
    try:
        units = make_units(problem, patterns.units_of(problem))
    except ValueError as error:
        raise UserError(str(error)) from None

    def fits(mask: int) -> bool:
        if max_transitions is None:
            return True
        members = list(operators_of(mask))
        number = {unit: i for i, unit in enumerate(members)}
        reads = units.contracted.predecessors
        edges = [
            (number[before], number[unit])
            for unit in members
            for before in operators_of(reads[unit] & mask)
        ]
        graph = Problem.from_edges(len(members), edges)
        try:
            build_state_space(graph, pruning, limit=max_transitions)
        except BlockTooLargeError:
            return False
        return True

    masks, forced = partition(units, fits, patterns.borders)
    if len(masks) == 1:
        return [Part(problem, tuple(range(len(problem))))], forced
    return [part_of(problem, units.operators(mask)) for mask in masks], forced


def part_of(problem: Problem, mask: int) -> Part:
    """Returns the operators of a bitmask as a part."""
    operators = tuple(operators_of(mask))
    return Part(Problem.from_json(engine.part(problem.block, operators)), operators)
