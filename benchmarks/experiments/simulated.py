"""Latencies on a simulated V100, compared with the paper's measurements.

The model's constants are calibrated on the five schedules of each network at batch 1.
Other batch sizes, schedules made for other batches and devices, and pruning are held
out. With --calibrate, each network in turn is held out, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Table,
    paper_name,
    paper_results,
    short_name,
)
from benchmarks.experiments.schedules import PAPER_STRATEGIES
from benchmarks.predictions import (
    CALIBRATED,
    STRATEGIES,
    Latencies,
    SearchParts,
    calibrated,
    fitted,
)
from benchmarks.simulated_gpu import DEVICES, SimulatedDevice
from ios_tf.model.network import Network
from ios_tf.scheduler import Pruning, Schedule

_WIDEST = "3,8"  # the pruning r, s that the others are compared with
_FEW = 2  # the rank order of so few values says nothing


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A ratio of latencies that both the model and the paper provide.

    Attributes:
      kind: the group of ratios that this ratio is summarized with.
      name: description of the ratio.
      predicted, published: the ratio by the model and by the paper.
    """

    kind: str
    name: str
    predicted: float
    published: float

    @property
    def error(self) -> float:
        """The relative error of the prediction; positive if it is too large."""
        return self.predicted / self.published - 1


class Simulated(Experiment):
    name = "simulated"
    help = "what the simulated V100 predicts, a model, beside the paper's figures"
    quick_networks = ("models:inception_v3", "models:squeezenet")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--calibrate",
            action="store_true",
            help="first fit the constants to the paper's schedules at batch 1; also "
            "predict each network with constants fitted to the others",
        )

    def measure(self, context: Context) -> dict[str, Any]:
        paper = paper_results(context.options.paper)
        parts = {network.name: SearchParts(network) for network in context.networks}
        known = {name: _schedules(paper, name) for name in parts}
        known = {name: published for name, published in known.items() if published}
        v100, k80 = DEVICES["v100"], DEVICES["k80"]
        if context.options.calibrate:
            those = {name: parts[name] for name in known}
            v100 = calibrated(v100, those, known, context.say)
            k80 = dataclasses.replace(k80, **_constants(v100))
        found = {name: parts[name].all_schedules(v100) for name in parts}
        devices = {"v100": v100, "k80": k80}
        networks = {}
        for network in context.networks:
            name = network.name
            networks[name] = _predictions(
                network, parts[name], found[name], devices, paper
            )
            if context.options.calibrate and name in known and len(known) > 1:
                others = {other: parts[other] for other in known if other != name}
                device = fitted(v100, others, found, known)
                networks[name]["left_out"] = _latencies(parts[name], device)
            context.say(f"{name}: predicted")
        return {"constants": _constants(v100), "networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        tables = [_summary(results, paper)]
        for network, found in results["networks"].items():
            rows = []
            published = _schedules(paper, network)
            speedups = _speedups(network, found["schedules"], paper)
            for strategy, latency_ms in found["schedules"].items():
                speedup = found["schedules"]["sequential"] / latency_ms
                row = [strategy, f"{latency_ms:.2f}", f"{speedup:.2f}"]
                if published:
                    row += [f"{published[strategy]:.2f}"]
                    row += [f"{published['sequential'] / published[strategy]:.2f}"]
                    wrong = {r.name: f"{100 * r.error:+.0f}" for r in speedups}
                    row += [wrong.get(strategy, "")]
                rows.append(row)
            header = ["", "predicted ms", "speedup"]
            header += ["paper ms", "paper speedup", "error %"] if published else []
            tables.append(Table(f"{short_name(network)}, batch 1", header, rows))
        rows = [
            [
                f"{short_name(network)}: {ratio.name}",
                f"{ratio.predicted:.3f}",
                f"{ratio.published:.3f}",
                f"{100 * ratio.error:+.1f}",
            ]
            for network, found in results["networks"].items()
            for ratio in _held_out(network, found, paper)
        ]
        header = ["ratio of latencies", "predicted", "paper", "error %"]
        return [*tables, Table("held out", header, rows)] if rows else tables


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Returns Spearman's rank correlation; equal values have their mean rank.

    The result is NaN if all values of `a` or of `b` are equal.
    """

    def ranks(values: Sequence[float]) -> np.ndarray:
        array = np.asarray(values)
        less = (array[:, None] > array).sum(axis=1)
        equal = (array[:, None] == array).sum(axis=1)
        return less + (equal - 1) / 2

    if len(set(a)) == 1 or len(set(b)) == 1:
        return math.nan
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def _constants(device: SimulatedDevice) -> dict[str, float]:
    return {name: getattr(device, name) for name in CALIBRATED}


def _latencies(parts: SearchParts, device: SimulatedDevice) -> dict[str, float]:
    """Returns latencies in ms by strategy."""
    return parts.latencies_ms(device, parts.all_schedules(device))


def _predictions(
    network: Network,
    parts: SearchParts,
    found: Mapping[str, Sequence[Schedule]],
    devices: Mapping[str, SimulatedDevice],
    paper: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns ms of a network, on a V100 and a K80, for all results in the paper."""
    v100 = devices["v100"]
    name = paper_name(network.name)
    special = paper.get(f"specialization_{name}", {})
    predicted: dict[str, Any] = {
        "schedules": parts.latencies_ms(v100, found),
        "batch_sizes": {
            size: _at_batch(network, int(size), v100)
            for size in paper.get(f"batch_sizes_{name}", {})
        },
        "batch": _by_schedules_of_others(
            network, special.get("batch", {}).get("sizes", ()), v100
        ),
        "pruning": {},
    }
    if "device" in special:
        made = {"v100": found["auto"], "k80": parts.schedules(devices["k80"])}
        predicted["device"] = {
            there: {
                f"optimised_for_{n}": parts.latency_ms(device, s)
                for n, s in made.items()
            }
            for there, device in devices.items()
        }
    for key in paper.get("pruning_r_s", {}).get(name, {}):
        pruned = SearchParts(network, Pruning(*map(int, key.split(","))))
        predicted["pruning"][key] = pruned.latency_ms(v100, pruned.schedules(v100))
    return predicted


def _at_batch(network: Network, size: int, device: SimulatedDevice) -> dict[str, float]:
    parts = SearchParts(network.with_batch(size))
    return {
        s: parts.latency_ms(device, parts.schedules(device, s))
        for s in ("sequential", "auto")
    }


def _by_schedules_of_others(
    network: Network, sizes: Sequence[int], device: SimulatedDevice
) -> list[list[float]]:
    """Returns ms: a row per batch size, a column per size that was optimised for."""
    at = [SearchParts(network.with_batch(size)) for size in sizes]
    best = [parts.schedules(device) for parts in at]
    return [[parts.latency_ms(device, other) for other in best] for parts in at]


def _schedules(paper: Mapping[str, Any], network: str) -> dict[str, float]:
    """Returns the paper's latencies of a network by our strategy names."""
    published = paper.get("schedules_batch_1", {}).get(paper_name(network))
    if not published:
        return {}
    return {s: published[PAPER_STRATEGIES.get(s, s)] for s in STRATEGIES}


def _speedups(
    network: str, predicted: Mapping[str, float], paper: Mapping[str, Any]
) -> list[Ratio]:
    """Returns the published speedups over sequential at batch 1."""
    published = _schedules(paper, network)
    return [
        Ratio(
            "schedules at batch 1",
            strategy,
            predicted["sequential"] / predicted[strategy],
            published["sequential"] / published[strategy],
        )
        for strategy in STRATEGIES[1:]
        if published
    ]


def _held_out(
    network: str, found: Mapping[str, Any], paper: Mapping[str, Any]
) -> Iterator[Ratio]:
    """Yields ratios that the constants were not fitted to."""
    name = paper_name(network)
    special = paper.get(f"specialization_{name}", {})
    for size, row in found["batch_sizes"].items():
        published = paper[f"batch_sizes_{name}"][size]
        if int(size) > 1:
            yield Ratio(
                "speedup at larger batches",
                f"batch {size}, speedup of both",
                row["sequential"] / row["auto"],
                published["sequential"] / published["ios_both"],
            )
    if found["batch"]:
        yield from _other_batches(found["batch"], special["batch"])
    if "device" in found:
        yield from _other_devices(found["device"], special["device"])
    if found["pruning"]:
        published = paper["pruning_r_s"][name]
        for key, latency_ms in found["pruning"].items():
            if key != _WIDEST:
                yield Ratio(
                    "pruning",
                    f"r,s = {key}, to {_WIDEST}",
                    latency_ms / found["pruning"][_WIDEST],
                    published[key][0] / published[_WIDEST][0],
                )


def _other_batches(
    predicted: Sequence[Sequence[float]], published: Mapping[str, Any]
) -> Iterator[Ratio]:
    sizes, latency = published["sizes"], published["latency"]
    for i, j in np.ndindex(len(sizes), len(sizes)):
        if i != j:
            yield Ratio(
                "schedules of other batches",
                f"batch {sizes[i]} by the schedule for {sizes[j]}, to its own",
                predicted[i][j] / predicted[i][i],
                latency[i][j] / latency[i][i],
            )


def _other_devices(
    predicted: Mapping[str, Latencies], published: Mapping[str, Latencies]
) -> Iterator[Ratio]:
    """Yields ratios across devices, from latencies by device and schedule."""
    made_for = {device: f"optimised_for_{device}" for device in ("k80", "v100")}

    def of_both(latencies: Mapping[str, Latencies]) -> float:
        k80, v100 = (latencies[device][own] for device, own in made_for.items())
        return k80 / v100

    yield Ratio(
        "latency on another device",
        "latency of the K80, to the V100",
        of_both(predicted),
        of_both(published),
    )
    for device, row in predicted.items():
        own = made_for[device]
        (other,) = row.keys() - {own}
        yield Ratio(
            "schedules of other devices",
            f"{device.upper()} by the schedule for the other device, to its own",
            row[other] / row[own],
            published[device][other] / published[device][own],
        )


def _summary(results: Mapping[str, Any], paper: Mapping[str, Any]) -> Table:
    """Returns how well the model predicts; the calibrated ratios come first."""
    by_kind: dict[str, list[Ratio]] = {}
    rows = []
    for network, found in results["networks"].items():
        speedups = _speedups(network, found["schedules"], paper)
        if speedups:
            by_kind.setdefault(speedups[0].kind, []).extend(speedups)
            published = _schedules(paper, network)
            # Round to the published digits, so that ties there can be ties here.
            predicted = {s: round(v, 2) for s, v in found["schedules"].items()}
            order = rank_correlation(list(predicted.values()), list(published.values()))
            rows.append(_summary_row(short_name(network), order, speedups))
        if "left_out" in found:
            kind = "held out: each network, by constants of the others"
            by_kind.setdefault(kind, []).extend(
                _speedups(network, found["left_out"], paper)
            )
        for ratio in _held_out(network, found, paper):
            by_kind.setdefault(f"held out: {ratio.kind}", []).append(ratio)
    for kind, ratios in by_kind.items():
        order = rank_correlation(
            [round(r.predicted, 3) for r in ratios],
            [round(r.published, 3) for r in ratios],
        )
        rows.append(_summary_row(kind, order, ratios))
    header = ["", "ratios", "rank correlation", "mean error %", "largest %"]
    constants = ", ".join(f"{n} {v:.4g}" for n, v in results["constants"].items())
    return Table(f"how well ratios are predicted ({constants})", header, rows)


def _summary_row(name: str, order: float, ratios: Sequence[Ratio]) -> list[str]:
    errors = [abs(ratio.error) * 100 for ratio in ratios]
    mean = sum(errors) / len(errors)
    return [
        name,
        str(len(ratios)),
        f"{order:.2f}" if len(ratios) > _FEW else "",
        f"{mean:.1f}",
        f"{max(errors):.1f}",
    ]
