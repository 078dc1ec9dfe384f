"""Stage keys: strings that are equal for stages that do the same work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ios_tf.scheduler.problem import Problem, mask_of, operators_of
from ios_tf.scheduler.schedule import Stage, Strategy


def stage_key(
    problem: Problem,
    stage: Stage,
    group_keys: dict[tuple[str, tuple[int, ...]], str] | None = None,
) -> str:
    """Returns a string that describes the work of a stage, independently of its block.

    Stages with equal keys have the same strategy, and groups with the same operators
    (types, attributes, shapes) and the same edges inside. The order of the groups does
    not matter. The key ignores which tensors the groups read from outside, and whether
    groups share such tensors. The key of a merge contains the readers of its parts,
    because the readers decide whether the parts are copied.

    Args:
      problem: the block.
      stage: a stage of the block.
      group_keys: a cache for the keys of groups, which calls share.
    """
    group_keys = {} if group_keys is None else group_keys
    keys = [known_group_key(problem, group, group_keys) for group in stage.groups]
    if stage.strategy is Strategy.MERGE:
        keys.append(_readers_key(problem, stage.groups[0]))
    kind = f"{stage.strategy.value} {_conditions(problem)}"
    return f"{kind} {' | '.join(sorted(keys))}"


def _conditions(problem: Problem) -> str:
    """The data type, and the number of callers if there are several."""
    callers = f"{problem.callers} callers " if problem.callers > 1 else ""
    return f"{callers}{problem.dtype}"


def _readers_key(problem: Problem, operators: tuple[int, ...]) -> str:
    def readers(op: int) -> list[int]:
        return list(operators_of(problem.successors[op]))

    def described(reader: int) -> list[Any]:
        # A concat may pass its inputs on without a copy. So for a concat, the key also
        # contains the operators that read the concat.
        behind = readers(reader) if problem.types[reader] == "concat" else []
        keys = sorted(problem.operator_keys[op] for op in behind)
        return [problem.operator_keys[reader], keys]

    return json.dumps(
        sorted(
            [
                problem.operator_keys[op],
                problem.outputs >> op & 1,
                sorted(described(reader) for reader in readers(op)),
            ]
            for op in operators
        )
    )


def lane_key(
    problem: Problem,
    group: tuple[int, ...],
    lanes: int,
    group_keys: dict[tuple[str, tuple[int, ...]], str],
) -> str:
    """The key of a group that runs alone, on one of `lanes` lanes: see `stage_key`."""
    key = known_group_key(problem, group, group_keys)
    return f"{lanes} lanes {_conditions(problem)} {key}"


def known_group_key(
    problem: Problem,
    group: tuple[int, ...],
    group_keys: dict[tuple[str, tuple[int, ...]], str],
) -> str:
    name = (problem.signature, group)
    if name not in group_keys:
        group_keys[name] = _group_key(problem, mask_of(group))
    return group_keys[name]


def _group_key(problem: Problem, group: int) -> str:
    """Describes the operators in a canonical order, with the sources of their inputs.

    The string describes the group fully, so different groups never have equal keys. But
    if operators tie in the canonical order, equal groups may have different keys.
    """
    position: dict[int, int] = {}
    described = []
    for op in _canonical_order(problem, group):
        sources = [position.get(ref, -1) for ref in problem.inputs[op]]
        described.append([problem.operator_keys[op], sources])
        position[op] = len(position)
    return json.dumps(described)


def _canonical_order(problem: Problem, group: int) -> list[int]:
    """A topological order that does not depend on how operators are numbered."""
    operators = list(operators_of(group))
    rank = _ranks({op: problem.operator_keys[op] for op in operators})
    # Refines each operator's rank by the ranks of its neighbours, until the number of
    # distinct ranks no longer grows.
    while len(set(rank.values())) < len(operators):
        refined = _ranks(
            {
                op: (
                    rank[op],
                    tuple(rank.get(ref, -1) for ref in problem.inputs[op]),
                    tuple(
                        sorted(
                            rank[reader]
                            for reader in operators_of(problem.successors[op] & group)
                        )
                    ),
                )
                for op in operators
            }
        )
        if len(set(refined.values())) == len(set(rank.values())):
            break
        rank = refined
    order: list[int] = []
    waiting = group
    while waiting:
        ready = [
            op for op in operators_of(waiting) if not problem.predecessors[op] & waiting
        ]
        order.append(min(ready, key=rank.__getitem__))
        waiting ^= 1 << order[-1]
    return order


def _ranks(labels: Mapping[int, Any]) -> dict[int, int]:
    """The index of each operator's label among the sorted distinct labels."""
    place = {label: i for i, label in enumerate(sorted(set(labels.values())))}
    return {op: place[label] for op, label in labels.items()}
