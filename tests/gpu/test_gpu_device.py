"""Runs gpu_device_checks.py, which tests the ops on a GPU, in a process with a fake
GPU."""

from pathlib import Path

from commands import run_python


def test_ops_on_a_fake_gpu():
    checks = Path(__file__).with_name("gpu_device_checks.py")
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    run_python("-m", "pytest", *options, checks, CUDA_VISIBLE_DEVICES="-1")
