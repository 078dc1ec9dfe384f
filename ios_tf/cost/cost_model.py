"""Cost models: the interfaces of the search, and how samples become one latency."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ios_tf.cost.samples import RECORDER, Latency, Sample
from ios_tf.cost.verdict import ratio_of
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage
from ios_tf.validation import measured_runs, warmup_runs

if TYPE_CHECKING:  # imports TensorFlow, which not every search needs
    from ios_tf.native.devices import Device

_Candidate = TypeVar("_Candidate")
# The smallest and largest number of samples of a candidate when whole schedules are
# compared. After the smallest number, the comparison ends when it has taken
# _MOST_SECONDS, or when each candidate is certainly slower than the fastest one or its
# ratio to the fastest one is known within the factor _PRECISION.
_ROUNDS = 7
_MOST_ROUNDS = 21
_MOST_SECONDS = 2.0
_PRECISION = 1.02
# If even the fastest candidate takes more than _LONG_MS, samples after the first have
# one run each, and there are at most _LONG_ROUNDS rounds. A candidate whose latency is
# at least _SLOWER_BY_FAR times that of the fastest one is measured only up to round
# _LONG_ROUNDS, or only in the first round if the fastest one takes more than _LONG_MS.
_LONG_MS = 50.0
_LONG_ROUNDS = 3
_SLOWER_BY_FAR = 1.3
# If samples of a stage are disturbed, at most this many times `sample_count` samples
# are taken.
_MOST_DISTURBED = 2
# The smallest number of rounds if some latencies are disturbed.
_DISTURBED_ROUNDS = 4
# This many candidates are measured even after the time limit: the sequential schedule,
# the schedule that the search found, and one more.
_MIN_CANDIDATES = 3


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How a latency is measured.

    Attributes:
      warmup_runs: unmeasured runs before the samples.
      runs: runs per sample.
      sample_count: the smallest number of samples; the latency is their median.
      max_spread: sampling stops when the spread of the samples is at most this. It
        also stops when there are `budget` samples, or when all samples together took
        `enough_ms`.

    Raises:
      UserError: `warmup_runs`, `runs` or `sample_count` is not a whole number in its
        range.
    """

    warmup_runs: int = 2
    runs: int = 3
    sample_count: int = 3
    max_spread: float = 0.05
    enough_ms: float = 100.0

    def __post_init__(self) -> None:
        for field, check in (
            ("warmup_runs", warmup_runs),
            ("runs", measured_runs),
            ("sample_count", measured_runs),
        ):
            object.__setattr__(self, field, check(field, getattr(self, field)))

    @property
    def budget(self) -> int:
        """The largest number of samples; 1 if a single sample is requested."""
        return 4 * self.sample_count if self.sample_count > 1 else 1

    def accepts(self, latency: Latency) -> bool:
        """Returns whether no more samples are needed.

        A disturbed latency is never accepted, whatever its number of samples.
        """
        return (not latency.disturbed and latency.samples >= self.sample_count) and (
            latency.spread <= self.max_spread
            or latency.samples >= self.budget
            or latency.samples * latency.median_ms >= self.enough_ms
        )


DEFAULT_MEASUREMENT = Measurement()


