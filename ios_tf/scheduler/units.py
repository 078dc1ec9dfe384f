"""Units: sets of a block's operators that are scheduled as if they were one.

The engine has more operators than the paper has schedule units: a sum of tensors is an
operator of its own in the engine, but in the paper it belongs to the operator that
reads it. With fewer units, the search space is smaller and related operators stay
together.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

import numpy as np

from ios_tf.scheduler import bitsets
from ios_tf.scheduler.problem import Problem, mask_of, operators_of, union_of


@dataclasses.dataclass(frozen=True)
class Units:
    """A block seen as units.

    Attributes:
      problem: the block itself.
      masks: the operators of every unit, in a topological order of the units.
      contracted: the graph of the units; its operators are indices of `masks`.
    """

    problem: Problem
    masks: tuple[int, ...]
    contracted: Problem

    def operators(self, units: int) -> int:
        """The operators of a set of units; both are bitmasks."""
        return union_of(self.masks[unit] for unit in operators_of(units))

    def operator_sets(self, units: np.ndarray) -> np.ndarray:
        """The operators of many sets of units; both are bitsets."""
        if len(self.masks) == len(self.problem):
            return units  # every operator is a unit
        return bitsets.unions(units, self.masks, bitsets.words_for(len(self.problem)))


def make_units(problem: Problem, sets: Iterable[int] = ()) -> Units:
    """Makes a unit of each given set, and of each operator that is in no set.

    Raises:
      ValueError: the sets are not disjoint, or units would depend on each other in a
        cycle.
    """
    unit_of: dict[int, int] = {}
    masks = [mask for mask in sets if mask]
    for mask in masks:
        for op in operators_of(mask):
            if op in unit_of:
                raise ValueError(
                    f"block {problem.name!r}: operator {problem.names[op]!r} is in two "
                    "units, but each operator can be in only one unit"
                )
            unit_of[op] = mask
    masks += [1 << op for op in range(len(problem)) if op not in unit_of]
    ordered = _topological(problem, masks)
    number = {op: i for i, mask in enumerate(ordered) for op in operators_of(mask)}
    edges = {
        (number[u], number[v])
        for v in range(len(problem))
        for u in operators_of(problem.predecessors[v])
        if number[u] != number[v]
    }
    # Only units of a single operator may merge, because a unit of several operators is
    # not a convolution.
    single = {i for i, mask in enumerate(ordered) if mask.bit_count() == 1}
    classes = [
        [number[op] for op in operators_of(merge_class) if number[op] in single]
        for merge_class in problem.merge_classes
    ]
    contracted = Problem.from_edges(
        len(ordered),
        edges,
        [members for members in classes if len(members) > 1],
        problem.name,
    )
    return Units(problem, tuple(ordered), contracted)


def computed_by_readers(problem: Problem, taken: int = 0) -> list[int]:
    """Returns units (bitmasks): an operator and the inputs that it may compute itself.

    An operator may compute an input itself if nothing else reads this input, and if the
    input is a sum. A depthwise convolution with the algorithm `rows` may also compute
    the 1x1 convolution before it, unless that has the algorithm `gemm`.

    Args:
      problem: the block.
      taken: operators that are in a unit already, as a bitmask.
    """
    outputs = problem.outputs
    products = mask_of(
        product
        for reader in range(len(problem))
        for product in operators_of(_computed_by_rows(problem, reader))
    )
    joined: dict[int, int] = {}  # last operator of a unit -> the unit
    for op in reversed(range(len(problem))):
        if taken >> op & 1:
            continue
        reader = problem.successors[op]
        if (
            (problem.types[op] == "add" or products >> op & 1)
            and reader.bit_count() == 1
            and not outputs >> op & 1
            and not reader & taken
        ):
            last = next(unit for unit, mask in joined.items() if mask & reader)
            joined[last] |= 1 << op
        else:
            joined[op] = 1 << op
    return [mask for mask in joined.values() if mask.bit_count() > 1]


def product_before(problem: Problem, op: int) -> int:
    """Returns the 1x1 convolution of stride 1 that only this operator reads.

    Returns:
      A bitmask; 0 if there is no such convolution.
    """
    before = problem.predecessors[op] & ~problem.outputs
    for producer in operators_of(before):
        if (
            "gemm" not in problem.algorithms[producer]
            or problem.block["operators"][producer].get("strides", [1, 1]) != [1, 1]
            or problem.successors[producer] != 1 << op
        ):
            return 0
    return before


def _computed_by_rows(problem: Problem, reader: int) -> int:
    def has(op: int, algorithm: str) -> bool:
        return problem.block["operators"][op].get("algorithm") == algorithm

    product = product_before(problem, reader)
    # If a problem is only a graph, its JSON has no operators, so it has no products.
    if product and has(reader, "rows"):
        separate = any(has(op, "gemm") for op in operators_of(product))
        return 0 if separate else product
    return 0


def matching_units(problem: Problem, patterns: Sequence[str]) -> list[int]:
    """Returns units (bitmasks): operators that match a pattern in the same way.

    Args:
      problem: the block.
      patterns: regular expressions, which are searched in the operators' names. For
        each operator, the first pattern that matches is used. Two operators are in the
        same unit if they match the same pattern and its (parenthesised) groups have
        equal texts.
    """
    found: dict[tuple[int, tuple[str | None, ...]], int] = {}
    for op, name in enumerate(problem.names):
        for i, pattern in enumerate(patterns):
            match = re.search(pattern, name)
            if match:
                key = (i, match.groups())
                found[key] = found.get(key, 0) | 1 << op
                break
    return list(found.values())


def _topological(problem: Problem, masks: Sequence[int]) -> list[int]:
    """Orders the masks so that no unit reads a later unit."""
    reads = []
    for mask in masks:
        before = union_of(problem.predecessors[op] for op in operators_of(mask))
        reads.append(before & ~mask)
    # Units are sorted by their last operators, which keeps the order of the block if
    # possible.
    waiting = sorted(range(len(masks)), key=lambda i: masks[i].bit_length())
    done, ordered = 0, []
    while waiting:
        ready = next((i for i in waiting if not reads[i] & ~done), None)
        if ready is None:
            names = [problem.names[op] for op in operators_of(masks[waiting[0]])]
            raise ValueError(
                f"block {problem.name!r}: the unit of {', '.join(map(repr, names))} "
                "cannot run, because units depend on each other in a cycle"
            )
        waiting.remove(ready)
        ordered.append(masks[ready])
        done |= masks[ready]
    return ordered
