"""record.py [DEVICE ...]: asks the real cuDNN about the convolutions of gpu_data for
each device, and writes a summary of the answers to
benchmarks/gpu_data/recordings/DEVICE.json. It also prints counts of unusual answers.

For the cases in ENGINES, it also writes the complete answers to
recordings/DEVICE_engines.txt, so that the fake cuDNN can give the same answers.
"record.py --engines" writes only these files.

The program takes a quarter of an hour. Run it again with another version of cuDNN, or
if the engine's graphs or its choice of plans to time change.
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
# The dtypes for devices other than the first one.
_DTYPES_BESIDE = ("float16", "float32")
# cuDNN compiles two kinds of convolutions for minutes: the zoo's, because of their
# activations, and float16 convolutions that write a part of a tensor. Both are recorded
# only for the first device and for single images.
_COMPILED = ("zoo", gpu_data.IN_CONCATS)
# Device -> the (network, dtype, batch) for which the complete answers are recorded.
ENGINES = {
    "h200": [
        (network, dtype, 1)
        for network in ("inception_v3", "squeezenet")
        for dtype in ("float16", "float32")
    ]
}


def cases(device: str) -> list[tuple[str, str, int]]:
    """The (network, dtype, batch) that are recorded for a device."""
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
    """Whether cuDNN should have an engine with tensor cores for a convolution.

    It has such engines for TF32 and half precision, but not for exact float32. For
    convolutions with groups, it has none that computes in TF32 or adds a residual.
    """
    operator = block["operators"][0]
    if operator.get("groups", 1) > 1:
        return dtype in ("float16", "bfloat16") and not operator.get("residual")
    return dtype != "exact"


def summary(answer: Answer) -> dict:
    """A summary of an answer.

    "timed" has the engines whose plans would be timed, with their numbers of
    configurations. "workspace" has the smallest workspace of a plan with tensor cores,
    and the largest workspace of any plan.
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
    """Counts engines, as "eng10*4 eng41*29", in the order of their first occurrence."""
    counts = Counter(name.split("_")[0] for name in names)
    return " ".join(f"{name}*{count}" for name, count in counts.items())


def read(device: str) -> dict:
    return json.loads(Path(gpu_data.RECORDINGS, f"{device}.json").read_text())


def engines_path(device: str) -> Path:
    return RECORDINGS / f"{device}_engines.txt"


def write_engines(device: str, version: int, graphs: Iterable[Graph]) -> None:
    """Writes the file that fake_cuda/recordings.cc reads.

    Each graph has these lines:

    * "graph KEY";
    * for each plan, whether or not it could be built, "engine NAME NUMERICAL-NOTES
      BEHAVIOR-NOTES WORKSPACE STATUS";
    * for each mode of the heuristics, "mode MODE" and the indices of the plans that it
      proposed, in order.
    """
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
    """Returns cuDNN's version, and each graph's plans (built or failed) by its key."""
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
            # A graph that occurs in two networks gets the same complete answer twice.
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
