"""Runners of the network's SavedModel, or of its ONNX export."""

from __future__ import annotations

import abc
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frameworks.runner import Runner, Target
from ios_tf.callers.frameworks import (
    compile_openvino,
    openvino_request,
    set_litert_inputs,
)
from ios_tf.errors import UserError
from ios_tf.model.network import Network

# A function that runs the signature and returns its outputs by name.
_Call = Callable[[], Mapping[str, Any]]


class _SavedModelRunner(Runner):
    """A signature of a SavedModel, with its own weights and random inputs."""

    def __init__(self, network: Network, target: Target) -> None:
        if target.saved_model is None:
            raise UserError(f"{network.name} has no SavedModel")
        if target.dtype != "float32":
            raise UserError(f"a SavedModel is not run in {target.dtype}")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        from ios_tf.model import saved_models
        from ios_tf.model.inputs import example_inputs

        self.target = target
        self.source = target.saved_model
        tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
        tf.config.threading.set_intra_op_parallelism_threads(target.threads)
        tf.config.experimental.enable_tensor_float_32_execution(target.tf32)
        self.tf = tf
        with tf.device(self.device()):
            # Without a reference to it, the model would lose its variables.
            self.loaded = saved_models.load(self.source.path, self.source.tags)
            self.name = saved_models.choose_signature(
                self.source.signature, self.loaded
            )
            signature = self.loaded.signatures[self.name]
            inputs = example_inputs(signature, network.batch_size)
            self._call = self.function(signature, inputs)
        self.results: Mapping[str, Any] = {}
        self.run()
        self.synchronize()

    def device(self) -> str:
        """Returns TensorFlow's name of the device that has the variables."""
        return "/CPU:0"

    @abc.abstractmethod
    def function(self, signature: Any, inputs: Mapping[str, Any]) -> _Call:
        """Returns a function that runs the signature on its inputs."""

    def run(self) -> None:
        self.results = self._call()

    def outputs(self) -> list[np.ndarray]:
        return [self.array(self.results[name]) for name in sorted(self.results)]

    def array(self, output: Any) -> np.ndarray:
        """Converts an output of the function to an array."""
        return np.asarray(output)


class TensorFlowRunner(_SavedModelRunner):
    """Stock TensorFlow, without the plugin."""

    xla = False

    def device(self) -> str:
        if self.target.kind == "cpu":
            return super().device()
        if not self.tf.config.list_physical_devices("GPU"):
            raise UserError("TensorFlow sees no GPU")
        return f"/GPU:{self.target.ordinal}"

    def function(self, signature: Any, inputs: Mapping[str, Any]) -> _Call:
        device = self.device()
        if self.xla:
            signature = self.tf.function(
                lambda **arguments: signature(**arguments), jit_compile=True
            ).get_concrete_function(**inputs)

        def call() -> Mapping[str, Any]:
            with self.tf.device(device):
                return signature(**inputs)

        return call

    def synchronize(self) -> None:
        if self.target.kind == "gpu":
            next(iter(self.results.values())).numpy()


class TensorFlowXlaRunner(TensorFlowRunner):
    """TensorFlow, compiled by XLA."""

    xla = True


class LiteRtRunner(_SavedModelRunner):
    """LiteRT with its default kernels for CPUs, which are XNNPACK's."""

    def function(self, signature: Any, inputs: Mapping[str, Any]) -> _Call:
        from ai_edge_litert.interpreter import Interpreter

        converter = self.tf.lite.TFLiteConverter.from_saved_model(
            self.source.path, signature_keys=[self.name], tags=self.source.tags
        )
        interpreter = Interpreter(
            model_content=converter.convert(), num_threads=self.target.threads
        )
        arrays = {name: value.numpy() for name, value in inputs.items()}
        outputs = set_litert_inputs(interpreter, self.name, arrays)
        self._interpreter = interpreter

        def call() -> Mapping[str, Any]:
            interpreter.invoke()
            return outputs

        return call

    def array(self, output: int) -> np.ndarray:
        return self._interpreter.get_tensor(output)


