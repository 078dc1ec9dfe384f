"""Differences between the outcomes of a graph in words, and the result of a check."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from random_graphs.sessions import Outcome


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between a converted function and the original.

    Attributes:
      mode: "convert", "plain", "plugin", "optimize", "wait", "end to end
        plain" or "end to end plugin".
      kind: "raises", "does not raise", "shape", "dtype" or "values".
      shapes: shapes of the arguments; empty for "convert".
      expected, got: the two outcomes in words.
    """

    mode: str
    kind: str
    shapes: Mapping[str, Sequence[int]]
    expected: str
    got: str

    def __str__(self) -> str:
        shapes = ", ".join(f"{n} {list(s)}" for n, s in self.shapes.items())
        where = f"{self.mode}, {shapes}" if shapes else self.mode
        return f"{where}: {self.kind}\n  expected: {self.expected}\n  got: {self.got}"


@dataclasses.dataclass
class Result:
    """The result of a check.

    Attributes:
      differences: empty if the graph is right.
      comparisons: number of pairs of outcomes that were compared.
      skipped: differences that TensorFlow's own optimizers or rounding explain.
      loose: comparisons in bfloat16 that allow large differences.
      regions: number of regions in the converted graph.
      operators: types of the engine's operators -> count.
      operations: types of the graph's nodes -> count.
      end_to_end: true if the model was also saved, converted and loaded.
    """

    differences: list[Difference] = dataclasses.field(default_factory=list)
    comparisons: int = 0
    skipped: int = 0
    loose: int = 0
    regions: int = 0
    operators: Counter[str] = dataclasses.field(default_factory=Counter)
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    end_to_end: bool = False

    def add(self, other: Result) -> None:
        """Adds the other result's counts. `regions` and `end_to_end` stay."""
        self.comparisons += other.comparisons
        self.skipped += other.skipped
        self.operators.update(other.operators)
        self.operations.update(other.operations)

    def __str__(self) -> str:
        lines = [f"{len(self.differences)} differences"] if self.differences else []
        seen = set()
        for difference in self.differences:
            key = difference.mode, difference.kind
            if key not in seen:
                lines.append(str(difference))
            seen.add(key)
        return "\n".join(
            lines or [f"equal: {self.comparisons} comparisons, {self.regions} regions"]
        )


def different(
    expected: Outcome, got: Outcome, tolerance: float
) -> tuple[str, str, str] | None:
    """The difference between two outcomes as (kind, expected, got), or None."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        if isinstance(expected, Exception) and isinstance(got, Exception):
            return None
        if isinstance(got, Exception):
            return "raises", _words(expected), _words(got)
        return "does not raise", _words(expected), _words(got)
    for a, b in zip(expected, got, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype:
            return "dtype", str(a.dtype), str(b.dtype)
        if a.shape != b.shape:
            return "shape", str(list(a.shape)), str(list(b.shape))
        if not _close(a, b, tolerance):
            return "values", _values(a, a, b), _values(b, a, b)
    return None


def conversion_fails(error: Exception, mode: str) -> Difference:
    return Difference(mode, "raises", {}, "no error", _words(error))


def _close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    if not np.issubdtype(a.dtype, np.floating) or not a.size:
        return bool(np.array_equal(a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    if not finite.any():
        return True
    a, b = a[finite], b[finite]
    limit = tolerance * np.abs(a).max() + tolerance / 100
    return bool(np.abs(a - b).max() <= limit)  # False for a NaN


def _words(outcome: Outcome) -> str:
    if isinstance(outcome, Exception):
        lines = [line.strip() for line in str(outcome).splitlines() if line.strip()]
        # Keep the line before the node's name; the other lines are tracebacks.
        at = [k for k, line in enumerate(lines) if line.startswith("[[{{node")]
        kept = " ".join(lines[at[0] - 1 : at[0] + 1]) if at else lines[0]
        return f"{type(outcome).__name__}: {kept[:300]}"
    return "outputs of " + ", ".join(str(list(np.shape(o))) for o in outcome)


def _values(shown: np.ndarray, a: np.ndarray, b: np.ndarray) -> str:
    """Some of the values, starting at the first that differs."""
    with np.errstate(invalid="ignore"):
        worst = np.flatnonzero(~np.isclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True))
    start = int(worst[0]) if len(worst) else 0
    index = [int(i) for i in np.unravel_index(start, a.shape)] if a.shape else []
    values = ", ".join(f"{v:.6g}" for v in shown.reshape(-1)[start : start + 4])
    return f"{list(a.shape)} of which from {index}: {values}"
