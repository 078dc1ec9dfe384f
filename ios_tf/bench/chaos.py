"""What befalls a converter and a server: processes are killed at random moments, the
disk is full, files of the cache are spoilt, and threads and loads never end.

    python -m ios_tf.bench.chaos MODEL [--kills=100] [--runs=100000] [--loads=100]

Prints, for each, how many cases there were and what went wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ios_tf.bench.standalone import exit_code
from ios_tf.report import table

_FAST = ("--warmup=0", "--number=1", "--repeat=1", "--max_groups=2", "--keep_slower")
_CASES = ("kill", "disk", "cache", "threads", "loads")
_MEBIBYTE = 1 << 20
# More time than any step takes: what is not done by then hangs.
_PATIENCE = 1200
# A latency is kept when it has been measured: one may be on its way.
_SERVER = """
import resource, sys
import tensorflow as tf
import ios_tf
from ios_tf import graphs
from ios_tf.inputs import example_inputs

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

path, loads = sys.argv[1], int(sys.argv[2])
seen = []
for _ in range(loads):
    loaded = tf.saved_model.load(path)
    function = loaded.signatures[graphs.choose_signature(None, loaded)]
    inputs = example_inputs(function, 1)
    result = {k: v.numpy().tobytes() for k, v in function(**inputs).items()}
    assert not seen or result == first
    first = result
    del loaded, function
    seen.append(resident())
    print(seen[-1], flush=True)
