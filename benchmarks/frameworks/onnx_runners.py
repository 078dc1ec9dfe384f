"""Runners on frameworks that read ONNX models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks.runner import Data, FunctionRunner
from ios_tf.errors import UserError


class _OnnxRunner(FunctionRunner):
    """A runner on a framework that reads ONNX models."""

    def start(self) -> None:
        from benchmarks.frameworks import onnx_ops

        if self.target.dtype == "bfloat16":
            raise UserError("bfloat16 is not exported to ONNX")
        self._onnx = onnx_ops
        self.ops = onnx_ops.OnnxOps(self.target.dtype)

    def model(self, data: Data) -> bytes:
        """Returns the region as a serialized ONNX model."""
        model = self._onnx.model_of(data.block, data.weights, self.target.dtype)
        return model.SerializeToString()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(np.asarray(tensor))


class OnnxRuntimeRunner(_OnnxRunner):
    """ONNX Runtime with its sequential executor."""

    parallel = False

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
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
            self.model(data), options, providers=[(provider, flags)]
        )
        if provider not in session.get_providers():
            raise UserError(f"{provider} cannot be loaded")
        binding = session.io_binding()
        self._inputs = [
            onnxruntime.OrtValue.ortvalue_from_numpy(
                self.ops.tensor(x), self.target.platform, self.target.ordinal
            )
            for x in data.inputs
        ]
        for i, value in enumerate(self._inputs):
            binding.bind_ortvalue_input(f"input{i}", value)
        for i in range(len(data.block["outputs"])):
            binding.bind_output(f"output{i}", self.target.platform, self.target.ordinal)

        def call() -> Sequence[Any]:
            session.run_with_iobinding(binding)
            return binding.get_outputs()

        return call

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor.numpy())


class OnnxRuntimeParallelRunner(OnnxRuntimeRunner):
    """ONNX Runtime with its parallel executor."""

    parallel = True


class OpenVinoRunner(_OnnxRunner):
    """OpenVINO, one request at a time."""

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        import openvino

        core = openvino.Core()
        compiled = core.compile_model(
            core.read_model(self.model(data)),
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": self.target.threads,
                "INFERENCE_PRECISION_HINT": "f32",
            },
        )
        request = compiled.create_infer_request()
        for i, x in enumerate(data.inputs):
            request.set_input_tensor(i, openvino.Tensor(self.ops.tensor(x)))
        outputs = [request.get_output_tensor(i) for i in range(len(compiled.outputs))]

        def call() -> Sequence[Any]:
            request.infer()
            return outputs

        return call

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor.data)


class TensorRtRunner(_OnnxRunner):
    """TensorRT as a CUDA graph; PyTorch holds its memory."""

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
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
        if not parser.parse(self.model(data)):
            raise UserError(f"TensorRT: {parser.get_error(0).desc()}")
        config = builder.create_builder_config()
        if not self.target.tf32:
            config.clear_flag(tensorrt.BuilderFlag.TF32)
        plan = builder.build_serialized_network(definition, config)
        if plan is None:
            raise UserError("TensorRT: the network cannot be built")
        compiled = tensorrt.Runtime(logger).deserialize_cuda_engine(plan)
        context = compiled.create_execution_context()
        inputs = [torch.from_numpy(self.ops.tensor(x)).cuda() for x in data.inputs]
        for i, x in enumerate(inputs):
            context.set_tensor_address(f"input{i}", x.data_ptr())
        outputs = []
        for i in range(len(data.block["outputs"])):
            shape = tuple(context.get_tensor_shape(f"output{i}"))
            outputs.append(torch.empty(shape, dtype=inputs[0].dtype, device="cuda"))
            context.set_tensor_address(f"output{i}", outputs[-1].data_ptr())
        # Capture a CUDA graph, as the engine and PyTorch do. The call before it lets
        # TensorRT make the objects that cannot be created during a capture.
        stream = torch.cuda.Stream()
        context.execute_async_v3(stream.cuda_stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            context.execute_async_v3(torch.cuda.current_stream().cuda_stream)

        def replay() -> Sequence[Any]:
            graph.replay()
            return outputs

        replay.alive = (compiled, context, inputs)  # keep alive with the function
        return replay

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor.cpu().numpy())
