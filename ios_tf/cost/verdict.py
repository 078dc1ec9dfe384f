"""Decides which of two ways to compute the same is faster, or that it cannot be told.

The one place for that: samples come in pairs, taken one after the other. The ratio of
each pair is a sample of the speedup. The median of the ratios has an interval that
holds without assumptions on their distribution (the sign test's, by binomials).

Beside busy processes wall times say little: a process that often sleeps gets its cores
back sooner than one that computes all the time, so that the ratio of wall times may be
half of what it is on a quiet machine. The ratio of processor times hardly changes. It
counts where too few pairs are undisturbed.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
from collections.abc import Mapping, Sequence

from ios_tf.cost.samples import Sample

# The gain over all batch sizes that is worth leaving TensorFlow, and the loss that is
# allowed at one of them.
GAIN = 1.01
LOSS = 1.02
CONFIDENCE = 0.98
# Undisturbed pairs that are enough, if they are many or a fair share.
_ENOUGH_PAIRS = 9
_ENOUGH_SHARE = 0.5


class Verdict(enum.Enum):
    """The outcome of comparing two ways to compute the same."""

    FASTER = "faster"
    NOT_FASTER = "not faster"
    UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as long the first of two takes as the second.

    Attributes:
      estimate: the median over the pairs.
      low, high: an interval of that median; 0 and infinity where the pairs are too few
        to tell.
      pairs: how many pairs there were.
      disturbed: how many of those another process disturbed.
      by_processor_time: whether the ratio is of processor times.
    """

    estimate: float
    low: float
    high: float
    pairs: int = 1
    disturbed: int = 0
    by_processor_time: bool = False

    @classmethod
    def exactly(cls, ratio: float) -> Ratio:
        """A ratio that is known."""
        return cls(ratio, ratio, ratio)

    @property
    def calm(self) -> bool:
        """Whether enough of its pairs were undisturbed."""
        calm = self.pairs - self.disturbed
        return calm >= _ENOUGH_PAIRS or calm >= _ENOUGH_SHARE * self.pairs


def ratio_of(
    first: Sequence[Sample], second: Sequence[Sample], on_cpu: bool = True
) -> Ratio:
    """The ratio of two ways to compute the same.

    Args:
      first, second: samples i of both were taken one after the other.
      on_cpu: whether this process's threads compute, so that their time tells.
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
    """An interval that holds the median of the distribution that the values are of.

    The number of values below the median is binomial with probability 1/2. So the
    median lies between the k-th smallest and the k-th largest value unless fewer than k
    values are on one side.

    Returns:
      The shortest such interval of at least this confidence; 0 and infinity where even
      the whole range of the values does not have it.
    """
    count = len(values)
    outside, rank = 0.0, 0
    # Below: the probability that at most `rank` values are on one given side.
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
    """Whether something is worth leaving TensorFlow, whose time over its own is given.

    Args:
      ratios: by batch size. What was not measured is not worth it.

    Returns:
      A verdict. Where the machine was calm, the estimates decide what the intervals do
      not: the difference is then too small to matter.
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
    """Whether something is worth leaving TensorFlow as far as is known."""
    estimates = [ratio.estimate for ratio in ratios.values()]
    return bool(ratios) and _certain(estimates, estimates) is Verdict.FASTER


def slower_sizes(ratios: Mapping[int, Ratio]) -> list[int]:
    """The batch sizes at which something takes longer than TensorFlow."""
    return [size for size, one in ratios.items() if LOSS * one.estimate < 1]


def _certain(lows: Sequence[float], highs: Sequence[float]) -> Verdict:
    """The verdict that holds for all ratios between these bounds."""
    gain = GAIN ** len(lows)
    if math.prod(lows) >= gain and all(LOSS * low >= 1 for low in lows):
        return Verdict.FASTER
    if math.prod(highs) < gain or any(LOSS * high < 1 for high in highs):
        return Verdict.NOT_FASTER
    return Verdict.UNDECIDED