"""


@dataclasses.dataclass
class Outcome:
    """What became of one kind of cases.

    Attributes:
      leftovers: the most files or directories that one case has left in one place:
        beside the output, in the temporary directory, or in the cache.
      lost: measurements that were known before a case, and not after it.
      growth: MiB of memory.
    """

    what: str
    cases: int = 0
    crashes: int = 0
    hangs: int = 0
    wrong: int = 0
    leftovers: int = 0
    lost: int = 0
    growth: float = 0.0

    @property
    def good(self) -> bool:
        broken = self.crashes + self.hangs + self.wrong + self.lost
        return broken == 0 and self.leftovers <= 1


class Chaos:
    """The cases for one model, in a directory of their own."""

    def __init__(self, model: str, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._model = model
        self._cache = directory / "cache"
        self._outputs = directory / "outputs"
        self._temporary = directory / "tmp"
        for made in (self._outputs, self._temporary):
            made.mkdir()
        self._output = self._outputs / "model"

    def convert(self) -> float:
        """Converts the model; gives the seconds that took."""
        start = time.monotonic()
        code = self._start().wait(_PATIENCE)
        if code:
            raise RuntimeError(f"{self._model} cannot be converted: exit code {code}")
        self._files = self._tree(self._output)
        return time.monotonic() - start

    def kill_convert(self, kills: int, seconds: float) -> Outcome:
        """Kills conversions; a whole output or none is there each time."""
        outcome = Outcome("convert, killed", kills)
        for kill in range(kills):
            if kill % 2:  # measures anew; else the cache has all
                shutil.rmtree(self._cache, ignore_errors=True)
            known, before = self._known(), self._leftovers()
            process = self._start()
            time.sleep(self._random.uniform(0, seconds))
            process.send_signal(signal.SIGKILL)
            process.wait()
            outcome.wrong += self._tree(self._output) not in ([], self._files)
            outcome.lost += max(0, known - self._known())
            outcome.leftovers = max(outcome.leftovers, self._more_than(before))
        try:
            self.convert()
        except RuntimeError:
            outcome.crashes += 1
        except subprocess.TimeoutExpired:
            outcome.hangs += 1
        return outcome

    def fill_disk(self) -> Outcome:
        """Converts where no file may grow, at several sizes."""
        outcome = Outcome("convert, disk full")
        whole = self._tree(self._output)
        for size in (0, 100, 10_000, 1_000_000):
            before = self._leftovers()
            process = self._start(limit=size)
            outcome.cases += 1
            try:
                code = process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                outcome.hangs += 1
                continue
            outcome.crashes += code not in (0, 1)
            outcome.wrong += self._tree(self._output) != whole
            outcome.leftovers = max(outcome.leftovers, self._more_than(before))
        return outcome

    def spoil_cache(self) -> Outcome:
        """Spoils every file of the cache in turn, and reads the cache each time."""
        from ios_tf import cache_admin

        outcome = Outcome("cache, file spoilt")
        for entry in cache_admin.entries(str(self._cache)):
            path = Path(entry.path)
            good = path.read_bytes()
            for bad in self._spoilt(good):
                path.write_bytes(bad)
                outcome.cases += 1
                try:
                    found = cache_admin.verify(str(self._cache))
                    # Another number may be as good; but no JSON is no schedule.
                    outcome.wrong += not found and not _is_json(bad)
                except Exception:
                    outcome.crashes += 1
            path.write_bytes(good)
        return outcome

    def hammer(self, threads: int, runs: int) -> Outcome:
        """Calls the model from many threads with changing batch sizes."""
        arguments = json.dumps(
            [str(self._output), list(range(1, 11)), threads, runs, True]
        )
        outcome = Outcome(f"{threads} threads", runs)
        module = "ios_tf.bench.concurrency"
        done = self._run(outcome, ["-m", module, "--child", arguments])
        if done:
            found = json.loads(done[-1])
            outcome.wrong = found["differing"]
            outcome.growth = max(0.0, found["peak"] - found["settled"])
        return outcome

    def load(self, loads: int) -> Outcome:
        """Loads, calls and unloads the model."""
        outcome = Outcome("load and unload", loads)
        seen = self._run(outcome, ["-c", _SERVER, str(self._output), str(loads)])
        if seen:
            settled = max(map(float, seen[: max(1, loads // 10)]))
            outcome.growth = max(0.0, float(seen[-1]) - settled)
        return outcome

    def _run(self, outcome: Outcome, arguments: Sequence[str]) -> list[str]:
        try:
            done = subprocess.run(
                [sys.executable, *arguments],
                capture_output=True,
                text=True,
                timeout=10 * _PATIENCE,
            )
        except subprocess.TimeoutExpired:
            outcome.hangs += 1
            return []
        outcome.crashes += done.returncode != 0
        return done.stdout.splitlines() if done.returncode == 0 else []

    def _start(self, limit: int | None = None) -> subprocess.Popen:
        command = [sys.executable, "-m", "ios_tf.cli", "convert", self._model]
        command += [str(self._output), "--overwrite", f"--cache_dir={self._cache}"]

        def no_file_grows() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.Popen(
            [*command, *_FAST],
            env={**os.environ, "TMPDIR": str(self._temporary)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=no_file_grows if limit is not None else None,
        )

    def _spoilt(self, good: bytes) -> Iterator[bytes]:
        yield b""
        yield good[: self._random.randrange(len(good))]
        yield self._random.randbytes(len(good))
        flipped = bytearray(good)
        flipped[self._random.randrange(len(good))] ^= 1 << self._random.randrange(8)
        yield bytes(flipped)
        yield b"[" * 200_000

    def _leftovers(self) -> dict[str, int]:
        cached = self._cache.rglob("*.tmp") if self._cache.exists() else ()
        return {
            "outputs": sum(p != self._output for p in self._outputs.iterdir()),
            "temporary": sum(1 for _ in self._temporary.iterdir()),
            "cache": sum(1 for _ in cached),
        }

    def _more_than(self, before: dict[str, int]) -> int:
        return max(count - before[place] for place, count in self._leftovers().items())

    def _known(self) -> int:
        """The latencies in the database."""
        path = self._cache / "latencies.sqlite"
        if not path.exists():
            return 0
        try:
            with sqlite3.connect(path) as connection:
                return connection.execute("SELECT COUNT(*) FROM latencies").fetchone()[
                    0
                ]
        except sqlite3.Error:
            return 0

    @staticmethod
    def _tree(directory: Path) -> list[str]:
        if not directory.exists():
            return []
        return sorted(str(p.relative_to(directory)) for p in directory.rglob("*"))


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def main(options: argparse.Namespace) -> int:
    """Runs all cases; gives 1 if one of them went wrong."""
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        chaos = Chaos(options.model, Path(directory), options.seed)
        seconds = chaos.convert()
        cases = {
            "kill": lambda: chaos.kill_convert(options.kills, seconds),
            "disk": chaos.fill_disk,
            "cache": chaos.spoil_cache,
            "threads": lambda: chaos.hammer(options.threads, options.runs),
            "loads": lambda: chaos.load(options.loads),
        }
        outcomes = [cases[name]() for name in options.cases or _CASES]
    fields = [field.name for field in dataclasses.fields(Outcome)]
    header = ["", *fields[1:-1], "growth MiB"]
    rows = [
        [o.what, *(str(getattr(o, name)) for name in fields[1:-1]), f"{o.growth:.1f}"]
        for o in outcomes
    ]
    print(table(header, rows))
    return 0 if all(outcome.good for outcome in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ios_tf.bench.chaos")
    parser.add_argument("model", metavar="MODEL", help="as for ios_tf convert")
    parser.add_argument(
        "--cases", nargs="*", choices=_CASES, help="which of them; default: all"
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--threads", type=int, default=24)
    parser.add_argument("--runs", type=int, default=100_000, help="of all threads")
    parser.add_argument("--loads", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(exit_code(main, _parser().parse_args()))
