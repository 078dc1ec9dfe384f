"""record.py [DEVICE ...]: writes recordings/DEVICE.json, what the real cuDNN says to
the convolutions of the four networks for each device, and prints what stands out.

Takes some minutes; to be run again with another cuDNN, or when the engine's graphs or
its choice of plans to time change.
"""

import json
import sys
from collections import Counter

import real_cudnn
from real_cudnn import Answer

RECORDINGS = real_cudnn.HERE / "recordings"
# All dtypes and batches on the first device, fewer beside it.
CASES = {
    "h200": [(d, b) for d in real_cudnn.DTYPES for b in (1, 32)],
    "a100": [("float16", 1), ("float32", 1)],
    "l4": [("float16", 1), ("float32", 1)],
}


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
    return json.loads((RECORDINGS / f"{device}.json").read_text())


def record(device: str) -> None:
    library = real_cudnn.find()
    if library is None:
        raise SystemExit(real_cudnn.MISSING)
    result = {"cudnn": None, "answers": {}}
    for network in real_cudnn.networks():
        blocks = real_cudnn.convolutions(network)
        for dtype, batch in CASES[device]:
            version, found = real_cudnn.answers(
                library,
                [real_cudnn.with_batch(block, batch, dtype) for block in blocks],
                device,
            )
            result["cudnn"] = version
            key = f"{network} {dtype} {batch}"
            result["answers"][key] = [summary(answer) for answer in found]
            report(key, blocks, found)
    RECORDINGS.mkdir(exist_ok=True)
    text = json.dumps(result, sort_keys=True).replace('{"compiled"', '\n{"compiled"')
    (RECORDINGS / f"{device}.json").write_text(text + "\n")


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
    for name in sys.argv[1:] or CASES:
        record(name)
