"""rehearse_gpu_day.py [--python=PYTHON] [ARGUMENT ...]: runs `python -m benchmarks
gpu_day` with these arguments on the fake GPU, to see which steps end in time. PYTHON is
the Python that runs the steps. Its environment may have PyTorch without CUDA, which is
enough for the float64 reference.

The fake GPU computes nothing, so checks of values fail. It proposes as many cuDNN plans
as the real cuDNN, and sleeps for as long as the host builds a plan, loads a module or
compiles kernels. Plans take a simulated time as on a large GPU, but the host does not
wait for this time: simulating a kernel takes about as long as running it.
"""

import argparse
import os
import subprocess
import sys

import cuda_helpers
import record

from benchmarks import command_line

_OPTIONS = {
    "inert": 1,
    "host_costs": 2,
    "cores": 16,
    "any_recording": 1,
    "tiles": 14,  # cuDNN compiles so many plans for a convolution in a concat
    "time_scale": 1,
    "flops_per_us": 20_000_000,
    "l2_bytes": 50 << 20,
    "memory_limit": 80 << 30,
}


def environment() -> dict[str, str]:
    """The environment of processes that use the fake GPU."""
    fakes = cuda_helpers.build_fakes()
    return {
        **os.environ,
        "LD_PRELOAD": str(fakes / "libcuda.so.1"),
        "IOS_TF_CUDA_LIBRARIES": str(fakes),
        "FAKE_CUDA_OPTIONS": ",".join(f"{k}={v}" for k, v in _OPTIONS.items()),
        "FAKE_CUDNN_RECORDINGS": str(record.engines_path("h200")),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    arguments, words = parser.parse_known_args()
    _, *program = command_line("gpu_day", *words)
    command = [arguments.python, *program]
    sys.exit(subprocess.run(command, env=environment()).returncode)
