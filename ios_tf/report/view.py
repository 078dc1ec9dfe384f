"""Values that the HTML page shows, computed from the document."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ios_tf.native.names import common_scope
from ios_tf.reasons import BY_CODE
from ios_tf.report import gain
from ios_tf.report.document import Document

# The number of operators in the table of the slowest ones.
_SLOWEST = 20
# The kinds of types. Convolutions, whose kind depends on their groups, are not here.
_KINDS = {
    **dict.fromkeys(("conv2d_transpose", "sepconv"), "conv"),
    "matmul": "matmul",
    **dict.fromkeys(("pool", "global_pool"), "pool"),
    **dict.fromkeys(("concat", "slice", "pad", "reshape", "transpose", "roll"), "copy"),
}
LABELS = {
    "tensorflow": "TensorFlow",
    "converted": "converted",
    "portable": "converted, without ios_tf",
}


def milliseconds(ms: float | None) -> str:
    """A time with three significant digits."""
    if ms is None:
        return "–"
    if ms >= 100:
        return f"{ms:.0f} ms"
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{1000 * ms:.3g} µs"


def number(value: float) -> str:
    """A whole number with spaces between groups of digits."""
    return f"{value:,.0f}".replace(",", "\u202f")


def signatures(report: Document) -> list[dict[str, Any]]:
    """The rows of the table of signatures: latencies and the parts of the gain."""
    return [{**found, "sizes": _sizes(report, found)} for found in report["signatures"]]


def _sizes(report: Document, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    sizes = []
    for batch_size, latencies in found["latencies"].items():
        rows = [
            {
                **latencies[name],
                "key": name,
                "name": LABELS[name],
                "speedup": gain.speedup_of(latencies, name),
            }
            for name in LABELS
            if name in latencies
        ]
        gains = gain.gains(report, found["name"], batch_size)
        sizes.append(
            {
                "batch_size": batch_size,
                "rows": rows,
                "gains": gains,
                "by_processor_time": any(
                    gain.by_processor_time(latencies, name) for name in LABELS
                ),
            }
        )
    return sizes


def reasons(report: Document) -> list[dict[str, Any]]:
    """The decisions, with what their reasons mean and what the user can do.

    The reason is None if another version of ios_tf has written the report.
    """
    return [
        {**decision, "reason": BY_CODE.get(decision["code"])}
        for decision in report["decisions"]
    ]


def networks(report: Document) -> list[dict[str, Any]]:
    """The networks with everything that their sections show."""
    return [
        _network(network, number)
        for number, network in enumerate(report["networks"])
        if network["operators"]
    ]


def _network(network: Mapping[str, Any], number: int) -> dict[str, Any]:
    operators = [
        _operator(one, index, number) for index, one in enumerate(network["operators"])
    ]
    for operator, short in zip(
        operators, short_names([one["name"] for one in operators]), strict=True
    ):
        operator["short"] = short.strip() or "(no name)"
    total = sum(one["ms"] or 0.0 for one in operators)
    for operator in operators:
        operator["share"] = (operator["ms"] or 0.0) / total if total else 0.0
    blocks = list(_blocks(network, operators, number))
    kept = [one for block in blocks if block["kept"] for one in block["operators"]]
    slowest = sorted(kept, key=lambda one: -(one["ms"] or 0.0))[:_SLOWEST]
    return {
        "number": number,
        "signature": network["signature"],
        "load": gain.load_of(network),
        "sequential_ms": network["sequential_ms"],
        "scheduled_ms": network["scheduled_ms"],
        "scope": common_scope(one["name"] for one in operators)[:-1],
        "blocks": blocks,
        "operators": operators,
        "slowest": [one for one in slowest if one["ms"]],
        "kinds": list(dict.fromkeys(one["kind"] for one in operators)),
    }


def _operator(one: Mapping[str, Any], index: int, network: int) -> dict[str, Any]:
    floor = one["floor_ms"]
    ms = one["ms"]
    return {
        **one,
        "index": index,
        "id": f"o{network}-{index}",
        "kind": kind(one),
        "label": label(one),
        "shape_text": "×".join(map(str, one["shape"])),
        "over_floor": ms / floor if ms and floor else None,
        "rate": one["operations"] / ms / 1e6 if ms and one["operations"] else None,
    }


def kind(operator: Mapping[str, Any]) -> str:
    """The kind of an operator, which determines its color."""
    name, attributes = operator["type"], operator["attributes"]
    if name == "conv2d":
        grouped = attributes.get("groups", 1)
        depthwise = type(grouped) is int and grouped > 1
        return "depthwise" if depthwise else "conv"
    return _KINDS.get(name, "other")


def label(operator: Mapping[str, Any]) -> str:
    """A type with its kernel: "conv2d 3×3 /2 relu"."""
    attributes = operator["attributes"]
    words = [str(operator["type"])]
    if kind(operator) == "depthwise":
        words = ["depthwise" if _is_depthwise(operator) else "grouped conv2d"]
    kernel = attributes.get("kernel")
    if isinstance(kernel, list):
        words.append("×".join(map(str, kernel)))
    elif operator["type"] == "conv2d":
        words.append("1×1")
    strides = attributes.get("strides")
    if isinstance(strides, list) and all(isinstance(one, int) for one in strides):
        largest = max(strides, default=1)
        words += [f"/{largest}"] if largest != 1 else []
    activation = attributes.get("activation")
    if isinstance(activation, str):
        words.append(activation)
    return " ".join(words)


def _is_depthwise(operator: Mapping[str, Any]) -> bool:
    attributes = operator["attributes"]
    return attributes.get("groups") == attributes.get("filters")


def _blocks(
    network: Mapping[str, Any], operators: Sequence[dict[str, Any]], number: int
) -> Iterator[dict[str, Any]]:
    found = [
        (region, block) for region in network["regions"] for block in region["blocks"]
    ]
    shares = _shares([block for _, block in found])
    longest = max((block["scheduled_ms"] or 0.0 for _, block in found), default=0.0)
    for index, (region, block) in enumerate(found):
        members = [operators[op] for op in block["operators"]]
        ms = block["scheduled_ms"]
        longest_stage = max(stage["ms"] or 0.0 for stage in block["stages"])
        slowest = max((one["ms"] or 0.0 for one in members), default=0.0)
        yield {
            "id": f"b{number}-{index}",
            "index": index,
            "region": region["number"],
            "kept": region["kept"],
            "name": members[0]["short"],
            "last": members[-1]["short"],
            "operators": members,
            "ms": ms,
            "sequential_ms": block["sequential_ms"],
            "share": shares[index],
            "heat": (ms or 0.0) / longest if longest else 0.0,
            "speedup": block["sequential_ms"] / ms
            if ms and block["sequential_ms"]
            else None,
            "slowest_ms": slowest,
            "stages": [
                _stage(stage, position, operators, longest_stage)
                for position, stage in enumerate(block["stages"], 1)
            ],
        }


def _shares(blocks: Sequence[Mapping[str, Any]]) -> list[float]:
    """The share of each block in the network's time.

    The time of a block that was not measured is estimated: its number of operators
    times the mean time per operator of the other blocks.
    """
    known = [block for block in blocks if block["scheduled_ms"] is not None]
    counted = sum(len(block["operators"]) for block in known)
    each = sum(block["scheduled_ms"] for block in known) / counted if counted else 0.0
    times = [
        len(block["operators"]) * (each or 1.0)
        if block["scheduled_ms"] is None
        else block["scheduled_ms"]
        for block in blocks
    ]
    total = sum(times) or 1.0
    return [ms / total for ms in times]


def _stage(
    stage: Mapping[str, Any],
    position: int,
    operators: Sequence[dict[str, Any]],
    longest: float,
) -> dict[str, Any]:
    groups = [[operators[op] for op in group] for group in stage["groups"]]
    times = stage["group_ms"] or [None] * len(groups)
    known = [ms for ms in times if ms]
    lanes = [
        {
            "operators": group,
            "ms": ms,
            # The width of the lane's bar, relative to the slowest lane of the stage.
            "width": ms / max(known) if ms and known else 1.0,
        }
        for group, ms in zip(groups, times, strict=True)
    ]
    ms = stage["ms"]
    alone = [one["ms"] for group in groups for one in group]
    total = None if None in alone else sum(alone)
    return {
        "position": position,
        "kind": gain.kind_of(stage),
        "micro_batches": int(stage["micro_batches"]),
        "ms": ms,
        "alone_ms": total,
        "width": ms / longest if ms and longest else 1.0,
        "lanes": lanes,
    }


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the scope that all share, and without the operation at the end."""
    skip = len(common_scope(names))
    shorter = [name[skip:] for name in names]
    heads = [name.rpartition("/")[0] for name in shorter]
    counts = collections.Counter(heads)
    return [
        head if head and counts[head] == 1 else name
        for head, name in zip(heads, shorter, strict=True)
    ]
