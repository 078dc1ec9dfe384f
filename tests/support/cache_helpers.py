"""Fills schedule caches for tests."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

import ios_tf
from ios_tf.native import engine, grappler, plugin
from ios_tf.scheduler import Problem
from ios_tf.tuning.cache import pending_directory

DEVICE = plugin.device_fingerprint("cpu")
# Options of `tune` that make it quick.
FAST = {
    "warmup_runs": 0,
    "runs": 1,
    "sample_count": 1,
    "max_groups": 2,
    "max_group_size": 2,
}


@contextlib.contextmanager
def undoing_enable() -> Iterator[None]:
    """Disables on exit whatever was enabled within the block."""
    with grappler.options(use_plugin_optimizers=True):
        try:
            yield
        finally:
            ios_tf.disable()


def add_pending(cache: str, found: Problem, device: str = DEVICE) -> str:
    """Writes a pending block to the cache, as the optimizer does; returns its path."""
    directory = pending_directory(cache, device)
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{found.signature}.json")
    with open(path, "w") as file:
        json.dump(engine.problem(found.block), file)
    return path
