"""The cases: faults in processes, disks and caches, and checks for their effects."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos import children
from chaos.workplace import Workplace

_HAMMER = Path(__file__).resolve().parents[1] / "support" / "hammer.py"
# In seconds. A process that takes longer counts as hanging, because no step takes this
# long.
_PATIENCE = 1200
# The largest growth of memory in MiB that is not a leak. The memory that allocators
# keep differs by a few MiB between runs.
_MOST_GROWTH = 8.0
_USER_DATA = b"years of work"
# Sizes of disks in KiB. They have room for nothing, a part, or nearly all of a small
# conversion.
_DISKS = (16, 64, 256, 1024)
# linux/prctl.h and linux/capability.h: without these, permissions apply to root too.
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


@dataclasses.dataclass
class Outcome:
    """The outcome of one kind of cases.

    Attributes:
      leftovers: the largest number of files or directories that a case left in one
        place: beside the output, in the temporary directory, or in the cache.
      lost: measurements that were known before a case but not after it.
      growth: memory in MiB. For loads: growth in the second half, beyond TensorFlow's
        own growth. For calls: growth after a tenth of the calls.
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
        return broken == 0 and self.leftovers <= 1 and self.growth <= _MOST_GROWTH

    def count_leftovers(self, of_one_case: int) -> None:
        self.leftovers = max(self.leftovers, of_one_case)


