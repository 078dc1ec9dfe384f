"""Runs the C++ tests of core, engine and pool, and threads that call programs, under
g++'s sanitizers: python -m tests.cc.sanitize [address,undefined] [thread]
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys

from tests.support.native_build import ENGINE_TESTS, ROOT, NativeBuild

KINDS = ("address,undefined", "thread")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cc.sanitize")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=" or ".join(KINDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"there is no sanitizer {', '.join(sorted(unknown))}")
    failed = [kind for kind in options.kinds or KINDS if not check(kind, options.jobs)]
    return 1 if failed else 0


def check(kind: str, jobs: int) -> bool:
    """Builds and runs the tests. Returns True if all of them pass."""
    flags = [f"-fsanitize={kind}"]
    if "undefined" in kind:
        flags.append("-fno-sanitize-recover=all")
    directory = ROOT / "build" / "sanitize" / kind.replace(",", "-")
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    sources = {"engine_tests": [*ENGINE_TESTS.values(), "tests/cc/main.cc"]}
    programs = NativeBuild(compiler, flags, directory).programs(sources, jobs)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    good = True
    for name, file in ENGINE_TESTS.items():
        done = subprocess.run(
            [programs["engine_tests"], file],
            env=environment,
            capture_output=True,
            text=True,
        )
        count = done.stdout.count("ok ")
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            good = False
        print(f"{kind}: {name}: {count} tests, exit code {done.returncode}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
