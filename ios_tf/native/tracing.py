"""Records what the engine does: each operator on its lane."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ios_tf.errors import NativeLibraryError, UserError
from ios_tf.native import engine

# The number of runs of operators that a trace keeps by default. The file of such a
# trace has about 60 MB.
MAX_OPERATORS = 200_000


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """One run of one operator. Times are microseconds since the trace began.

    Attributes:
      operator: the name of the operator, which is also the name of its TensorFlow node.
      lane: index of the lane that ran the operator. A call has its own lanes.
      call: index of the call in `Trace.calls`.
      stage, group: indices in the schedule's stages and in the stage's groups.
      micro_batch: index of the part of the batch, for stages that split the batch.
      algorithm: "direct", "winograd_4x4" and so on.
      bytes: what the operator reads and writes, with its weights.
      operations: multiplications, additions and comparisons.
      thread: the system's number of the lane's thread.
    """

    operator: str
    lane: int
    begin_us: float
    end_us: float
    call: int
    stage: int
    group: int
    micro_batch: int
    type: str
    algorithm: str
    precision: str
    shape: tuple[int, ...]
    bytes: int
    operations: int
    thread: int


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call of a region. Times are microseconds since the trace began.

    Attributes:
      region: the name of the region's node.
      callers: the number of callers that its schedule is made for.
      caller: the lowest number that no other running call had when the call began.
      waited_us: how long the call waited for cores before `begin_us`.
      thread: the system's number of the caller's thread.
    """

    region: str
    batch_size: int
    callers: int
    caller: int
    begin_us: float
    end_us: float
    waited_us: float
    thread: int


class Trace:
    """The work of the engine while a trace was recorded.

    Attributes:
      calls: the calls of regions, in the order in which they ended.
      duration_us: how long the trace was recorded.
      dropped_calls, dropped_operators: numbers of calls, and of runs of operators, that
        were dropped because the trace was full.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.duration_us: float = document["duration"] / 1e3
        self.dropped_calls: int = document["dropped_calls"]
        self.dropped_operators: int = document["dropped_tasks"]
        self.calls: Sequence[Call] = [self._call(c) for c in document["calls"]]

    def _call(self, call: Mapping[str, Any]) -> Call:
        schedule = self._document["schedules"][call["schedule"]]
        return Call(
            schedule["region"],
            schedule["batch_size"],
            schedule["callers"],
            call["caller"],
            call["begin"] / 1e3,
            call["end"] / 1e3,
            (call["begin"] - call["asked"]) / 1e3,
            call["thread"],
        )

    def __len__(self) -> int:
        """The number of runs of operators."""
        return sum(len(call["slices"]) for call in self._document["calls"])

    def slices(self) -> Iterator[Slice]:
        """The runs of operators, call by call in the order of the schedule."""
        for number, call in enumerate(self._document["calls"]):
            tasks = self._document["schedules"][call["schedule"]]["tasks"]
            for index, lane, thread, begin, end in call["slices"]:
                task = tasks[index]
                yield Slice(
                    operator=task["name"],
                    lane=lane,
                    begin_us=begin / 1e3,
                    end_us=end / 1e3,
                    call=number,
                    stage=task["stage"],
                    group=task["group"],
                    micro_batch=task["micro_batch"],
                    type=task["type"],
                    algorithm=task["algorithm"],
                    precision=task["dtype"],
                    shape=tuple(task["shape"]),
                    bytes=task["bytes"],
                    operations=task["operations"],
                    thread=thread,
                )


class AlreadyRecordingError(UserError):
    """Another trace is being recorded."""


class Recording:
    """The result of `record`.

    Attributes:
      trace: None until the block has ended, and in a forked child.
    """

    trace: Trace | None = None


@contextlib.contextmanager
def record(max_operators: int = MAX_OPERATORS) -> Iterator[Recording]:
    """Records the calls of regions that begin inside of the block, in all threads.

    At the end, the block waits for calls that have begun. A forked child is not
    recorded.

    Args:
      max_operators: how many runs of operators to keep. When the trace is full, the
        oldest calls are dropped. The latest call is always kept.

    Raises:
      AlreadyRecordingError: a trace is being recorded already.
      NativeLibraryError: the engine's library is missing.
    """
    try:
        engine.load()
    except engine.EngineError as error:
        raise NativeLibraryError(str(error)) from None
    process = os.getpid()
    recording = Recording()
    try:
        engine.start_trace(max_operators)
    except engine.EngineError as error:
        raise AlreadyRecordingError(f"{error}. End this trace first") from None
    try:
        yield recording
    finally:
        if os.getpid() == process:
            recording.trace = Trace(json.loads(engine.stop_trace()))
