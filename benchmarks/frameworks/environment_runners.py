"""Runners of frameworks in separate Python environments.

Their packages, or the packages' requirements, would change the main environment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.frameworks.saved_model_runners import SavedModelRunner
from ios_tf.callers.frameworks import Caller, Model, Session
from ios_tf.errors import UserError
from ios_tf.processes import ChildError, RequestProcess

_ROOT = Path(__file__).resolve().parents[2]
# The module ios_tf is replaced by an empty one, because it would load the plugin into
# zentf's TensorFlow. Modules inside of it can still be imported.
PROGRAM = f"""
import sys, types
sys.path.append({str(_ROOT)!r})
sys.modules["ios_tf"] = types.ModuleType("ios_tf")
sys.modules["ios_tf"].__path__ = [{str(_ROOT / "ios_tf")!r}]
from benchmarks.frameworks.environment_sessions import main
"""


class EnvironmentSession(RequestProcess, Session):
    """A session in the process of another Python.

    Attributes:
      versions: versions of the framework's packages.
    """

    def __init__(self, model: Model, command: Sequence[str], key: str) -> None:
        """Runs `environment_sessions.main` by `command` with the session `key`.

        Raises:
          UserError: the framework cannot run the model.
        """
        super().__init__(command, os.environ)
        try:
            self.versions = self.ask(
                {"session": key, "model": dataclasses.asdict(model)}
            )
        except UserError:
            self.close()
            raise

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return super().ask(request)
        except ChildError as error:
            raise UserError(str(error)) from None

    def callers(self, count: int) -> Sequence[Caller]:
        return [Caller(lambda: self.time(1), lambda: self.ask_arrays({}))] * count

    def time(self, calls: int) -> float:
        """Returns the mean ms of `calls` calls."""
        return self.ask({"calls": calls})["ms"]

    def wait_until_idle(self) -> None:
        """Waits until the process does not use a core."""
        self.ask({})


class EnvironmentRunner(SavedModelRunner):
    """A framework in a process of another Python.

    Attributes:
      environment: the name of the environment, whose Python `Target.pythons` has.
      key: a key of SESSIONS.
    """

    form = "onnx"
    environment: str
    key: str
    loaded: EnvironmentSession

    def load(self, model: Model) -> Session:
        python = self.target.pythons[self.environment]
        command = [python, "-I", "-c", PROGRAM + "main()"]
        session = EnvironmentSession(model, command, self.key)
        self.versions = session.versions
        return session

    def time(self, calls: int) -> float:
        milliseconds = super().time(calls)
        self.loaded.wait_until_idle()
        return milliseconds

    def _timed(self, calls: int) -> float:
        return self.loaded.time(calls)


class MnnRunner(EnvironmentRunner):
    """MNN."""

    environment = key = "mnn"
    notes = "float32 is its default"


class NcnnRunner(EnvironmentRunner):
    """ncnn in float32."""

    environment = key = "ncnn"

    def load(self, model: Model) -> Session:
        """Folds batch norms and paddings first, because pnnx does not fold them."""
        import onnxruntime

        folded = f"{model.path}.folded.onnx"
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath, options.log_severity_level = folded, 3
        level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.graph_optimization_level = level
        cpu = ["CPUExecutionProvider"]
        onnxruntime.InferenceSession(model.path, options, providers=cpu)
        return super().load(dataclasses.replace(model, path=folded))


class NcnnAsInstalledRunner(NcnnRunner):
    """ncnn with its default settings."""

    key = "ncnn_as_installed"
    notes = "stores tensors in float16"


class ZenTfRunner(EnvironmentRunner):
    """TensorFlow with AMD's plugin."""

    form = "original"
    environment = key = "zentf"
    notes = "float32 is its default"
