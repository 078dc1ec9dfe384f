"""Decides which of two equivalent computations is faster, or that this is undecided.

All such decisions are made here. Samples come in pairs, taken one after the other. The
ratio of each pair is a sample of the speedup. The median of the ratios has a confidence
interval that needs no assumptions about their distribution (the sign test's interval,
from binomials).

On a busy machine, wall times say little. A process that often sleeps gets its
cores back sooner than one that computes all the time. So the ratio of wall times may be
half of its value on a quiet machine, whereas the ratio of processor times hardly
changes. Processor times are used if too few pairs are undisturbed.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
from collections.abc import Mapping, Sequence

from ios_tf.cost.samples import Sample

# A computation replaces TensorFlow's if its mean gain over all batch sizes is at least
# GAIN, and its loss at each single batch size is at most LOSS.
GAIN = 1.01
LOSS = 1.02
CONFIDENCE = 0.98
# A measurement has enough undisturbed pairs if it has _ENOUGH_PAIRS of them, or if they
# are _ENOUGH_SHARE of all pairs.
_ENOUGH_PAIRS = 9
_ENOUGH_SHARE = 0.5


class Verdict(enum.Enum):
    """The outcome of comparing two equivalent computations."""

    FASTER = "faster"
    NOT_FASTER = "not faster"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The time of a first computation over that of a second one.

    Attributes:
      estimate: the median over the pairs.
      low, high: a confidence interval of that median; 0 and infinity if there are too
        few pairs.
      pairs: the number of pairs.
      disturbed: the number of pairs that another process disturbed.
      by_processor_time: whether the ratio is of processor times.
    """

    estimate: float
    low: float
    high: float
    pairs: int = 1
    disturbed: int = 0
    by_processor_time: bool = False

    @property
    def calm(self) -> bool:
        """True if enough pairs were undisturbed."""
        calm = self.pairs - self.disturbed
        return calm >= _ENOUGH_PAIRS or calm >= _ENOUGH_SHARE * self.pairs


def ratio_of(
    first: Sequence[Sample], second: Sequence[Sample], on_cpu: bool = True
) -> Ratio:
    """The ratio of the times of two equivalent computations.

    Args:
      first, second: the samples; samples i of both were taken one after the other.
      on_cpu: whether this process's threads do the work, so that their processor time
        is meaningful.
    """
    pairs = list(zip(first, second, strict=False))
    calm = [pair for pair in pairs if not (pair[0].disturbed or pair[1].disturbed)]
    found = Ratio(1.0, 0.0, math.inf, len(pairs), len(pairs) - len(calm))
    if found.calm:
        ratios = [a.ms / b.ms for a, b in calm]
    elif on_cpu and all(b.cpu_ms > 0 and a.cpu_ms > 0 for a, b in pairs):
        ratios = [a.cpu_ms / b.cpu_ms for a, b in pairs]
        found = dataclasses.replace(found, by_processor_time=True)
    else:
        ratios = [a.ms / b.ms for a, b in pairs]
    if not ratios:
        return found
    low, high = interval_of_median(ratios)
    return dataclasses.replace(
        found, estimate=statistics.median(ratios), low=low, high=high
    )


def interval_of_median(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """A confidence interval of the median of the values' distribution.

    The number of values below the median is binomial with probability 1/2. So the
    median lies between the k-th smallest and the k-th largest value unless fewer than k
    values are on one side.

    Returns:
      The shortest such interval of at least this confidence; 0 and infinity if even the
      whole range of the values has a lower confidence.
    """
    count = len(values)
    outside, rank = 0.0, 0
    # `outside`: the probability that at most `rank` values are below the median.
    while rank < count // 2:
        outside += math.comb(count, rank) / 2**count
        if 2 * outside > 1 - confidence:
            break
        rank += 1
    if rank == 0:
        return 0.0, math.inf
    ordered = sorted(values)
    return ordered[rank - 1], ordered[count - rank]


def judge(ratios: Mapping[int, Ratio]) -> Verdict:
    """Decides whether a computation should replace TensorFlow's.

    Args:
      ratios: TensorFlow's time over the computation's time, by batch size. Without any
        ratio, the verdict is NOT_FASTER.

    Returns:
      The verdict. If the machine was calm, the estimates decide, not the intervals: a
      difference that an interval leaves open is then too small to matter.
    """
    if not ratios:
        return Verdict.NOT_FASTER
    if all(ratio.calm for ratio in ratios.values()):
        estimates = [ratio.estimate for ratio in ratios.values()]
        return _certain(estimates, estimates)
    lows = [ratio.low for ratio in ratios.values()]
    highs = [ratio.high for ratio in ratios.values()]
    return _certain(lows, highs)


def by_estimate(ratios: Mapping[int, Ratio]) -> bool:
    """Like `judge`, but returns whether the estimates alone say FASTER."""
    estimates = [ratio.estimate for ratio in ratios.values()]
    return bool(ratios) and _certain(estimates, estimates) is Verdict.FASTER


def slower_sizes(ratios: Mapping[int, Ratio]) -> list[int]:
    """The batch sizes at which a computation is slower than TensorFlow by over LOSS."""
    return [size for size, one in ratios.items() if LOSS * one.estimate < 1]


def _certain(lows: Sequence[float], highs: Sequence[float]) -> Verdict:
    """The verdict that holds for all ratios between these bounds."""
    gain = GAIN ** len(lows)
    if math.prod(lows) >= gain and all(LOSS * low >= 1 for low in lows):
        return Verdict.FASTER
    if math.prod(highs) < gain or any(LOSS * high < 1 for high in highs):
        return Verdict.NOT_FASTER
    return Verdict.UNDECIDED
