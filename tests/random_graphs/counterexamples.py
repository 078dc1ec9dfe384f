"""Finds a program that is converted wrongly, and makes the program small."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

import hypothesis

from random_graphs.differences import Difference, Result
from random_graphs.program import Program
from random_graphs.strategy import programs


@dataclasses.dataclass(frozen=True)
class Failure:
    """A program, as small as it could be made, and its wrong result."""

    program: Program
    result: Result

    @property
    def difference(self) -> Difference:
        return self.result.differences[0]

    @property
    def key(self) -> tuple[str, ...]:
        """A key that is equal for failures that probably have the same cause."""
        found = self.difference
        return found.mode, found.kind, *self.program.operations()

    def __str__(self) -> str:
        return f"{self.result}\n\n{self.program.source}"


def reason(difference: Difference) -> str:
    """The error without graph-specific parts; empty if there is no error."""
    if difference.kind == "values" or difference.kind == "shape":
        return ""
    text = re.sub(r"\[[\d,]*\]|'[^']*'|\{\{.*?\}\}|\d+", "", difference.got)
    return f"{difference.kind} {text}"


@dataclasses.dataclass
class Totals:
    """Sums over graphs.

    Attributes:
      graphs: number of checked graphs.
      with_regions: number of graphs of which the engine runs a part.
      regions: number of regions in all graphs.
      roads: number of graphs that were checked end to end (see end_to_end.py).
      comparisons, skipped, loose, operators, operations: see differences.Result.
      known: number of graphs with known differences.
      steps: maps a program's number of statements to the number of such graphs.
    """

    graphs: int = 0
    with_regions: int = 0
    regions: int = 0
    roads: int = 0
    comparisons: int = 0
    skipped: int = 0
    loose: int = 0
    known: int = 0
    operators: Counter[str] = dataclasses.field(default_factory=Counter)
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    steps: Counter[int] = dataclasses.field(default_factory=Counter)

    def add_graph(self, program: Program, result: Result) -> None:
        self.add(
            Totals(
                1,
                int(result.regions > 0),
                result.regions,
                int(result.end_to_end),
                result.comparisons,
                result.skipped,
                result.loose,
                0,
                result.operators,
                result.operations,
                Counter([len(program.steps)]),
            )
        )

    def add(self, other: Totals) -> None:
        for field in dataclasses.fields(self):
            mine = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, mine)


def search(
    seed: int,
    graphs: int,
    check: Callable[[Program], Result],
    without: Sequence[str] = (),
    is_known: Callable[[Difference], bool] = lambda difference: False,
    shrink_seconds: float = 120.0,
    precision: str = "float32",
) -> tuple[Totals, Failure | None]:
    """Checks random programs, up to the first that is wrong.

    Args:
      seed: determines the programs.
      graphs: number of programs to check.
      check: checks one program.
      without: kinds of steps that the programs do not contain.
      is_known: says which differences are only counted.
      shrink_seconds: time limit for finding a smaller program that fails in the same
        way.
      precision: the precision to convert the programs to.
    """
    totals = Totals()
    known: dict[str, Result] = {}
    failures: list[Failure] = []
    deadline = float("inf")

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=graphs,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )
    @hypothesis.given(programs(without, precision))
    def is_right(program: Program) -> None:
        nonlocal deadline
        result = known.get(program.source)
        if result is None:
            if time.monotonic() > deadline:
                return
            result = known[program.source] = check(program)
            if not failures:
                totals.add_graph(program, result)
        found = [d for d in result.differences if not is_known(d)]
        totals.known += bool(result.differences) and not (found or failures)
        if failures:
            first = failures[0].difference
            same = (first.mode, first.kind)
            found = [d for d in found if (d.mode, d.kind) == same]
        elif found:
            deadline = time.monotonic() + shrink_seconds
        if found:
            failures.append(
                Failure(program, dataclasses.replace(result, differences=found))
            )
            raise _WrongError

    try:
        is_right()
    except _WrongError:
        # The last program that hypothesis runs is the smallest one.
        return totals, failures[-1]
    return totals, None


class _WrongError(Exception):
    """Tells hypothesis that a program is wrong."""
