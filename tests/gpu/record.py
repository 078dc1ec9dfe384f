"""record.py [DEVICE ...]: writes benchmarks/gpu_data/recordings/DEVICE.json, what the
real cuDNN says to the convolutions of gpu_data for each device, and prints what stands
out.

Of the cases of ENGINES it also writes recordings/DEVICE_engines.txt, the answers
themselves, for the fake cuDNN to give. "record.py --engines" writes only these.

Takes a quarter of an hour; to be run again with another cuDNN, or when the engine's
graphs or its choice of plans to time change.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import real_cudnn
from real_cudnn import Answer, Graph, Plan

from benchmarks import gpu_data

RECORDINGS = real_cudnn.HERE / "recordings"
DEVICES = ("h200", "a100", "l4")
CASES = [(dtype, batch) for batch in (1, 32) for dtype in real_cudnn.DTYPES]
# Beside the first device, fewer dtypes.
_DTYPES_BESIDE = ("float16", "float32")
# What cuDNN compiles for minutes, for the first device and single images only:
# the zoo's activations, and what writes a part of a tensor, in half precision.
_COMPILED = ("zoo", gpu_data.IN_CONCATS)
# A network, dtype and batch whose answers are recorded as they are.
ENGINES = {
    "h200": [
        (network, dtype, 1)
        for network in ("inception_v3", "squeezenet")
        for dtype in ("float16", "float32")
    ]
}


def cases(device: str) -> list[tuple[str, str, int]]:
    """Networks, dtypes and batches that are recorded for a device."""
    first = device == DEVICES[0]
    return [
        (network, dtype, batch)
        for network in real_cudnn.networks()
        for dtype, batch in CASES
        if (network not in _COMPILED or (first and batch == 1))
        and (first or dtype in _DTYPES_BESIDE)
        and (network != gpu_data.IN_CONCATS or dtype == "float16")
    ]


def for_tensor_cores(block: dict, dtype: str) -> bool:
    """TF32 and half precision are, exact float32 is not. For groups cuDNN has no engine
    that computes in TF32, nor one that adds a residual."""
    operator = block["operators"][0]
    if operator.get("groups", 1) > 1:
        return dtype in ("float16", "bfloat16") and not operator.get("residual")
    return dtype != "exact"


def summary(answer: Answer) -> dict:
    """An answer in few words.

    "timed" are the engines of the plans that would be timed, with their numbers of
    configurations; "workspace" is the least of a plan with tensor cores, and the most
    of any.
    """
    if answer.error:
        return {"error": answer.error}
    cores = [plan.workspace for plan in answer.timed if plan.tensor_cores]
    return {
        "timed": engines([plan.name for plan in answer.timed]),
        "tensor_cores": len(cores),
        "compiled": sum(plan.compiles for plan in answer.timed),
        "workspace": [
            min(cores, default=None),
            max((plan.workspace for plan in answer.timed), default=None),
        ],
    }


def engines(names) -> str:
    """ "eng10*4 eng41*29", in the order in which they appear first."""
    counts = Counter(name.split("_")[0] for name in names)
    return " ".join(f"{name}*{count}" for name, count in counts.items())


def read(device: str) -> dict:
    return json.loads(Path(gpu_data.RECORDINGS, f"{device}.json").read_text())


def engines_path(device: str) -> Path:
    return RECORDINGS / f"{device}_engines.txt"


def write_engines(device: str, version: int, graphs: Iterable[Graph]) -> None:
    """Lines that fake_cuda/recordings.cc reads: of each graph its key; the plans that
    were built or could not be, as "engine NAME NUMERICAL-NOTES BEHAVIOR-NOTES WORKSPACE
    STATUS"; for each mode of the heuristics which of these it proposed, in order."""
    lines = [f"cudnn {version}"]
    for graph in graphs:
        lines.append(f"graph {graph.key}")
        plans = [*graph.plans, *graph.failed]
        for plan in plans:
            numerical, behavior = (
                ",".join(map(str, notes)) or "-"
                for notes in (plan.numerical, plan.behavior)
            )
            lines.append(
                f"engine {plan.name} {numerical} {behavior} {plan.workspace} "
                f"{plan.status}"
            )
        index = {plan.name: str(i) for i, plan in enumerate(plans)}
        for mode, names in graph.proposed.items():
            built = [index[name] for name in names if name in index]
            lines.append(" ".join(["mode", mode, *built]))
    engines_path(device).write_text("\n".join(lines) + "\n")


def read_engines(device: str) -> tuple[int, dict[str, list[Plan]]]:
    """cuDNN's version, and the plans that were built or could not be by their graph's
    key."""
    version, graphs = 0, {}
    plans: list[Plan] = []
    for line in engines_path(device).read_text().splitlines():
        what, *values = line.split()
        if what == "cudnn":
            version = int(values[0])
        elif what == "graph":
            plans = graphs[values[0]] = []
        elif what == "engine":
            name, *notes, workspace, status = values
            numerical, behavior = (
                [int(note) for note in text.split(",") if note != "-"] for text in notes
            )
            plan = Plan(name, numerical, behavior, int(workspace), int(status), False)
            plans.append(plan)
    return version, graphs


def record(device: str, only_engines: bool) -> None:
    library = real_cudnn.find()
    if library is None:
        raise SystemExit(real_cudnn.MISSING)
    with_engines = ENGINES.get(device, [])
    version, answers = 0, {}
    graphs: dict[str, Graph] = {}
    for case in with_engines if only_engines else cases(device):
        blocks = real_cudnn.blocks(*case)
        version, found = real_cudnn.answers(library, blocks, device)
        key = " ".join(map(str, case))
        answers[key] = [summary(answer) for answer in found]
        report(key, blocks, found)
        if case in with_engines:
            # A graph of two networks has been asked about in full each time.
            graphs |= {graph.key: graph for answer in found for graph in answer.graphs}
        if not only_engines:
            write(device, version, answers)
    if with_engines:
        write_engines(device, version, graphs.values())


def write(device: str, version: int, answers: dict[str, list[dict]]) -> None:
    text = json.dumps({"cudnn": version, "answers": answers}, sort_keys=True)
    text = text.replace('{"compiled"', '\n{"compiled"')
    Path(gpu_data.RECORDINGS, f"{device}.json").write_text(text + "\n")


def report(key: str, blocks: list, found: list[Answer]) -> None:
    failed = sum(bool(answer.error) for answer in found)
    without = sum(not any(p.tensor_cores for p in a.plans) for a in found)
    compiled = sum(any(p.compiles for p in a.plans) for a in found)
    least = [
        min((p.workspace for p in a.plans if p.tensor_cores), default=0) for a in found
    ]
    print(
        f"{key}: {len(found)} convolutions, {failed} fail, {without} without tensor "
        f"cores, {compiled} with a compiled plan; least workspace above 1 KiB of "
        f"{sum(bytes > 1024 for bytes in least)}, at most {max(least):,}",
        flush=True,
    )


if __name__ == "__main__":
    only = "--engines" in sys.argv
    devices = [argument for argument in sys.argv[1:] if argument != "--engines"]
    for name in devices or (ENGINES if only else DEVICES):
        record(name, only)
