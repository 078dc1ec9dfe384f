"""A fleet on a Ray cluster: the dispatcher and the devices are actors.

Each node declares its devices by the resource `ios_tf_device`:

    ray start --address=HEAD:6379 --resources='{"ios_tf_device": 1}'

Every device is an actor that holds one such resource, and a GPU if the device is one.
All drivers that search for devices of one fingerprint share one dispatcher. It is a
detached actor, because it must survive the driver that started it, and it ends when all
drivers have left.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import socket
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ios_tf.cost.cost_model import Measurement
from ios_tf.errors import UserError, first_line
from ios_tf.fleet.device import MeasuringDevice, versions
from ios_tf.fleet.dispatcher import (
    DeviceLostError,
    Dispatcher,
    Event,
    UnsuitableDeviceError,
)

_logger = logging.getLogger("ios_tf")
RESOURCE = "ios_tf_device"
_HEAD = "node:__internal_head__"  # a resource of the cluster's first node
DEVICE_CLASS: type = MeasuringDevice  # tests replace this class
_START = "ray start --resources='{\"" + RESOURCE + "\": 1}'"
_NAMESPACE = "ios_tf"
# How often the dispatcher looks for new nodes, and for drivers that are gone.
_LOOK_SECONDS = 2.0
# A driver that collects no events for this time is treated as gone.
_PATIENCE_SECONDS = 60.0
# A call of `collect` returns after this time, also without events.
_COLLECT_SECONDS = 5.0
# A driver logs that it waits if no device has started after this time.
_NOTICE_SECONDS = 15.0
# A driver gives up after it has replaced the dispatcher this many times without getting
# an answer.
_MAX_RESTARTS = 4
# How long an address may take to accept a connection.
_CONNECT_SECONDS = 5.0


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UserError(
            f"Ray cannot be imported ({first_line(error)}). Install it with: pip "
            "install 'ray>=2.40'"
        ) from None
    return ray


class _RayDevice:
    """A device that is an actor on a node of the cluster."""

    def __init__(self, name: str, node: str, make: type, arguments: Any) -> None:
        """`node` is the node's identifier, and `make` the class of the actor."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.name = name
        self.node = node
        self._actor = (
            ray.remote(make)
            .options(
                num_cpus=0,
                num_gpus=1 if arguments[0].startswith("gpu") else 0,
                resources={RESOURCE: 1},
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(*arguments)
        )

    async def describe(self) -> Mapping[str, Any]:
        return await self._call("describe")

    async def references(self) -> Sequence[float]:
        return await self._call("references")

    async def measure(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._call("measure", task)

    def end(self) -> None:
        import ray

        ray.kill(self._actor)

    async def _call(self, method: str, *arguments: Any) -> Any:
        from ray.exceptions import RayError

        try:
            return await getattr(self._actor, method).remote(*arguments)
        except RayError as error:
            raise DeviceLostError(first_line(error)) from None


class DispatcherActor:
    """The dispatcher and its devices, as an actor."""

    def __init__(
        self,
        make: type,
        device: str,
        measurement: Mapping[str, Any],
        fingerprint: str | None,
        versions: Mapping[str, str],
    ) -> None:
        """`make` is the class of the devices; it gets `device` and `measurement`.

        If `fingerprint` is None, all devices must have that of the first device.
        """
        self._make = make
        self._arguments = (device, measurement)
        self._fingerprint = fingerprint
        self._versions = versions
        self._dispatcher = Dispatcher()
        self._devices: dict[_RayDevice, asyncio.Task[None]] = {}
        self._numbers = 0
        self._refused: dict[str, str] = {}  # node -> the reason
        self._info: Mapping[str, Any] | None = None
        self._seen: dict[str, float] = {}  # driver -> time of its last call
        self._running: asyncio.Task[None] | None = None
        self._left = asyncio.Event()

    async def info(self, driver: str) -> Mapping[str, Any]:
        """Waits for the first suitable device; returns its description of itself.

        If no device is suitable, returns {"error": …} with a sentence.
        """
        self._seen[driver] = time.monotonic()
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        while self._info is None:
            if self._is_useless():
                return {"error": self._no_device()}
            await asyncio.sleep(0.1)
            self._seen[driver] = time.monotonic()
        return self._info

    async def submit(
        self, driver: str, tasks: Sequence[Mapping[str, Any]], likely: str
    ) -> None:
        """See `Dispatcher.submit`."""
        await self._dispatcher.submit(driver, tasks, likely)

    async def collect(self, driver: str) -> list[Event]:
        """See `Dispatcher.collect`."""
        if driver in self._seen:
            self._seen[driver] = time.monotonic()
        return await self._dispatcher.collect(driver, _COLLECT_SECONDS)

    async def leave(self, driver: str) -> None:
        """Forgets a driver. Without drivers, the dispatcher and the devices end."""
        self._seen.pop(driver, None)
        await self._dispatcher.leave(driver)
        self._left.set()

    async def _run(self) -> None:
        """Starts devices on new nodes, until all drivers have left."""
        import ray

        while True:
            now = time.monotonic()
            for driver, seen in list(self._seen.items()):
                if now - seen > _PATIENCE_SECONDS:
                    await self.leave(driver)
            if not self._seen:
                break
            self._start_devices()
            if self._is_useless():
                await self._dispatcher.fail(self._no_device())
            self._left.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._left.wait(), _LOOK_SECONDS)
        for device in list(self._devices):
            device.end()
        ray.actor.exit_actor()

    def _is_useless(self) -> bool:
        """Whether there are nodes with devices, and none of them can be used."""
        nodes = {node["NodeID"] for node in self._nodes()}
        return bool(nodes) and nodes <= self._refused.keys()

    def _no_device(self) -> str:
        reasons = "; ".join(sorted(set(self._refused.values())))
        return f"no device of the Ray cluster can be used: {reasons}"

    def _nodes(self) -> list[dict[str, Any]]:
        """The nodes that are alive and have devices."""
        import ray

        return [
            node
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get(RESOURCE)
        ]

    def _start_devices(self) -> None:
        new = []
        for node in self._nodes():
            identifier = node["NodeID"]
            if identifier in self._refused:
                continue
            present = sum(device.node == identifier for device in self._devices)
            for _ in range(int(node["Resources"][RESOURCE]) - present):
                self._numbers += 1
                name = f"device {self._numbers} on {node['NodeManagerHostname']}"
                new.append(_RayDevice(name, identifier, self._make, self._arguments))
        for device in new:
            self._dispatcher.expect(device.name)
        for device in new:
            self._devices[device] = asyncio.create_task(self._serve(device))

    async def _serve(self, device: _RayDevice) -> None:
        try:
            info = await device.describe()
            reason = self._unsuitable(info)
            if reason:
                raise UnsuitableDeviceError(reason)
            self._info = info
            await self._dispatcher.serve(device)
        except DeviceLostError as error:
            # Another attempt on this node would probably fail, too.
            await self._refuse(device, f"it could not be started: {error}")
        except UnsuitableDeviceError as error:
            await self._refuse(device, str(error))
        finally:
            await self._dispatcher.dismiss(device.name)
            del self._devices[device]

    async def _refuse(self, device: _RayDevice, reason: str) -> None:
        """Stops using the devices of a node."""
        device.end()
        self._refused[device.node] = reason
        await self._dispatcher.notice(f"{device.name} is not used: {reason}")

    def _unsuitable(self, info: Mapping[str, Any]) -> str | None:
        """Why a device must not measure for these drivers; None if it may."""
        for package, wanted in self._versions.items():
            found = info["versions"].get(package)
            if found != wanted:
                return (
                    f"{info['host']} has {package} {found}, but the driver has {wanted}"
                )
        self._fingerprint = self._fingerprint or info["fingerprint"]
        if self._fingerprint != info["fingerprint"]:
            return (
                f'{info["host"]} has the device "{info["fingerprint"]}", but the '
                f'search is for "{self._fingerprint}"'
            )
        return None


class RayConnection:
    """A driver's connection to the dispatcher of a Ray cluster.

    Attributes:
      info: a device's description of itself (MeasuringDevice.describe).
    """

    def __init__(
        self, ray: Any, device: str, fingerprint: str | None, measurement: Measurement
    ) -> None:
        """Waits until the first device has been started.

        Raises:
          UserError: no device of the cluster is suitable.
        """
        self._ray = ray
        self._driver = uuid.uuid4().hex
        self._arguments = (
            device,
            dataclasses.asdict(measurement),
            fingerprint,
            versions(),
        )
        self._lock = threading.Lock()
        # Tasks that have no answer, and keys of answers that are not confirmed. A new
        # dispatcher must measure them.
        self._open: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._unconfirmed: set[str] = set()
        self._restarts = 0
        self.info = self._first_info()
        if "error" in self.info:
            self.close()
            raise UserError(self.info["error"])

    def submit(self, tasks: Sequence[Mapping[str, Any]], likely: str) -> None:
        """See `Dispatcher.submit`."""
        with self._lock:
            if likely:
                self._open = {k: v for k, v in self._open.items() if v[1] != likely}
            self._open.update({task["key"]: (task, likely) for task in tasks})
            self._actor.submit.remote(self._driver, tasks, likely)

    def collect(self) -> list[Event]:
        """See `ios_tf.fleet.cost_model.Connection`."""
        from ray.exceptions import RayActorError

        try:
            events: list[Event] = self._get(self._actor.collect.remote(self._driver))
        except RayActorError:
            return self._start_again()
        with self._lock:
            for event in events:
                self._note(event)
        return events

    def close(self) -> None:
        """Leaves the dispatcher."""
        with contextlib.suppress(Exception):  # the cluster may be gone
            self._ray.get(self._actor.leave.remote(self._driver), timeout=5)

    def _first_info(self) -> Mapping[str, Any]:
        from ray.exceptions import RayActorError

        for _ in range(_MAX_RESTARTS):
            self._actor = self._dispatcher()
            reply = self._actor.info.remote(self._driver)
            ready, _ = self._ray.wait([reply], timeout=_NOTICE_SECONDS)
            if not ready:
                _logger.warning(
                    "the Ray cluster has not started a device yet. Another search may "
                    "be using all of its devices"
                )
            # An old dispatcher may be about to end, because its drivers have left.
            with contextlib.suppress(RayActorError):
                return self._get(reply)
        raise UserError("the Ray cluster cannot start the dispatcher of measurements")

    def _dispatcher(self) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # The dispatcher runs on the head node, without which the cluster ends anyway.
        head = next(
            node["NodeID"]
            for node in self._ray.nodes()
            if node["Alive"] and _HEAD in node["Resources"]
        )
        name = hashlib.sha256(json.dumps(self._arguments).encode()).hexdigest()[:16]
        return (
            self._ray.remote(DispatcherActor)
            .options(
                name=f"ios_tf {name}",
                namespace=_NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False),
            )
            .remote(DEVICE_CLASS, *self._arguments)
        )

    def _start_again(self) -> list[Event]:
        """Replaces a dispatcher whose node was lost; returns events for the driver."""
        self._restarts += 1
        if self._restarts > _MAX_RESTARTS:
            raise UserError(
                "the actor that distributes measurements in the Ray cluster was lost "
                f"{self._restarts} times. Run the command again to continue the search"
            )
        time.sleep(2**self._restarts)  # the dispatcher may soon be reachable again
        with self._lock:
            self._actor = self._dispatcher()
            self._actor.info.remote(self._driver)
            for likely in dict.fromkeys(label for _, label in self._open.values()):
                tasks = [task for task, label in self._open.values() if label == likely]
                self._actor.submit.remote(self._driver, tasks, likely)
            withdrawn, self._unconfirmed = sorted(self._unconfirmed), set()
        return [
            {"kind": "notice", "text": "the node of the dispatcher was lost"},
            {"kind": "withdrawn", "keys": withdrawn},
        ]

    def _note(self, event: Event) -> None:
        match event:
            case {"kind": "answer", "key": key}:
                self._restarts = 0
                self._open.pop(key, None)
                self._unconfirmed.add(key)
            case {"kind": "confirmed" | "withdrawn" | "estimated", "keys": keys}:
                self._unconfirmed.difference_update(keys)

    def _get(self, reference: Any) -> Any:
        from ray.exceptions import RayActorError, RayError

        try:
            return self._ray.get(reference)
        except RayActorError:
            raise
        except (RayError, ConnectionError) as error:
            raise UserError(
                f"the Ray cluster cannot be reached any more: {first_line(error)}"
            ) from None


