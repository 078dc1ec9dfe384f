"""Compiles blocks of convolutions with the proxied cuDNN; see real_cudnn.py."""

import ctypes
import json
import sys
from pathlib import Path

directory = Path(sys.argv[1])
ctypes.CDLL(str(directory / "libcuda.so.1"), ctypes.RTLD_GLOBAL)
proxy = ctypes.CDLL(str(directory / "libcudnn.so.9"))
proxy.cudnn_proxy_take_notes.restype = ctypes.c_char_p
proxy.cudnnGetVersion.restype = ctypes.c_size_t

import numpy as np  # noqa: E402

from ios_tf.native import engine  # noqa: E402


def weights_of(block: dict) -> list[np.ndarray]:
    """Zeros; operators are convolutions, each of the input or the one before it, and
    concats at the end."""
    shapes, channels = [], block["inputs"][0][-1]
    for op in block["operators"]:
        if op["type"] == "concat":
            continue
        if op["inputs"][0] < 0:
            channels = block["inputs"][0][-1]
        filters = op["filters"]
        kernel = [] if op["type"] == "matmul" else op.get("kernel", [1, 1])
        shapes.append([*kernel, channels // op.get("groups", 1), filters])
        shapes += [[filters]] * bool(op.get("bias"))
        channels = filters
    return [np.zeros(s, np.float32) for s in shapes]


def answer(block: dict) -> dict:
    device = "gpu" if block.pop("tf32", True) else "gpu,tf32=off"
    error = ""
    groups = [[list(range(len(block["operators"])))]]
    stages = [{"strategy": "concurrent", "groups": g} for g in groups]
    schedule = {"version": 1, "stages": stages}
    try:
        engine.Program(block, schedule, weights_of(block), device)
    except engine.EngineError as failure:
        error = str(failure)
    lines = proxy.cudnn_proxy_take_notes().decode().splitlines()
    return {"error": error, "notes": [json.loads(line) for line in lines]}


blocks = json.load(sys.stdin)
print(
    json.dumps(
        {"version": proxy.cudnnGetVersion(), "answers": [answer(b) for b in blocks]}
    )
)
