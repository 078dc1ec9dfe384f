"""The frameworks that `bench --callers` compares.

Each framework runs in its own process, which imports only this framework. The classes
load files that another process has written, so that only the processes of TensorFlow
import TensorFlow.
"""

from __future__ import annotations

import abc
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ios_tf.callers.loops import Call
from ios_tf.errors import UserError
from ios_tf.packages import version_of

# Settings of TensorFlow's batching: how long a call waits for other calls to form a
# batch with, and the smallest length of the queue of waiting calls.
_BATCH_TIMEOUT_MICROSECONDS = 1000
_LEAST_QUEUE = 10


@dataclass(frozen=True)
class Model:
    """A model that a framework loads.

    Attributes:
      path: a SavedModel's directory, an ONNX file or a LiteRT file.
      inputs: a .npz file with the value of each input of a call.
      outputs: the names of the outputs.
      signature, tags: choose the function of a SavedModel.
      batch_size: the number of images in a call.
      batching: whether TensorFlow combines the calls of several callers into batches.
      threads: the number of threads of a call, if there is only one caller; None if
        many callers share the cores.
    """

    path: str
    inputs: str
    outputs: Sequence[str]
    signature: str
    tags: Sequence[str] | None
    batch_size: int
    batching: bool = False
    threads: int | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """The value of each input."""
        with np.load(self.inputs) as arrays:
            return dict(arrays)


class Caller(NamedTuple):
    """One caller of a model.

    Attributes:
      call: runs the model once.
      outputs: returns the outputs of a call by name. Another call may overwrite them.
    """

    call: Call
    outputs: Callable[[], Mapping[str, np.ndarray]]


class Session(abc.ABC):
    """A model that a framework has loaded."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.inputs = model.arrays()

    @abc.abstractmethod
    def callers(self, count: int) -> Sequence[Caller]:
        """Returns `count` callers, which may call at the same time."""


class SeparateSession(Session):
    """A session in which each caller has its own objects of the framework.

    The objects of a caller are created when the caller is first requested.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._callers: list[Caller] = []

    def callers(self, count: int) -> Sequence[Caller]:
        while len(self._callers) < count:
            self._callers.append(self.new_caller())
        return self._callers[:count]

    @abc.abstractmethod
    def new_caller(self) -> Caller:
        """Prepares another caller."""


class TensorFlowSession(Session):
    """A signature of a SavedModel in TensorFlow without the plugin."""

    uses_plugin = False
    hides_gpus = True

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        import tensorflow as tf

        from ios_tf.model import saved_models

        self.tf = tf
        if self.hides_gpus:
            tf.config.set_visible_devices([], "GPU")
        if not self.uses_plugin:
            options = {"use_plugin_optimizers": False}
            tf.config.optimizer.set_experimental_options(options)
        # Keeps a reference to the loaded model, without which its variables would be
        # freed.
        self.loaded = saved_models.load(model.path, model.tags)
        self.function = self.loaded.signatures[model.signature]
        self.tensors = {name: tf.constant(x) for name, x in self.inputs.items()}

    def callers(self, count: int) -> Sequence[Caller]:
        function = self.function
        if self.model.batching:
            function = self._batched(function, count)

        def call() -> Any:
            return function(**self.tensors)

        def outputs() -> Mapping[str, np.ndarray]:
            return {name: np.asarray(value) for name, value in call().items()}

        return [Caller(call, outputs)] * count

    def _batched(self, function: Any, count: int) -> Any:
        """Returns a function that combines waiting calls to a batch, up to `count`."""
        names = list(self.tensors)
        specs = function.structured_input_signature[1]

        def run(*tensors: Any) -> Any:
            return function(**dict(zip(names, tensors, strict=True)))

        joined = self.tf.nondifferentiable_batch_function(
            num_batch_threads=len(os.sched_getaffinity(0)),
            max_batch_size=count * self.model.batch_size,
            batch_timeout_micros=_BATCH_TIMEOUT_MICROSECONDS,
            max_enqueued_batches=max(_LEAST_QUEUE, count),
            autograph=False,
        )(run)
        return self.tf.function(
            lambda **tensors: joined(*(tensors[name] for name in names)),
            autograph=False,
        ).get_concrete_function(
            **{
                name: self.tf.TensorSpec(specs[name].shape, specs[name].dtype, name)
                for name in names
            }
        )


class IosSession(TensorFlowSession):
    """A signature of a SavedModel in TensorFlow with the plugin."""

    uses_plugin = True

    def __init__(self, model: Model) -> None:
        from ios_tf.native import plugin

        plugin.ops()  # raises an error if the library is missing
        super().__init__(model)


