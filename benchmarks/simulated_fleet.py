"""A simulated fleet: the real dispatcher and search, and devices in virtual time.

A task occupies its device for the time that the measurement would take. The search
itself takes the processor time that it really takes on this machine. Virtual time
advances only while all threads of the search wait.
"""

from __future__ import annotations

import asyncio
import dataclasses
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ios_tf.fleet.dispatcher import DeviceLostError, Dispatcher, Event

_T = TypeVar("_T")
_DRIVER = "driver"
_COLLECT_SECONDS = 1e6


class _Clock(selectors.SelectSelector):
    """A selector that does not wait: it advances the time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("all tasks wait for each other")
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time advances only while all tasks wait."""

    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._clock.now

    def run(self, task: Coroutine[Any, Any, _T], seconds: float = 0.0) -> _T:
        """Lets `seconds` pass, then runs a task to its end."""

        async def later() -> _T:
            await asyncio.sleep(seconds)
            return await task

        return self.run_until_complete(later())

    def end(self) -> None:
        """Cancels all tasks, and closes the loop."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.close()


@dataclasses.dataclass
class SimulatedDevice:
    """A device whose latencies and times are given.

    Attributes:
      name: its name.
      latency_ms: returns the latencies of a task: the latency of a stage, or the
        latencies of whole schedules.
      runs: the number of runs per latency that a measurement takes.
      setup_seconds: the time that each measurement takes besides its runs.
      references_ms: the latencies of the reference stages.
      slowness: returns the factor by which the device is slower at a given time.
      lost: the time at which the device is lost.
      measured: the keys of the tasks that were measured, in order.
    """

    name: str
    latency_ms: Callable[[Mapping[str, Any]], Sequence[float]]
    runs: int = 11
    setup_seconds: float = 0.0
    references_ms: Sequence[float] = (1.0, 1.0)
    slowness: Callable[[float], float] = lambda seconds: 1.0
    lost: float = float("inf")
    measured: list[str] = dataclasses.field(default_factory=list)

    async def references(self) -> Sequence[float]:
        """See `ios_tf.fleet.dispatcher.Device`."""
        return await self._run(self.references_ms, 0.0)

    async def measure(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `ios_tf.fleet.dispatcher.Device`."""
        latencies = await self._run(self.latency_ms(task), self.setup_seconds)
        self.measured.append(task["key"])
        if "schedules" in task:
            return {"latencies_ms": latencies}
        return {
            "latency": {
                "median_ms": latencies[0],
                "spread": 0.0,
                "samples": 3,
                "disturbed": False,
            }
        }

    async def _run(
        self, latencies_ms: Sequence[float], setup_seconds: float
    ) -> list[float]:
        now = asyncio.get_running_loop().time()
        slowness = self.slowness(now)
        seconds = setup_seconds + sum(latencies_ms) * slowness * self.runs / 1e3
        await asyncio.sleep(min(seconds, max(self.lost - now, 0.0)))
        if now + seconds > self.lost:
            raise DeviceLostError("its node is gone")
        return [ms * slowness for ms in latencies_ms]


class SimulatedConnection:
    """A driver's connection to a dispatcher with simulated devices.

    Attributes:
      info: a device's description of itself.
      seconds: the virtual time, with the processor time of the search.
      busy: the part of `seconds` in which the search used the processor.
    """

    def __init__(
        self, devices: Sequence[SimulatedDevice], info: Mapping[str, Any]
    ) -> None:
        self.info = info
        self._waits: Callable[[], bool] = lambda: False
        self.busy = 0.0
        self.dispatcher = Dispatcher()
        self._loop = VirtualLoop()
        self._closed = False
        self._used = time.process_time()
        self._pending: list[tuple[Sequence[Mapping[str, Any]], str]] = []
        for device in devices:
            self.dispatcher.expect(device.name)
        self._tasks = [
            self._loop.create_task(self.dispatcher.serve(device)) for device in devices
        ]

    @property
    def seconds(self) -> float:
        return self._loop.time()

    def start(self, waits: Callable[[], bool]) -> None:
        """Lets the time advance while `waits` returns true: all search threads wait."""
        self._used = time.process_time()
        self._waits = waits

    def submit(self, tasks: Sequence[Mapping[str, Any]], likely: str) -> None:
        """See `ios_tf.fleet.cost_model.Connection`."""
        self._pending.append((tasks, likely))

    def collect(self) -> list[Event]:
        """See `ios_tf.fleet.cost_model.Connection`."""
        while not self._waits():
            if self._closed:
                return []
            time.sleep(1e-4)
        used = time.process_time() - self._used
        self.busy += used
        found = self._loop.run(self._collect(), used)
        self._used = time.process_time()
        return found

    def close(self) -> None:
        """See `ios_tf.fleet.cost_model.Connection`."""
        self._closed = True

    def end(self) -> None:
        """Ends the devices; call it after `close` when no thread collects any more."""
        self._loop.end()

    async def _collect(self) -> list[Event]:
        pending, self._pending = self._pending, []
        for tasks, likely in pending:
            await self.dispatcher.submit(_DRIVER, tasks, likely)
        events = await self.dispatcher.collect(_DRIVER, _COLLECT_SECONDS)
        if not events:
            raise RuntimeError("the search waits, and the devices have no tasks")
        return events
