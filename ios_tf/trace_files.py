"""Writes traces of the engine for Perfetto and chrome://tracing."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ios_tf.errors import UserError
from ios_tf.files import check_writable, write_bytes
from ios_tf.native import tracing
from ios_tf.native.names import common_scope
from ios_tf.validation import whole

_logger = logging.getLogger("ios_tf")
# Times in microseconds have a resolution of whole nanoseconds.
_DIGITS = 3


@contextlib.contextmanager
def trace(
    path: str | os.PathLike[str], *, max_operators: int = tracing.MAX_OPERATORS
) -> Iterator[None]:
    """Records each operator that the engine runs inside of the block, in all threads.

    The file opens in https://ui.perfetto.dev and chrome://tracing. It is also written
    if the block raises an exception. A forked child is not recorded.

    Args:
      path: the JSON file to write.
      max_operators: the largest number of recorded runs of operators. When the trace
        is full, the oldest calls are dropped, and a warning says how many.

    Raises:
      UserError: the file cannot be written, or a trace is being recorded already.
      NativeLibraryError: the engine's library is missing.

    Examples:
      >>> faster = ios_tf.optimize(model)
      >>> with ios_tf.trace("trace.json"):
      ...     scores = faster(images)
      >>> "traceEvents" in json.load(open("trace.json"))
      True
    """
    max_operators = whole("max_operators", max_operators)
    check_writable(path)
    recording = tracing.Recording()
    try:
        with tracing.record(max_operators) as recording:
            yield
    except BaseException:
        if recording.trace is not None:
            try:
                write(path, recording.trace)
            except UserError as error:  # the block's own exception matters more
                _logger.warning("%s", error)
        raise
    if recording.trace is not None:
        write(path, recording.trace)
        for note in notes(recording.trace):
            _logger.warning("%s: %s", os.fspath(path), note)


def notes(recorded: tracing.Trace) -> Iterator[str]:
    """Sentences that say which work is missing in a trace."""
    if not recorded.calls and not recorded.dropped_calls:
        yield (
            "the engine ran nothing on the CPU while the trace was recorded. A trace "
            "contains only regions of converted models that run on the CPU"
        )
    if recorded.dropped_calls:
        yield (
            f"the trace was full, so the oldest {recorded.dropped_calls} calls with "
            f"{recorded.dropped_operators} operators were dropped. Record for a "
            "shorter time, or raise max_operators"
        )


def write(path: str | os.PathLike[str], recorded: tracing.Trace) -> None:
    """Writes a trace in Chrome's JSON format.

    Raises:
      UserError: the file cannot be written.
    """
    # One event per line; see the documents at ui.perfetto.dev for the format.
    events = ",\n".join(json.dumps(event) for event in events_of(recorded))
    facts = {
        "duration_us": recorded.duration_us,
        "calls": len(recorded.calls),
        "operators": len(recorded),
        "dropped_calls": recorded.dropped_calls,
        "dropped_operators": recorded.dropped_operators,
    }
    text = (
        f'{{"displayTimeUnit": "ms",\n"otherData": {json.dumps(facts)},\n'
        f'"traceEvents": [\n{events}\n]}}\n'
    )
    write_bytes(path, text.encode())


def events_of(recorded: tracing.Trace) -> Iterator[dict[str, Any]]:
    """The events of a trace in Chrome's JSON format.

    Each caller has a track for its calls, and a track for each of its lanes. As in the
    output of `ios_tf show`, numbers count from 1, and names lack the scope that all
    operators of the region share.
    """
    process = os.getpid()
    # Maps (caller, track) to the track's name. Track 0 shows the caller's calls, and
    # track n shows lane n.
    names: dict[tuple[int, int], str] = {}
    operators: dict[str, set[str]] = defaultdict(set)  # by region
    for call in recorded.calls:
        names[call.caller, 0] = f"caller {call.caller + 1}: calls"
    for piece in recorded.slices():
        call = recorded.calls[piece.call]
        caller = call.caller
        operators[call.region].add(piece.operator)
        names[caller, piece.lane + 1] = f"caller {caller + 1}: lane {piece.lane + 1}"
    skipped = {key: len(common_scope(found)) for key, found in operators.items()}
    tracks = {key: number for number, key in enumerate(sorted(names), 1)}

    def event(
        kind: str, name: str, arguments: dict[str, Any], track: int = 0, **more: Any
    ) -> dict[str, Any]:
        return {
            "ph": kind,
            "pid": process,
            "tid": track,
            "name": name,
            **more,
            "args": arguments,
        }

    yield event("M", "process_name", {"name": "IOS engine"})
    for key, track in tracks.items():
        yield event("M", "thread_name", {"name": names[key]}, track)
        yield event("M", "thread_sort_index", {"sort_index": track}, track)
    for number, call in enumerate(recorded.calls, 1):
        yield event(
            "X",
            call.region or "region",
            {
                "call": number,
                "batch_size": call.batch_size,
                "scheduled_for_callers": call.callers,
                "waited_us": call.waited_us,
                "thread": call.thread,
            },
            tracks[call.caller, 0],
            cat="call",
            ts=call.begin_us,
            dur=round(call.end_us - call.begin_us, _DIGITS),
        )
    for piece in recorded.slices():
        call = recorded.calls[piece.call]
        yield event(
            "X",
            piece.operator[skipped[call.region] :],
            _arguments(piece),
            tracks[call.caller, piece.lane + 1],
            cat="operator",
            ts=piece.begin_us,
            dur=round(piece.end_us - piece.begin_us, _DIGITS),
        )


def _arguments(piece: tracing.Slice) -> dict[str, Any]:
    return {
        "node": piece.operator,
        "call": piece.call + 1,
        "stage": piece.stage + 1,
        "group": piece.group + 1,
        "micro_batch": piece.micro_batch + 1,
        "type": piece.type,
        "algorithm": piece.algorithm,
        "precision": piece.precision,
        "shape": list(piece.shape),
        "bytes": piece.bytes,
        "operations": piece.operations,
        "thread": piece.thread,
    }
