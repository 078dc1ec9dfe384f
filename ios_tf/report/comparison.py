"""The changes between two conversions: conditions, times, blocks and operators."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ios_tf.printable import printable
from ios_tf.report import gain, view
from ios_tf.report.document import Document
from ios_tf.tables import counted, rounded, table

# If an operator's time changes by at most this fraction, the change is noise. An
# operator is not listed because of such a change.
_NOTABLE = 0.05
_MOST = 12


@dataclasses.dataclass(frozen=True)
class Change:
    """A value in both reports; None for a report that does not have the value."""

    name: str
    before: Any
    after: Any

    @property
    def ratio(self) -> float | None:
        """The second value divided by the first one, for numbers."""
        if not self.before or self.after is None:
            return None
        return float(self.after / self.before)


@dataclasses.dataclass(frozen=True)
class OperatorChange:
    """An operator whose time, algorithm or precision changed.

    Attributes:
      name: the operator's name.
      label: its type and attributes.
      ms: its times.
      changes: words that say what else changed.
    """

    name: str
    label: str
    ms: Change
    changes: Sequence[str]


@dataclasses.dataclass(frozen=True)
class NetworkChange:
    """The changes of a network. `blocks` and `operators` begin with the largest ones.

    Attributes:
      title: the batch sizes, and the signature if there are several.
      total: the times of all regions.
      blocks: the times of the blocks that have the same operators in both reports.
      operators: the operators that changed.
      only_before, only_after: names of operators that are only in the first report,
        or only in the second one.
    """

    title: str
    total: Change
    blocks: Sequence[Change]
    operators: Sequence[OperatorChange]
    only_before: Sequence[str]
    only_after: Sequence[str]


@dataclasses.dataclass(frozen=True)
class ReportChange:
    """The changes from one report to another.

    Attributes:
      names: the names of the models.
      headlines: the headlines of both reports.
      conditions: options, versions and properties of the machine that differ.
      times: the times of calls, by what was called.
      networks: the changes of the networks that both reports have.
    """

    names: tuple[str, str]
    headlines: tuple[str, str]
    conditions: Sequence[Change]
    times: Sequence[Change]
    networks: Sequence[NetworkChange]


def compare(before: Document, after: Document) -> ReportChange:
    """Compares two reports. Networks are paired by signature and batch size.

    If each report has a single network, these two networks are paired even if their
    signatures or batch sizes differ.
    """
    return ReportChange(
        (gain.model_name(before), gain.model_name(after)),
        (gain.headline(before), gain.headline(after)),
        [
            one
            for one in _paired(_conditions(before), _conditions(after))
            if one.before != one.after
        ],
        _paired(_times(before), _times(after)),
        [_network(*pair) for pair in _pairs(before, after)],
    )


def _paired(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    names = {**before, **after}
    return [Change(name, before.get(name), after.get(name)) for name in names]


def _conditions(report: Document) -> dict[str, Any]:
    """The conditions of a conversion by name."""
    machine, search = report["machine"], report["search"]
    return {
        "model": report["model"],
        "verdict": report["verdict"],
        "device": machine["device"],
        "lanes": machine["lanes"],
        "busy machine": machine["load"]["busy"],
        **{f"version of {name}": value for name, value in report["versions"].items()},
        **{f"--{name}": value for name, value in report["options"].items()},
        "operators": report["operators"],
        "blocks": report["blocks"],
        "nodes left to TensorFlow": sum(report["left_to_tensorflow"].values()),
        "reasons": sorted({one["code"] for one in report["decisions"] if one["code"]}),
        "seconds of the search": round(search["seconds"], 1),
        "latencies measured": search["measured"],
    }


def _times(report: Document) -> dict[str, float]:
    """The times of calls, by what was called."""
    several = len(report["signatures"]) > 1
    return {
        f"{label}, batch {size}"
        + (f", {signature['name']}" if several else ""): latencies[name]["ms"]
        for signature in report["signatures"]
        for size, latencies in signature["latencies"].items()
        for name, label in view.LABELS.items()
        if name in latencies
    }


def _pairs(
    before: Document, after: Document
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    first, second = before["networks"], after["networks"]
    if len(first) == len(second) == 1:
        return [(first[0], second[0])]

    def key(network: Mapping[str, Any]) -> tuple[str, str]:
        return network["signature"], gain.load_of(network)

    others = {key(network): network for network in second}
    return [(one, others[key(one)]) for one in first if key(one) in others]


def _network(before: Mapping[str, Any], after: Mapping[str, Any]) -> NetworkChange:
    first, second = _operators(before), _operators(after)
    shared = [name for name in first if name in second]
    shorter = dict(zip(shared, view.short_names(shared), strict=True))
    operators = [
        OperatorChange(
            shorter[name],
            view.label(second[name]),
            Change(shorter[name], first[name]["ms"], second[name]["ms"]),
            [
                f"{first[name][key]} -> {second[name][key]}"
                for key in ("type", "algorithm", "precision", "shape")
                if first[name][key] != second[name][key]
            ],
        )
        for name in shared
    ]
    return NetworkChange(
        _title(before, after),
        Change("all regions", before["scheduled_ms"], after["scheduled_ms"]),
        _blocks(before, after, shorter),
        sorted(filter(_is_notable, operators), key=lambda one: -_size(one.ms)),
        [name for name in first if name not in second],
        [name for name in second if name not in first],
    )


def _operators(network: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The operators by name; operators of equal names are numbered."""
    counts: collections.Counter[str] = collections.Counter()
    found = {}
    for operator in network["operators"]:
        name = operator["name"]
        counts[name] += 1
        found[name if counts[name] == 1 else f"{name} ({counts[name]})"] = operator
    return found


