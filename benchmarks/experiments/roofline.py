"""Compares the times of a network's operators with their roofline floors.

Each operator is measured alone, with the algorithm that a search chooses for it. It
runs repeatedly, so that data that fits into the caches stays there. The floor is the
longer of two times: that of the operator's floating-point operations at the engine's
peak rate, and that of its bytes at the engine's bandwidth. The peak is the highest rate
that the engine reaches on some convolutions without minimal filtering. The bandwidth is
measured on a sum of tensors larger than a core's own caches.

The floor assumes that all products are computed and that no operators are fused: each
operator reads its inputs and weights once, and writes its output once. Convolutions by
minimal filtering, and operators whose tensors stay in the caches, can be faster than
their floor. So can a network of such operators.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Result,
    Table,
    ms,
    quantiles,
)
from benchmarks.frameworks.ios_runner import IosRunner
from benchmarks.network import Network
from benchmarks.network_search import find_schedules, measured_ms
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.cost.work import VIEWS, work_of
from ios_tf.native import engine
from ios_tf.scheduler import Problem
from ios_tf.tuning.roofline import Roofline as MachineRoofline

# The least total time of the runs in one measurement.
_LEAST_MS = 5.0
# Rows of a whole network -> the strategies that find their schedules.
_WHOLE = {"sequential": "sequential", "best": "auto"}
_SLIDING = ("conv2d", "conv2d_transpose", "sepconv", "pool")


class Roofline(Experiment):
    name = "roofline"
    help = "where the time of a network goes, and the floor under it"
    quick_networks = ("models:inception_v3", "models:squeezenet")

    def measure(self, context: Context) -> dict[str, Any]:
        highest = MachineRoofline.measured(
            ProfiledCostModel(context.device), context.target.kind, context.target.dtype
        )
        context.log(
            f"peak {highest.gflop_per_s:.1f} GFLOP/s, "
            f"bandwidth {highest.gb_per_s:.1f} GB/s"
        )
        results = super().measure(context)
        for found in results["networks"].values():
            for row in found["operators"]:
                floor_ms = max(
                    row["gflop"] / highest.gflop_per_s * 1e3,
                    row["mb"] / highest.gb_per_s,
                )
                if row["type"] in VIEWS:
                    floor_ms = min(floor_ms, row["median_ms"])
                row["floor_ms"] = floor_ms
        return {
            "peak": {"gflop_per_s": highest.gflop_per_s},
            "bandwidth": {"gb_per_s": highest.gb_per_s},
            **results,
        }

    def measure_network(self, network: Network, context: Context) -> Any:
        whole = {row: _whole(network, s, context) for row, s in _WHOLE.items()}
        return {**whole, "operators": _operators(network, context)}

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        header = ["", "count", "GFLOP", "MB", "ms alone", "%", "GFLOP/s"]
        header += ["floor ms", "ms / floor"]
        title = (
            f"{result.title}, floor at "
            f"{result.results['peak']['gflop_per_s']:.1f} GFLOP/s and "
            f"{result.results['bandwidth']['gb_per_s']:.1f} GB/s"
        )
        total = _total(found["operators"])
        rows = _by_kind(found["operators"])
        rows["sum of operators"] = total
        for row in filter(found.__contains__, _WHOLE):
            rows[f"network, {row}"] = {**total, **found[row]}
        lines = [[name, *_cells(row, total["median_ms"])] for name, row in rows.items()]
        return [Table(title, header, lines)]


def _whole(network: Network, strategy: str, context: Context) -> dict[str, Any]:
    """Measures the latency of a whole network."""
    runner = IosRunner(network, context.target, strategy)
    calls = runner.calls()
    return quantiles([runner.time(calls) for _ in range(context.rounds)])


def _operators(network: Network, context: Context) -> list[dict[str, Any]]:
    """Measures each distinct operator of a network alone; returns rows."""
    rows: dict[str, dict[str, Any]] = {}
    for region in network.regions:
        problem = Problem.from_json(engine.problem(region.block))
        for index, key in enumerate(problem.operator_keys):
            if key not in rows:
                alone = Problem.from_json(engine.part(problem.block, (index,)))
                (operator,) = alone.block["operators"]
                rows[key] = {
                    "operator": operator.get("name", str(index)),
                    "type": operator["type"],
                    "output": list(alone.shapes[0]),
                    **_alone(alone, context),
                    "count": 0,
                }
            rows[key]["count"] += 1
    return list(rows.values())


def _kind(operator: Mapping[str, Any]) -> str:
    words = [operator["type"]]
    if operator.get("groups", 1) > 1:
        words.insert(0, "grouped")
    if operator["type"] in _SLIDING:
        words.append("x".join(map(str, operator.get("kernel", (1, 1)))))
    return " ".join(words)


def _alone(problem: Problem, context: Context) -> dict[str, Any]:
    """Measures one operator; returns its work, latency and non-direct algorithm."""
    (operator,) = problem.block["operators"]
    (work,) = work_of(problem.block)
    found = find_schedules(
        Network.of(problem),
        "auto",
        context.device,
        time_limit=context.target.time_limit,
    )
    schedule = found.schedules[problem.signature]
    (latencies,) = measured_ms(
        engine.Profiler(problem.block, context.device),
        [schedule.json_object()],
        _LEAST_MS,
        context.rounds,
    )
    return {
        "kind": _kind(operator),
        "inputs": problem.block["inputs"],
        "gflop": work.flop / 1e9,
        "mb": work.bytes / 1e6,
        **quantiles(latencies),
        "algorithm": ", ".join(schedule.algorithms.values()),
    }


def _total(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns sums over operators, weighted by their number in the network."""
    return {
        key: sum(row["count"] * row.get(key, 1) for row in rows)
        for key in ("operators", "gflop", "mb", "median_ms", "floor_ms")
    }


def _by_kind(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns totals by kind of operator; the slowest kind comes first."""
    kinds = collections.defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    totals = {kind: _total(of_kind) for kind, of_kind in kinds.items()}
    return dict(sorted(totals.items(), key=lambda item: -item[1]["median_ms"]))


def _cells(total: Mapping[str, float], whole_ms: float) -> list[str]:
    """Returns the cells of a row; `whole_ms` is the sum of all operators."""
    gflop, milliseconds, floor_ms = (
        total[key] for key in ("gflop", "median_ms", "floor_ms")
    )
    return [
        str(total["operators"]),
        f"{gflop:.3f}" if gflop else "",
        f"{total['mb']:.2f}",
        ms(milliseconds),
        f"{100 * milliseconds / whole_ms:.1f}",
        f"{gflop / milliseconds * 1e3:.1f}" if gflop else "",
        ms(floor_ms),
        f"{milliseconds / floor_ms:.2f}" if floor_ms else "",
    ]