class DirectIosSession(IosSession):
    """A signature of a SavedModel in TensorFlow with the plugin, by `ios_tf.direct`."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        from ios_tf.conversion.direct_function import direct

        self.function = direct(self.function)


class OpenVinoSession(SeparateSession):
    """OpenVINO with an infer request for each caller.

    Attributes:
      precision: settings that choose the precision.
    """

    precision: Mapping[str, str] = {"INFERENCE_PRECISION_HINT": "f32"}

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        import openvino

        self._openvino = openvino
        settings: dict[str, Any] = {"PERFORMANCE_HINT": "THROUGHPUT"}
        if model.threads is not None:
            settings["PERFORMANCE_HINT"] = "LATENCY"
            settings["INFERENCE_NUM_THREADS"] = model.threads
        core = openvino.Core()
        network = core.read_model(model.path)
        network.reshape({name: x.shape for name, x in self.inputs.items()})
        self._compiled = core.compile_model(
            network, "CPU", {**self.precision, **settings}
        )

    def new_caller(self) -> Caller:
        request = self._compiled.create_infer_request()
        for name, x in self.inputs.items():
            request.set_tensor(name, self._openvino.Tensor(x))

        def outputs() -> Mapping[str, np.ndarray]:
            request.infer()
            return {
                name: request.get_tensor(name).data.copy()
                for name in self.model.outputs
            }

        return Caller(request.infer, outputs)


class OnnxRuntimeSession(SeparateSession):
    """ONNX Runtime. If there are many callers, each call uses one thread.

    Attributes:
      device: the kind and the number of the device that runs the model.
    """

    device = ("cpu", 0)

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        import onnxruntime

        self.onnxruntime = onnxruntime
        provider, settings = self.provider()
        self._session = onnxruntime.InferenceSession(
            model.path, self.options(), providers=[(provider, settings)]
        )
        if provider not in self._session.get_providers():
            raise UserError(f"ONNX Runtime cannot load {provider}")

    def provider(self) -> tuple[str, dict[str, str]]:
        """The execution provider and its settings."""
        return "CPUExecutionProvider", {}

    def options(self) -> Any:
        """The options of the session."""
        options = self.onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.model.threads or 1
        options.inter_op_num_threads = 1
        return options

    def new_caller(self) -> Caller:
        binding = self._session.io_binding()
        for name, x in self.inputs.items():
            value = self.onnxruntime.OrtValue.ortvalue_from_numpy(x, *self.device)
            binding.bind_ortvalue_input(name, value)
        for name in self.model.outputs:
            binding.bind_output(name, *self.device)

        def call() -> None:
            self._session.run_with_iobinding(binding)

        def outputs() -> Mapping[str, np.ndarray]:
            call()
            values = binding.copy_outputs_to_cpu()
            return dict(zip(self.model.outputs, values, strict=True))

        return Caller(call, outputs)


class LiteRtSession(SeparateSession):
    """LiteRT with an interpreter per caller. Each of many callers uses one thread."""

    def new_caller(self) -> Caller:
        from ai_edge_litert.interpreter import Interpreter

        interpreter = Interpreter(
            model_path=self.model.path, num_threads=self.model.threads or 1
        )
        runner = interpreter.get_signature_runner(self.model.signature)
        indices = {name: at["index"] for name, at in runner.get_input_details().items()}
        results = {
            name: at["index"] for name, at in runner.get_output_details().items()
        }
        del runner  # the interpreter allocates nothing while a runner exists
        for name, x in self.inputs.items():
            interpreter.resize_tensor_input(indices[name], x.shape)
        interpreter.allocate_tensors()
        for name, x in self.inputs.items():
            interpreter.set_tensor(indices[name], x)

        def outputs() -> Mapping[str, np.ndarray]:
            interpreter.invoke()
            return {name: interpreter.get_tensor(i) for name, i in results.items()}

        return Caller(interpreter.invoke, outputs)


@dataclass(frozen=True)
class Framework:
    """A framework, which has a row in the table for each number of callers.

    Attributes:
      name: the name in the table.
      session: loads a model.
      form: the format of the model that it loads: "original", "converted", "onnx" or
        "litert".
      packages: maps modules that users may not have to their packages on PyPI.
      batching: whether TensorFlow combines the calls of several callers into batches.
    """

    name: str
    session: Callable[[Model], Session]
    form: str
    packages: Mapping[str, str] = field(default_factory=dict)
    batching: bool = False

    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [
            package
            for module, package in self.packages.items()
            if importlib.util.find_spec(module) is None
        ]

    def versions(self) -> dict[str, str]:
        """The versions of the installed packages."""
        versions = {package: version_of(package) for package in self.packages.values()}
        return {package: found for package, found in versions.items() if found}


STOCK = "tensorflow"
_TF2ONNX = {"tf2onnx": "tf2onnx"}
FRAMEWORKS: Mapping[str, Framework] = {
    STOCK: Framework("TensorFlow", TensorFlowSession, "original"),
    "ios": Framework("IOS-TF", IosSession, "converted"),
    "ios_direct": Framework("IOS-TF, direct", DirectIosSession, "converted"),
    "tensorflow_batching": Framework(
        "TensorFlow, batching", TensorFlowSession, "original", batching=True
    ),
    "ios_batching": Framework(
        "IOS-TF, batching", IosSession, "converted", batching=True
    ),
    "openvino": Framework(
        "OpenVINO", OpenVinoSession, "onnx", {**_TF2ONNX, "openvino": "openvino"}
    ),
    "onnxruntime": Framework(
        "ONNX Runtime",
        OnnxRuntimeSession,
        "onnx",
        {**_TF2ONNX, "onnxruntime": "onnxruntime"},
    ),
    "litert": Framework(
        "LiteRT", LiteRtSession, "litert", {"ai_edge_litert": "ai-edge-litert"}
    ),
}
