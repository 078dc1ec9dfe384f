"""The directories of the cases, the processes that work there, and their leftovers."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos import children

_MEASUREMENT = ("--warmup_runs=0", "--runs=1", "--sample_count=1", "--max_groups=2")


@dataclasses.dataclass(frozen=True)
class Workplace:
    """A model, and the directories that processes work in.

    Attributes:
      model: the directory of a SavedModel.
      directory: contains everything that is written; `cache` does not always exist.
    """

    model: str
    directory: Path

    def make(self) -> None:
        """Makes the directories that always exist."""
        for made in (self.outputs, self.temporary):
            made.mkdir()

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    @property
    def outputs(self) -> Path:
        return self.directory / "outputs"

    @property
    def output(self) -> Path:
        """The output of all conversions. Each conversion replaces the previous
        output."""
        return self.outputs / "model"

    @property
    def temporary(self) -> Path:
        return self.directory / "tmp"

    def convert(self, before: Callable[[], None] | None = None) -> subprocess.Popen:
        """Starts a conversion. Its process calls `before` first."""
        words = ["convert", self.model, str(self.output)]
        words += ["--overwrite", "--keep_slower", *_MEASUREMENT]
        return self._start(["-m", "ios_tf", *words, self._cache_flag], before)

    def tune(self) -> subprocess.Popen:
        """Starts a search of the pending blocks that servers have stored."""
        words = ["tune", self._cache_flag, *_MEASUREMENT]
        return self._start(["-m", "ios_tf", *words])

    def serve(self, on_miss: str, rounds: int = 0) -> subprocess.Popen:
        """Calls the model under `ios_tf.enable`; `rounds` of 0 means until killed."""
        arguments = [self.model, str(self.cache), on_miss, str(rounds)]
        return self._start(["-c", children.SERVER, *arguments])

    @property
    def _cache_flag(self) -> str:
        return f"--cache_dir={self.cache}"

    def _start(
        self, words: Sequence[str], before: Callable[[], None] | None = None
    ) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=before,
        )

    def broken_files(self) -> int:
        """The number of incomplete files in the cache."""
        from ios_tf.tuning import cache_admin

        if not self.cache.exists():
            return 0
        return sum(
            entry.problem is not None and entry.kind != "temporary"
            for entry in cache_admin.entries(str(self.cache))
        )

    def leftovers(self) -> dict[str, int]:
        """The number of files that should have been removed, by place."""
        cached = self.cache.rglob("*.tmp") if self.cache.exists() else ()
        return {
            "outputs": sum(p != self.output for p in self.outputs.iterdir()),
            "temporary": sum(1 for _ in self.temporary.iterdir()),
            "cache": sum(1 for _ in cached),
        }

    def more_leftovers(self, before: dict[str, int]) -> int:
        """The largest increase over `before` in any place."""
        return max(count - before[place] for place, count in self.leftovers().items())

    def known_latencies(self) -> int:
        """The number of latencies in the database."""
        path = self.cache / "latencies.txt"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def content(self) -> bytes:
        """A hash of all names and files of the output; empty if there is none."""
        if not self.output.exists():
            return b""
        content = hashlib.sha256()
        for path in sorted(p for p in self.output.rglob("*") if p.is_file()):
            data = path.read_bytes()
            content.update(f"{path.relative_to(self.output)} {len(data)} ".encode())
            content.update(data)
        return content.digest()
