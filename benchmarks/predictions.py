"""Predicts latencies of networks on simulated devices; calibrates the devices."""

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

# In the order of the searches. The others are compared with "sequential".
STRATEGIES = ("sequential", "greedy", "merge", "parallel", "auto")
# The device constants that are calibrated.
CALIBRATED = ("launch_ms", "stage_ms", "step_ms", "contention")

# Latencies in ms by strategy. For several networks, mappings are by name first.
Latencies = Mapping[str, float]

# Weight of the error of a sequential latency relative to that of a speedup. It is below
# 1 because the engines differ, so that ratios matter more than latencies.
_LATENCY_WEIGHT = 0.25
# Number of searches. After each, the constants are fitted to the schedules found.
_SEARCHES = 3
_FIRST_STEP, _LAST_STEP = 0.3, 0.01


class SearchParts:
    """The parts of a network that are searched, and how often each part occurs."""

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
        """Returns the best schedule of each part."""
        model = SimulatedCostModel(device)
        return [self._search(problem, model, strategy) for problem in self._problems]

    def all_schedules(self, device: SimulatedDevice) -> dict[str, list[Schedule]]:
        """Returns the best schedules of the parts, by strategy."""
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
        """Returns the network's ms; the schedules may be for another batch size."""
        return self.latencies_ms(device, {"": schedules})[""]

    def latencies_ms(
        self, device: SimulatedDevice, schedules: Mapping[str, Sequence[Schedule]]
    ) -> dict[str, float]:
        """Returns the network's ms for several sets of schedules.

        Computes the kernels of each operator only once.
        """
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
    """Returns the device with the constants that best predict published latencies.

    Alternates between searching schedules with the current constants and fitting the
    constants to these schedules.

    Args:
      device: the device with the initial constants.
      networks: networks by name.
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
    """Returns the device with the constants that best predict the schedules' ms.

    Multiplies or divides one constant at a time by a factor, as long as the error
    falls. The factors shrink towards 1.

    Args:
      device: the device with the initial constants.
      networks: networks by name.
      schedules: schedules by name and strategy.
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
    """Returns the summed error of all networks' predictions for these schedules."""
    return sum(
        _error(parts.latencies_ms(device, schedules[name]), published[name])
        for name, parts in networks.items()
    )


def _error(predicted: Latencies, published: Latencies) -> float:
    """Returns the weighted sum of the squared logarithms of relative errors."""

    def squared(ratio: float) -> float:
        return math.log(ratio) ** 2

    first = predicted["sequential"] / published["sequential"]
    return _LATENCY_WEIGHT * squared(first) + sum(
        squared(first * published[s] / predicted[s]) for s in STRATEGIES[1:]
    )
