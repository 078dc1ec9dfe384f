"""The dispatcher of a fleet: gives each task to one device, and checks the devices.

Devices of one kind still differ: another process may use the machine, or its processor
may be slower. So every device first measures the same reference stages. If the
latencies of a device differ from those of the other devices by more than `TOLERANCE`,
the device gets no tasks until it agrees again. A device repeats the references when it
has no task for `_IDLE_SECONDS`, and at least once per `_CHECK_SECONDS`. If the
references have changed, the device's answers since the last check are withdrawn, and
other devices repeat the measurements. If there is no other device, the search
continues, and these answers are only estimates.

Drivers submit tasks and collect events:

    {"kind": "answer", "key": …, "answer": …}    a device has measured a task
    {"kind": "confirmed", "keys": […]}           the device has passed its next check
    {"kind": "withdrawn", "keys": […]}           the check failed: submit the task again
    {"kind": "estimated", "keys": […]}           the only device failed its check
    {"kind": "devices", "count": N}              the number of devices that get tasks
    {"kind": "notice", "text": …}                a sentence for the user
    {"kind": "failed", "text": …}                no more answers will come, and why

Tasks of equal keys are measured once, for all drivers. The dispatcher uses asyncio, and
must be used in one event loop. It does not depend on Ray.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

Event = dict[str, Any]

TOLERANCE = 0.05
# A device repeats the references after _CHECK_SECONDS, or when it has had no task for
# _IDLE_SECONDS.
_CHECK_SECONDS = 2.0
_IDLE_SECONDS = 0.2
# Before references are first compared, the devices wait for each other at most this
# long.
_PATIENCE_SECONDS = 20.0
# The pauses before a device that disagrees measures the references again.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
# A device is named in a notice at most once in this time.
_NOTICE_SECONDS = 60.0
# A disturbed latency is measured by at most this many devices.
_MAX_TRIES = 3
# A task is given up if this many devices were lost while they measured it.
_MAX_LOST = 3


class DeviceLostError(Exception):
    """A device has ended or cannot be reached."""


class UnsuitableDeviceError(Exception):
    """A device must not be used; the message says why."""


class Device(Protocol):
    """A device that measures one task at a time.

    All methods raise DeviceLostError if the device has ended.
    """

    name: str

    async def references(self) -> Sequence[float]:
        """Measures the reference stages, in ms."""

    async def measure(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Measures a task; see ios_tf/fleet/device.py."""


@dataclasses.dataclass(eq=False)
class _Job:
    """A task that has no answer yet.

    Attributes:
      task: the task.
      drivers: the drivers that submitted the task.
      likely: see `Dispatcher.submit`; empty if the answer is needed.
      tried: names of the devices that have measured the task.
      best: the best answer so far, if all answers were disturbed.
      lost: the number of devices that were lost while they measured the task.
    """

    task: Mapping[str, Any]
    drivers: set[str]
    likely: str
    tried: set[str] = dataclasses.field(default_factory=set)
    best: Mapping[str, Any] | None = None
    lost: int = 0


