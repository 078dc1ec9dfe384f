"""`ios_tf doctor`: examines the installation and this machine."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

from ios_tf.doctor.finding import ERROR, STATUSES, WARNING, Finding
from ios_tf.doctor.gpu import gpu_findings
from ios_tf.doctor.settings import environment_findings
from ios_tf.doctor.system import processor_findings, version_findings, version_lines

__all__ = [
    "ERROR",
    "STATUSES",
    "WARNING",
    "Finding",
    "examine",
    "version_lines",
]


def examine(cache_dir: str | None = None, traceback: bool = False) -> Iterator[Finding]:
    """Yields findings as they are made. Those that need TensorFlow come last.

    Args:
      cache_dir: the schedule cache to look at; by default the usual one.
      traceback: whether an exception of the self-test is raised instead of reported.
    """
    yield from version_findings()
    yield from processor_findings()
    yield from gpu_findings()
    yield from environment_findings()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        importlib.import_module("tensorflow")
    except Exception as error:  # broken installations fail in all kinds of ways
        advice = "pip install --force-reinstall tensorflow"
        yield Finding("plugin", "import tensorflow", str(error), ERROR, advice)
        return
    # These modules import TensorFlow.
    from ios_tf.doctor.cache import cache_findings
    from ios_tf.doctor.self_test import plugin_findings, self_test

    plugin_works = True
    for finding in plugin_findings():
        plugin_works &= finding.status != ERROR
        yield finding
    yield from cache_findings(cache_dir)
    if plugin_works:
        yield from self_test(traceback)
