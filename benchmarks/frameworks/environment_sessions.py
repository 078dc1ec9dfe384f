"""Sessions of frameworks in separate Python environments.

The program of an `EnvironmentSession`, which imports only numpy, the framework, and
modules of `ios_tf` that need nothing else.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ios_tf.callers.frameworks import (
    Caller,
    Model,
    SeparateSession,
    Session,
    TensorFlowSession,
)
from ios_tf.errors import UserError
from ios_tf.processes import answer_requests, wait_until_idle


class MnnSession(SeparateSession):
    """MNN with its default settings, which compute in float32."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        import MNN.expr
        import MNN.nn
        from _tools import mnnconvert  # the command of this name installs packages

        path = f"{model.path}.mnn"
        files = ["--modelFile", model.path, "--MNNModel", path]
        mnnconvert(["mnnconvert", "-f", "ONNX", *files, "--bizCode", "ios_tf"])
        if not os.path.exists(path):
            raise UserError("MNN cannot convert the ONNX file")
        runtime = MNN.nn.create_runtime_manager(
            ({"backend": "CPU", "numThread": model.threads},)
        )
        self._expr = MNN.expr
        self._module = MNN.nn.load_module_from_file(
            path, list(self.inputs), list(model.outputs), runtime_manager=runtime
        )

    def new_caller(self) -> Caller:
        e = self._expr
        values = [
            e.const(x, list(x.shape), e.NCHW, e.float) for x in self.inputs.values()
        ]

        def outputs() -> Mapping[str, np.ndarray]:
            results = [y.read() for y in self._module.onForward(values)]
            return dict(zip(self.model.outputs, results, strict=True))

        return Caller(outputs, outputs)


class NcnnSession(SeparateSession):
    """ncnn in float32, or with its default settings, which store float16."""

    def __init__(self, model: Model, float32: bool) -> None:
        super().__init__(model)
        import ncnn

        if model.batch_size != 1:
            raise UserError("ncnn runs batch size 1 only")
        # Importing pnnx would import PyTorch, which its program does not need.
        pnnx = importlib.metadata.distribution("pnnx").locate_file("pnnx/pnnx")
        shapes = [str(list(x.shape)).replace(" ", "") for x in self.inputs.values()]
        words = [f"inputshape={','.join(shapes)}", f"fp16={int(not float32)}"]
        directory, name = os.path.split(model.path)
        if subprocess.run([pnnx, name, *words], cwd=directory).returncode:
            raise UserError("pnnx cannot convert the ONNX file")
        self._ncnn, self._net = ncnn, ncnn.Net()
        self._net.opt.num_threads = model.threads
        if float32:
            for use in ("packed", "storage", "arithmetic"):
                setattr(self._net.opt, f"use_fp16_{use}", False)
        files = f"{os.path.splitext(model.path)[0]}.ncnn"
        if self._net.load_param(f"{files}.param") or self._net.load_model(
            f"{files}.bin"
        ):
            raise UserError("ncnn cannot load the network that pnnx wrote")

    def new_caller(self) -> Caller:
        # ncnn's tensors do not have a batch dimension.
        inputs = [self._ncnn.Mat(x[0]).clone() for x in self.inputs.values()]

        def call() -> list[Any]:
            extractor = self._net.create_extractor()
            for i, x in enumerate(inputs):
                extractor.input(f"in{i}", x)
            return [
                extractor.extract(f"out{i}")[1] for i in range(len(self.model.outputs))
            ]

        def outputs() -> Mapping[str, np.ndarray]:
            results = [np.array(y)[None] for y in call()]
            return dict(zip(self.model.outputs, results, strict=True))

        return Caller(call, outputs)


class ZenTfSession(TensorFlowSession):
    """TensorFlow with zentf, AMD's plugin, which computes in float32 by default."""

    uses_plugin = True

    def __init__(self, model: Model) -> None:
        os.environ["TF_ENABLE_ZENDNN_OPTS"] = "1"  # else, the plugin does nothing
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(model.threads)
        super().__init__(model)


# The session and the packages of each peer.
SESSIONS: Mapping[str, tuple[Callable[[Model], Session], Sequence[str]]] = {
    "mnn": (MnnSession, ("MNN",)),
    "ncnn": (lambda model: NcnnSession(model, True), ("ncnn", "pnnx")),
    "ncnn_as_installed": (lambda model: NcnnSession(model, False), ("ncnn", "pnnx")),
    "zentf": (ZenTfSession, ("zentf", "tensorflow")),
}


def main(sessions: Mapping[str, Any] = SESSIONS) -> None:
    """Answers the requests of an `EnvironmentRunner` until standard input ends."""
    caller: Caller | None = None

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        nonlocal caller
        if "model" in request:
            session, packages = sessions[request["session"]]
            (caller,) = session(Model(**request["model"])).callers(1)
            return {name: importlib.metadata.version(name) for name in packages}
        if caller is None:
            raise UserError("no model is loaded")
        if "arrays" in request:
            arrays: Any = caller.outputs()
            np.savez(request["arrays"], **arrays)
        elif "calls" in request:
            start = time.perf_counter()
            for _ in range(request["calls"]):
                caller.call()
            return {"ms": (time.perf_counter() - start) * 1e3 / request["calls"]}
        else:
            wait_until_idle()
        return {}

    answer_requests(answer)