class Dispatcher:
    """Gives tasks to devices; see the module's docstring.

    Attributes:
      measured: the number of tasks that devices have measured.
    """

    def __init__(self) -> None:
        self.measured = 0
        self._jobs: dict[str, _Job] = {}
        self._waiting: tuple[collections.deque[_Job], ...] = (
            collections.deque(),  # needed
            collections.deque(),  # likely
        )
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._confirmed: set[str] = set()
        self._subscribers: dict[str, set[str]] = {}
        self._events: dict[str, list[Event]] = {}
        self._gone: set[str] = set()  # drivers that have left
        self._changed = asyncio.Condition()
        self._starting: set[str] = set()
        self._references: dict[str, Sequence[float]] = {}
        self._norm: list[float] | None = None
        self._admitted: set[str] = set()
        self._noticed: dict[str, float] = {}  # device -> time of its last notice

    # Drivers call the following methods.

    async def submit(
        self, driver: str, tasks: Iterable[Mapping[str, Any]], likely: str = ""
    ) -> None:
        """Submits tasks.

        Args:
          driver: the driver that asks.
          tasks: the latencies to measure.
          likely: a label for tasks whose answers the driver may not need, or "" if it
            needs them. Tasks with a label come last, and replace the driver's earlier
            tasks with the same label that no device has begun.
        """
        async with self._changed:
            if driver in self._gone:
                return
            self._events.setdefault(driver, [self._devices_event()])
            if likely:
                self._drop_likely(driver, likely)
            for task in tasks:
                self._submit(driver, task, likely)
            self._changed.notify_all()

    async def collect(self, driver: str, seconds: float) -> list[Event]:
        """Returns the driver's new events; waits for the first one for some time."""
        async with self._changed:
            if driver not in self._gone:
                self._events.setdefault(driver, [self._devices_event()])
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(
                    self._changed.wait_for(
                        lambda: driver in self._gone or self._events[driver]
                    ),
                    seconds,
                )
            if driver in self._gone:
                return []
            events, self._events[driver] = self._events[driver], []
            return events

    async def leave(self, driver: str) -> None:
        """Forgets a driver, and tasks that no other driver has submitted."""
        async with self._changed:
            self._gone.add(driver)
            self._events.pop(driver, None)
            for job in self._jobs.values():
                job.drivers.discard(driver)
            for queue in self._waiting:
                for job in [job for job in queue if not job.drivers]:
                    queue.remove(job)
                    del self._jobs[job.task["key"]]
            self._changed.notify_all()

    async def notice(self, text: str) -> None:
        """Sends a sentence for the user to all drivers."""
        async with self._changed:
            self._notice(text)

    async def fail(self, text: str) -> None:
        """Tells all drivers that there will be no more answers, and why."""
        async with self._changed:
            for events in self._events.values():
                events.append({"kind": "failed", "text": text})
            self._changed.notify_all()

    # The following methods serve devices.

    def expect(self, device: str) -> None:
        """Announces a device; the first references wait for all announced devices."""
        if self._norm is None:
            self._starting.add(device)

    async def serve(self, device: Device) -> None:
        """Gives tasks to a device until it is lost. Announce the device first.

        Raises:
          UnsuitableDeviceError: the device gives answers that are not valid.
        """
        try:
            while True:
                await self._admit(device)
                await self._work(device)
        except DeviceLostError as error:
            async with self._changed:
                self._notice(f"{device.name} was lost: {error}")
        finally:
            await self.dismiss(device.name)

    async def dismiss(self, device: str) -> None:
        """Removes a device that was announced."""
        async with self._changed:
            self._starting.discard(device)
            self._references.pop(device, None)
            if device in self._admitted:
                self._set_admitted(device, False)
            self._changed.notify_all()

    async def _admit(self, device: Device) -> None:
        """Repeats the references until they agree with `_norm` (expected latencies)."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            found = await device.references()
            async with self._changed:
                self._references[device.name] = found
                self._starting.discard(device.name)
                self._changed.notify_all()
                if self._norm is None:
                    await self._wait_for_others()
                if self._norm is None:
                    self._norm = _norm(list(self._references.values()))
                deviation = self._deviation(found)
                if not any(map(self._agrees, self._references.values())):
                    # No device agrees with the norm any more, because the machines
                    # have changed. With a new norm, the search can go on.
                    self._norm = list(found)
                if self._agrees(found):
                    self._set_admitted(device.name, True)
                    return
                self._notice_of(
                    device.name,
                    f"{_described('is', deviation)} than the other devices and gets "
                    "no tasks until it agrees with them",
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _wait_for_others(self) -> None:
        try:
            await asyncio.wait_for(
                self._changed.wait_for(lambda: not self._starting or self._norm),
                _PATIENCE_SECONDS,
            )
        except asyncio.TimeoutError:
            self._starting.clear()

    async def _work(self, device: Device) -> None:
        """Gives tasks to a device until its references deviate."""
        unconfirmed: list[str] = []
        checked = _now()
        try:
            while True:
                job = None
                if not unconfirmed:
                    checked = _now()
                    job = await self._next(device.name)
                elif _now() < checked + _CHECK_SECONDS:
                    job = await self._next(device.name, _IDLE_SECONDS)
                if job is None:
                    found = await device.references()
                    if not await self._judge(device.name, unconfirmed, found):
                        return
                    unconfirmed = []
                    continue
                key = await self._measure(device, job)
                if key is not None:
                    unconfirmed.append(key)
        except DeviceLostError:
            # The answers of a lost machine remain valid.
            async with self._changed:
                self._confirm(unconfirmed)
            raise
        except UnsuitableDeviceError:
            async with self._changed:
                self._withdraw(unconfirmed)
            raise

    async def _measure(self, device: Device, job: _Job) -> str | None:
        """Measures a task; returns its key if it has an answer now."""
        began = False
        try:
            if job.lost:
                # If many machines fail together, the task is not the reason. This call
                # raises an exception if the device was lost before it began the task.
                await device.references()
            began = True
            answer = await device.measure(job.task)
        except DeviceLostError as error:
            async with self._changed:
                job.lost += began
                if job.lost < _MAX_LOST:
                    self._requeue(job)
                else:
                    text = f"{job.lost} devices were lost while they measured a task"
                    self._answer(
                        job, {"error": "engine", "message": f"{text}: {error}"}
                    )
            raise
        async with self._changed:
            self.measured += 1
            job.tried.add(device.name)
            if not is_valid(answer):
                self._requeue(job)
                raise UnsuitableDeviceError("its answers are not valid")
            better = _better(job.best, answer)
            others = self._admitted - job.tried
            if _is_disturbed(better) and others and len(job.tried) < _MAX_TRIES:
                job.best = better
                self._requeue(job)
                return None
            return self._answer(job, better)

    async def _next(self, device: str, seconds: float | None = None) -> _Job | None:
        """Waits for a task for a device; returns None if none comes in `seconds`."""
        async with self._changed:
            try:
                job = await asyncio.wait_for(
                    self._changed.wait_for(lambda: self._task_for(device)), seconds
                )
            except asyncio.TimeoutError:
                return None
            self._waiting[bool(job.likely)].remove(job)
            return job

    def _task_for(self, device: str) -> _Job | None:
        """The first waiting task that this device may measure."""
        for job in itertools.chain.from_iterable(self._waiting):
            # A device repeats a measurement only if all admitted devices have tried it.
            if device not in job.tried or not self._admitted - job.tried:
                return job
        return None

    async def _judge(
        self, device: str, keys: Sequence[str], references: Sequence[float]
    ) -> bool:
        """Judges a device's answers; returns whether the device may continue."""
        async with self._changed:
            self._references[device] = references
            if self._agrees(references):
                self._confirm(keys)
                return True
            deviation = self._deviation(references)
            text = f"{_described('has become', deviation)} than before: "
            if self._admitted == {device}:
                self._norm = list(references)  # the only device sets the norm
                self._tell(keys, "estimated")
                text += "its latencies are only estimates"
                self._notice_of(device, text)
                return True
            self._set_admitted(device, False)
            self._withdraw(keys)
            text += "other devices repeat its measurements"
            self._notice_of(device, text)
            return False

    # All methods below are called with the lock of `_changed`.

    def _submit(self, driver: str, task: Mapping[str, Any], likely: str) -> None:
        key = task["key"]
        self._subscribers.setdefault(key, set()).add(driver)
        if key in self._answers:
            self._events[driver].append(_answer_event(key, self._answers[key]))
            if key in self._confirmed:
                self._events[driver].append({"kind": "confirmed", "keys": [key]})
            return
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job(task, {driver}, likely)
            self._waiting[bool(likely)].append(job)
            return
        job.drivers.add(driver)
        if job.likely and not likely:
            job.likely = ""
            if job in self._waiting[True]:
                self._waiting[True].remove(job)
                self._waiting[False].append(job)

    def _drop_likely(self, driver: str, likely: str) -> None:
        for job in list(self._waiting[True]):
            if job.likely == likely and job.drivers == {driver}:
                self._waiting[True].remove(job)
                del self._jobs[job.task["key"]]

    def _requeue(self, job: _Job) -> None:
        if job.drivers:
            self._waiting[bool(job.likely)].appendleft(job)
        else:
            del self._jobs[job.task["key"]]
        self._changed.notify_all()

    def _answer(self, job: _Job, answer: Mapping[str, Any]) -> str:
        key = str(job.task["key"])
        del self._jobs[key]
        self._answers[key] = answer
        for driver in self._subscribers[key] & self._events.keys():
            self._events[driver].append(_answer_event(key, answer))
        self._changed.notify_all()
        return key

    def _confirm(self, keys: Sequence[str]) -> None:
        self._confirmed.update(keys)
        self._tell(keys, "confirmed")

    def _withdraw(self, keys: Sequence[str]) -> None:
        self._tell(keys, "withdrawn")
        for key in keys:
            del self._answers[key]

    def _tell(self, keys: Sequence[str], kind: str) -> None:
        for driver, events in self._events.items():
            own = [key for key in keys if driver in self._subscribers[key]]
            if own:
                events.append({"kind": kind, "keys": own})

        self._changed.notify_all()

    def _notice(self, text: str) -> None:
        for events in self._events.values():
            events.append({"kind": "notice", "text": text})
        self._changed.notify_all()

    def _notice_of(self, device: str, text: str) -> None:
        now = _now()
        if now - self._noticed.get(device, -math.inf) > _NOTICE_SECONDS:
            self._noticed[device] = now
            self._notice(f"{device} {text}")

    def _set_admitted(self, device: str, admitted: bool) -> None:
        (self._admitted.add if admitted else self._admitted.discard)(device)
        for events in self._events.values():
            events.append(self._devices_event())
        if not self._admitted:
            self._notice("no device can measure now, so the search waits for a device")
        self._changed.notify_all()

    def _devices_event(self) -> Event:
        return {"kind": "devices", "count": len(self._admitted)}

    def _agrees(self, references: Sequence[float]) -> bool:
        return abs(self._deviation(references)) <= TOLERANCE

    def _deviation(self, references: Sequence[float]) -> float:
        """The largest relative difference from `_norm`; above 0 if slower."""
        if self._norm is None or len(references) != len(self._norm):
            return math.inf
        ratios = [
            ms / norm - 1 for ms, norm in zip(references, self._norm, strict=True)
        ]
        return max(ratios, key=abs)


