"""The device of a fleet: measures tasks on the machine where it runs.

A task and its answer are plain objects that can be written as JSON:

    {"key": …, "signature": …, "block": …, "lanes": N, "stage": …}
        asks for the latency of a stage
    {"key": …, "signature": …, "block": …, "seconds": S, "schedules": […]}
        asks for the latencies of whole schedules

    {"latency": {"median_ms": …, "spread": …, "samples": …, "disturbed": …}}
    {"latencies_ms": […]}
    {"error": "memory" or "engine", "message": …}
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import ios_tf
from ios_tf.cost.cost_model import MAX_SEARCHES, Measurement
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.cost.work import SUM, block_of, convolution
from ios_tf.errors import first_line
from ios_tf.native import engine
from ios_tf.packages import version_of
from ios_tf.scheduler import Problem, Schedule, Stage

# Stages by which devices are compared: a convolution, which is limited by arithmetic,
# and a sum, which is limited by the bandwidth of the memory.
_REFERENCES = (
    block_of(convolution(3, 128), [1, 28, 28, 128]),
    block_of(SUM, [1, 128, 128, 64]),
)


def versions() -> dict[str, str]:
    """The versions that must be equal on all machines of a fleet."""
    packages = ("tensorflow", "numpy")
    found = {package: version_of(package) or "not installed" for package in packages}
    return {"ios_tf": ios_tf.__version__, **found}


class MeasuringDevice:
    """Measures on one device of this machine, alone."""

    def __init__(self, device: str, measurement: Mapping[str, Any]) -> None:
        """`device` is the engine's name; `measurement` has the fields of Measurement.

        Raises:
          EngineError: the device does not exist.
        """
        self._device = device
        self._cost_model = ProfiledCostModel(device, Measurement(**measurement))
        self._problems: dict[str, Problem] = {}

    def describe(self) -> dict[str, Any]:
        """The properties of the device that a driver must know."""
        return {
            "fingerprint": engine.device_directory(
                engine.device_fingerprint(self._device)
            ),
            "lanes": self._cost_model.lanes,
            "lanes_divide_device": self._cost_model.lanes_divide_device,
            "versions": versions(),
            "host": os.uname().nodename,
        }

    def references(self) -> list[float]:
        """Measures the stages by which devices are compared, in ms."""
        problems = [
            self._problem(f"reference {number}", block)
            for number, block in enumerate(_REFERENCES)
        ]
        with self._alone():
            return [
                self._cost_model.stage_latency(
                    problem, Stage.concurrent(problem, problem.all_operators)
                )
                for problem in problems
            ]

    def measure(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Measures a task; returns its answer."""
        try:
            with contextlib.suppress(MemoryError):
                return self._answer(task)
            self._release()  # the blocks of earlier tasks may need the memory
            return self._answer(task)
        except MemoryError as error:
            self._release()
            return {"error": "memory", "message": first_line(error)}
        except engine.EngineError as error:
            return {"error": "engine", "message": first_line(error)}

    def _answer(self, task: Mapping[str, Any]) -> dict[str, Any]:
        problem = self._problem(task["signature"], task["block"])
        with self._alone():
            if "schedules" in task:
                candidates = [_stages(schedule) for schedule in task["schedules"]]
                found = self._cost_model.compare(problem, candidates, task["seconds"])
                return {"latencies_ms": found}
            (stage,) = _stages(task["stage"])
            latency = self._cost_model.observe(problem, stage, task["lanes"])
            return {"latency": dataclasses.asdict(latency)}

    def _problem(self, signature: str, block: Mapping[str, Any]) -> Problem:
        if signature not in self._problems:
            if len(self._problems) >= MAX_SEARCHES:
                self._release()
            self._problems[signature] = Problem.from_json(engine.problem(block))
        return self._problems[signature]

    def _release(self) -> None:
        self._problems.clear()
        self._cost_model.release()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """In the `with` block, no other process measures on the same cores or GPUs."""
        cores = sorted(os.sched_getaffinity(0))
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        name = hashlib.sha256(f"{self._device} {cores} {gpus}".encode()).hexdigest()
        path = os.path.join(
            tempfile.gettempdir(), f"ios_tf_{os.getuid()}_{name[:16]}.lock"
        )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)  # also unlocks


def block_json(problem: Problem) -> dict[str, Any]:
    """The members of a task that describe its block."""
    return {"signature": problem.signature, "block": problem.block}


def stage_json(*stages: Stage) -> Any:
    """The JSON object of a schedule with these stages, as it is in tasks."""
    return Schedule(stages).json_object()


def _stages(schedule: Any) -> tuple[Stage, ...]:
    return Schedule.from_json(schedule).stages