class BlockCostModel(Protocol):
    """Measures stages and whole schedules on a device, as a Searcher needs.

    Methods raise MemoryError if something does not fit into the device's memory.

    Attributes:
      measurement: how the model measures.
      measurements: the number of candidates measured so far.
      lanes: the number of lanes of the device. A stage uses one lane per group, but at
        most this many.
      lanes_divide_device: true if each lane has a fixed part of the device (CPU cores);
        false if any lane may use all of it (a GPU).
    """

    measurement: Measurement
    measurements: int
    lanes: int
    lanes_divide_device: bool

    def observe(self, problem: Problem, stage: Stage, lanes: int = 0) -> Latency:
        """The latency of a stage; if `lanes` > 0, on one of `lanes` lanes."""

    def compare(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies in ms of several schedules of a block.

        After `seconds`, no more candidates are started, except the first few. The
        result has one latency for each measured candidate, in order.
        """

    def release(self) -> None:
        """Frees the device's memory for the blocks that were measured so far."""


class NetworkCostModel(BlockCostModel, Protocol):
    """A cost model that also measures whole networks, as a conversion needs.

    Attributes:
      device: the device that is measured.
    """

    device: Device

    def compare_programs(
        self,
        candidates: Sequence[Sequence[Mapping[str, Any]]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies in ms of several variants of a network.

        A variant has an object {"block": …, "schedule": …} for each region of the
        network. Its latency is the sum of the regions' latencies. `seconds` is as for
        `compare`.
        """


@dataclasses.dataclass(frozen=True)
class StageRequest:
    """A latency to measure.

    Attributes:
      key: the stage's key (ios_tf/cost/stage_key.py).
      problem: the block.
      stage: a stage of the block.
      lanes: if above 0, the stage runs on one of this many lanes.
    """

    key: str
    problem: Problem
    stage: Stage
    lanes: int


@dataclasses.dataclass
class Arrivals:
    """New answers of the devices of a RemoteCostModel, by stage keys.

    Attributes:
      latencies: new latencies.
      confirmed: keys of new or earlier latencies whose device has since passed a check
        of its speed.
      withdrawn: keys of latencies whose device has failed that check. Another device
        must measure them again.
      estimated: keys of latencies whose device has failed that check, but is the only
        device. The search uses these latencies, but does not store them.
    """

    latencies: dict[str, Latency] = dataclasses.field(default_factory=dict)
    confirmed: list[str] = dataclasses.field(default_factory=list)
    withdrawn: list[str] = dataclasses.field(default_factory=list)
    estimated: list[str] = dataclasses.field(default_factory=list)

    def __bool__(self) -> bool:
        return any(vars(self).values())


# The largest number of blocks that are searched at the same time with a
# RemoteCostModel. Each search needs memory for its dynamic program. The devices keep
# memory for as many blocks, because they would otherwise free memory that they need
# again.
MAX_SEARCHES = 16


@runtime_checkable
class RemoteCostModel(Protocol):
    """A cost model that measures several latencies at the same time, elsewhere.

    Attributes:
      measurement: how the devices measure.
    """

    measurement: Measurement

    def turn(self) -> contextlib.AbstractContextManager[None]:
        """Only one thread at a time runs in the `with` block; other threads wait."""

    def request(self, requests: Sequence[StageRequest], likely: str = "") -> None:
        """Asks for latencies; does not wait for them.

        Args:
          requests: the latencies to measure.
          likely: a label for requests that the search may not need, or "" if it needs
            them. Requests with a label replace the earlier requests with the same label
            that no device has begun.
        """

    def spare(self, likely: str) -> int:
        """The number of requests with `likely` that devices have time for.

        It is 0 while devices have enough other requests.
        """

    def wait(self, key: str) -> None:
        """Waits for the answer to a request. If the answer is an error, raises it."""

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds; checks the condition after each arrival."""

    def collect(self) -> Arrivals:
        """Returns what has arrived since the last call."""


def compare_within_memory(
    compare: Callable[[Sequence[_Candidate]], list[float]],
    candidates: Sequence[_Candidate],
    release: Callable[[], None],
) -> list[float]:
    """Measures the latencies of candidates in milliseconds, as far as memory allows.

    If all candidates fit into memory together, they are measured in turn (A B A B …),
    otherwise one after the other. A candidate that does not fit into memory even alone
    gets an infinite latency.
    """
    try:
        return compare(candidates)
    except MemoryError:
        release()
    latencies = []
    for candidate in candidates:
        try:
            latencies += compare([candidate])
        except MemoryError:
            latencies.append(math.inf)
        release()
    return latencies


class SampledCostModel(abc.ABC):
    """A cost model that takes as many samples of a stage as the noise requires.

    Attributes:
      measurement: how the model measures.
      measurements: the number of stages, groups and schedules measured so far.
    """

    def __init__(self, measurement: Measurement = DEFAULT_MEASUREMENT) -> None:
        self.measurement = measurement
        self.measurements = 0

    @abc.abstractmethod
    def sample(self, problem: Problem, stage: Stage, lanes: int) -> Sequence[Sample]:
        """Takes `measurement.sample_count` samples of one stage.

        Args:
          problem: the block.
          stage: a stage of the block.
          lanes: if above 0, the stage runs on one of this many lanes.
        """

    def observe(self, problem: Problem, stage: Stage, lanes: int = 0) -> Latency:
        """Samples a stage until the measurement accepts its latency.

        If `lanes` > 0, the stage runs on one of `lanes` lanes.

        On a busy machine, the measurement may never accept the latency. So fewer
        samples are taken if some are disturbed: the device has then tried each sample
        several times already, and more samples would hardly help.
        """
        self.measurements += 1
        samples: list[Sample] = []
        while True:
            found = self.sample(problem, stage, lanes)
            RECORDER.add(found)
            samples += found
            latency = Latency.of(samples)
            if latency.disturbed or self.measurement.accepts(latency):
                return latency
            disturbed = any(sample.disturbed for sample in samples)
            if disturbed and (
                latency.spread <= self.measurement.max_spread
                or len(samples) >= _MOST_DISTURBED * self.measurement.sample_count
            ):
                return latency

    def stage_latency(self, problem: Problem, stage: Stage, lanes: int = 0) -> float:
        """The latency of a stage in ms; if `lanes` > 0, on one of `lanes` lanes."""
        return self.observe(problem, stage, lanes).median_ms

    def _compare(
        self,
        candidates: Sequence[_Candidate],
        sample: Callable[[_Candidate, Measurement], Sample],
        seconds: float,
    ) -> list[float]:
        """The latencies of candidates; `seconds` as for a BlockCostModel.

        The latencies have the ratios of samples that were taken one after the other, so
        a change of the machine's speed does not decide which candidate is fastest.
        """
        # Candidates take turns, so that other processes disturb all of them equally.
        start = time.monotonic()
        samples: list[list[Sample]] = []
        once = Measurement(
            max(self.measurement.warmup_runs, 1), self.measurement.runs, 1
        )
        for number, candidate in enumerate(candidates):
            if number >= _MIN_CANDIDATES and time.monotonic() - start > seconds:
                break
            samples.append([sample(candidate, once)])
        self.measurements += len(samples)
        once = dataclasses.replace(once, warmup_runs=1)
        left = list(range(len(samples)))  # the candidates that are still measured
        for done in range(1, _MOST_ROUNDS):
            latencies = {i: Latency.of(samples[i]) for i in left}
            best = min(left, key=lambda i: latencies[i].median_ms)
            fastest = latencies[best].median_ms
            long = fastest > _LONG_MS
            elapsed = time.monotonic() - start
            late = elapsed > seconds
            if long and (done == _LONG_ROUNDS or late):
                break
            # `slow` is true if samples were disturbed. The device measures such samples
            # again in pieces, which takes long.
            slow = any(latency.disturbed for latency in latencies.values())
            enough = done >= (_DISTURBED_ROUNDS if slow else _ROUNDS)
            if late and slow and done >= _LONG_ROUNDS:
                break
            if enough and (late or elapsed > _MOST_SECONDS):
                break
            once = Measurement(0, 1, 1) if long else once
            certain = long or done >= _LONG_ROUNDS
            least = _SLOWER_BY_FAR * fastest if certain else math.inf
            left = [
                i
                for i in left
                if latencies[i].median_ms < least
                and (i == best or not enough or not _is_certain(samples, i, best))
            ]
            if len(left) == 1 and (enough or len(samples) > 1):
                break
            for i in left:
                samples[i].append(sample(candidates[i], once))
        for found in samples:
            RECORDER.add(found)
        best = min(left, key=lambda i: Latency.of(samples[i]).median_ms)
        fastest = Latency.of(samples[best]).median_ms
        return [fastest * ratio_of(found, samples[best]).estimate for found in samples]


def _is_certain(samples: Sequence[Sequence[Sample]], one: int, best: int) -> bool:
    """Whether a candidate is certainly slower than another, or their ratio is known."""
    ratio = ratio_of(samples[one], samples[best])
    return ratio.low > 1 or ratio.high < _PRECISION * ratio.low
