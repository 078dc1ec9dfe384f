"""Compiles blocks of convolutions with the proxied cuDNN; see real_cudnn.py."""

import ctypes
import json
import os
import sys
from pathlib import Path

# With one thread, the proxy records the plans in the order in which cuDNN proposes
# them.
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
directory = Path(sys.argv[1])
ctypes.CDLL(str(directory / "libcuda.so.1"), ctypes.RTLD_GLOBAL)
proxy = ctypes.CDLL(str(directory / "libcudnn.so.9"))
proxy.cudnn_proxy_take_notes.restype = ctypes.c_char_p
proxy.cudnnGetVersion.restype = ctypes.c_size_t

sys.path.append(str(Path(__file__).resolve().parents[2]))  # has the benchmarks
import cuda_helpers  # noqa: E402

from benchmarks import gpu_data  # noqa: E402
from ios_tf.native import engine  # noqa: E402


def answer(block: dict) -> dict:
    device = "gpu" if block.pop("tf32", True) else "gpu,tf32=off"
    error = ""
    try:
        weights = cuda_helpers.zero_weights(block)
        engine.Program(block, gpu_data.schedule(block), weights, device)
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
