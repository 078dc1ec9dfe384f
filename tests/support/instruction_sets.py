"""Runs tests in processes that are limited to an instruction set."""

import os
import subprocess
import sys
from pathlib import Path


def run_with(isa, code):
    """Runs Python code that imports unit tests; `isa` is ONEDNN_MAX_CPU_ISA."""
    tests = Path(__file__).parents[1]
    paths = [str(tests / "unit"), str(tests / "support"), *sys.path]
    environment = {
        **os.environ,
        "ONEDNN_MAX_CPU_ISA": isa,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
