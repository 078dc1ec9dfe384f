"""Schedule: the ordered stages of a block (paper, section 3), and their JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ios_tf.scheduler import document
from ios_tf.scheduler.problem import Problem, mask_of, operators_of

# The members of the metadata that are numbers (milliseconds, seconds or counts).
_NUMBERS = {
    "latency_ms",
    "sequential_ms",
    "greedy_ms",
    "search_seconds",
    "stopped_after",
    "measurements",
    "parts",
}
_MAX_NUMBER = 1e15


class Strategy(str, enum.Enum):
    """How a stage runs: operators in parallel, one merged operator, a split batch."""

    CONCURRENT = "concurrent"
    MERGE = "merge"
    SPLIT = "split"


@dataclasses.dataclass(frozen=True)
class Stage:
    """Operators that run between two barriers.

    Attributes:
      strategy: concurrent, merge or split.
      groups: concurrent: the connected components of the stage's operators, each
        in a topological order. merge: one group, the operators that become one.
        split: one group in a topological order, through which every micro-batch goes.
      micro_batches: split: the number of parts of the batch, at most one per image;
        each part runs on a lane of its own. 1 for other strategies.
    """

    strategy: Strategy
    groups: tuple[tuple[int, ...], ...]
    micro_batches: int = 1

    @property
    def operators(self) -> int:
        """The stage's operators as a bitmask."""
        return mask_of(op for group in self.groups for op in group)

    @classmethod
    def concurrent(cls, problem: Problem, operators: int) -> Stage:
        """The concurrent stage of a bitmask of operators."""
        return cls(Strategy.CONCURRENT, problem.components(operators))

    @classmethod
    def merge(cls, operators: int) -> Stage:
        """The merge stage of a bitmask of operators."""
        return cls(Strategy.MERGE, (tuple(operators_of(operators)),))

    @classmethod
    def split(cls, operators: int, micro_batches: int) -> Stage:
        """The split stage of a bitmask of operators, in the block's order."""
        return cls(Strategy.SPLIT, (tuple(operators_of(operators)),), micro_batches)

    def renumbered(self, operators: Sequence[int] | Mapping[int, int]) -> Stage:
        """The same stage with operator i renumbered to operators[i]."""
        groups = tuple(tuple(operators[op] for op in g) for g in self.groups)
        return dataclasses.replace(self, groups=groups)

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        data: dict[str, Any] = {
            "strategy": self.strategy.value,
            "groups": [list(group) for group in self.groups],
        }
        if self.strategy is Strategy.SPLIT or self.micro_batches != 1:
            data["micro_batches"] = self.micro_batches
        return data


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The stages of a block in execution order, and data about them.

    Attributes:
      stages: in execution order.
      signature: the signature of the problem's block.
      metadata: other members of the JSON object: device, latency_ms, ...
      algorithms: maps operators to algorithms, for operators that are not computed
          directly.
    """

    stages: tuple[Stage, ...]
    signature: str = ""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    algorithms: Mapping[int, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_parts(
        cls, parts: Iterable[tuple[Sequence[int], Schedule]], signature: str = ""
    ) -> Schedule:
        """Concatenates (operators, schedule) pairs; operator i becomes operators[i]."""
        stages: list[Stage] = []
        algorithms: dict[int, str] = {}
        for operators, schedule in parts:
            stages += [stage.renumbered(operators) for stage in schedule.stages]
            algorithms |= {operators[op]: a for op, a in schedule.algorithms.items()}
        return cls(tuple(stages), signature, algorithms=algorithms)

    def applied_to(self, block: Mapping[str, Any]) -> Mapping[str, Any]:
        """The block's JSON object with the algorithms in its operators."""
        if not self.algorithms:
            return block
        operators = [
            {**operator, "algorithm": self.algorithms.get(op, "direct")}
            for op, operator in enumerate(block["operators"])
        ]
        return {**block, "operators": operators}

    def json_object(self) -> dict[str, Any]:
        """The JSON object."""
        data: dict[str, Any] = {
            "version": document.VERSION,
            "signature": self.signature,
            "stages": [stage.to_json() for stage in self.stages],
        }
        if self.algorithms:
            data["algorithms"] = {
                name: sorted(op for op, a in self.algorithms.items() if a == name)
                for name in sorted(set(self.algorithms.values()))
            }
        return {**self.metadata, **data}

    def to_json(self) -> str:
        """The text of the JSON object."""
        return json.dumps(self.json_object())

    @classmethod
    def from_json(cls, data: str | bytes | Mapping[str, Any]) -> Schedule:
        """Reads a schedule; `engine.check_schedule` checks it against a block.

        Raises:
          ValueError: one line that says what is wrong with the JSON.
        """
        if isinstance(data, (str, bytes)):
            data = document.parse(data, "schedule")
        if not isinstance(data, Mapping):
            raise ValueError(f"the schedule must be a JSON object, not {data!r:.40}")
        if data.get("version") != document.VERSION:
            raise ValueError(
                f"schedule has version {data.get('version')!r}, expected "
                f"{document.VERSION}"
            )
        if not isinstance(data.get("stages"), list):
            raise ValueError('the schedule has no list "stages"')
        signature = data.get("signature", "")
        if not isinstance(signature, str):
            raise ValueError(
                f"the schedule's signature must be a string, not {signature!r:.40}"
            )
        known = ("version", "signature", "stages", "algorithms")
        metadata = {key: value for key, value in data.items() if key not in known}
        for key in _NUMBERS & metadata.keys():
            value = metadata[key]
            if type(value) not in (int, float) or not 0 <= value <= _MAX_NUMBER:
                raise ValueError(
                    f"the schedule's {key} must be a number from 0 to {_MAX_NUMBER:g}, "
                    f"not {value!r:.40}"
                )
        return cls(
            tuple(_stage(stage, at) for at, stage in enumerate(data["stages"])),
            signature,
            metadata,
            _algorithms(data.get("algorithms", {})),
        )


def _algorithms(data: Any) -> dict[int, str]:
    if not isinstance(data, Mapping) or not all(
        isinstance(operators, list) and all(type(op) is int for op in operators)
        for operators in data.values()
    ):
        raise ValueError(
            "the schedule's algorithms must map each algorithm to a list of operator "
            f"indices, but the value is {data!r:.40}"
        )
    return {op: str(name) for name, operators in data.items() for op in operators}


def _stage(data: Any, index: int) -> Stage:
    where = f"stage {index} of the schedule"
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must be a JSON object, not {data!r:.40}")
    try:
        strategy = Strategy(data.get("strategy"))
    except ValueError:
        raise ValueError(
            f"{where} has unknown strategy {data.get('strategy')!r:.40}: use one of "
            f"{', '.join(strategy.value for strategy in Strategy)}"
        ) from None
    groups = data.get("groups")
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and all(type(op) is int for op in group)
        for group in groups
    ):
        raise ValueError(
            f'"groups" of {where} must be a list of lists of operator indices, not '
            f"{groups!r:.40}"
        )
    for op in (op for group in groups for op in group):
        if not 0 <= op < document.MAX_OPERATORS:
            raise ValueError(
                f"{where} contains operator {op}, but there is no operator {op}: "
                f"indices range from 0 to {document.MAX_OPERATORS - 1}"
            )
    micro_batches = data.get("micro_batches", 1)
    if type(micro_batches) is not int or micro_batches > document.MAX_DIMENSION:
        raise ValueError(
            f"micro_batches of {where} must be a whole number <= "
            f"{document.MAX_DIMENSION}, not {micro_batches!r:.40}"
        )
    return Stage(strategy, tuple(tuple(group) for group in groups), micro_batches)
