"""Runs gpu_device_checks.py, which tests the ops on a GPU, in a process with a fake
GPU."""

import os
import subprocess
import sys
from pathlib import Path


def test_ops_on_a_fake_gpu():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
        + [str(Path(__file__).with_name("gpu_device_checks.py"))],
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "-1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
