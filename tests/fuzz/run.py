"""Builds fuzzers with clang's libFuzzer and its address and undefined behavior
sanitizers, and runs them: python -m tests.fuzz.run [--runs=N] [NAME ...]

They need clang (Debian: apt-get install clang) and the wheels that the build needs.
What a fuzzer finds is written to build/fuzz/NAME-crash-….
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
FUZZERS = ("block", "schedule", "program", "engine")
ENGINE = ("cc/core/*.cc", "cc/engine/*.cc", "cc/engine/cpu/*.cc")
OTHERS = {
    "block": ("json_mutator",),
    "schedule": ("json_mutator",),
    "program": ("json_mutator",),
    "engine": ("random_block", "reference"),
}
CHECKS = [
    "-fsanitize=fuzzer-no-link,address,undefined",
    "-fno-sanitize-recover=all",
]
FLAGS = ["-std=c++17", "-O1", "-g", "-Wall", "-Wno-psabi", "-I.", *CHECKS]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FUZZERS))
    parser.add_argument("--runs", type=int, default=100_000, help="of each fuzzer")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    unknown = set(options.names) - set(FUZZERS)
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
    names = options.names or FUZZERS
    build(clang, names, options.jobs)
    failed = [name for name in names if not run(name, options.runs)]
    if failed:
        print(f"found by {', '.join(failed)}: see {BUILD}", file=sys.stderr)
    return 1 if failed else 0


def build(clang: str, names: tuple[str, ...], jobs: int) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    json_header = _installed("nlohmann-json", "include/nlohmann/json.hpp")
    dnnl_header = _installed("onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.hpp")
    library = _installed("onednn-cpu-gomp", "libdnnl.so.3").resolve()
    include = [
        f"-isystem{json_header.parents[1]}",
        f"-isystem{dnnl_header.parents[2]}",
    ]
    engine = [s for pattern in ENGINE for s in sorted(ROOT.glob(pattern))]
    engine.append(ROOT / "tests/fuzz/no_cuda.cc")
    own = {
        name: [
            ROOT / f"tests/fuzz/{file}.cc" for file in (f"{name}_fuzzer", *OTHERS[name])
        ]
        for name in names
    }
    if "program" in own:
        own["program"].append(ROOT / "cc/tensorflow/program_json.cc")
    sources = dict.fromkeys([*engine, *(s for files in own.values() for s in files)])
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda source: _compile(clang, source, include), sources))
    for name, files in own.items():
        command = [clang, *CHECKS, "-fsanitize=fuzzer", "-o", str(BUILD / name)]
        command += [str(_object(source)) for source in [*files, *engine]]
        command += [str(library), f"-Wl,-rpath,{library.parent}", "-rdynamic"]
        subprocess.run([*command, "-lpthread", "-ldl"], check=True)


def run(name: str, runs: int) -> bool:
    """Runs a fuzzer on a copy of its corpus; gives whether it has found nothing."""
    corpus = BUILD / f"{name}-corpus"
    corpus.mkdir(exist_ok=True)
    given = ROOT / "tests" / "fuzz" / "corpus" / name
    # oneDNN keeps primitives; its OpenMP library is never freed.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    longest = 160 if name == "engine" else 4096
    command = [str(BUILD / name), f"-runs={runs}", f"-max_len={longest}"]
    command += ["-len_control=0", "-timeout=60", "-rss_limit_mb=8192"]
    command += ["-print_final_stats=1", "-print_funcs=0"]
    command += [f"-artifact_prefix={BUILD}/{name}-", str(corpus)]
    if given.is_dir():
        command.append(str(given))
    start = time.monotonic()
    log = BUILD / f"{name}.log"
    with open(log, "w") as file:
        done = subprocess.run(command, env=environment, stderr=file, stdout=file)
    seconds = time.monotonic() - start
    text = log.read_text(errors="replace")
    executed = [line for line in text.splitlines() if "number_of_executed" in line]
    count = executed[-1].split()[-1] if executed else "?"
    outcome = "no finding" if done.returncode == 0 else f"a finding, see {log}"
    print(f"{name}: {count} executions in {seconds:.0f} s, {outcome}", flush=True)
    return done.returncode == 0


def _object(source: Path) -> Path:
    name = source.relative_to(ROOT).as_posix().replace("/", "_")
    return (BUILD / name).with_suffix(".o")


def _compile(clang: str, source: Path, include: list[str]) -> None:
    target = _object(source)
    dependencies = target.with_suffix(".d")
    if target.exists() and dependencies.exists():
        used = dependencies.read_text().replace("\\\n", " ").split()[1:]
        built = target.stat().st_mtime
        paths = [ROOT / name for name in used]
        if all(p.exists() and p.stat().st_mtime <= built for p in paths):
            return
    relative = source.relative_to(ROOT)
    print(f"compiling {relative}", flush=True)
    outputs = ["-MMD", "-MF", str(dependencies), "-o", str(target), "-c", str(relative)]
    done = subprocess.run([clang, *FLAGS, *include, *outputs], cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"compiling {relative} failed")


def _installed(distribution: str, name: str) -> Path:
    for file in importlib.metadata.files(distribution) or []:
        if file.as_posix().endswith(name):
            return Path(file.locate()).resolve()
    raise SystemExit(f"{name} is missing from the wheel {distribution}")


if __name__ == "__main__":
    sys.exit(main())