def _check_address(address: str) -> None:
    """Fails at once if no server listens at the address; Ray would try for minutes.

    Raises:
      OSError, ValueError: the address cannot be reached, or is not an address.
    """
    if address == "auto":
        return
    url = urllib.parse.urlsplit(address if "://" in address else f"//{address}")
    if not url.hostname or not url.port:
        raise ValueError("the address must be auto, HOST:PORT or ray://HOST:PORT")
    socket.create_connection((url.hostname, url.port), _CONNECT_SECONDS).close()


@contextlib.contextmanager
def ray_connection(
    address: str, device: str, fingerprint: str | None, measurement: Measurement
) -> Iterator[RayConnection]:
    """Connects to a Ray cluster for the `with` block.

    The block must close the connection, or the cost model that uses it.

    Args:
      address: "auto", HOST:PORT or ray://HOST:PORT.
      device: the engine's name of the device on each machine, such as "cpu" or "gpu".
      fingerprint: the devices' fingerprint; by default, that of the first device.
      measurement: how the devices measure.

    Raises:
      UserError: Ray is not installed, the cluster cannot be reached, or none of its
        devices is suitable.
    """
    ray = _import_ray()
    logging.getLogger("ray").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        try:
            if not ray.is_initialized():
                _check_address(address)
                stack.callback(ray.shutdown)
                ray.init(
                    address=address,
                    namespace=_NAMESPACE,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            resources = ray.cluster_resources()
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"ray={address!r}: the cluster cannot be reached ({first_line(error)})"
            ) from None
        if not resources.get(RESOURCE):
            raise UserError(
                f"no node of the Ray cluster declares the resource {RESOURCE}. Start "
                f"nodes with: {_START}"
            )
        yield RayConnection(ray, device, fingerprint, measurement)
