"""The process of a framework: loads a model and runs loops of callers on request."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ios_tf.callers import loops
from ios_tf.callers.frameworks import FRAMEWORKS, Model, Session
from ios_tf.callers.loops import Measurement
from ios_tf.native import malloc
from ios_tf.processes import RequestProcess, answer_requests, wait_until_idle

_ROOT = Path(__file__).resolve().parents[2]
# The empty entry of sys.path is removed, so that modules in the working directory are
# not imported.
_PROGRAM = f"""
import sys
sys.path = [{str(_ROOT)!r}, *filter(None, sys.path)]
from ios_tf.callers.worker import main
main()
"""


class Worker(RequestProcess):
    """A framework with one model, in its own process.

    Attributes:
      outputs: the outputs of one call by name.
    """

    def __init__(self, framework: str, model: Model) -> None:
        """Starts the process and waits until the model is loaded.

        Raises:
          ChildError: the framework cannot run the model.
        """
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        super().__init__([sys.executable, "-c", _PROGRAM], environment)
        try:
            self.ask({"framework": framework, "model": dataclasses.asdict(model)})
            self.outputs: dict[str, np.ndarray] = self.ask_arrays({})
        except BaseException:
            self.close()
            raise

    def measure(
        self, callers: int, seconds: float, rate: float | None, seed: int
    ) -> Measurement:
        """Runs a closed loop, or an open loop if there is a rate of arrivals.

        Raises:
          ChildError: a call failed.
        """
        request = {"callers": callers, "seconds": seconds, "rate": rate, "seed": seed}
        return Measurement(**self.ask(request))

    def close(self) -> None:
        """Ends the process at once, because it has nothing to save."""
        self._process.kill()
        super().close()


def main() -> None:
    """Answers the requests of a `Worker` until its input ends."""
    session: Session | None = None

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal session
        if "framework" in request:
            model = Model(**request["model"])
            session = FRAMEWORKS[request["framework"]].session(model)
            malloc.release_unused()  # the frameworks share the machine's memory
            return {}
        assert session is not None
        if "arrays" in request:
            arrays: Any = session.callers(1)[0].outputs()
            np.savez(request["arrays"], **arrays)
            return {}
        return dataclasses.asdict(_measured(session, **request))

    answer_requests(answer)


def _measured(
    session: Session, callers: int, seconds: float, rate: float | None, seed: int
) -> Measurement:
    calls = [caller.call for caller in session.callers(callers)]
    if rate is None:
        measurement = loops.closed_loop(calls, seconds)
    else:
        arrivals = loops.arrival_times(rate, seconds, seed)
        measurement = loops.open_loop(calls, arrivals)
    wait_until_idle()  # so that the next framework can use all cores
    return measurement
