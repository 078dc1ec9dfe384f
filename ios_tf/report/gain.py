"""The gain of a conversion: the headline, and the parts of the gain."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ios_tf.reasons import Reason
from ios_tf.report.document import Document
from ios_tf.tables import counted, rounded

# A part of the gain below this share is not mentioned.
_LEAST_SHARE = 0.01


@dataclasses.dataclass(frozen=True)
class Gain:
    """A part of the gain of one signature at one batch size.

    Attributes:
      kind: "engine", "algorithms", "concurrent", "merge" or "split".
      ms: the milliseconds that it saves.
      share: its share of the whole gain.
      text: describes it.
    """

    kind: str
    ms: float
    share: float
    text: str


def model_name(report: Document) -> str:
    """A short name of the model."""
    name = report["model"]
    if not name:
        return "the model"
    kind, _, rest = name.partition(":")
    if kind in ("keras", "models") and rest:
        return str(rest)
    return os.path.basename(name.rstrip("/")) or str(name)


def timed(
    report: Document,
) -> Iterator[tuple[Mapping[str, Any], str, Mapping[str, Any]]]:
    """(signature, batch size, latencies) of every kept signature that was timed."""
    for signature in report["signatures"]:
        if signature["kept"]:
            for size, latencies in signature["latencies"].items():
                yield signature, size, latencies


def speedup_of(latencies: Mapping[str, Any], name: str = "converted") -> float:
    """TensorFlow's time divided by the time of "converted" or "portable"."""
    if by_processor_time(latencies, name):
        return float(latencies[f"{name}_speedup"]["estimate"])
    ms = latencies[name]["ms"]
    return float(latencies["tensorflow"]["ms"] / ms) if ms else 1.0


def speedup(report: Document) -> float:
    """The geometric mean of the speedups of all signatures and batch sizes.

    It is 1 if the model was copied or not timed.
    """
    ratios = [speedup_of(latencies) for _, _, latencies in timed(report)]
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0


def headline(report: Document) -> str:
    """One line that says what the conversion achieved."""
    name = model_name(report)
    name = name[:1].upper() + name[1:] if name == "the model" else name
    if report["verdict"] == "copied":
        timed_anything = report["signatures"] or report["regions"]
        why = ": the engine is not faster" if timed_anything else ""
        return f"{name} is left to TensorFlow{why}"
    measured = list(timed(report))
    if not measured:
        return f"{name} is converted, but it was not timed{_equality(report)}"
    # With several signatures, the line describes the one that gains the most.
    best = max(measured, key=lambda one: speedup_of(one[2]))[0]
    of_best = [(size, one) for signature, size, one in measured if signature is best]
    most = max(speedup_of(one) for _, one in of_best)
    change = f"{most:.2f}x faster" if most >= 1 else f"{1 / most:.2f}x slower"
    upto = "up to " if len(of_best) > 1 else ""
    if len({id(signature) for signature, _, _ in measured}) > 1:
        name += f" ({best['name']})"
    if any(by_processor_time(one) for _, one in of_best):
        sizes = ", ".join(size for size, _ in of_best)
        change += f" (processor time at batch {sizes}, because the machine was busy)"
    else:
        change += ": " + ", ".join(
            f"{rounded(one['tensorflow']['ms'])} -> "
            f"{rounded(one['converted']['ms'])} ms at batch {size}"
            for size, one in of_best
        )
    line = f"{name} is {upto}{change}{_equality(report)}"
    if best["name"] in report["undecided"]:
        line += " (undecided: the machine was busy)"
    return line


def by_processor_time(latencies: Mapping[str, Any], name: str = "converted") -> bool:
    """Whether the speedup of "converted" or "portable" compares processor times."""
    ratio = latencies.get(f"{name}_speedup")
    return bool(ratio and ratio["by_processor_time"])


def _equality(report: Document) -> str:
    """The end of the headline, which says how far outputs differ."""
    kept = [one for one in report["signatures"] if one["kept"]]
    differences = [one["difference"] for one in kept if one["difference"] is not None]
    largest = f"{max(differences):.0e}".replace("e-0", "e-") if any(differences) else ""
    codes = {one["code"] for one in report["decisions"]}
    notes = sorted({Reason.AFTER_REGIONS.code, Reason.ROUNDING.code} & codes)
    if notes and kept:
        upto = f" by up to {largest}" if largest else ""
        return f"; outputs differ{upto} [{', '.join(notes)}]"
    if differences:
        return "; outputs equal" + (f" to {largest}" if largest else "")
    if any(one["compared_batch_sizes"] for one in kept):
        return "; outputs equal" if all(one["equal"] for one in kept) else ""
    return "; outputs not compared" if kept else ""


def gains(report: Document, signature: str, batch_size: str) -> list[Gain]:
    """The parts of the gain of a signature at a batch size, largest first.

    The list is empty if the signature is not faster, if too little was measured, or if
    the machine was too busy to compare times.
    """
    found = {(one["name"], size): latencies for one, size, latencies in timed(report)}
    latencies = found.get((signature, batch_size))
    network = network_of(report, signature, batch_size)
    if latencies is None or network is None or by_processor_time(latencies):
        return []
    total = latencies["tensorflow"]["ms"] - latencies["converted"]["ms"]
    if total <= 0 or not network["scheduled_ms"]:
        return []
    parts = _parts(network, total)
    return sorted(
        (one for one in parts if one.share >= _LEAST_SHARE), key=lambda one: -one.ms
    )


