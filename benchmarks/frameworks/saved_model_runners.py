"""Runners of the network's SavedModel, or of its ONNX export.

They are sessions of `ios_tf.callers` with one caller, which may use all threads.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.frameworks.runner import Runner, Target
from benchmarks.network import Network
from ios_tf.callers.frameworks import (
    Caller,
    LiteRtSession,
    Model,
    OnnxRuntimeSession,
    OpenVinoSession,
    SeparateSession,
    Session,
    TensorFlowSession,
)
from ios_tf.errors import UserError


class SavedModelRunner(Runner):
    """A signature of a SavedModel, with its own weights and random inputs.

    Attributes:
      form: the form of the model that the framework loads, see `Framework`.
      session: loads the model.
    """

    form = "original"
    session: Callable[[Model], Session]

    def __init__(self, network: Network, target: Target) -> None:
        source = target.saved_model
        if source is None:
            raise UserError(f"{network.name} has no SavedModel")
        if target.dtype != "float32":
            raise UserError(f"a SavedModel runs in float32 only, not in {target.dtype}")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        from ios_tf.callers.forms import Forms, store_inputs
        from ios_tf.model import saved_models
        from ios_tf.model.inputs import example_inputs

        self.tf, self.target = tf, target
        tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
        tf.config.threading.set_intra_op_parallelism_threads(target.threads)
        tf.config.experimental.enable_tensor_float_32_execution(target.tf32)
        loaded = saved_models.load(source.path, source.tags)
        name = saved_models.choose_signature(source.signature, loaded)
        signature = loaded.signatures[name]
        inputs = example_inputs(signature, network.batch_size)
        with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
            model = Model(
                source.path,
                store_inputs(inputs, directory),
                sorted(signature.structured_outputs),
                name,
                source.tags,
                network.batch_size,
                threads=target.threads,
            )
            path = Forms(model, directory).path(self.form)
            del loaded, signature  # the session loads the model, too
            with tf.device(self.device()):
                self.loaded = self.load(dataclasses.replace(model, path=path))
                (self._caller,) = self.loaded.callers(1)
        self.results: Any = None
        self.run()
        self.synchronize()

    def device(self) -> str:
        """Returns TensorFlow's name of the device that has the variables."""
        return "/CPU:0"

    def load(self, model: Model) -> Session:
        """Loads the model, after the device and the threads are chosen."""
        return type(self).session(model)

    def run(self) -> None:
        self.results = self._caller.call()

    def outputs(self) -> list[np.ndarray]:
        outputs = self._caller.outputs()
        return [outputs[name] for name in sorted(outputs)]


class _TensorFlow(TensorFlowSession):
    hides_gpus = False


class TensorFlowRunner(SavedModelRunner):
    """Stock TensorFlow, without the plugin."""

    session = _TensorFlow

    def device(self) -> str:
        if self.target.kind == "cpu":
            return super().device()
        if not self.tf.config.list_physical_devices("GPU"):
            raise UserError("TensorFlow does not find a GPU")
        return f"/GPU:{self.target.ordinal}"

    def run(self) -> None:
        with self.tf.device(self.device()):
            super().run()

    def synchronize(self) -> None:
        if self.target.kind == "gpu":
            next(iter(self.results.values())).numpy()


# XLA's flag for CUDA graphs whose branches run at the same time.
XLA_CONCURRENT_GRAPHS = "--xla_gpu_command_buffer_scheduling_mode=CONCURRENT"


class TensorFlowXlaRunner(TensorFlowRunner):
    """TensorFlow, compiled by XLA."""

    def load(self, model: Model) -> Session:
        if self.target.kind == "gpu":  # XLA reads the variable when it first compiles
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{XLA_CONCURRENT_GRAPHS} {flags}"
        loaded = _TensorFlow(model)
        signature = loaded.function
        loaded.function = self.tf.function(
            lambda **arguments: signature(**arguments), jit_compile=True
        ).get_concrete_function(**loaded.tensors)
        return loaded


class LiteRtRunner(SavedModelRunner):
    """LiteRT with its default kernels for CPUs, which are XNNPACK's."""

    form = "litert"
    session = LiteRtSession


class OpenVinoRunner(SavedModelRunner):
    """OpenVINO, one request at a time."""

    form = "onnx"
    session = OpenVinoSession


class _OpenVinoAsInstalled(OpenVinoSession):
    precision: Mapping[str, str] = {}

    def chosen_precision(self) -> str:
        """Returns OpenVINO's name of the precision that it has chosen."""
        return self._compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()