def _now() -> float:
    """The time of the event loop, in seconds."""
    return asyncio.get_running_loop().time()


def is_valid(answer: Any) -> bool:
    """Returns whether an answer has one of the forms of ios_tf/fleet/device.py."""
    match answer:
        case {"error": str(), "message": str()}:
            return True
        case {"latencies_ms": list(values)}:
            return all(map(_is_latency, values))
        case {"latency": {"median_ms": ms, "spread": spread, "samples": int()}}:
            return _is_latency(ms) and isinstance(spread, float) and spread >= 0
    return False


def _is_latency(ms: Any) -> bool:
    return isinstance(ms, (int, float)) and ms >= 0


def _norm(references: Sequence[Sequence[float]]) -> list[float]:
    """Each reference's median over devices; the lower of the two middle values.

    Devices that measure another number of references than most devices are ignored.
    """
    count = statistics.mode(map(len, references))
    usual = [values for values in references if len(values) == count]
    return [statistics.median_low(values) for values in zip(*usual, strict=True)]


def _described(verb: str, deviation: float) -> str:
    """How a device deviates: the begin of a sentence that goes on with "than"."""
    if math.isinf(deviation):
        return "measures another number of references"
    speed = "slower" if deviation > 0 else "faster"
    return f"{verb} {100 * abs(deviation):.0f} % {speed}"


def _is_disturbed(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("latency", {}).get("disturbed"))


def _better(a: Mapping[str, Any] | None, b: Mapping[str, Any]) -> Mapping[str, Any]:
    """The undisturbed answer, or else the lower latency."""
    if a is None or not _is_disturbed(b):
        return b
    return min(a, b, key=lambda answer: answer["latency"]["median_ms"])


def _answer_event(key: str, answer: Mapping[str, Any]) -> Event:
    return {"kind": "answer", "key": key, "answer": answer}
