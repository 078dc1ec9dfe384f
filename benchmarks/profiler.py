"""Compares a trace with TensorFlow's profiler: both observe the same calls.

For each operator, the engine reads the profiler's clock, then the trace's clock, and at
the end both again in the opposite order. So the profiler's event encloses the trace's
slice, and the difference is the time that these
readings take.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.tracing import UNMEASURED, function_of, waiting
from ios_tf.cli.arguments import add_options, add_whole
from ios_tf.errors import UserError
from ios_tf.native import tracing
from ios_tf.options import BenchOptions

# The arguments by which the engine's operators are known among a profile's events.
_ARGUMENTS = {"stage", "group", "lane", "bytes"}


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """An event of a profile. Times are nanoseconds of the profiler's clock.

    Attributes:
      thread: the name of its thread, and the profiler's number of the thread.
      arguments: the arguments that are whole numbers.
    """

    name: str
    thread: tuple[str, int]
    begin_ns: int
    end_ns: int
    arguments: Mapping[str, int]

    @property
    def is_operator(self) -> bool:
        """Whether the event is an operator of the engine."""
        return self.arguments.keys() >= _ARGUMENTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("model", metavar="CONVERTED", help="a converted SavedModel")
    add_options(parser, BenchOptions, "batch_size", "inputs")
    add_whole(parser, "calls", 1, "observed calls; default: 100", 100)


def run(options: argparse.Namespace) -> int:
    """Prints the sums of both, and the operators that differ most.

    Raises:
      UserError: the model does not run on the engine, or cannot be called.
    """
    call = waiting(*function_of(options))
    for _ in range(UNMEASURED):
        call()
    recorded, events = observe(call, options.calls)
    traced = _sums(
        (piece.operator, piece.end_us - piece.begin_us) for piece in recorded.slices()
    )
    if not traced:
        raise UserError(
            f"no part of {options.model} runs on the engine. Convert the model with "
            "ios_tf convert"
        )
    profiled = _sums(
        (event.name, (event.end_ns - event.begin_ns) / 1e3)
        for event in events
        if event.is_operator
    )
    whole = sum(traced.values())
    print(f"{len(recorded)} runs of {len(traced)} operators in {options.calls} calls")
    print(f"sum in the trace      {whole / 1e3:.3f} ms")
    more = sum(profiled.values()) - whole
    print(
        f"sum in the profiler   {(more + whole) / 1e3:.3f} ms ({more / whole:+.2%}, "
        f"{1e3 * more / len(recorded):.0f} ns per run)"
    )
    for name, slowest in (("all operators", 0.0), ("those above 1 % of the sum", 0.01)):
        ratios = {
            key: profiled[key] / us - 1
            for key, us in traced.items()
            if us >= slowest * whole
        }
        worst = max(ratios, key=ratios.__getitem__)
        us = traced[worst] / options.calls
        print(
            f"largest difference of an operator, {name}: {ratios[worst]:+.2%} "
            f"({worst}, {us:.1f} us)"
        )
    return 0


def observe(call: Callable[[], None], calls: int) -> tuple[tracing.Trace, list[Event]]:
    """Calls a function in a trace and in TensorFlow's profiler at the same time."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        with tf.profiler.experimental.Profile(directory), tracing.record() as recording:
            for _ in range(calls):
                call()
        events = read(directory)
    assert recording.trace is not None
    return recording.trace, events


def read(directory: str | Path) -> list[Event]:
    """The events of the CPU's threads in a profile."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    found = []
    for path in Path(directory).rglob("*.xplane.pb"):
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
        for plane in space.planes:
            if plane.name == "/host:CPU":
                found += [_event(plane, x, y) for x in plane.lines for y in x.events]
    return found


def _event(plane: Any, line: Any, event: Any) -> Event:
    begin = line.timestamp_ns + event.offset_ps // 1000
    return Event(
        plane.event_metadata[event.metadata_id].name,
        (line.name, line.id),
        begin,
        begin + event.duration_ps // 1000,
        {
            plane.stat_metadata[stat.metadata_id].name: stat.int64_value
            for stat in event.stats
        },
    )


def _sums(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for name, value in pairs:
        sums[name] += value
    return sums
