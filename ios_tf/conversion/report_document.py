"""Makes the JSON document of a report (ios_tf/report/schema.json)."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ios_tf.native import engine
from ios_tf.native.names import MERGED
from ios_tf.report.document import VERSION

if TYPE_CHECKING:  # these modules import TensorFlow, which a report does not need
    from ios_tf.conversion.comparison import Comparison, Timed
    from ios_tf.conversion.error_budget import Choice
    from ios_tf.conversion.region_check import RegionLatency
    from ios_tf.conversion.report import Report
    from ios_tf.native.tracing import Trace

# The names of the latencies in `Timed.latencies`.
_NAMES = ("tensorflow", "converted", "portable")


def document_of(report: Report) -> dict[str, Any]:
    """The JSON document of a report."""
    names = {op["name"] for network in report.networks for op in network["operators"]}
    kept = [_signature(one, True) for one in report.comparisons]
    rejected = [_signature(one, False) for one in report.rejected]
    return {
        "version": VERSION,
        "created": report.created,
        "verdict": report.verdict,
        "model": report.model,
        "output": report.output,
        "versions": _versions(),
        "machine": {
            "device": report.device,
            "kind": report.device_kind,
            "lanes": report.lanes,
            "load": {
                **dataclasses.asdict(report.load),
                "disturbed_share": report.load.share,
                "busy": report.load.busy,
            },
            "roofline": report.roofline and dataclasses.asdict(report.roofline),
        },
        "options": dict(report.options),
        "image_size": list(report.image_size) if report.image_size else None,
        "search": {
            "different_blocks": report.different_blocks,
            "cached_blocks": report.cached_blocks,
            "states": report.states,
            "transitions": report.transitions,
            "measured": report.measurements,
            "reused": report.reused,
            "bounded": report.bounded,
            "seconds": report.search_seconds,
        },
        "operators": report.operators,
        "memory": {
            "model_bytes": report.model_bytes,
            "output_bytes": report.output_bytes,
            "conversion_peak_bytes": report.peak_bytes,
        },
        "blocks": report.blocks,
        "batch_sizes": {
            str(size): dataclasses.asdict(one) for size, one in report.sizes.items()
        },
        "left_to_tensorflow": report.left_to_tensorflow,
        "decisions": [decision.to_json() for decision in report.decisions],
        "undecided": list(report.undecided),
        "precisions": [_precision(one) for one in report.precisions],
        "signatures": kept + rejected,
        "regions": [_region(one) for one in report.regions],
        "networks": [dict(one) for one in report.networks],
        "timelines": [
            _timeline(one.signature, size, trace, names)
            for one in (*report.comparisons, *report.rejected)
            for size, trace in one.traces.items()
        ],
    }


def name_of(model: Any) -> str | None:
    """The name of a model: its path, or the name that it gives itself."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    name = getattr(model, "name", None)
    return name if isinstance(name, str) else None


def options_json(options: Any) -> dict[str, Any]:
    """The options of a conversion, without those that only Python can express."""
    found = {}
    for option in dataclasses.fields(options):
        value = getattr(options, option.name)
        if callable(value):
            continue
        if isinstance(value, (list, tuple)) and all(map(_is_plain, value)):
            value = list(value)
        elif not _is_plain(value):
            value = type(value).__name__
        found[option.name] = value
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))


def _versions() -> dict[str, str]:
    import tensorflow as tf

    import ios_tf

    cpu = engine.cpu_description()
    return {
        "ios_tf": ios_tf.__version__,
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
        "oneDNN": cpu["oneDNN"],
        "instruction set": cpu["instruction set"],
    }


def _signature(one: Comparison, kept: bool) -> dict[str, Any]:
    return {
        "name": one.signature,
        "kept": kept,
        "difference": _finite(one.difference),
        "divided_by": "value" if one.by_value else "spread",
        "equal": one.equal,
        "evidence": one.evidence(),
        "compared_batch_sizes": list(one.batch_sizes),
        "latencies": _latencies(one),
    }


def _precision(choice: Choice) -> dict[str, Any]:
    found = dataclasses.asdict(choice)
    for errors in (found["whole"], found["chosen"], *found["returned"]):
        if errors:
            errors["error"] = _finite(errors["error"])
    return found


def _finite(value: float | None) -> float | None:
    """The value; None if it is not finite, because JSON has no such numbers."""
    return None if value is None or not math.isfinite(value) else value


def _timeline(
    signature: str, batch_size: int, trace: Trace, names: Collection[str]
) -> dict[str, Any]:
    """The operators of a recorded call; times count from its beginning.

    TensorFlow has inlined functions, so the recorded names may have more scopes than
    the operators' `names`.
    """
    begin = min(call.begin_us for call in trace.calls)

    def known(name: str) -> str:
        shorter = name = name.partition(MERGED)[0]
        while shorter and shorter not in names:
            shorter = shorter.partition("/")[2]
        return shorter or name

    return {
        "signature": signature,
        "batch_size": batch_size,
        "slices": [
            {
                # The name of a merged operator consists of all names.
                "name": "+".join(map(known, one.operator.split("+"))),
                "type": one.type,
                "algorithm": one.algorithm,
                "lane": one.lane,
                "begin_ms": round((one.begin_us - begin) / 1e3, 6),
                "end_ms": round((one.end_us - begin) / 1e3, 6),
            }
            for one in trace.slices()
        ],
    }


def _region(one: RegionLatency) -> dict[str, Any]:
    return {
        "name": one.name,
        "numbers": list(one.regions),
        "faster": one.is_faster(),
        "latencies": _latencies(one, has_ranges=False),
    }


def _latencies(timed: Timed, has_ranges: bool = True) -> dict[str, Any]:
    """Latencies and speedups by batch size."""
    by_size: dict[str, dict[str, Any]] = {}
    for size, latencies in timed.latencies.items():
        found = by_size[str(size)] = {}
        ranges = latencies.ranges if has_ranges else [(None, None)] * len(latencies)
        for name, ms, (low, high) in zip(_NAMES, latencies, ranges, strict=False):
            found[name] = {"ms": ms, "low_ms": low, "high_ms": high}
        for name, ratio in zip(_NAMES[1:], latencies.ratios, strict=False):
            # JSON has no infinity.
            most = ratio.high if math.isfinite(ratio.high) else None
            found[f"{name}_speedup"] = {**dataclasses.asdict(ratio), "high": most}
    return by_size