class OpenVinoAsInstalledRunner(OpenVinoRunner):
    """OpenVINO with the precision that it chooses for the processor."""

    session = _OpenVinoAsInstalled

    def load(self, model: Model) -> Session:
        loaded = super().load(model)
        self.notes = f"computes in {loaded.chosen_precision()}"
        return loaded


class _OnnxRuntime(OnnxRuntimeSession):
    """ONNX Runtime on a CPU or a GPU."""

    def __init__(self, model: Model, target: Target, parallel: bool) -> None:
        self._target, self._parallel = target, parallel
        self.device = target.platform, target.ordinal
        super().__init__(model)

    def provider(self) -> tuple[str, dict[str, str]]:
        if self._target.kind == "cpu":
            return super().provider()
        return "CUDAExecutionProvider", {
            "use_tf32": str(int(self._target.tf32)),
            "device_id": str(self._target.ordinal),
        }

    def options(self) -> Any:
        options = super().options()
        if self._parallel:  # the same number of threads: one per operator
            options.execution_mode = self.onnxruntime.ExecutionMode.ORT_PARALLEL
            options.inter_op_num_threads = self._target.threads
            options.intra_op_num_threads = 1
        return options


class OnnxRuntimeRunner(SavedModelRunner):
    """ONNX Runtime with its sequential executor."""

    form = "onnx"
    parallel = False

    def load(self, model: Model) -> Session:
        return _OnnxRuntime(model, self.target, self.parallel)


class OnnxRuntimeParallelRunner(OnnxRuntimeRunner):
    """ONNX Runtime with its parallel executor."""

    parallel = True


def configure_tensorrt(config: Any, tf32_flag: Any, target: Target) -> None:
    """Makes TensorRT build the fastest engine that it can.

    Args:
      config: a `tensorrt.IBuilderConfig`.
      tf32_flag: the flag of `config` that allows TF32.
    """
    config.builder_optimization_level = 5  # the highest level; the default is 3
    # TensorRT's heuristics choose the number of auxiliary streams unless it is set.
    # With the caller's stream, this allows as many streams as the engine has lanes.
    config.max_aux_streams = 7
    if not target.tf32:
        config.clear_flag(tf32_flag)


class _TensorRt(SeparateSession):
    """TensorRT as a CUDA graph; PyTorch allocates the memory of the tensors."""

    def __init__(self, model: Model, target: Target) -> None:
        super().__init__(model)
        import tensorrt
        import torch

        self._tensorrt, self._torch = tensorrt, torch
        torch.cuda.set_device(target.ordinal)
        self._logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        self._plan = self._built(target)

    def _built(self, target: Target) -> Any:
        """Returns the serialized engine."""
        tensorrt = self._tensorrt
        builder = tensorrt.Builder(self._logger)
        definition = builder.create_network(
            1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        )
        parser = tensorrt.OnnxParser(definition, self._logger)
        if not parser.parse_from_file(self.model.path):
            raise UserError(f"TensorRT: {parser.get_error(0).desc()}")
        config = builder.create_builder_config()
        configure_tensorrt(config, tensorrt.BuilderFlag.TF32, target)
        profile = builder.create_optimization_profile()
        for name, x in self.inputs.items():
            profile.set_shape(name, *[x.shape] * 3)
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(definition, config)
        if plan is None:
            raise UserError("TensorRT: the network cannot be built")
        return plan

    def new_caller(self) -> Caller:
        torch = self._torch
        compiled = self._tensorrt.Runtime(self._logger).deserialize_cuda_engine(
            self._plan
        )
        context = compiled.create_execution_context()
        tensors = {name: torch.from_numpy(x).cuda() for name, x in self.inputs.items()}
        for name, x in tensors.items():
            context.set_input_shape(name, tuple(x.shape))
        results = {
            name: torch.empty(tuple(context.get_tensor_shape(name)), device="cuda")
            for name in self.model.outputs
        }
        for name, tensor in (tensors | results).items():
            context.set_tensor_address(name, tensor.data_ptr())
        # Capture a CUDA graph, as the engine and PyTorch do. The call before it lets
        # TensorRT make the objects that cannot be created during a capture.
        stream = torch.cuda.Stream()
        context.execute_async_v3(stream.cuda_stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        self._alive = (compiled, context, tensors)

        def outputs() -> Mapping[str, np.ndarray]:
            graph.replay()
            return {name: y.cpu().numpy() for name, y in results.items()}

        return Caller(graph.replay, outputs)


class TensorRtRunner(SavedModelRunner):
    """TensorRT. PyTorch waits for the end of its runs."""

    form = "onnx"

    def load(self, model: Model) -> Session:
        return _TensorRt(model, self.target)

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()
