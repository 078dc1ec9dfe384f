"""Cost model: the interfaces the search asks, and how samples become one number."""

from __future__ import annotations

import abc
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ios_tf.cost.samples import RECORDER, Latency, Sample
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.schedule import Stage, Strategy
from ios_tf.scheduler.search import CostModel
from ios_tf.validation import whole

if TYPE_CHECKING:  # it needs TensorFlow, which not every search has
    from ios_tf.native.devices import Device

__all__ = [
    "BlockCostModel",
    "CostModel",
    "LaneCostModel",
    "Latency",
    "Measurement",
    "NetworkCostModel",
    "Observer",
    "SampledCostModel",
    "compare_within_memory",
]

_Candidate = TypeVar("_Candidate")
_MOST_RUNS = 1_000_000  # for one latency
# Measurements of each candidate when whole schedules are compared.
_ROUNDS = 7
# One run of so many milliseconds is measurement enough; and so many rounds. After so
# many of any, or one run as long, what takes so much longer than the fastest is
# measured no more.
_LONG_MS = 50.0
_LONG_ROUNDS = 3
_HOPELESS = 1.3
# Samples of a stage, in terms of `repeat`, if some are disturbed.
_MOST_DISTURBED = 2
# The most rounds in which some samples are disturbed.
_DISTURBED_ROUNDS = 4
# How many are measured, however long it takes: what is now, what was found, another.
_LEAST_CANDIDATES = 3


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How a latency is measured.

    Attributes:
      warmup: runs before, unmeasured.
      number: runs per sample.
      repeat: samples, the least; their median counts.
      max_spread: samples are taken until their spread is at most this, until there are
        `budget` of them, or until they have taken `enough_ms` together.

    Raises:
      UserError: one of the first three is no such number.
    """

    warmup: int = 2
    number: int = 3
    repeat: int = 3
    max_spread: float = 0.05
    enough_ms: float = 100.0

    def __post_init__(self) -> None:
        for field, least in (("warmup", 0), ("number", 1), ("repeat", 1)):
            number = whole(field, getattr(self, field), least, _MOST_RUNS)
            object.__setattr__(self, field, number)

    @property
    def budget(self) -> int:
        """The most samples; a single one has no spread to improve."""
        return 4 * self.repeat if self.repeat > 1 else 1

    def accepts(self, latency: Latency) -> bool:
        """Whether more samples would be in vain.

        A disturbed latency is not accepted, however many samples it is of.
        """
        return (not latency.disturbed and latency.samples >= self.repeat) and (
            latency.spread <= self.max_spread
            or latency.samples >= self.budget
            or latency.samples * latency.median_ms >= self.enough_ms
        )


DEFAULT_MEASUREMENT = Measurement()


@runtime_checkable
class LaneCostModel(CostModel, Protocol):
    """A cost model that also knows what one group takes on a part of the device.

    Attributes:
      lanes: the most lanes the device has; a stage has one per group, up to these.
      lanes_divide_device: whether each lane has a fixed part of the device (CPU
        cores); otherwise any lane may use all of it (a GPU).
    """

    lanes: int
    lanes_divide_device: bool

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], lanes: int
    ) -> float:
        """The latency in ms of a group alone, on one of so many lanes."""


class BlockCostModel(LaneCostModel, Protocol):
    """A cost model that also measures whole schedules, as a Searcher needs.

    What does not fit into the device's memory is a MemoryError.

    Attributes:
      measurements: how many candidates have been measured.
    """

    measurements: int

    def compare(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies in ms of several schedules of a block.

        After so many seconds no other is begun, but for the first few: there are as
        many results as have been measured.
        """

    def release(self) -> None:
        """Frees what the device holds of the blocks measured so far."""


