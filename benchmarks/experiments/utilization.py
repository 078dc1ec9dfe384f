"""Shows how busy the device is in the course of one run.

Each stage runs repeatedly, alone, while its use of the device is observed. The stages
in sequence make up the run. On a CPU, the quantity is the number of busy cores, from
the processor time of the process. Spinning threads count as busy, so a second curve
shows the work done. On a GPU, the quantity is the share of active warps (SM occupancy),
from NVML.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Result,
    Table,
    ms,
)
from benchmarks.frameworks.runner import Target
from benchmarks.network import Network
from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Schedule, Stage
from ios_tf.scheduler.problem import operators_of


class Utilization(Experiment):
    name = "utilization"
    help = "how busy the device is over the time of one run"
    networks = ("models:inception_v3",)
    quick_networks = networks

    def measure(self, context: Context) -> dict[str, Any]:
        probe = _probe(context.device)
        results = super().measure(context)
        return {"quantity": probe.quantity, "most": probe.most, **results}

    def measure_network(self, network: Network, context: Context) -> Any:
        probe = _probe(context.device)
        runs: dict[str, Any] = {}
        for strategy in ("sequential", "auto"):
            found = context.find_schedules(network, strategy).schedules
            stages = []
            for region in network.regions:
                schedule = region.schedule(found)
                block = schedule.applied_to(region.block)
                profiler = engine.Profiler(block, context.device)
                problem = Problem.from_json(engine.problem(block))
                for stage in schedule.stages:
                    stages.append(
                        _observe(profiler, problem, stage, probe, context.quick)
                    )
            runs[strategy] = {"stages": stages, **_means(stages)}
        return runs

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        gain = result.paper.get("active_warps_gain")
        first = next(iter(found.values()))
        lines = [
            [
                name,
                str(len(run["stages"])),
                ms(run["ms"]),
                f"{run['busy']:.3f}",
                f"{run['busy'] / first['busy']:.3f}",
                f"{run['work_rate'] / first['work_rate']:.3f}",
            ]
            for name, run in found.items()
        ]
        if gain:
            lines.append(["paper (V100, warps)", "", "", "", f"{gain:.2f}", ""])
        quantity = result.results["quantity"]
        header = ["", "stages", "sum ms", quantity, "gain", "work gain"]
        return [Table(result.title, header, lines)]


class _CoresProbe:
    """Busy cores: processor time over wall time.

    Attributes:
      quantity: name of the quantity, whose mean between `start` and `stop` is observed.
      most: its largest possible value.
      observed_ms: how long to observe by default, and with --quick.
    """

    quantity = "busy cores"
    observed_ms = (100.0, 20.0)

    def __init__(self) -> None:
        self.most = float(len(os.sched_getaffinity(0)))
        self._start = (0.0, 0.0)

    def start(self) -> None:
        self._start = (time.process_time(), time.perf_counter())

    def stop(self) -> float:
        busy = time.process_time() - self._start[0]
        return busy / (time.perf_counter() - self._start[1])


class _WarpsProbe:
    """Share of possible warps that are active, by NVML's performance monitoring."""

    quantity = "SM occupancy"
    most = 1.0
    observed_ms = (250.0, 150.0)  # NVML needs 100 ms between samples

    def __init__(self, device: str) -> None:
        try:
            import pynvml
        except ImportError:
            raise UserError(
                "NVML, which observes the GPU, is missing. Run pip install nvidia-ml-py"
            ) from None
        self._nvml = pynvml
        pynvml.nvmlInit()
        self._device = pynvml.nvmlDeviceGetHandleByIndex(_ordinal(device))
        if not pynvml.nvmlGpmQueryDeviceSupport(self._device).isSupportedDevice:
            raise UserError(
                "this GPU has no performance monitoring. Use a Hopper or newer GPU"
            )
        self._samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]

    def start(self) -> None:
        self._nvml.nvmlGpmSampleGet(self._device, self._samples[0])

    def stop(self) -> float:
        self._nvml.nvmlGpmSampleGet(self._device, self._samples[1])
        asked = self._nvml.c_nvmlGpmMetricsGet_t()
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.sample1, asked.sample2 = self._samples
        asked.numMetrics = 1
        asked.metrics[0].metricId = self._nvml.NVML_GPM_METRIC_SM_OCCUPANCY
        found = self._nvml.nvmlGpmMetricsGet(asked)
        return found.metrics[0].value / 100


def _probe(device: str) -> _CoresProbe | _WarpsProbe:
    return _CoresProbe() if device.startswith("cpu") else _WarpsProbe(device)


def _ordinal(device: str) -> int:
    """Returns NVML's number of a GPU; NVML ignores CUDA_VISIBLE_DEVICES."""
    target = Target(device)
    return int(target.gpu) if target.gpu.isdecimal() else target.ordinal


def _observe(
    profiler: engine.Profiler,
    problem: Problem,
    stage: Stage,
    probe: _CoresProbe | _WarpsProbe,
    quick: bool,
) -> dict[str, float]:
    """Returns a stage's latency in ms, device use, and work in operations per ns."""
    schedule = [Schedule((stage,)).json_object()]
    once_ms = float(profiler.sample(schedule, 2, 1, 3)[0].min())
    number = max(1, round(probe.observed_ms[quick] / max(once_ms, 1e-4)))
    probe.start()
    (latency_ms,) = profiler.sample(schedule, 0, number, 1)[0][0]
    busy = probe.stop()
    work = sum(problem.flops[op] for op in operators_of(stage.operators))
    return {
        "ms": float(latency_ms),
        "busy": busy,
        "work_rate": work / float(latency_ms) / 1e6,
    }


def _means(stages: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the sum of the latencies, and time-weighted means of the rest."""
    total = sum(stage["ms"] for stage in stages)
    return {
        "ms": total,
        **{
            name: sum(stage[name] * stage["ms"] for stage in stages) / total
            for name in ("busy", "work_rate")
        },
    }
