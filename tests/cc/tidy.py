"""Runs clang-tidy with the settings in .clang-tidy on the sources that need neither
TensorFlow nor CUDA, and on their tests: python -m tests.cc.tidy [FILE ...]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.native_build import ENGINE_SOURCES, LANES_TEST, ROOT, reading_flags


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cc.tidy")
    parser.add_argument("files", nargs="*", metavar="FILE", help="by default all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    tidy = shutil.which("clang-tidy")
    if tidy is None:
        raise SystemExit(
            "clang-tidy is not installed. Run: pip install clang-tidy~=23.1.0"
        )
    flags = reading_flags()
    files = [Path(file).resolve() for file in options.files] or sources()

    def check(file: Path) -> bool:
        command = [tidy, "--quiet", str(file), "--", *flags]
        if file == ROOT / LANES_TEST:
            command.append("-DIOS_TF_TEST_DELAYS")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout, end="", flush=True)
        return not done.returncode

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        good = list(pool.map(check, files))
    print(f"{len(files)} files, {good.count(False)} with findings")
    return 0 if all(good) else 1


def sources() -> list[Path]:
    """The files of the engine without its backend for GPUs, and their tests."""
    return sorted(file for pattern in ENGINE_SOURCES for file in ROOT.glob(pattern))


if __name__ == "__main__":
    sys.exit(main())
