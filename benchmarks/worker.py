"""Workers: one process for each peer, which measures on request.

Peers in one process would disturb each other through thread pools, allocators and
libraries of the same name. So each peer has its own process. Only one process works
at a time: the parent asks one worker, waits for its answer, and asks the next.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import command_line
from benchmarks.frameworks.peers import PEERS
from benchmarks.frameworks.runner import SavedModel, Target
from benchmarks.network import Network
from ios_tf.native import malloc
from ios_tf.processes import RequestProcess, answer_requests


class Worker(RequestProcess):
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
          ChildError: the peer cannot run the network.
        """
        super().__init__(command_line("worker"), _environment(target))
        # The process sees only the target's GPU, so the GPU needs no number there.
        device = re.sub(r"^gpu:\d+", "gpu", target.device)
        try:
            ready = self.ask(
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
        arrays = self.ask_arrays({})
        return [arrays[f"arr_{i}"] for i in range(len(arrays))]

    def time(self) -> float:
        """Measures once; returns the latency in milliseconds."""
        return self.ask({"time": True})["ms"]


def _environment(target: Target) -> dict[str, str]:
    """Gives every framework the same threads; shows it only the target's GPU."""
    threads = str(target.threads)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": threads,
        "IOS_TF_NUM_THREADS": threads,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if target.kind == "gpu":
        environment["CUDA_VISIBLE_DEVICES"] = target.gpu
    return environment


def main(_: Sequence[str]) -> int:
    """Answers the requests of a `Worker` until its input ends."""
    runner, calls = None, 0

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal runner, calls
        if "peer" in request:
            runner, ready = _ready(request)
            malloc.release_unused()  # peers share the machine's memory
            calls = runner.calls()
            return ready
        if "arrays" in request:
            runner.run()
            np.savez(request["arrays"], *runner.outputs())
            return {}
        return {"ms": runner.time(calls)}

    answer_requests(answer)
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
        "versions": {**peer.versions(), **runner.versions},
        "notes": runner.notes,
    }
