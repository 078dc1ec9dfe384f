"""The fleet's cost model: a search on this machine, measurements on many devices.

Several threads search blocks at the same time. Only one of them runs at any moment: it
holds the lock of `turn`, and releases the lock while it waits for an answer.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ios_tf.cost.cost_model import (
    Arrivals,
    Measurement,
    NetworkCostModel,
    StageRequest,
)
from ios_tf.cost.samples import RECORDER, Latency, Sample
from ios_tf.errors import UserError
from ios_tf.fleet.device import block_json, stage_json
from ios_tf.fleet.dispatcher import Event, is_valid
from ios_tf.native import engine
from ios_tf.scheduler import Problem, Stage

_logger = logging.getLogger("ios_tf")
# Unanswered requests per device: with fewer than _FEW_REQUESTS, the driver requests
# latencies that it may need later, until there are _ENOUGH_REQUESTS. Devices then have
# something to do while the driver decides what to request next.
_FEW_REQUESTS = 4
_ENOUGH_REQUESTS = 16


class Connection(Protocol):
    """A driver's connection to a dispatcher.

    Attributes:
      info: a device's description of itself (MeasuringDevice.describe).
    """

    info: Mapping[str, Any]

    def submit(self, tasks: Sequence[Mapping[str, Any]], likely: str) -> None:
        """Submits tasks; see `Dispatcher.submit`."""

    def collect(self) -> list[Event]:
        """Waits for new events, at most some seconds.

        Raises:
          UserError: the dispatcher cannot be reached.
        """

    def close(self) -> None:
        """Ends the connection. `collect` then returns soon."""


class FleetCostModel:
    """Latencies that the devices of a fleet measure. A BlockCostModel.

    It is also a RemoteCostModel: it measures several latencies at the same time.

    Attributes:
      fingerprint: the fingerprint of the devices.
      measurements: the number of latencies that devices have measured for this driver.
      devices: the number of devices that measure now.
    """

    def __init__(self, connection: Connection, measurement: Measurement) -> None:
        self.fingerprint = str(connection.info["fingerprint"])
        self.lanes = int(connection.info["lanes"])
        self.lanes_divide_device = bool(connection.info["lanes_divide_device"])
        self.measurement = measurement
        self.measurements = 0
        self.devices = 1
        self._connection = connection
        self._changed = threading.Condition(threading.RLock())
        self._counting = threading.Lock()
        self._searching = 0  # the number of threads in `turn`
        self._waiting = 0  # the number of threads whose answer has not arrived
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._requested: set[str] = set()
        self._unanswered: dict[str, str] = {}  # keys of requests, and their `likely`
        self._arrivals = Arrivals()
        self._failure: BaseException | None = None
        self._closed = False
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """See RemoteCostModel."""
        with self._counting:
            self._searching += 1
        try:
            with self._changed:
                yield
        finally:
            with self._counting:
                self._searching -= 1

    @property
    def waits(self) -> bool:
        """Whether there are threads that search, and all of them wait for an answer."""
        with self._changed:
            return 0 < self._searching == self._waiting

    def request(self, requests: Sequence[StageRequest], likely: str = "") -> None:
        """See RemoteCostModel."""
        tasks = [
            {
                "key": request.key,
                **block_json(request.problem),
                "stage": stage_json(request.stage),
                "lanes": request.lanes,
            }
            for request in requests
        ]
        with self._changed:
            keys = [request.key for request in requests]
            self._requested.update(keys)
            if likely:
                self._unanswered = {
                    key: of_key
                    for key, of_key in self._unanswered.items()
                    if of_key != likely
                }
            self._unanswered.update(
                (key, likely) for key in keys if key not in self._answers
            )
            self._connection.submit(tasks, likely)

    def spare(self, likely: str) -> int:
        """See RemoteCostModel."""
        with self._changed:
            if len(self._unanswered) >= _FEW_REQUESTS * self.devices:
                return 0
            others = sum(of_key != likely for of_key in self._unanswered.values())
            return _ENOUGH_REQUESTS * self.devices - others

    def wait(self, key: str) -> None:
        """Waits until the answer to a request is known.

        Raises:
          MemoryError: the stage does not fit into the memory of the device.
          EngineError: the engine cannot measure the stage.
          UserError: the fleet cannot be reached.
        """
        with self._changed:
            self.wait_until(lambda: key in self._answers)
            _check(self._answers[key])

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds; checks the condition after each arrival.

        Raises:
          UserError: the fleet cannot be reached.
        """
        with self._changed:
            while not condition():
                if self._failure:
                    raise self._failure
                if self._closed:
                    raise UserError("the search ended before its measurements did")
                self._waiting += 1
                self._changed.wait()

    def collect(self) -> Arrivals:
        """Returns the latencies that have arrived since the last call."""
        with self._changed:
            arrivals, self._arrivals = self._arrivals, Arrivals()
            return arrivals

    def observe(self, problem: Problem, stage: Stage, lanes: int = 0) -> Latency:
        """The latency of a stage; if `lanes` > 0, on one of `lanes` lanes."""
        task = {**block_json(problem), "stage": stage_json(stage), "lanes": lanes}
        return Latency(**self._measured(task)["latency"])

    def compare(
        self,
        problem: Problem,
        candidates: Sequence[Sequence[Stage]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies of schedules of a block, which one device measures."""
        task = {
            **block_json(problem),
            "schedules": [stage_json(*stages) for stages in candidates],
            "seconds": seconds,
        }
        found = self._measured(task)["latencies_ms"]
        self.measurements += len(found)
        return list(found)

    def release(self) -> None:
        """Does nothing: devices free their memory by themselves."""

    def close(self) -> None:
        """Ends the connection; threads that wait raise an exception."""
        with self._changed:
            self._closed = True
            self._wake()
        self._connection.close()
        self._collector.join()

    def _measured(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Submits a task under a key that no other task has; returns its answer."""
        key = f"once {uuid.uuid4().hex}"
        with self._changed:
            self._connection.submit([{**task, "key": key}], "")
            self.wait_until(lambda: key in self._answers)
            return _check(self._answers.pop(key))

    def _wake(self) -> None:
        """Wakes all waiting threads, so that they look for their answers."""
        self._waiting = 0
        self._changed.notify_all()

    def _collect(self) -> None:
        """Receives events until the connection ends; runs in its own thread."""
        while not self._closed:
            try:
                events = self._connection.collect()
            except Exception as error:
                with self._changed:
                    self._failure = error
                    self._wake()
                return
            with self._changed:
                for event in events:
                    self._take(event)
                self._wake()

    def _take(self, event: Event) -> None:
        match event:
            case {"kind": "answer", "key": key, "answer": answer}:
                self._take_answer(key, answer)
            case {"kind": "confirmed", "keys": keys}:
                self._arrivals.confirmed += self._own(keys)
            case {"kind": "withdrawn", "keys": keys}:
                own = self._own(keys)
                for key in own:
                    self._answers.pop(key, None)
                    self._arrivals.latencies.pop(key, None)
                self._arrivals.withdrawn += own
            case {"kind": "estimated", "keys": keys}:
                own = self._own(keys)
                self._arrivals.estimated += own
                RECORDER.add([Sample(math.nan, disturbed=True)] * len(own))
            case {"kind": "devices", "count": count}:
                self.devices = count
            case {"kind": "notice", "text": text}:
                _logger.warning("%s", text)
            case {"kind": "failed", "text": text}:
                self._failure = UserError(text)

    def _own(self, keys: Sequence[str]) -> list[str]:
        """The subset of the keys that `request` has sent (not `_measured`)."""
        return [key for key in keys if key in self._requested]

    def _take_answer(self, key: str, answer: Mapping[str, Any]) -> None:
        if not is_valid(answer):
            answer = {"error": "engine", "message": "a device sent an invalid answer"}
        self._answers[key] = answer
        self._unanswered.pop(key, None)
        if "latency" in answer and key in self._requested:
            latency = Latency(**answer["latency"])
            RECORDER.add([Sample(latency.median_ms, latency.disturbed)])
            self._arrivals.latencies[key] = latency
            self.measurements += 1


def _check(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises the error that an answer describes."""
    if answer.get("error") == "memory":
        raise MemoryError(answer["message"])
    if "error" in answer:
        raise engine.EngineError(answer["message"])
    return answer


class FleetNetworkCostModel(FleetCostModel):
    """A fleet's cost model that measures whole networks on this machine."""

    def __init__(
        self,
        connection: Connection,
        measurement: Measurement,
        local: NetworkCostModel,
    ) -> None:
        super().__init__(connection, measurement)
        self.device = local.device
        self._local = local

    def compare_programs(
        self,
        candidates: Sequence[Sequence[Mapping[str, Any]]],
        seconds: float = math.inf,
    ) -> list[float]:
        """The median latencies of variants of a network: see NetworkCostModel."""
        return self._local.compare_programs(candidates, seconds)

    def release(self) -> None:
        """Frees this device's memory."""
        self._local.release()
