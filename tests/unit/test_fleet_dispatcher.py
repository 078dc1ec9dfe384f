"""The dispatcher of a fleet, with simulated devices in virtual time."""

import asyncio

import pytest

from benchmarks.simulated_fleet import SimulatedDevice, VirtualLoop
from ios_tf.fleet.dispatcher import (
    DeviceLostError,
    Dispatcher,
    UnsuitableDeviceError,
    is_valid,
)

LATENCY_MS = 100.0  # with 10 runs, each task takes a second
FAR = 1000.0  # seconds


def device(name: str, **details) -> SimulatedDevice:
    defaults = {"latency_ms": lambda task: [task["ms"]], "runs": 10}
    details = {**defaults, "references_ms": (1.0, 1.0), **details}
    return SimulatedDevice(name, **details)


def tasks(count: int, ms: float = LATENCY_MS) -> list[dict]:
    return [{"key": f"task {i}", "ms": ms} for i in range(count)]


class Fleet:
    """A dispatcher, its devices, and the events of its drivers."""

    def __init__(self, *devices: SimulatedDevice) -> None:
        self.loop = VirtualLoop()
        self.dispatcher = Dispatcher()
        self.serving = [self.add(one) for one in devices]

    def add(self, one: SimulatedDevice) -> asyncio.Task:
        self.dispatcher.expect(one.name)
        return self.loop.create_task(self.dispatcher.serve(one))

    def submit(self, submitted: list[dict], likely="", driver="driver") -> None:
        self.loop.run(self.dispatcher.submit(driver, submitted, likely))

    def run(self, seconds: float) -> None:
        self.loop.run(asyncio.sleep(seconds))

    def events(self, kind: str, driver="driver", seconds=FAR) -> list:
        """All events of a kind that arrive until no further event can happen."""
        found = []
        while True:
            new = self.loop.run(self.dispatcher.collect(driver, seconds))
            found += [event for event in new if event["kind"] == kind]
            if not new:
                return found


@pytest.fixture
def start():
    """Starts a fleet, which ends after the test."""
    fleets = []

    def started(*devices: SimulatedDevice) -> Fleet:
        fleets.append(Fleet(*devices))
        return fleets[-1]

    yield started
    for fleet in fleets:
        fleet.loop.end()


def keys(events: list) -> list[str]:
    return [key for event in events for key in event["keys"]]


def medians(events: list) -> dict[str, float]:
    return {e["key"]: e["answer"]["latency"]["median_ms"] for e in events}


def test_devices_share_tasks(start):
    devices = [device(name) for name in "abc"]
    fleet = start(*devices)
    fleet.submit(tasks(12))
    answers = medians(fleet.events("answer", seconds=3.0))
    assert answers == {f"task {i}": LATENCY_MS for i in range(12)}
    assert [len(one.measured) for one in devices] == [4, 4, 4]
    # Four tasks per device take 4 s, and the checks 20 ms each.
    assert fleet.loop.time() < 4 + 0.2 + 3


def test_equal_tasks_of_drivers_are_measured_once(start):
    devices = [device(name) for name in "ab"]
    fleet = start(*devices)
    fleet.submit(tasks(4), driver="first")
    fleet.submit(tasks(6), driver="second")
    assert len(fleet.events("answer", "first")) == 4
    assert len(fleet.events("answer", "second")) == 6
    assert fleet.dispatcher.measured == 6
    # A driver that comes later gets the same answers at once.
    fleet.submit(tasks(6), driver="third")
    assert len(fleet.events("answer", "third")) == 6
    assert fleet.dispatcher.measured == 6


def test_answers_are_confirmed(start):
    fleet = start(device("a"), device("b"))
    fleet.submit(tasks(5))
    assert sorted(keys(fleet.events("confirmed"))) == [f"task {i}" for i in range(5)]


def test_a_lost_device_loses_only_its_task(start):
    devices = [device("a", lost=2.5), device("b")]
    fleet = start(*devices)
    fleet.submit(tasks(8))
    events = fleet.loop.run(fleet.dispatcher.collect("driver", 1.0))
    while len(medians([e for e in events if e["kind"] == "answer"])) < 8:
        events += fleet.loop.run(fleet.dispatcher.collect("driver", FAR))
    assert fleet.dispatcher.measured == 8  # no task was measured twice
    assert len(devices[0].measured) == 2
    assert any("a was lost" in e.get("text", "") for e in events)