def _title(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    sizes = f"batch {gain.load_of(before)}"
    if gain.load_of(before) != gain.load_of(after):
        sizes += f" and batch {gain.load_of(after)}"
    return f"{before['signature']}, {sizes}"


def _blocks(
    before: Mapping[str, Any], after: Mapping[str, Any], shorter: Mapping[str, str]
) -> list[Change]:
    """The times of blocks with the same operators, the largest changes first."""
    first, second = _blocks_of(before), _blocks_of(after)
    changes = [
        Change(_how(names, first[names], second[names], shorter), *times)
        for names in first
        if names in second
        and None
        not in (times := (first[names]["scheduled_ms"], second[names]["scheduled_ms"]))
    ]
    return sorted(changes, key=lambda one: -_size(one))


def _blocks_of(
    network: Mapping[str, Any],
) -> dict[tuple[str, ...], Mapping[str, Any]]:
    names = [operator["name"] for operator in network["operators"]]
    return {
        tuple(sorted(names[op] for op in block["operators"])): block
        for region in network["regions"]
        for block in region["blocks"]
    }


def _how(
    names: Sequence[str],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    shorter: Mapping[str, str],
) -> str:
    """Names a block, and says how its stages changed."""
    counts = [
        collections.Counter(gain.kind_of(stage) for stage in block["stages"])
        for block in (before, after)
    ]
    name = shorter.get(before["name"], before["name"])
    stages = counted(len(before["stages"]), "stage", "stages")
    if counts[0] != counts[1]:
        stages += f" -> {len(after['stages'])}: " + ", ".join(
            f"{counts[0][kind]} -> {counts[1][kind]} {kind}"
            for kind in dict.fromkeys([*counts[0], *counts[1]])
            if counts[0][kind] != counts[1][kind]
        )
    elif before["stages"] and _groups(before) != _groups(after):
        stages += " in other groups"
    return f"{name} ({counted(len(names), 'operator', 'operators')}, {stages})"


def _groups(block: Mapping[str, Any]) -> list[Any]:
    first = min(block["operators"])
    return [
        [[op - first for op in group] for group in stage["groups"]]
        for stage in block["stages"]
    ]


def _size(change: Change) -> float:
    return abs((change.after or 0.0) - (change.before or 0.0))


def _is_notable(change: OperatorChange) -> bool:
    ratio = change.ms.ratio
    return bool(change.changes) or (
        ratio is not None and not 1 - _NOTABLE <= ratio <= 1 + _NOTABLE
    )


def text(found: ReportChange) -> str:
    """The changes as lines of text."""
    lines = [
        printable(f"A: {found.headlines[0]}"),
        printable(f"B: {found.headlines[1]}"),
    ]
    if found.conditions:
        conditions = [
            (one.name, value_text(one.before), value_text(one.after))
            for one in found.conditions
        ]
        lines += ["", table(("what differs", "A", "B"), conditions)]
    if found.times:
        times = [_row(one) for one in found.times]
        lines += ["", table(("ms for a call", "A", "B", "B / A"), times)]
    for network in found.networks:
        lines += _network_text(network)
    return "\n".join(lines)


def _network_text(network: NetworkChange) -> list[str]:
    header = (network.title, "A ms", "B ms", "B / A")
    blocks = [_row(one) for one in (network.total, *network.blocks[:_MOST])]
    lines = ["", table(header, blocks)]
    if network.operators:
        title = f"operators that changed ({len(network.operators)})"
        operators = [
            (*_row(one.ms), "; ".join(one.changes)) for one in network.operators[:_MOST]
        ]
        lines += ["", table((title, *header[1:], ""), operators)]
    for word, names in (("A", network.only_before), ("B", network.only_after)):
        if names:
            many = counted(len(names), "operator is", "operators are")
            text = f"{many} only in {word}, such as {names[0]}"
            lines.append(printable(text))
    return lines


def _row(change: Change) -> tuple[str, ...]:
    ratio = change.ratio
    times = ("" if ms is None else rounded(ms) for ms in (change.before, change.after))
    return (change.name, *times, f"{ratio:.2f}" if ratio else "")


def value_text(value: Any) -> str:
    """A value of the conditions as text."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
