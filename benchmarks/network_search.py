"""Finds and measures schedules of a whole network on the engine alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks.runner import runs_taking
from benchmarks.network import Network
from ios_tf.cost.cost_model import DEFAULT_MEASUREMENT, Measurement
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.native import engine
from ios_tf.scheduler import PAPER_PRUNING, Pruning, Schedule
from ios_tf.tuning.algorithms import allowed
from ios_tf.tuning.block_search import SearchStats
from ios_tf.tuning.searcher import Searcher
from ios_tf.tuning.settings import SearchSettings

# The least total time of the runs in one measurement.
_LEAST_MS = 20.0
# From this batch size on, runs are long and a few runs determine the latency.
_LARGE_BATCH = 16
_FEW_RUNS = Measurement(warmup_runs=1, runs=1, sample_count=3)
# Number of rounds in which whole networks are compared.
_ROUNDS = 10


@dataclasses.dataclass(frozen=True)
class Found:
    """The schedules of a network's blocks by signature, and the search's statistics."""

    schedules: Mapping[str, Schedule]
    stats: SearchStats

    def costs(self) -> dict[str, Any]:
        """Returns the cost of the search for a row of an experiment."""
        return {
            "search_seconds": self.stats.seconds,
            "measurements": self.stats.measured,
            "stopped_blocks": len(self.stats.stopped),
        }

    def stages(self, network: Network) -> int:
        """Returns the number of stages of all regions together."""
        return sum(len(r.schedule(self.schedules).stages) for r in network.regions)


def find_schedules(
    network: Network,
    strategy: str,
    device: str,
    pruning: Pruning = PAPER_PRUNING,
    time_limit: float = 0.0,
) -> Found:
    """Searches for schedules of all blocks; no latencies are known beforehand.

    Args:
      network: the network to schedule.
      strategy: one of STRATEGIES.
      device: the engine's name of the device: "cpu", "gpu", "gpu:1,tf32=off".
      pruning: pruning of the search.
      time_limit: time limit in seconds; 0 means no limit.
    """
    large = network.batch_size >= _LARGE_BATCH
    model = ProfiledCostModel(device, _FEW_RUNS if large else DEFAULT_MEASUREMENT)
    settings = SearchSettings(strategy, pruning, algorithms=allowed(device))
    searcher = Searcher(model, settings, time_limit=time_limit)
    schedules, stats = searcher.schedule_all(network.problems.values())
    choices = [schedules]
    choices += searcher.alternatives(network.problems.values(), schedules)
    if len(choices) > 1:
        rounds = 2 if large else _ROUNDS
        latencies = interleaved_ms(network, choices, device, rounds)
        ratios = np.median(latencies / latencies[0], axis=1)
        schedules = choices[int(np.argmin(ratios))]
    return Found(schedules, stats)


def transferred(
    schedules: Mapping[str, Schedule], network: Network, other: Network
) -> dict[str, Schedule]:
    """Maps schedules to the same network at another batch size or precision."""
    return {
        there.signature: dataclasses.replace(
            schedules[here.signature], signature=there.signature
        )
        for here, there in zip(
            network.problems.values(), other.problems.values(), strict=True
        )
    }


def interleaved_ms(
    network: Network,
    candidates: Sequence[Mapping[str, Schedule]],
    device: str,
    rounds: int,
) -> np.ndarray:
    """Measures a network under several sets of schedules in one session.

    Every round measures all candidates; every other round reverses their order.

    Args:
      network: the network to run.
      candidates: sets of schedules of its blocks, by signature.
      device: the engine's name of the device.
      rounds: number of rounds; an even number.

    Returns:
      Milliseconds, float64 [candidates, rounds]: sums over the regions.
    """
    latencies = np.zeros((len(candidates), rounds))
    for region in network.regions:
        profiler = engine.Profiler(region.block, device)
        schedules = [region.schedule(found).json_object() for found in candidates]
        both_orders = [*schedules, *schedules[::-1]]
        measured = measured_ms(profiler, both_orders, _LEAST_MS, rounds // 2)
        there, back = measured[: len(schedules)], measured[len(schedules) :][::-1]
        latencies += np.stack([there, back], axis=2).reshape(latencies.shape)
    return latencies


def measured_ms(
    profiler: engine.Profiler,
    schedules: Sequence[Mapping[str, Any]],
    least_ms: float,
    repeat: int,
) -> np.ndarray:
    """Measures schedules in turn.

    All samples have the number of runs that the first schedule makes in `least_ms`.

    Returns:
      Milliseconds, float64 [schedules, repeat].
    """
    once_ms = profiler.sample(schedules[:1], warmup=2, number=1, repeat=3)[0].min()
    number = runs_taking(least_ms, once_ms)
    return profiler.sample(schedules, warmup=1, number=number, repeat=repeat)[0]


def sum_of_stages_ms(
    network: Network, schedules: Mapping[str, Schedule], device: str, repeat: int
) -> float:
    """Returns the sum of the stages' median latencies, each measured alone.

    The dynamic program uses this sum as the network's latency.
    """
    total = 0.0
    for region in network.regions:
        schedule = region.schedule(schedules)
        profiler = engine.Profiler(schedule.applied_to(region.block), device)
        for stage in schedule.stages:
            alone = [Schedule((stage,)).json_object()]
            found = measured_ms(profiler, alone, _LEAST_MS / 10, repeat)
            total += float(np.median(found))
    return total
