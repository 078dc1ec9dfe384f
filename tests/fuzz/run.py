"""Builds fuzzers with clang's libFuzzer and its address and undefined behavior
sanitizers, and runs them: python -m tests.fuzz.run [--runs=N] [--jobs=N] [NAME ...]

They need clang (Debian: apt-get install clang) and the wheels that the build needs.
If a fuzzer finds a failure, it writes the input to build/fuzz/NAME-crash-…. Run the
fuzzer on this file alone to see where the memory was allocated.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time

from tests.support.native_build import CORPUS, FUZZERS, GRAPH_FUZZER, ROOT, NativeBuild

ALL = (*FUZZERS, *GRAPH_FUZZER)
BUILD = ROOT / "build" / "fuzz"
CHECKS = [
    "-fsanitize=fuzzer-no-link,address,undefined",
    # Makes runs 10 times as fast. The mutators have lists of words instead.
    "-fno-sanitize-coverage=trace-cmp",
    "-fno-sanitize-recover=all",
    "-fno-sanitize=vptr",  # vptr needs type information of TensorFlow's classes
]
_MOST_RUNS = 150_000  # limit for one process


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--runs", type=int, default=100_000, help="runs of each fuzzer")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes that compile, and that share the runs of a fuzzer",
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(ALL)
    if unknown:
        parser.error(f"there is no fuzzer {', '.join(sorted(unknown))}")
    clang = os.environ.get("FUZZ_CXX") or shutil.which("clang++")
    if not clang:
        print(
            "fuzzing needs clang: install it (Debian: apt-get install clang) or set "
            "FUZZ_CXX",
            file=sys.stderr,
        )
        return 1
    names = options.names or ALL
    for sources in (FUZZERS, GRAPH_FUZZER):
        wanted = {name: sources[name] for name in names if name in sources}
        if wanted:
            native = NativeBuild([clang], CHECKS, BUILD, sources is GRAPH_FUZZER)
            native.programs(wanted, options.jobs, ["-fsanitize=fuzzer"])
    failed = [name for name in names if not run(name, options.runs, options.jobs)]
    if failed:
        print(f"found by {', '.join(failed)}: see {BUILD}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, runs: int, jobs: int) -> bool:
    """Runs a fuzzer on a copy of its corpus. Returns True if it finds no failure."""
    corpus, logs = BUILD / f"{name}-corpus", BUILD / f"{name}-logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    corpus.mkdir(exist_ok=True)
    given = CORPUS / name
    # Options of the address sanitizer:
    # - Leaks are not detected. oneDNN and its OpenMP library never free some memory,
    #   which would be reported as a leak.
    # - Overflows of containers are not detected. The sanitizer would report false ones,
    #   because TensorFlow is compiled without it and changes containers of our code
    #   without telling the sanitizer their new sizes.
    # - The stacks of allocations are not recorded, and the quarantine is small.
    #   (It keeps freed memory for a while, so that later accesses to it are found.)
    #   With their defaults, the two options would take a third of the time of fuzzers
    #   with short runs.
    checks = "detect_leaks=0:detect_container_overflow=0"
    checks += ":malloc_context_size=0:quarantine_size_mb=16"
    environment = {**os.environ, "ASAN_OPTIONS": checks}
    longest = {"engine": 160, "graph": 20_000}.get(name, 4096)
    # oneDNN never frees the kernels that it generates, which are 17 KB per run of the
    # fuzzer `engine`. The runs are therefore divided among several processes.
    processes = max(jobs, -(-runs // _MOST_RUNS))
    command = [str(BUILD / name), f"-runs={-(-runs // processes)}"]
    command += [f"-jobs={processes}", f"-workers={jobs}", f"-max_len={longest}"]
    command += ["-len_control=0", "-timeout=60", "-rss_limit_mb=8192"]
    command += ["-print_final_stats=1", "-print_funcs=0"]
    # These features would take most of the time of fuzzers with short runs.
    command += ["-entropic=0", "-detect_leaks=0"]
    command += [f"-artifact_prefix={BUILD}/{name}-", str(corpus)]
    if given.is_dir():
        command.append(str(given))
    start = time.monotonic()
    done = subprocess.run(
        command,
        env=environment,
        cwd=logs,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.monotonic() - start
    counts = [
        int(line.split()[-1])
        for log in logs.glob("*.log")
        for line in log.read_text(errors="replace").splitlines()
        if line.startswith("stat::number_of_executed_units")
    ]
    outcome = "no finding" if done.returncode == 0 else f"a finding, see {logs}"
    print(f"{name}: {sum(counts)} executions in {seconds:.0f} s, {outcome}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