def network_of(
    report: Document, signature: str, batch_size: str
) -> Mapping[str, Any] | None:
    """The network of a signature and batch size."""
    for network in report["networks"]:
        if network["signature"] == signature and load_of(network) == batch_size:
            return network
    return None


def arena_bytes(report: Document) -> dict[str, int]:
    """Load -> memory of a call for tensors inside of the regions, if it is known."""
    sizes: dict[str, int] = {}
    for network in report["networks"]:
        arenas = [
            region.get("arena_bytes") for region in network["regions"] if region["kept"]
        ]
        if arenas and None not in arenas:
            load = load_of(network)
            sizes[load] = sizes.get(load, 0) + sum(arenas)
    return sizes


def load_of(network: Mapping[str, Any]) -> str:
    """The batch size of a network, and the number of callers if there are several.

    These texts are the keys of a report's latencies.
    """
    callers = network.get("callers", 1)
    text = str(network["batch_size"])
    return text if callers == 1 else f"{text} with {callers} callers"


def _parts(network: Mapping[str, Any], total: float) -> list[Gain]:
    """Divides a gain of `total` ms into parts by their causes."""
    operators = network["operators"]
    kept = all(region["kept"] for region in network["regions"])
    by_stages, counts = _gains_of_stages(network)
    algorithms = schedule = 0.0
    if kept and network["sequential_ms"] and network["sequential_algorithms_ms"]:
        algorithms = network["sequential_ms"] - network["sequential_algorithms_ms"]
        schedule = network["sequential_algorithms_ms"] - network["scheduled_ms"]
    elif kept and network["sequential_ms"]:
        schedule = min(
            sum(by_stages.values()), network["sequential_ms"] - network["scheduled_ms"]
        )
        algorithms = network["sequential_ms"] - network["scheduled_ms"] - schedule
    algorithms = max(algorithms, 0.0)
    schedule = max(schedule, 0.0) if counts else 0.0
    # Stages are measured alone, so their gains only say how to divide the gain of the
    # schedule among the kinds of stages.
    weights = {kind: max(ms, 0.0) for kind, ms in by_stages.items()}
    if not any(weights.values()):
        weights = {kind: float(counts[kind]) for kind in weights}
    scale = schedule / sum(weights.values()) if weights else 0.0
    members = [
        op
        for region in network["regions"]
        if region["kept"]
        for block in region["blocks"]
        for op in block["operators"]
    ]
    special = sum(operators[op]["algorithm"] not in (None, "direct") for op in members)
    choices = sum(operators[op]["algorithm"] is not None for op in members)
    texts = {
        "algorithms": f"{special} of {choices} convolutions and products use a "
        "faster algorithm",
        "concurrent": counted(counts.get("concurrent", 0), "stage runs", "stages run")
        + " operators side by side",
        "merge": counted(counts.get("merge", 0), "stage merges", "stages merge")
        + " convolutions into one",
        "split": counted(counts.get("split", 0), "stage splits", "stages split")
        + " the batch into parts that run side by side",
    }
    found = {"algorithms": algorithms if special else 0.0}
    found |= {kind: weight * scale for kind, weight in weights.items()}
    used = sum(found.values())
    if used > total:  # the regions may save more than the whole call
        found = {kind: ms * total / used for kind, ms in found.items()}
        used = total
    parts = [Gain(kind, ms, ms / total, texts[kind]) for kind, ms in found.items()]
    engine = "fused operators and fewer calls: the engine's own kernels"
    return [*parts, Gain("engine", total - used, (total - used) / total, engine)]


def _gains_of_stages(
    network: Mapping[str, Any],
) -> tuple[dict[str, float], dict[str, int]]:
    """For each kind of stage: the saved ms, and the number of stages.

    The saved time is relative to running the operators of the stage one by one.
    """
    saved: dict[str, float] = {}
    counts: dict[str, int] = {}
    for region in network["regions"]:
        for block in region["blocks"] if region["kept"] else ():
            for stage in block["stages"]:
                kind = kind_of(stage)
                if kind in ("sequential", "group"):
                    continue
                members = [op for group in stage["groups"] for op in group]
                alone = [network["operators"][op]["ms"] for op in members]
                counts[kind] = counts.get(kind, 0) + 1
                known = stage["ms"] is not None and None not in alone
                saved[kind] = saved.get(kind, 0.0) + (
                    sum(alone) - stage["ms"] if known else 0.0
                )
    return saved, counts


def kind_of(stage: Mapping[str, Any]) -> str:
    """How a stage runs: concurrent, merge, split, group (a chain), or sequential."""
    if stage["strategy"] != "concurrent":
        return str(stage["strategy"])
    if len(stage["groups"]) > 1:
        return "concurrent"
    return "group" if len(stage["groups"][0]) > 1 else "sequential"
