"""Network: the blocks of a model in one JSON file, without weights and TensorFlow.

With this file, the engine can be benchmarked on a machine without TensorFlow.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.results import read_json
from ios_tf.errors import UserError
from ios_tf.files import write_text
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule

VERSION = 1


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a region that is scheduled as a block of its own.

    Attributes:
      signature: the signature of its problem.
      operators: for each operator of the problem, its number in the region.
    """

    signature: str
    operators: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Region:
    """A region as a JSON block, and its parts in execution order."""

    block: Mapping[str, Any]
    parts: Sequence[Part]

    def schedule(self, schedules: Mapping[str, Schedule]) -> Schedule:
        """The schedule of the whole region, from the schedules of its parts."""
        return Schedule.of_parts(
            (part.operators, schedules[part.signature]) for part in self.parts
        )


@dataclasses.dataclass(frozen=True)
class Network:
    """The regions and blocks of one model that the engine computes.

    Attributes:
      name: the name of the network in tables and messages.
      problems: maps signatures to the blocks to schedule. Identical blocks share one
        problem.
      regions: the regions in execution order.
    """

    name: str
    problems: Mapping[str, Problem]
    regions: Sequence[Region]

    @classmethod
    def of(cls, problem: Problem) -> Network:
        """A network of a single block."""
        part = Part(problem.signature, list(range(len(problem))))
        region = Region(problem.block, [part])
        return cls(problem.name, {problem.signature: problem}, [region])

    def with_batch(self, size: int) -> Network:
        """The same network for another batch size.

        Raises:
          EngineError: the network cannot have that batch size.
        """

        def resized(block: Mapping[str, Any]) -> dict[str, Any]:
            inputs = [[size, *shape[1:]] for shape in block["inputs"]]
            return {**block, "inputs": inputs}

        return self._changed(resized)

    def with_dtype(self, dtype: str) -> Network:
        """The same network in another precision: "float32", "float16", "bfloat16"."""
        return self._changed(lambda block: {**block, "dtype": dtype})

    def _changed(
        self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> Network:
        changed = {
            signature: Problem.from_json(engine.problem(change(problem.block)))
            for signature, problem in self.problems.items()
        }
        return Network(
            self.name,
            {problem.signature: problem for problem in changed.values()},
            [
                Region(
                    change(region.block),
                    [
                        Part(changed[part.signature].signature, part.operators)
                        for part in region.parts
                    ],
                )
                for region in self.regions
            ],
        )

    @property
    def batch_size(self) -> int:
        return self.regions[0].block["inputs"][0][0]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes a file for `read`, completely or not at all."""
        text = json.dumps(
            {
                "version": VERSION,
                "name": self.name,
                "blocks": [problem.block for problem in self.problems.values()],
                "regions": [
                    {
                        "block": region.block,
                        "parts": [dataclasses.asdict(part) for part in region.parts],
                    }
                    for region in self.regions
                ],
            },
            separators=(",", ":"),
        )
        write_text(path, text)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Network:
        """Reads a file that `python -m benchmarks export_blocks` wrote.

        Raises:
          UserError: one line that says what is wrong with the file.
        """
        data = read_json(path)
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise UserError(f"{os.fspath(path)} is not a network of version {VERSION}")
        try:
            problems = [
                Problem.from_json(engine.problem(block)) for block in data["blocks"]
            ]
            return cls(
                data["name"],
                {problem.signature: problem for problem in problems},
                [
                    Region(
                        region["block"],
                        [Part(p["signature"], p["operators"]) for p in region["parts"]],
                    )
                    for region in data["regions"]
                ],
            )
        except (KeyError, TypeError, ValueError, engine.EngineError) as error:
            raise UserError(
                f"{os.fspath(path)} is not a valid network: {error}"
            ) from None
