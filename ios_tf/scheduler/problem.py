"""Problem: a block as the scheduler sees it, read from the optimizer's JSON.

Sets of operators are bitmasks, in which bit i is operator i. The scheduler does not
know what operators compute; only the C++ code does.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any


def mask_of(operators: Iterable[int]) -> int:
    """The bitmask of a set of operator indices."""
    return union_of(1 << op for op in operators)


def union_of(masks: Iterable[int]) -> int:
    """The union of sets; all are bitmasks."""
    union = 0
    for mask in masks:
        union |= mask
    return union


def operators_of(mask: int) -> Iterator[int]:
    """The operator indices of a bitmask, ascending: a topological order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@functools.lru_cache(1 << 16)
def _members(component: int) -> tuple[int, ...]:
    """The operator indices of a component. Many stages have the same components."""
    return tuple(operators_of(component))


def batch_size_of(block: Mapping[str, Any]) -> int:
    """The batch size: the leading dimension of a block's inputs; 1 without inputs.

    A tensor whose leading dimension is 1 may be broadcast over the batch.
    """
    return max((shape[0] for shape in block.get("inputs", ())), default=1)


class Load(int):
    """A load that schedules are made for: a batch size and a number of callers.

    The number is the batch size. A load of one caller equals the plain batch size, so
    that both find the same entry of a mapping. Its text is "8" or "8 with 4 callers".

    Attributes:
      callers: the number of callers that use the model at the same time.
    """

    callers: int

    def __new__(cls, batch_size: int, callers: int = 1) -> Load:
        load = super().__new__(cls, batch_size)
        load.callers = callers
        return load

    @classmethod
    def of(cls, batch_size: int) -> Load:
        """Returns a load as it is; turns a plain batch size into one caller's load."""
        return batch_size if isinstance(batch_size, Load) else cls(batch_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        return int(self) == int(other) and self.callers == Load.of(other).callers

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(int(self) if self.callers == 1 else (int(self), self.callers))

    def __str__(self) -> str:
        if self.callers == 1:
            return str(int(self))
        return f"{int(self)} with {self.callers} callers"


def batch_sizes_of(loads: Iterable[int]) -> list[int]:
    """The batch sizes of loads, each once."""
    return list(dict.fromkeys(map(int, loads)))


@dataclasses.dataclass(frozen=True)
class Problem:
    """One block to schedule. Operators are in a topological order.

    Attributes:
      signature: identifies the block's contents; schedules contain it.
      block: the block's JSON object, which is passed on to the engine.
      names: one name per operator.
      inputs: tensor references per operator: i >= 0 is the output of operator i,
        i < 0 is input -1 - i of the block.
      predecessors: per operator, the operators it reads, as a bitmask.
      successors: per operator, the operators that read it, as a bitmask.
      shapes: the output shape of every operator.
      flops: the work of every operator.
      merge_classes: bitmasks; two or more operators of one class may be merged
        when they are in one stage.
      operator_keys: one key per operator; equal keys mean equal work (type, attributes,
        input shapes).
      algorithms: per operator, the algorithms it may use besides the direct one.
    """

    signature: str
    block: Mapping[str, Any]
    names: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    predecessors: tuple[int, ...]
    successors: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    flops: tuple[int, ...]
    merge_classes: tuple[int, ...]
    operator_keys: tuple[str, ...]
    algorithms: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def all_operators(self) -> int:
        return (1 << len(self)) - 1

    @property
    def name(self) -> str:
        return str(self.block.get("name", "") or self.signature[:12])

    @property
    def types(self) -> tuple[str, ...]:
        """The operators' types; empty strings if the block is only a graph."""
        operators = self.block.get("operators") or [{}] * len(self)
        return tuple(str(operator.get("type", "")) for operator in operators)

    @property
    def outputs(self) -> int:
        """The operators whose results are read outside the block, as a bitmask."""
        return mask_of(self.block.get("outputs", ()))

    @property
    def batch_size(self) -> int:
        """The leading dimension of the block's tensors, see `batch_size_of`."""
        return batch_size_of(self.block)

    @property
    def callers(self) -> int:
        """The number of callers, which run the block at the same time."""
        return int(self.block.get("callers", 1))

    @property
    def is_chain(self) -> bool:
        """True if every operator reads the previous one, so only one order exists."""
        return all(self.predecessors[op] >> (op - 1) & 1 for op in range(1, len(self)))

    @property
    def dtype(self) -> str:
        return str(self.block.get("dtype", "float32"))

    def components(self, operators: int) -> tuple[tuple[int, ...], ...]:
        """The connected components of a set of operators, each ascending."""
        adjacent = self.adjacent
        components = []
        while operators:
            component = frontier = operators & -operators
            while frontier:
                op = frontier & -frontier
                reached = adjacent[op.bit_length() - 1] & operators & ~component
                component |= reached
                frontier ^= op | reached
            operators ^= component
            components.append(_members(component))
        return tuple(components)

    @functools.cached_property
    def adjacent(self) -> tuple[int, ...]:
        """For each operator, the bitmask of those that it reads or that read it."""
        pairs = zip(self.predecessors, self.successors, strict=True)
        return tuple(before | after for before, after in pairs)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Problem:
        """Reads a problem of the native library, which cc/core/ir/problem.h describes.

        Nothing is checked: the library has checked the block, and computed the rest.
        """
        block = data["block"]
        operators = block["operators"]
        inputs = tuple(tuple(operator["inputs"]) for operator in operators)
        predecessors, successors = _adjacency(
            len(operators),
            ((ref, op) for op, refs in enumerate(inputs) for ref in refs if ref >= 0),
        )
        return cls(
            signature=data["signature"],
            block=block,
            names=tuple(str(one.get("name", op)) for op, one in enumerate(operators)),
            inputs=inputs,
            predecessors=predecessors,
            successors=successors,
            shapes=tuple(map(tuple, data["shapes"])),
            flops=tuple(data["flops"]),
            merge_classes=tuple(map(mask_of, data["merge_classes"])),
            operator_keys=tuple(data["operator_keys"]),
            algorithms=tuple(map(tuple, data["algorithms"])),
        )

    @classmethod
    def from_edges(
        cls,
        operators: int,
        edges: Iterable[tuple[int, int]],
        merge_classes: Sequence[Sequence[int]] = (),
        name: str = "edges",
    ) -> Problem:
        """Makes a problem that is only a graph, with different operators without work.

        Operators are in a topological order: each edge (u, v) has u < v.
        """
        edges = sorted({(u, v) for u, v in edges})
        predecessors, successors = _adjacency(operators, edges)
        names = tuple(str(op) for op in range(operators))
        graph = json.dumps([operators, edges, [list(ops) for ops in merge_classes]])
        return cls(
            signature=hashlib.sha256(graph.encode()).hexdigest(),
            block={"name": name, "inputs": [[1]]},
            names=names,
            inputs=tuple(tuple(operators_of(mask)) or (-1,) for mask in predecessors),
            predecessors=predecessors,
            successors=successors,
            shapes=((1,),) * operators,
            flops=(0,) * operators,
            merge_classes=tuple(map(mask_of, merge_classes)),
            operator_keys=names,
            algorithms=((),) * operators,
        )


def _adjacency(
    count: int, edges: Iterable[tuple[int, int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    predecessors, successors = [0] * count, [0] * count
    for u, v in edges:
        predecessors[v] |= 1 << u
        successors[u] |= 1 << v
    return tuple(predecessors), tuple(successors)
