"""Workers: one process for each peer, which measures on request.

Peers in one process would disturb each other through thread pools, allocators and
libraries of the same name. So each peer has its own process. Only one process works
at a time: the parent asks one worker, waits for its answer, and asks the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import command_line
from benchmarks.frameworks.peers import PEERS
from benchmarks.frameworks.runner import SavedModel, Target
from ios_tf.errors import UserError
from ios_tf.model.network import Network
from ios_tf.native import malloc


class PeerError(RuntimeError):
    """A peer cannot run the network; the message is one line."""


class Worker:
    """A peer with one network, in its own process.

    Attributes:
      seconds: time that preparing the network took.
      versions: versions of the framework's modules.
      notes: remarks for the table.
    """

    def __init__(self, peer: str, network: str, target: Target) -> None:
        """Starts the process and waits until the network is ready.

        Args:
          peer: a key of PEERS.
          network: the file of a Network (`python -m benchmarks export_blocks`).
          target: the device and settings to prepare the network for.

        Raises:
          PeerError: the peer cannot run the network.
        """
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command_line("worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(target),
        )
        device = re.sub(r"^gpu:\d+", "gpu", target.device)  # it sees only that GPU
        try:
            ready = self._ask(
                {
                    "peer": peer,
                    "network": network,
                    "target": {**dataclasses.asdict(target), "device": device},
                }
            )
        except BaseException:
            self.close()
            raise
        self.seconds: float = ready["seconds"]
        self.versions: dict[str, str] = ready["versions"]
        self.notes: str = ready["notes"]

    def outputs(self) -> list[np.ndarray]:
        """Returns the outputs for the data that every peer gets, channels last."""
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            self._ask({"outputs": file.name})
            with np.load(file.name) as arrays:
                return [arrays[f"arr_{i}"] for i in range(len(arrays))]

    def time(self) -> float:
        """Measures once; returns the latency in milliseconds."""
        return self._ask({"time": True})["ms"]

    def close(self) -> None:
        """Ends the process."""
        with contextlib.suppress(BrokenPipeError):  # the process has already ended
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            raise PeerError(f"the process ended: {self._why()}")
        result = json.loads(answer)
        if "error" in result:
            raise PeerError(result["error"])
        return result

    def _why(self) -> str:
        """Returns why the process ended: signal, last error line, or exit code."""
        code = self._process.wait()
        if code < 0:
            return signal.strsignal(-code) or f"signal {-code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return said[-1][:200] if said else f"exit code {code}"


def _environment(target: Target) -> dict[str, str]:
    """Gives every framework the same threads; shows it only the target's GPU."""
    threads = str(target.threads)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": threads,
        "IOS_TF_NUM_THREADS": threads,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    ordinal = re.match(r"gpu:(\d+)", target.device)
    if ordinal:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else []
        number = int(ordinal[1])
        environment["CUDA_VISIBLE_DEVICES"] = (
            names[number] if number < len(names) else str(number)
        )
    return environment


def main(_: Sequence[str]) -> int:
    """Answers the requests of a `Worker` until its input ends."""
    # Send what frameworks print to stderr, so that it does not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    runner, calls = None, 0
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "peer" in request:
                runner, answer = _ready(request)
                malloc.release_unused()  # peers share the machine's memory
                calls = runner.calls()
            elif "outputs" in request:
                runner.run()
                np.savez(request["outputs"], *runner.outputs())
                answer = {}
            else:
                answer = {"ms": runner.time(calls)}
        except Exception as error:
            text = " ".join(str(error).split())
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            answer = {"error": (kind + text)[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _ready(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    saved_model = request["target"].pop("saved_model")
    target = Target(
        **request["target"], saved_model=saved_model and SavedModel(**saved_model)
    )
    if target.kind == "cpu":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: target.threads])
    peer = PEERS[request["peer"]]
    start = time.monotonic()
    runner = peer.make(Network.read(request["network"]), target)
    return runner, {
        "seconds": time.monotonic() - start,
        "versions": peer.versions(),
        "notes": runner.notes,
    }
