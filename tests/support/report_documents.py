"""Reports that are generated without a conversion. They have all kinds of stages,
hostile names, or very many names."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

# A text that would end every context of an HTML page, if it were not escaped.
HOSTILE = (
    "</script><script>document.title='owned'</script>\"'`>"
    "<img src=x onerror=alert(1)>&lt;{{ 7 * 7 }}\u202e\u0000é中"
)


def operator(name: str, ms: float | None, inputs: Sequence[int | None]) -> dict:
    return {
        "name": name,
        "type": "conv2d",
        "attributes": {"kernel": [3, 3], "filters": 8, "activation": "relu"},
        "inputs": list(inputs),
        "shape": [1, 9, 9, 8],
        "precision": "float32",
        "algorithm": "winograd_4x4",
        "operations": 93312,
        "bytes": 7776,
        "ms": ms,
        "floor_ms": 0.01,
    }


def stage(
    strategy: str, groups: Sequence[Sequence[int]], ms: float | None, **others: Any
) -> dict:
    several = strategy == "concurrent" and len(groups) > 1
    return {
        "strategy": strategy,
        "groups": [list(group) for group in groups],
        "micro_batches": 1,
        "ms": ms,
        "group_ms": [ms] * len(groups) if several else None,
        **others,
    }


def network(name: str = "net/{}/Conv2D") -> dict:
    """A network of six operators: one alone, two concurrent, two merged, one split."""
    operators = [
        operator(name.format(i), 0.1 * (i + 1), [i - 1 if i else None])
        for i in range(6)
    ]
    stages = [
        stage("concurrent", [[0]], 0.1),
        stage("concurrent", [[1], [2]], 0.3),
        stage("merge", [[3, 4]], 0.6),
        stage("split", [[5]], 0.4, micro_batches=2),
    ]
    block = {
        "name": operators[0]["name"],
        "operators": list(range(6)),
        "stages": stages,
        "scheduled_ms": 1.4,
        "sequential_ms": 2.1,
    }
    return {
        "signature": "serving_default",
        "batch_size": 1,
        "sequential_ms": 3.0,
        "sequential_algorithms_ms": 2.0,
        "scheduled_ms": 1.4,
        "operators": operators,
        "regions": [
            {"number": 0, "kept": True, "arena_bytes": 5184, "blocks": [block]}
        ],
    }


def long_network(count: int) -> dict:
    """A chain of operators in blocks of twelve."""
    operators = [
        operator(f"net/cell_{i // 12}/conv_{i}/Conv2D", 0.01 + i % 7 / 50, [i - 1])
        for i in range(count)
    ]
    operators[0]["inputs"] = [None]
    blocks = []
    for begin in range(0, count, 12):
        members = list(range(begin, min(begin + 12, count)))
        pairs = [members[i : i + 2] for i in range(0, len(members), 2)]
        stages = [stage("concurrent", [[op] for op in pair], 0.1) for pair in pairs]
        blocks.append(
            {
                "name": operators[begin]["name"],
                "operators": members,
                "stages": stages,
                "scheduled_ms": 0.1 * len(stages),
                "sequential_ms": 0.2 * len(stages),
            }
        )
    return {
        **network(),
        "operators": operators,
        "regions": [{"number": 0, "kept": True, "blocks": blocks}],
    }


def timeline() -> dict:
    """A recorded call of `network`, which uses both lanes for some stages."""
    runs = [
        *(("net/0/Conv2D", 0, 0.0, 0.1), ("net/1/Conv2D", 0, 0.1, 0.3)),
        *(("net/2/Conv2D", 1, 0.1, 0.4), ("net/3/Conv2D+net/4/Conv2D", 0, 0.4, 1.0)),
        *(("net/5/Conv2D", 0, 1.0, 1.4), ("net/5/Conv2D", 1, 1.0, 1.375)),
    ]
    return {
        "signature": "serving_default",
        "batch_size": 1,
        "slices": [
            {
                "name": name,
                "type": "conv2d",
                "algorithm": "winograd_4x4",
                "lane": lane,
                "begin_ms": begin,
                "end_ms": end,
            }
            for name, lane, begin, end in runs
        ],
    }


def latency(ms: float) -> dict:
    return {"ms": ms, "low_ms": 0.9 * ms, "high_ms": 1.2 * ms}


def speedup(ratio: float, by_processor_time: bool = False) -> dict:
    return {
        "estimate": ratio,
        "low": ratio * 0.9,
        "high": ratio * 1.1,
        "pairs": 20,
        "disturbed": 0,
        "by_processor_time": by_processor_time,
    }


def document(**changes: Any) -> dict:
    """A report of a model that takes 2.5 ms instead of 5 ms."""
    found = {
        "version": 1,
        "created": "2026-11-28T10:00:00+00:00",
        "verdict": "converted",
        "model": "keras:InceptionV3",
        "output": "out",
        "versions": {
            "ios_tf": "0.1.0",
            "tensorflow": "2.21.0",
            "python": "3.11.7",
            "oneDNN": "3.2.0",
            "instruction set": "AVX-512",
        },
        "machine": {
            "device": "a_processor_2_cores",
            "kind": "cpu",
            "lanes": 2,
            "load": {
                "average": 0.5,
                "samples": 100,
                "disturbed": 1,
                "disturbed_share": 0.01,
                "busy": False,
            },
            "roofline": {"gflop_per_s": 100.0, "gb_per_s": 10.0},
        },
        "options": {"strategy": "auto", "batch_size": [1], "samples": None},
        "image_size": [224, 224],
        "search": {
            "different_blocks": 1,
            "cached_blocks": 0,
            "states": 10,
            "transitions": 20,
            "measured": 30,
            "reused": 5,
            "bounded": 7,
            "seconds": 1.5,
        },
        "operators": 6,
        "blocks": 1,
        "memory": {
            "model_bytes": 95_400_000,
            "output_bytes": 96_100_000,
            "conversion_peak_bytes": 2_100_000_000,
        },
        "batch_sizes": {
            "1": {
                "stages": 4,
                "merged": 1,
                "concurrent": 1,
                "split": 1,
                "sequential_ms": 3.0,
                "scheduled_ms": 1.4,
            }
        },
        "left_to_tensorflow": {"Cumsum": 2},
        "decisions": [
            {
                "code": "IOS001",
                "sentence": "2 nodes are left to TensorFlow",
                "nodes": ["a/Cumsum", "b/Cumsum"],
                "types": {"Cumsum": 2},
                "count": 2,
            }
        ],
        "undecided": [],
        "precisions": [
            {
                "signature": "serving_default",
                "precision": "bfloat16",
                "max_error": 0.01,
                "whole": {"error": 0.02, "agreement": 0.75, "images": 8},
                "chosen": {"error": 0.008, "agreement": 1.0, "images": 8},
                "returned": [
                    {"operators": ["scope/a", "scope/b"], "error": 0.01, "ms": 0.2},
                    {"operators": ["scope/c"], "error": None, "ms": -0.1},
                ],
                "why": "",
            }
        ],
        "signatures": [
            {
                "name": "serving_default",
                "kept": True,
                "difference": 2.1e-7,
                "equal": True,
                "evidence": "outputs",
                "compared_batch_sizes": [1, 3],
                "latencies": {
                    "1": {
                        "tensorflow": latency(5.0),
                        "converted": latency(2.5),
                        "portable": latency(4.0),
                        "converted_speedup": speedup(2.0),
                        "portable_speedup": speedup(1.25),
                    }
                },
            }
        ],
        "regions": [],
        "networks": [network()],
        "timelines": [timeline()],
    }
    return copy.deepcopy(found | changes)


def hostile(found: dict) -> dict:
    """The report with a hostile text in place of every free text."""
    changed = copy.deepcopy(found)
    changed["model"] = changed["output"] = HOSTILE
    changed["options"] = {HOSTILE: HOSTILE}
    changed["versions"] |= {HOSTILE: HOSTILE}
    changed["machine"]["device"] = HOSTILE
    changed["left_to_tensorflow"] = {HOSTILE: 1}
    for decision in changed["decisions"]:
        decision["sentence"] = HOSTILE
        decision["nodes"] = [HOSTILE]
    for signature in changed["signatures"]:
        signature["name"] = signature["evidence"] = HOSTILE
    for one in changed["precisions"]:
        one["signature"] = one["why"] = HOSTILE
        for group in one["returned"]:
            group["operators"] = [HOSTILE, HOSTILE]
    for one in changed["timelines"]:
        one["signature"] = HOSTILE
        for run in one["slices"]:
            run["name"] = run["type"] = run["algorithm"] = HOSTILE
    for one in changed["networks"]:
        one["signature"] = HOSTILE
        for op in one["operators"]:
            op["name"] = op["type"] = op["algorithm"] = op["precision"] = HOSTILE
            op["attributes"] = {"kernel": [HOSTILE], HOSTILE: HOSTILE}
    return changed