def test_a_task_that_ends_devices_is_given_up(start):
    def end(task):
        raise DeviceLostError("its process ended")

    fleet = start(*[device(name, latency_ms=end) for name in "abcd"])
    fleet.submit(tasks(1))
    (event,) = fleet.events("answer")
    assert event["answer"]["error"] == "engine"
    assert "3 devices were lost" in event["answer"]["message"]
    assert fleet.dispatcher.measured == 0


def test_a_task_is_kept_if_all_devices_fail_together(start):
    fleet = start(*[device(name, lost=0.5) for name in "abcd"])
    fleet.submit(tasks(1))
    assert fleet.events("answer") == []
    fleet.add(device("e"))
    assert medians(fleet.events("answer")) == {"task 0": LATENCY_MS}


def test_a_search_waits_for_a_device(start):
    fleet = start(device("a", lost=1.5))
    fleet.submit(tasks(3))
    assert len(fleet.events("answer")) == 1
    fleet.add(device("b"))
    assert len(fleet.events("answer")) == 2


@pytest.mark.parametrize("factor", [1.2, 0.8])
def test_a_device_that_deviates_measures_nothing(start, factor):
    devices = [device("a"), device("b"), device("c", slowness=lambda s: factor)]
    fleet = start(*devices)
    fleet.submit(tasks(9))
    events = fleet.loop.run(fleet.dispatcher.collect("driver", 60.0))
    while fleet.loop.time() < 60:
        events += fleet.loop.run(fleet.dispatcher.collect("driver", 60.0))
    word = "slower" if factor > 1 else "faster"
    notices = [e["text"] for e in events if e["kind"] == "notice"]
    assert any(f"c is 20 % {word} than the other devices" in text for text in notices)
    assert devices[2].measured == []
    answers = medians([e for e in events if e["kind"] == "answer"])
    assert answers == {f"task {i}": LATENCY_MS for i in range(9)}


@pytest.mark.parametrize("comes_later", [True, False])
def test_a_device_with_another_number_of_references_measures_nothing(
    start, comes_later
):
    other = device("b", references_ms=(1.0,))
    fleet = start(device("a"), device("c"), *([] if comes_later else [other]))
    fleet.submit(tasks(1))
    if comes_later:
        fleet.events("answer", seconds=3.0)
        fleet.add(other)
    (notice,) = fleet.events("notice", seconds=20.0)
    assert notice["text"].startswith(
        "b measures another number of references than the other devices"
    )
    assert other.measured == []


def test_of_two_devices_the_faster_one_is_right(start):
    devices = [device("a", slowness=lambda s: 1.3), device("b")]
    fleet = start(*devices)
    fleet.submit(tasks(4))
    fleet.run(20.0)
    assert [len(one.measured) for one in devices] == [0, 4]


def test_measurements_beside_a_noisy_neighbour_are_repeated(start):
    """Device c is disturbed from second 2 to 30, and measures again afterwards."""
    devices = [
        device("a"),
        device("b"),
        device("c", slowness=lambda s: 1.5 if 2 <= s < 30 else 1.0),
    ]
    fleet = start(*devices)
    fleet.submit(tasks(30))
    answers, withdrawn, confirmed = {}, [], []
    while len(confirmed) < 30:
        for event in fleet.loop.run(fleet.dispatcher.collect("driver", 5.0)):
            if event["kind"] == "answer":
                answers |= medians([event])
            elif event["kind"] == "confirmed":
                confirmed += event["keys"]
            elif event["kind"] == "withdrawn":
                withdrawn += event["keys"]
                fleet.submit([{"key": k, "ms": LATENCY_MS} for k in event["keys"]])
    assert withdrawn
    assert sorted(confirmed) == sorted(f"task {i}" for i in range(30))
    assert set(answers.values()) == {LATENCY_MS}
    fleet.run(120.0)
    fleet.submit([{"key": f"later {i}", "ms": LATENCY_MS} for i in range(9)])
    fleet.events("answer")
    assert any(key.startswith("later") for key in devices[2].measured)


