"""Samples of latencies, and how several samples become one latency.

If another process disturbs a sample, the sample takes longer than the measured work.
The engine marks disturbed samples (see Sample in cc/engine/backend/measurement.h). This
module computes latencies from disturbed and undisturbed samples.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence

# A latency is undisturbed only if at least this many samples (or all, if there are
# fewer) are undisturbed.
_ENOUGH = 2
# If some samples are disturbed and the spread of the others exceeds this, then some of
# the others were probably disturbed, too.
_AGREEMENT = 0.1
# A machine counts as busy if more than this share of the samples is disturbed.
_BUSY = 0.2


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
      ms: wall time of one run.
      disturbed: whether another process took some of that time.
      cpu_ms: processor time of this process during the run; NaN if it was not measured.
    """

    ms: float
    disturbed: bool = False
    cpu_ms: float = math.nan


@dataclasses.dataclass(frozen=True)
class Latency:
    """A measured latency.

    Attributes:
      median_ms: the median of the undisturbed samples. If `disturbed`, the lower
        quartile of all samples, which is an estimate.
      spread: the interquartile range of the samples that `median_ms` is computed from,
        divided by `median_ms`; infinite for one sample.
      samples: the number of undisturbed samples, or of all samples if `disturbed`.
      disturbed: whether too few samples were undisturbed, or the undisturbed samples do
        not agree.
    """

    median_ms: float
    spread: float
    samples: int
    disturbed: bool = False

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Latency:
        """Computes the latency of one or more samples."""
        calm = [sample.ms for sample in samples if not sample.disturbed]
        if len(calm) >= min(_ENOUGH, len(samples)):
            median_ms = statistics.median(calm)
            spread = _spread(calm, median_ms)
            if len(calm) == len(samples) or spread <= _AGREEMENT:
                return cls(median_ms, spread, len(calm))
        every = [sample.ms for sample in samples]
        estimate = _quartiles(every)[0] if len(every) > 1 else every[0]
        return cls(estimate, _spread(every, estimate), len(every), disturbed=True)


def _spread(values: Sequence[float], middle: float) -> float:
    if len(values) < 2 or middle <= 0:
        return math.inf
    low, _, high = _quartiles(values)
    return (high - low) / middle


def _quartiles(values: Sequence[float]) -> list[float]:
    return statistics.quantiles(values, n=4, method="inclusive")


@dataclasses.dataclass(frozen=True)
class MachineLoad:
    """The load of the machine during some measurements.

    Attributes:
      average: the system's load average: the mean number of threads that run or wait
        for a core, including our own.
      samples: the number of samples taken.
      disturbed: the number of disturbed samples.
    """

    average: float = 0.0
    samples: int = 0
    disturbed: int = 0

    @property
    def share(self) -> float:
        """The share of the samples that were disturbed."""
        return self.disturbed / self.samples if self.samples else 0.0

    @property
    def busy(self) -> bool:
        """True if too many samples were disturbed: latencies are only estimates."""
        return self.share > _BUSY

    def __str__(self) -> str:
        share = f"{100 * self.share:.0f} % of samples disturbed"
        return f"load {self.average:.1f}, {share}"


class LoadRecorder:
    """Counts the samples of this process. Not thread-safe."""

    def __init__(self) -> None:
        self._samples = 0
        self._disturbed = 0

    def add(self, samples: Iterable[Sample]) -> None:
        """Counts samples that have been taken."""
        for sample in samples:
            self._samples += 1
            self._disturbed += sample.disturbed

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[MachineLoad]]:
        """Yields a list, to which the load is added when the `with` block ends."""
        samples, disturbed = self._samples, self._disturbed
        before = _load_average()
        found: list[MachineLoad] = []
        yield found
        found.append(
            MachineLoad(
                max(before, _load_average()),
                self._samples - samples,
                self._disturbed - disturbed,
            )
        )


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except OSError:  # the system does not report it
        return 0.0


RECORDER = LoadRecorder()
