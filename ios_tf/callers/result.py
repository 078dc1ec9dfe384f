"""The result of `bench --callers`: a table, sentences and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ios_tf.callers.frameworks import FRAMEWORKS
from ios_tf.callers.loops import PERCENTILES
from ios_tf.conversion.bench import Measured
from ios_tf.reasons import Decision, Reason
from ios_tf.tables import rounded, table

# If outputs differ by more than this fraction of the largest output, the result
# mentions the difference.
_TOLERANCE = 1e-2
_LOW, _HIGH = 10, 90  # percentiles of the rounds


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table: the measurements of a framework with a number of callers.

    Attributes:
      framework: a key of `FRAMEWORKS`.
      callers: the number of callers.
      calls: the number of measured calls in all rounds.
      unanswered: the number of calls, in all rounds, that were not made because all
          callers were busy.
      rounds: the figures of each round, see `Measurement.figures`.
    """

    framework: str
    callers: int
    calls: int
    unanswered: int
    rounds: Sequence[Mapping[str, float]]

    def medians(self) -> dict[str, dict[str, float]]:
        """Median and percentiles _LOW and _HIGH of each figure over the rounds."""
        medians = {}
        for figure in self.rounds[0]:
            values = [each[figure] for each in self.rounds]
            found = np.percentile(values, (50, _LOW, _HIGH)).tolist()
            medians[figure] = dict(zip(("median", "low", "high"), found, strict=True))
        return medians


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Measured):
    """The measurements of `bench`.

    Attributes:
      rows: the rows of the table.
      differences: framework -> difference of its outputs from stock TensorFlow's.
      missing: framework -> the packages that are not installed.
      failures: framework -> the reason why it was not measured.
    """

    rows: Sequence[Row]
    differences: Mapping[str, float]
    missing: Mapping[str, Sequence[str]]
    failures: Mapping[str, str]

    def table(self) -> str:
        """Returns the medians as a table of text, at most 80 columns wide."""
        lines = []
        for row in self.rows:
            medians = row.medians()
            images = medians["images_per_second"]
            spread = (images["high"] - images["low"]) / 2 / images["median"]
            figures = (*(f"p{percent}_ms" for percent in PERCENTILES), "cpu_ms")
            lines.append(
                (
                    FRAMEWORKS[row.framework].name,
                    str(row.callers),
                    rounded(images["median"]),
                    f"{spread * 100:.0f} %",
                    *(rounded(medians[figure]["median"]) for figure in figures),
                )
            )
        percentiles = (f"p{percent} ms" for percent in PERCENTILES)
        return table(("", "callers", "images/s", "±", *percentiles, "CPU ms"), lines)

    @property
    def decisions(self) -> list[Decision]:
        """The frameworks that were not measured, and why."""
        decisions = []
        if self.missing:
            names = _joined([FRAMEWORKS[key].name for key in self.missing])
            packages = sorted({one for each in self.missing.values() for one in each})
            text = f"frameworks that are not installed were not measured: {names} (pip "
            text += f"install {' '.join(packages)})"
            decisions.append(Decision(Reason.FRAMEWORK_MISSING, text))
        for key, reason in self.failures.items():
            text = f"{FRAMEWORKS[key].name} was not measured: {reason}"
            decisions.append(Decision(Reason.FRAMEWORK_FAILED, text))
        return decisions

    def notes(self) -> list[str]:
        notes = [str(decision) for decision in self.decisions]
        for key, difference in self.differences.items():
            if not difference <= _TOLERANCE:
                notes.append(
                    f"{FRAMEWORKS[key].name}'s outputs differ from TensorFlow's by "
                    f"{difference:.1e} (relative)"
                )
        for row in self.rows:
            if row.unanswered:
                notes.append(
                    f"{FRAMEWORKS[row.framework].name} left {row.unanswered} of "
                    f"{row.calls + row.unanswered} calls unanswered, because the rate "
                    "is higher than this framework can serve"
                )
        return notes

    def to_json(self) -> dict[str, Any]:
        """The result and the conditions of the measurement as a JSON object."""
        return {
            **self.conditions(),
            "callers": self.options.caller_counts,
            "rate": self.options.rate,
            "batching": self.options.batching,
            "seconds": self.options.seconds,
            "rows": [
                {
                    "name": FRAMEWORKS[row.framework].name,
                    "versions": FRAMEWORKS[row.framework].versions(),
                    "difference": self.differences[row.framework],
                    "callers": row.callers,
                    "calls": row.calls,
                    "unanswered": row.unanswered,
                    **row.medians(),
                    "rounds": [dict(each) for each in row.rounds],
                }
                for row in self.rows
            ],
            "missing": {FRAMEWORKS[k].name: list(v) for k, v in self.missing.items()},
            "failures": {FRAMEWORKS[k].name: v for k, v in self.failures.items()},
            "decisions": [decision.to_json() for decision in self.decisions],
        }


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