def test_without_another_device_latencies_are_estimates(start):
    fleet = start(device("a", slowness=lambda s: 1.5 if s > 2 else 1.0))
    fleet.submit(tasks(6))
    found = {"confirmed": [], "estimated": []}
    while sum(map(len, found.values())) < 6:
        for event in fleet.loop.run(fleet.dispatcher.collect("driver", 5.0)):
            if event["kind"] in found:
                found[event["kind"]] += event["keys"]
    assert found["estimated"]


def test_a_disturbed_latency_is_measured_elsewhere(start):
    first = device("a")
    answer = first.measure

    async def disturbed(task):
        found = await answer(task)
        return {"latency": {**found["latency"], "disturbed": True, "median_ms": 150.0}}

    first.measure = disturbed
    fleet = start(first, device("b"))
    fleet.submit(tasks(4))
    answers = [event["answer"]["latency"] for event in fleet.events("answer")]
    assert len(answers) == 4
    assert not any(found["disturbed"] for found in answers)


def test_a_device_with_answers_that_are_not_valid_is_refused(start):
    liar = device("a")

    async def lie(task):
        return {"latency": {"median_ms": float("nan"), "spread": 0.0, "samples": 1}}

    liar.measure = lie
    fleet = start(liar, device("b"))
    fleet.submit(tasks(4))
    assert medians(fleet.events("answer")) == {
        f"task {i}": LATENCY_MS for i in range(4)
    }
    with pytest.raises(UnsuitableDeviceError, match="not valid"):
        fleet.loop.run_until_complete(fleet.serving[0])


def test_earlier_answers_of_a_refused_device_are_withdrawn(start):
    liar = device("a")
    measure = liar.measure

    async def lie_later(task):
        found = await measure(task)
        return found if len(liar.measured) < 3 else {"latency": "fast"}

    liar.measure = lie_later
    fleet = start(liar)
    # Each task takes 0.1 s, so all tasks are measured before the first check.
    fleet.submit(tasks(5, ms=10.0))
    assert sorted(keys(fleet.events("withdrawn"))) == ["task 0", "task 1"]
    fleet.submit(tasks(2, ms=10.0))
    fleet.add(device("b"))
    assert medians(fleet.events("answer")) == {f"task {i}": 10.0 for i in range(5)}


def test_likely_tasks_come_last_and_are_replaced(start):
    only = device("a")
    fleet = start(only)
    fleet.submit([{"key": "likely 1", "ms": 1.0}, {"key": "likely 2", "ms": 1.0}], "A")
    fleet.submit([{"key": "likely 3", "ms": 1.0}], "B")
    fleet.submit(tasks(2))
    fleet.submit([{"key": "likely 4", "ms": 1.0}], "A")
    fleet.events("answer")
    assert only.measured == ["task 0", "task 1", "likely 3", "likely 4"]


def test_a_likely_task_that_is_needed_comes_first(start):
    only = device("a")
    fleet = start(only)
    likely = [{"key": f"likely {i}", "ms": 1.0} for i in range(3)]
    fleet.submit(likely, "A")
    fleet.submit(likely[2:])
    assert len(fleet.events("answer")) == 3
    assert only.measured == ["likely 2", "likely 0", "likely 1"]


def test_a_driver_that_leaves_takes_its_tasks(start):
    only = device("a")
    fleet = start(only)
    fleet.submit(tasks(3))
    fleet.submit([{"key": "other", "ms": 1.0}], driver="other")
    fleet.loop.run(fleet.dispatcher.leave("driver"))
    fleet.events("answer", "other")
    assert "task 2" not in only.measured and "other" in only.measured
    assert fleet.loop.run(fleet.dispatcher.collect("driver", FAR)) == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"latency": 1.0},
        {"latency": {"median_ms": -1.0, "spread": 0.0, "samples": 1}},
        {"latency": {"median_ms": "1", "spread": 0.0, "samples": 1}},
        {"latency": {"median_ms": 1.0, "spread": float("nan"), "samples": 1}},
        {"latencies_ms": [1.0, float("nan")]},
        {"error": "memory"},
    ],
)
def test_answers_that_are_not_valid(answer):
    assert not is_valid(answer)
