"""Reads files in Chrome's trace format as its specification says, without ios_tf."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Event:
    """A complete event, with the name of its track."""

    name: str
    category: str
    track: str
    begin: float
    end: float
    arguments: dict[str, Any]


def read(path: str | Path) -> list[Event]:
    """The complete events of a file. Every track must have a name."""
    document = json.loads(Path(path).read_text())
    events = document["traceEvents"]
    tracks = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    processes = {
        e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"
    }
    found = []
    for e in events:
        assert e["ph"] in "MX", e
        assert e["pid"] in processes
        if e["ph"] == "X":
            assert e["dur"] >= 0 and e["ts"] >= 0
            begin, end = e["ts"], e["ts"] + e["dur"]
            track = tracks[e["pid"], e["tid"]]
            found.append(Event(e["name"], e["cat"], track, begin, end, e["args"]))
    return found


def facts(path: str | Path) -> dict[str, Any]:
    """The metadata of the file."""
    return json.loads(Path(path).read_text())["otherData"]


def assert_no_overlap(events: list[Event]) -> None:
    """Asserts that no two events of a track overlap (by more than rounding)."""
    tracks = defaultdict(list)
    for event in events:
        tracks[event.track].append(event)
    for of_track in tracks.values():
        of_track.sort(key=lambda event: event.begin)
        for before, after in itertools.pairwise(of_track):
            assert after.begin >= before.end - 1e-3, (before, after)
