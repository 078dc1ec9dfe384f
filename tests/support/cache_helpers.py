"""Fills schedule caches for tests, and runs the command line on them."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator

import ios_tf
from ios_tf.cli import main
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


def run(capfd, *arguments: str) -> tuple[int, str, str]:
    """Runs a command; returns its exit code, standard output and standard error.

    Lines that show the progress are removed.
    """
    capfd.readouterr()
    try:
        code = main.main(arguments)
    except SystemExit as exit:
        code = exit.code
    captured = capfd.readouterr()
    error = re.sub(r"^ios_tf: \d+:\d\d .*\n", "", captured.err, flags=re.M)
    return code, captured.out, error