class NetworkCostModel(BlockCostModel, Protocol):
    """A cost model that also measures whole networks, as a conversion needs.

    Attributes:
      device: what it measures on.
    """

    device: Device

    def compare_programs(
        self,
        candidates: Sequence[Sequence[Mapping[str, Any]]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies in ms of several forms of a network.

        A form is the {"block", "schedule"} objects of all its regions; its latency is
        their sum. `seconds` is as for `compare`.
        """


def compare_within_memory(
    compare: Callable[[Sequence[_Candidate]], list[float]],
    candidates: Sequence[_Candidate],
    release: Callable[[], None],
) -> list[float]:
    """Latencies in ms of candidates, in turn if all of them fit into memory together.

    Otherwise one after the other; infinite is that of what does not even fit alone.
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


@runtime_checkable
class Observer(Protocol):
    """A cost model that tells how sure it is of a latency.

    Attributes:
      measurement: how it measures.
    """

    measurement: Measurement

    def observe(self, problem: Problem, stage: Stage, lanes: int = 0) -> Latency:
        """The latency of a stage; above 0 lanes: as it would run on one of those."""


class SampledCostModel(abc.ABC):
    """A cost model that observes stages as often as their noise demands.

    Attributes:
      measurement: how.
      measurements: how many stages and groups have been observed.
    """

    def __init__(self, measurement: Measurement = DEFAULT_MEASUREMENT) -> None:
        self.measurement = measurement
        self.measurements = 0

    @abc.abstractmethod
    def sample(self, problem: Problem, stage: Stage, lanes: int) -> Sequence[Sample]:
        """Samples of one stage, `measurement.repeat` of them.

        Args:
          problem: the block.
          stage: a stage of it.
          lanes: above 0: as it would run on one of so many lanes.
        """

    def observe(self, problem: Problem, stage: Stage, lanes: int = 0) -> Latency:
        """Samples a stage until the measurement accepts what was found.

        Beside busy processes that may never be. The device has then tried each sample
        several times already, so that more samples would tell little.
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
                or len(samples) >= _MOST_DISTURBED * self.measurement.repeat
            ):
                return latency

    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """The latency of one stage in milliseconds."""
        return self.observe(problem, stage).median_ms

    def group_latency(
        self, problem: Problem, group: tuple[int, ...], lanes: int
    ) -> float:
        """The latency in ms of a group alone, on one of so many lanes."""
        stage = Stage(Strategy.CONCURRENT, (group,))
        return self.observe(problem, stage, lanes).median_ms

    def _compare(
        self,
        candidates: Sequence[_Candidate],
        sample: Callable[[_Candidate, Measurement], Sample],
        seconds: float,
    ) -> list[float]:
        """The median latencies of candidates; `seconds` as for a BlockCostModel."""
        # In turn, so that what disturbs the machine disturbs all alike.
        end = time.monotonic() + seconds
        samples: list[list[Sample]] = []
        once = Measurement(max(self.measurement.warmup, 1), self.measurement.number, 1)
        for number, candidate in enumerate(candidates):
            if number >= _LEAST_CANDIDATES and time.monotonic() > end:
                break
            samples.append([sample(candidate, once)])
        self.measurements += len(samples)
        once = dataclasses.replace(once, warmup=1)
        for done in range(1, _ROUNDS):
            latencies = [Latency.of(found) for found in samples]
            fastest = min(latency.median_ms for latency in latencies)
            long = fastest > _LONG_MS
            if long and (done == _LONG_ROUNDS or time.monotonic() > end):
                break
            # A sample that was disturbed has been tried again, piece by piece.
            slow = any(latency.disturbed for latency in latencies)
            late = done >= _LONG_ROUNDS and time.monotonic() > end
            if slow and (late or done >= _DISTURBED_ROUNDS):
                break
            once = Measurement(0, 1, 1) if long else once
            certain = long or done >= _LONG_ROUNDS
            least = _HOPELESS * fastest if certain else math.inf
            left = [
                (candidate, found)
                for candidate, found, latency in zip(
                    candidates, samples, latencies, strict=False
                )
                if latency.median_ms < least
            ]
            if len(left) == 1 < len(samples):
                break
            for candidate, found in left:
                found.append(sample(candidate, once))
        for found in samples:
            RECORDER.add(found)
        return [Latency.of(found).median_ms for found in samples]
