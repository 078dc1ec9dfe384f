"""Ctrl-C while `convert` or `optimize` searches: what was measured is kept."""

import json
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import networks
import numpy as np
import pytest
import shared
import tensorflow as tf

import ios_tf
from ios_tf.cost.database import LatencyDatabase


class Interrupter:
    """Presses Ctrl-C when a number of latencies has been stored.

    Attributes:
      stored: the keys of the latencies that have been stored, in order.
      left: the number of latencies until the interrupt; None if there is none.
    """

    def __init__(self, put: Callable) -> None:
        self.stored: list[str] = []
        self.left: int | None = None
        self._put = put

    def put(self, database: LatencyDatabase, stage: str, latency: object) -> None:
        self._put(database, stage, latency)
        self.stored.append(stage)
        if self.left is not None:
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interrupter(monkeypatch, calm_machine):
    # A shell that starts the tests in the background lets them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    found = Interrupter(LatencyDatabase.put)
    monkeypatch.setattr(LatencyDatabase, "put", lambda *values: found.put(*values))
    yield found
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The directory for temporary files."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


def left_in(temporary: Path) -> list[str]:
    """The files in `temporary` that TensorFlow does not remove at the process's end."""
    names = [path.name for path in temporary.iterdir()]
    return [name for name in names if not name.startswith("__autograph_generated_")]


def convert(directory: Path, cache: str) -> Callable:
    ios_tf.convert(shared.branches(), directory / "out", cache_dir=cache, **shared.FAST)
    model = tf.saved_model.load(str(directory / "out"))
    signature = model.signatures["serving_default"]
    return lambda images: next(iter(signature(images).values()))


def optimize(directory: Path, cache: str) -> Callable:
    model = tf.saved_model.load(shared.branches())
    signature = model.signatures["serving_default"]
    faster = ios_tf.optimize(signature, 1, cache_dir=cache, **shared.FAST)
    return lambda images: next(iter(faster(images).values()))


@pytest.mark.parametrize(("work", "latencies"), [(convert, 4), (optimize, 1)])
def test_an_interrupt_keeps_what_was_measured(
    work, latencies, interrupter, temporary, tmp_path
):
    cache = tmp_path / "cache"
    interrupter.left = latencies
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path, str(cache))
    kept = interrupter.stored.copy()
    assert len(kept) == latencies
    # Each line of the file is a latency.
    lines = (cache / "latencies.txt").read_text().splitlines()
    assert len(lines) == latencies
    assert left_in(temporary) == []
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "temporary"}
    others = {path for path in cache.rglob("*") if path.is_file()}
    for path in others - {cache / "latencies.txt"}:
        assert path.suffix == ".json", path
        json.loads(path.read_text())

    interrupter.left = None
    function = work(tmp_path, str(cache))
    assert not {*kept} & {*interrupter.stored[latencies:]}  # not measured again
    assert (cache / "latencies.txt").read_text().splitlines()[:latencies] == lines
    images = networks.smooth_images(1, 17, seed=5)
    original = tf.saved_model.load(shared.branches()).signatures["serving_default"]
    (expected,) = original(images).values()
    assert networks.relative_difference(np.asarray(function(images)), expected) < 1e-4
    assert left_in(temporary) == []
