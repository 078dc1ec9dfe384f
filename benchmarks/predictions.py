"""Predictions: networks on simulated devices, and what is calibrated by them."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence

from benchmarks.simulated_gpu import SimulatedCostModel, SimulatedDevice
from ios_tf.model.network import Network
from ios_tf.scheduler import (
    PAPER_PRUNING,
    Problem,
    Pruning,
    Schedule,
    SearchOptions,
    search,
)
from ios_tf.tuning.parts import DEFAULT_PATTERNS, parts_of

# Searched in this order; a sequential schedule is what others are compared with.
STRATEGIES = ("sequential", "greedy", "merge", "parallel", "auto")
# The constants of a device that are calibrated.
CALIBRATED = ("launch_ms", "stage_ms", "step_ms", "contention")

# Latencies by strategy, and, of several networks, by name.
Latencies = Mapping[str, float]

# How much the error of a sequential latency counts beside that of a speedup: the
# engines differ, so that what is compared is foremost the ratio.
_LATENCY_WEIGHT = 0.25
# After each search the constants are fitted to the schedules that it found.
_SEARCHES = 3
_FIRST_STEP, _LAST_STEP = 0.3, 0.01


class SearchParts:
    """Parts of a network that searches schedule, and how often each is in it."""

    def __init__(self, network: Network, pruning: Pruning = PAPER_PRUNING) -> None:
        self._pruning = pruning
        problems: dict[str, Problem] = {}
        counts: collections.Counter[str] = collections.Counter()
        for region in network.regions:
            for block in region.parts:
                parts, _ = parts_of(network.problems[block.signature], pruning)
                for part in parts:
                    problems.setdefault(part.problem.signature, part.problem)
                    counts[part.problem.signature] += 1
        self._problems = list(problems.values())
        self._counts = list(counts.values())

    def schedules(
        self, device: SimulatedDevice, strategy: str = "auto"
    ) -> list[Schedule]:
        """The best schedule of each part."""
        model = SimulatedCostModel(device)
        return [self._search(problem, model, strategy) for problem in self._problems]

    def all_schedules(self, device: SimulatedDevice) -> dict[str, list[Schedule]]:
        """The best schedules by each strategy."""
        found = {s: self.schedules(device, s) for s in STRATEGIES if s != "auto"}
        model = SimulatedCostModel(device)
        found["auto"] = [
            self._search(problem, model, "auto") if problem.merge_classes else parallel
            for problem, parallel in zip(self._problems, found["parallel"], strict=True)
        ]
        return found

    def _search(
        self, problem: Problem, model: SimulatedCostModel, strategy: str
    ) -> Schedule:
        units = DEFAULT_PATTERNS.units_of(problem)
        return search(
            problem, model, SearchOptions(strategy, self._pruning, units=units)
        ).schedule

    def latency_ms(
        self, device: SimulatedDevice, schedules: Sequence[Schedule]
    ) -> float:
        """The latency of the network; other batch sizes' schedules may be given."""
        return self.latencies_ms(device, {"": schedules})[""]

    def latencies_ms(
        self, device: SimulatedDevice, schedules: Mapping[str, Sequence[Schedule]]
    ) -> dict[str, float]:
        """The same of several; the kernels of each operator are looked at once."""
        model = SimulatedCostModel(device)
        return {
            name: math.fsum(
                count * model.stage_latency(problem, stage)
                for problem, count, schedule in zip(
                    self._problems, self._counts, of_parts, strict=True
                )
                for stage in schedule.stages
            )
            for name, of_parts in schedules.items()
        }


def calibrated(
    device: SimulatedDevice,
    networks: Mapping[str, SearchParts],
    published: Mapping[str, Latencies],
    log: Callable[[str], None],
) -> SimulatedDevice:
    """The device with the constants that predict published latencies best.

    Schedules are searched with the constants found so far, then constants are fitted to
    these schedules.

    Args:
      device: where to begin.
      networks: by name.
      published: ms by name and strategy.
      log: prints a line.
    """
    for _ in range(_SEARCHES):
        found = {name: parts.all_schedules(device) for name, parts in networks.items()}
        device = fitted(device, networks, found, published)
        error = _total_error(networks, found, published, device)
        constants = ", ".join(f"{n} {getattr(device, n):.5g}" for n in CALIBRATED)
        log(f"{constants}: error {error:.4f}")
    return device


def fitted(
    device: SimulatedDevice,
    networks: Mapping[str, SearchParts],
    schedules: Mapping[str, Mapping[str, Sequence[Schedule]]],
    published: Mapping[str, Latencies],
) -> SimulatedDevice:
    """The device with the constants that predict best what schedules take.

    They are changed one at a time, by a factor up or down of shrinking steps, as long
    as the error falls.

    Args:
      device: where to begin.
      networks: by name.
      schedules: by name and strategy.
      published: ms by name and strategy.
    """
    error = functools.partial(_total_error, networks, schedules, published)
    least = error(device)
    steps = dict.fromkeys(CALIBRATED, _FIRST_STEP)
    while max(steps.values()) > _LAST_STEP:
        for name in CALIBRATED:
            for factor in (1 + steps[name], 1 / (1 + steps[name])):
                value = factor * getattr(device, name)
                if name == "contention":
                    value = min(value, 1.0)
                candidate = dataclasses.replace(device, **{name: value})
                its_error = error(candidate)
                if its_error < least:
                    least, device = its_error, candidate
                    break
            else:
                steps[name] /= 2
    return device


def _total_error(
    networks: Mapping[str, SearchParts],
    schedules: Mapping[str, Mapping[str, Sequence[Schedule]]],
    published: Mapping[str, Latencies],
    device: SimulatedDevice,
) -> float:
    """The error of all networks' predictions, under these schedules."""
    return sum(
        _error(parts.latencies_ms(device, schedules[name]), published[name])
        for name, parts in networks.items()
    )


def _error(predicted: Latencies, published: Latencies) -> float:
    """The squared logarithms of what predictions are wrong by."""

    def squared(ratio: float) -> float:
        return math.log(ratio) ** 2

    first = predicted["sequential"] / published["sequential"]
    return _LATENCY_WEIGHT * squared(first) + sum(
        squared(first * published[s] / predicted[s]) for s in STRATEGIES[1:]
    )