class _OnnxRunner(_SavedModelRunner):
    """A runtime of ONNX models, with tf2onnx's export of the signature."""

    def function(self, signature: Any, inputs: Mapping[str, Any]) -> _Call:
        from ios_tf.conversion.onnx_export import export_onnx

        with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
            file = Path(directory, "model.onnx")
            export_onnx(
                self.source.path, file, signature=self.name, tags=self.source.tags
            )
            content = file.read_bytes()
        arrays = {name: value.numpy() for name, value in inputs.items()}
        return self.session(content, arrays, sorted(signature.structured_outputs))

    @abc.abstractmethod
    def session(
        self, model: bytes, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> _Call:
        """Returns a function that runs an ONNX model on its inputs."""


class OnnxRuntimeRunner(_OnnxRunner):
    """ONNX Runtime with its sequential executor."""

    parallel = False

    def session(
        self, model: bytes, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> _Call:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.target.threads
        if self.parallel:  # the same number of threads: one per operator
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
            options.inter_op_num_threads = self.target.threads
            options.intra_op_num_threads = 1
        cuda = self.target.kind == "gpu"
        provider = "CUDAExecutionProvider" if cuda else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise UserError(f"this ONNX Runtime has no {provider}")
        flags = {}
        if cuda:
            flags["use_tf32"] = str(int(self.target.tf32))
            flags["device_id"] = str(self.target.ordinal)
        session = onnxruntime.InferenceSession(
            model, options, providers=[(provider, flags)]
        )
        if provider not in session.get_providers():
            raise UserError(f"{provider} cannot be loaded")
        binding = session.io_binding()
        device = self.target.platform, self.target.ordinal
        self._inputs = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(x, *device)
            for name, x in inputs.items()
        }
        for name, value in self._inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            binding.bind_output(name, *device)

        def call() -> Mapping[str, Any]:
            session.run_with_iobinding(binding)
            return dict(zip(outputs, binding.get_outputs(), strict=True))

        return call

    def array(self, output: Any) -> np.ndarray:
        return output.numpy()


class OnnxRuntimeParallelRunner(OnnxRuntimeRunner):
    """ONNX Runtime with its parallel executor."""

    parallel = True


class OpenVinoRunner(_OnnxRunner):
    """OpenVINO, one request at a time."""

    def session(
        self, model: bytes, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> _Call:
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.target.threads,
        }
        compiled = compile_openvino(model, inputs, settings)
        request = openvino_request(compiled, inputs)
        results = {name: request.get_tensor(name) for name in outputs}

        def call() -> Mapping[str, Any]:
            request.infer()
            return results

        return call

    def array(self, output: Any) -> np.ndarray:
        return output.data.copy()


class TensorRtRunner(_OnnxRunner):
    """TensorRT as a CUDA graph; PyTorch holds its memory."""

    def session(
        self, model: bytes, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> _Call:
        import tensorrt
        import torch

        self._torch = torch
        torch.cuda.set_device(self.target.ordinal)
        logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        builder = tensorrt.Builder(logger)
        definition = builder.create_network(
            1 << int(tensorrt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        )
        parser = tensorrt.OnnxParser(definition, logger)
        if not parser.parse(model):
            raise UserError(f"TensorRT: {parser.get_error(0).desc()}")
        config = builder.create_builder_config()
        if not self.target.tf32:
            config.clear_flag(tensorrt.BuilderFlag.TF32)
        profile = builder.create_optimization_profile()
        for name, x in inputs.items():
            profile.set_shape(name, *[x.shape] * 3)
        config.add_optimization_profile(profile)
        plan = builder.build_serialized_network(definition, config)
        if plan is None:
            raise UserError("TensorRT: the network cannot be built")
        compiled = tensorrt.Runtime(logger).deserialize_cuda_engine(plan)
        context = compiled.create_execution_context()
        tensors = {name: torch.from_numpy(x).cuda() for name, x in inputs.items()}
        for name, x in tensors.items():
            context.set_input_shape(name, tuple(x.shape))
        results = {
            name: torch.empty(tuple(context.get_tensor_shape(name)), device="cuda")
            for name in outputs
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

        def replay() -> Mapping[str, Any]:
            graph.replay()
            return results

        replay.alive = (compiled, context, tensors)  # keep alive with the function
        return replay

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def array(self, output: Any) -> np.ndarray:
        return output.cpu().numpy()