class Chaos:
    """The cases for one model, with all files in one directory."""

    def __init__(self, model: str, directory: Path, seed: int) -> None:
        """`model`: the directory of a SavedModel."""
        self._random = random.Random(seed)
        self._place = Workplace(model, directory)
        self._place.make()
        self._checked: bytes | None = None  # hash of the last output that was correct
        self._victim = directory / "victim"  # the target of links; must not change
        self._victim.write_bytes(_USER_DATA)

    def convert(self) -> float:
        """Converts the model; gives the seconds that the conversion took."""
        start = time.monotonic()
        code = self._place.convert().wait(_PATIENCE)
        if code:
            model = self._place.model
            raise RuntimeError(f"{model} cannot be converted: exit code {code}")
        return time.monotonic() - start

    def kill_convert(self, kills: int, seconds: float) -> Outcome:
        """Kills conversions; after each, the output is whole or missing."""
        outcome = Outcome("convert, killed", kills)
        for kill in range(kills):
            if kill % 2:  # makes the conversion measure again
                shutil.rmtree(self._place.cache, ignore_errors=True)
            self._kill(outcome, self._place.convert(), seconds)
            outcome.wrong += self._is_wrong()
        self._finish(outcome, self._place.convert())
        return outcome

    def kill_tune(self, kills: int, seconds: float) -> Outcome:
        """Kills `ios_tf tune` while it searches the blocks that a server has stored."""
        outcome = Outcome("tune, killed", kills)
        shutil.rmtree(self._place.cache, ignore_errors=True)
        server = self._place.serve("skip")
        patience = time.monotonic() + _PATIENCE
        while not any(self._place.cache.glob("pending/*/*.json")):
            if server.poll() is not None or time.monotonic() > patience:
                raise RuntimeError(f"{self._place.model} has nothing for ios_tf tune")
            time.sleep(0.1)
        server.kill()
        server.wait()
        met = Path(f"{self._place.cache}.met")
        shutil.copytree(self._place.cache, met)
        for kill in range(kills):
            if kill % 2:
                shutil.rmtree(self._place.cache)
            shutil.copytree(met, self._place.cache, dirs_exist_ok=True)
            self._kill(outcome, self._place.tune(), seconds)
            outcome.wrong += self._place.broken_files()
        self._finish(outcome, self._place.tune())
        return outcome

    def kill_server(self, kills: int, seconds: float) -> Outcome:
        """Kills servers with `ios_tf.enable`. They search blocks without a schedule, or
        store these blocks in the cache."""
        outcome = Outcome("serve, killed", kills)
        for kill in range(kills):
            if kill % 4 == 0:
                shutil.rmtree(self._place.cache, ignore_errors=True)
            server = self._place.serve(("search", "skip")[kill % 2])
            self._kill(outcome, server, seconds)
            outcome.wrong += self._place.broken_files()
        if self._place.cache.exists():  # false if every server was killed too early
            self._finish(outcome, self._place.tune())
        return outcome

    def take_permissions(self) -> Outcome:
        """Converts while a directory cannot be read or cannot be written."""
        outcome = Outcome("convert, permissions")
        place = self._place
        for directory in (place.cache, place.outputs, place.temporary):
            for mode in (0o500, 0o000):
                whole, before = place.content(), place.leftovers()
                directory.chmod(mode)
                code = self._wait(outcome, place.convert(before=_obey_permissions))
                directory.chmod(0o700)
                outcome.cases += 1
                outcome.crashes += code not in (0, 1)
                if code:
                    outcome.wrong += place.content() != whole
                else:
                    outcome.wrong += self._is_wrong()
                outcome.count_leftovers(place.more_leftovers(before))
        return outcome

    def fill_disk(self) -> Outcome:
        """Converts on a small disk, or with a limit on the size of files if no disk
        can be mounted."""
        outcome = Outcome("convert, disk full")
        whole = self._place.content()
        for size in _DISKS:
            with self._small_disk(size) as mounted:
                if not mounted:
                    outcome.what = "convert, files limited (no disk may be mounted)"
                limit = None if mounted else functools.partial(_limit_files, size << 10)
                expected = b"" if mounted else whole
                place = self._place  # the directories are now on the small disk
                before = place.leftovers()
                code = self._wait(outcome, place.convert(before=limit))
                outcome.cases += 1
                outcome.crashes += code not in (0, 1)
                if code:
                    outcome.wrong += place.content() != expected
                else:
                    outcome.wrong += self._is_wrong()
                outcome.count_leftovers(place.more_leftovers(before))
        return outcome

    @contextlib.contextmanager
    def _small_disk(self, kibibytes: int) -> Iterator[bool]:
        """Moves all directories to a disk of this size; yields False if this fails."""
        disk = self._place.directory / "disk"
        disk.mkdir(exist_ok=True)
        options = f"size={kibibytes}k"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        try:
            mounted = subprocess.run(mount, capture_output=True).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            yield False
            return
        outside = self._place
        self._place = Workplace(outside.model, disk)
        try:
            self._place.make()
            yield True
        finally:
            self._place = outside
            subprocess.run(["umount", str(disk)], check=True)

    def spoil_cache(self) -> Outcome:
        """Corrupts every file of the cache in turn; converts and serves each time."""
        outcome = Outcome("cache, file spoilt")
        for path in sorted(p for p in self._place.cache.rglob("*") if p.is_file()):
            good = path.read_bytes()
            for bad in self._spoilt(good):
                path.write_bytes(bad)
                self._use_cache(outcome)
            for make in (os.mkdir, os.mkfifo, self._link):
                path.unlink()
                make(path)
                self._use_cache(outcome)
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                else:
                    path.unlink(missing_ok=True)
                path.write_bytes(good)
        outcome.wrong += self._victim.read_bytes() != _USER_DATA
        return outcome

    def _link(self, path: Path) -> None:
        """Makes a link to a file that must not change."""
        path.symlink_to(self._victim)

    def _use_cache(self, outcome: Outcome) -> None:
        """Converts and serves; checks that the model computes the original's result."""
        outcome.cases += 1
        outcome.crashes += self._wait(outcome, self._place.convert()) != 0
        outcome.wrong += self._is_wrong()
        outcome.crashes += self._wait(outcome, self._place.serve("skip", rounds=1)) != 0

    def _is_wrong(self) -> bool:
        """True if there is an output that differs from what the model computes."""
        content = self._place.content()
        if content in (b"", self._checked):
            return False
        command = [sys.executable, "-c", children.COMPARER]
        command += [self._place.model, str(self._place.output)]
        if subprocess.run(command, capture_output=True).returncode:
            return True
        self._checked = content
        return False

    def fork(self, forks: int) -> Outcome:
        """Forks while threads run the engine, alone and with TensorFlow loaded."""
        outcome = Outcome("forks", 2 * forks)
        for loaded in ("alone", "tensorflow"):
            self._run(outcome, ["-c", children.FORKS, str(forks), loaded])
        return outcome

    def hammer(self, threads: int, runs: int) -> Outcome:
        """Calls the model from many threads with changing batch sizes."""
        arguments = json.dumps(
            [str(self._place.output), list(range(1, 11)), threads, runs]
        )
        outcome = Outcome(f"{threads} threads", runs)
        done = self._run(outcome, [str(_HAMMER), arguments])
        if done:
            found = json.loads(done[-1])
            outcome.wrong = found["differing"]
            outcome.growth = max(0.0, found["peak"] - found["settled"])
        return outcome

    def load(self, loads: int) -> Outcome:
        """Loads, calls and unloads the model, with and without the plugin."""
        outcome = Outcome("load and unload", loads)
        growth = {}
        for variant in ("plugin", "tensorflow"):
            arguments = [str(self._place.output), str(loads), variant]
            seen = self._run(outcome, ["-c", children.LOADER, *arguments])
            if not seen:
                return outcome
            growth[variant] = float(seen[-1]) - float(seen[len(seen) // 2])
        outcome.growth = max(0.0, growth["plugin"] - growth["tensorflow"])
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

    def _kill(
        self, outcome: Outcome, process: subprocess.Popen, seconds: float
    ) -> None:
        """Kills a process within `seconds`, and counts its crashes and leftovers."""
        known, before = self._place.known_latencies(), self._place.leftovers()
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(self._random.uniform(0, seconds))
            outcome.crashes += code != 0
        process.kill()
        process.wait()
        outcome.lost += max(0, known - self._place.known_latencies())
        outcome.count_leftovers(self._place.more_leftovers(before))

    def _finish(self, outcome: Outcome, process: subprocess.Popen) -> None:
        """Checks that the process after the last kill completes its work."""
        outcome.crashes += self._wait(outcome, process) != 0
        outcome.wrong += self._place.broken_files()

    def _wait(self, outcome: Outcome, process: subprocess.Popen) -> int:
        """Waits for the exit code; counts a process that hangs, and gives 0 for it."""
        try:
            return process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            outcome.hangs += 1
            return 0

    def _spoilt(self, good: bytes) -> Iterator[bytes]:
        yield b""
        yield good[: self._random.randrange(len(good))]
        yield self._random.randbytes(len(good))
        flipped = bytearray(good)
        flipped[self._random.randrange(len(good))] ^= 1 << self._random.randrange(8)
        yield bytes(flipped)
        yield b"[" * 200_000


def _limit_files(size: int) -> None:
    """Limits the size of files that this process writes to `size` bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _obey_permissions() -> None:
    """Makes permissions apply to the next program even if it runs as root."""
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
