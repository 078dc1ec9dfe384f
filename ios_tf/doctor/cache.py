"""Findings about the schedule cache."""

from __future__ import annotations

import collections
import os
import tempfile
from collections.abc import Iterator

import tensorflow as tf

from ios_tf.doctor.finding import NOTE, OK, WARNING, Finding
from ios_tf.errors import NativeLibraryError, UserError
from ios_tf.native import plugin
from ios_tf.native.names import PENDING
from ios_tf.tables import counted
from ios_tf.tuning import cache_admin
from ios_tf.tuning.cache import directory_of, latency_database

_TOPIC = "cache"
_ELSEWHERE = "name a directory that you may write: --cache_dir=DIR or IOS_TF_CACHE=DIR"


def cache_findings(cache_dir: str | None = None) -> Iterator[Finding]:
    """Where schedules are kept, whether they can be written, and for which devices."""
    try:
        directory = directory_of(cache_dir)
    except UserError as error:
        yield Finding(_TOPIC, "directory", "unusable", WARNING, str(error))
        return
    yield _directory(directory)
    if not tf.io.gfile.isdir(directory):
        return
    try:
        entries = cache_admin.entries(directory)
    except NativeLibraryError:  # another finding reports it
        advice = "fix the native library first (see the findings about the plugin)"
        yield Finding(_TOPIC, "entries", "not read", NOTE, advice)
        return
    except UserError as error:
        advice = f"{error}. To fix this, {_ELSEWHERE}"
        yield Finding(_TOPIC, "entries", "unreadable", WARNING, advice)
        return
    yield from _entries(entries)
    yield from _latencies(latency_database(directory))


def _directory(directory: str) -> Finding:
    if "://" in directory:
        return Finding(_TOPIC, "directory", f"{directory} (remote; writing not tried)")
    parent = directory
    while not os.path.lexists(parent) and os.path.dirname(parent) != parent:
        parent = os.path.dirname(parent)
    try:
        with tempfile.TemporaryFile(dir=parent or "."):
            pass
    except OSError as error:
        value = f"{directory} cannot be written: {error.strerror}"
        advice = f"{_ELSEWHERE}. Until then, each conversion measures again"
        return Finding(_TOPIC, "directory", value, WARNING, advice)
    if parent == directory:
        return Finding(_TOPIC, "directory", f"{directory} (writable)")
    advice = "nothing needs to be done: the first conversion creates the directory"
    return Finding(_TOPIC, "directory", f"{directory} does not exist", NOTE, advice)


def _entries(entries: list[cache_admin.Entry]) -> Iterator[Finding]:
    broken = [entry for entry in entries if entry.problem]
    pending = [e for e in entries if e.kind == PENDING and not e.problem]
    devices = collections.Counter(
        entry.device for entry in entries if entry.kind == "schedule"
    )
    yield Finding(_TOPIC, "schedules", f"{sum(devices.values())}{_ages(entries)}")
    if pending:
        advice = "ios_tf tune finds schedules for them"
        yield Finding(_TOPIC, "pending blocks", str(len(pending)), NOTE, advice)
    if broken:
        advice = "ios_tf cache verify lists them, ios_tf cache prune removes them"
        yield Finding(_TOPIC, "ignored entries", str(len(broken)), WARNING, advice)
    here = plugin.device_fingerprint("cpu")
    for device, count in sorted(devices.items()):
        is_here = device == here
        advice = "" if is_here else "ios_tf cache prune --other_devices removes them"
        value = counted(count, "schedule", "schedules") + (
            " (this machine's CPU)" if is_here else ""
        )
        yield Finding(_TOPIC, device, value, OK if is_here else NOTE, advice)


def _ages(entries: list[cache_admin.Entry]) -> str:
    days = [max(0.0, e.age_s) / 86400 for e in entries if e.age_s is not None]
    return f", {min(days):.1f} to {max(days):.1f} days old" if days else ""


def _latencies(path: str) -> Iterator[Finding]:
    try:
        size = os.path.getsize(path)
    except OSError:
        return
    yield Finding(_TOPIC, "latencies", f"{size / (1 << 20):.1f} MiB in {path}")
