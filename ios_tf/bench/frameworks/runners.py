"""Runners: a network made ready on the engine or on a peer, to be run and timed.

Frameworks are imported when a runner is made: a process needs only its own.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib.util
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ios_tf import engine
from ios_tf.bench import arrays
from ios_tf.bench.frameworks import interpreter
from ios_tf.bench.frameworks.weights import random_weights
from ios_tf.bench.network import Network
from ios_tf.bench.network_search import find_schedules, schedule_json
from ios_tf.errors import UserError

# Runs of one measurement together take at least so long.
_LEAST_MS = 30.0


@dataclasses.dataclass(frozen=True)
class Target:
    """What a network is made ready for.

    Attributes:
      device: as the engine calls it: "cpu", "cuda", "cuda:1,tf32=0".
      dtype: of all tensors: "float32", "float16", "bfloat16".
      threads: of the CPU.
      time_limit: of the engine's search, in seconds; 0: none.
    """

    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1
    time_limit: float = 0.0

    @property
    def kind(self) -> str:
        """ "cpu" or "cuda"."""
        return self.device.partition(",")[0].partition(":")[0]

    @property
    def tf32(self) -> bool:
        """Whether float32 may be rounded to TF32 in products."""
        return not self.device.endswith("tf32=0")


@dataclasses.dataclass(frozen=True)
class Data:
    """A region with random weights and inputs, float32, as every runner gets them."""

    block: Mapping[str, Any]
    weights: Sequence[Sequence[np.ndarray]]
    inputs: Sequence[np.ndarray]


def data_of(network: Network, dtype: str) -> list[Data]:
    """The same numbers in every process; ones that `dtype` represents exactly."""
    random = np.random.default_rng(0)
    regions = []
    for region in network.regions:
        block = {**region.block, "dtype": dtype}
        weights = [
            [arrays.rounded(w, dtype) for w in ws]
            for ws in random_weights(block, random)
        ]
        inputs = [
            arrays.rounded(random.uniform(-1, 1, shape), dtype)
            for shape in block["inputs"]
        ]
        regions.append(Data(block, weights, inputs))
    return regions


class Runner(abc.ABC):
    """A network that is ready to run.

    Attributes:
      notes: what the table should say about it, or "".
    """

    notes = ""

    @abc.abstractmethod
    def __init__(self, network: Network, target: Target) -> None:
        """Compiles, tunes and loads."""

    @abc.abstractmethod
    def run(self) -> None:
        """Runs all regions once; on a GPU it may return before they are done."""

    def synchronize(self) -> None:
        """Returns when all runs are done."""
        return

    @abc.abstractmethod
    def outputs(self) -> list[np.ndarray]:
        """What the latest run gave, of all regions, channels last."""

    def calls(self) -> int:
        """How many runs make a measurement."""
        self._timed(3)
        return max(1, round(_LEAST_MS / max(self._timed(2), 1e-3)))

    def time(self, calls: int) -> float:
        """Milliseconds of a run, the mean of so many, after unmeasured ones."""
        self._timed(max(1, calls // 3))
        return self._timed(calls)

    def _timed(self, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            self.run()
        self.synchronize()
        return (time.perf_counter() - start) * 1e3 / calls


class IosRunner(Runner):
    """The engine, with the best schedule or the sequential one."""

    def __init__(
        self, network: Network, target: Target, strategy: str = "both"
    ) -> None:
        self._device, self._dtype = target.device, target.dtype
        network = network.with_dtype(target.dtype)
        found = find_schedules(
            network, strategy, target.device, time_limit=target.time_limit
        )
        if strategy == "both":
            stats = found.stats
            self.notes = f"search {stats.seconds:.0f} s, {stats.measured} measurements"
        self._schedules = [
            schedule_json(region.schedule(found.schedules))
            for region in network.regions
        ]
        regions = data_of(network, target.dtype)
        self._programs = [
            engine.Program(
                data.block,
                schedule,
                [w for ws in data.weights for w in ws],
                self._device,
            )
            for data, schedule in zip(regions, self._schedules, strict=True)
        ]
        self._inputs = [
            [arrays.aligned(arrays.encoded(x, target.dtype)) for x in data.inputs]
            for data in regions
        ]
        self._outputs = [
            [
                arrays.aligned(np.empty(shape, inputs[0].dtype))
                for shape in program.output_shapes([x.shape for x in inputs])
            ]
            for program, inputs in zip(self._programs, self._inputs, strict=True)
        ]
        self._calls = [
            program.bind(inputs, outputs)
            for program, inputs, outputs in zip(
                self._programs, self._inputs, self._outputs, strict=True
            )
        ]
        self._profilers: list[engine.Profiler] = []
        if target.kind != "cpu":  # host memory would be copied to and fro
            self._profilers = [
                engine.Profiler(data.block, self._device) for data in regions
            ]

    def run(self) -> None:
        for call in self._calls:
            call()

    def outputs(self) -> list[np.ndarray]:
        return [arrays.decoded(y, self._dtype) for ys in self._outputs for y in ys]

    def _timed(self, calls: int) -> float:
        if not self._profilers:
            return super()._timed(calls)
        return sum(
            float(profiler.measure([schedule], 0, calls, 1)[0, 0])
            for profiler, schedule in zip(self._profilers, self._schedules, strict=True)
        )


class _FunctionRunner(Runner):
    """A peer that makes one function of each region."""

    def __init__(self, network: Network, target: Target) -> None:
        self.target = target
        self.start()
        self._functions = []
        regions = data_of(network, target.dtype)
        while regions:  # weights are large: what is loaded is let go
            self._functions.append(self.function(regions.pop(0)))
        self._results: list[Any] = []
        self.run()
        self.synchronize()

    def start(self) -> None:
        """Sets the framework up."""
        return

    @abc.abstractmethod
    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        """What runs a region on its inputs."""

    @abc.abstractmethod
    def array(self, tensor: Any) -> np.ndarray:
        """An output of a function, channels last."""

    def run(self) -> None:
        self._results = [function() for function in self._functions]

    def outputs(self) -> list[np.ndarray]:
        self.synchronize()
        return [self.array(y) for results in self._results for y in results]


class TorchRunner(_FunctionRunner):
    """PyTorch, as it comes."""

    channels_last = False

    def start(self) -> None:
        import torch

        from ios_tf.bench.frameworks.torch_ops import TorchOps

        self._torch = torch
        torch.set_num_threads(self.target.threads)
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = self.target.tf32
        torch.backends.cudnn.allow_tf32 = self.target.tf32
        self.ops = TorchOps(self.target.kind, self.target.dtype, self.channels_last)

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        inputs = [self.ops.tensor(x) for x in data.inputs]
        return self.prepared(self.module(data), inputs)

    def module(self, data: Data) -> Any:
        """A graph module: straight-line code with the weights as its constants."""
        ops = self.ops
        weights = [[ops.weight(w) for w in ws] for ws in data.weights]

        class Region(self._torch.nn.Module):
            def forward(self, *inputs: Any) -> list[Any]:
                return interpreter.run(ops, data.block, weights, inputs)

        return self._torch.fx.symbolic_trace(Region()).eval()

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
        return lambda: module(*inputs)

    def synchronize(self) -> None:
        if self.target.kind == "cuda":
            self._torch.cuda.synchronize()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor)


class TorchChannelsLastRunner(TorchRunner):
    """PyTorch with channels last; on a GPU with cuDNN's autotuning, as a CUDA graph."""

    channels_last = True

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
        if self.target.kind != "cuda":
            return super().prepared(module, inputs)
        cuda = self._torch.cuda
        self._torch.backends.cudnn.benchmark = True
        stream = cuda.Stream()
        with cuda.stream(stream):
            for _ in range(3):
                module(*inputs)
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            outputs = module(*inputs)

        def replay() -> Sequence[Any]:
            graph.replay()
            return outputs

        return replay


class TorchCompileRunner(TorchRunner):
    """torch.compile: frozen weights on a CPU, max-autotune on a GPU."""

    channels_last = True

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
        import torch._inductor.config

        torch._inductor.config.freezing = True
        mode = "max-autotune" if self.target.kind == "cuda" else "default"
        compiled = torch.compile(module, mode=mode)
        return lambda: compiled(*inputs)


class JaxRunner(_FunctionRunner):
    """JAX, which compiles by XLA."""

    def start(self) -> None:
        import jax

        from ios_tf.bench.frameworks.jax_ops import JaxOps

        if (jax.default_backend() == "gpu") != (self.target.kind == "cuda"):
            raise UserError(f"JAX has the device {jax.default_backend()} only")
        precision = "tensorfloat32" if self.target.tf32 else "float32"
        jax.config.update("jax_default_matmul_precision", precision)
        self._jax = jax
        self.ops = JaxOps(self.target.dtype)

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        ops = self.ops
        weights = [[ops.weight(w) for w in ws] for ws in data.weights]
        inputs = [ops.tensor(x) for x in data.inputs]
        compiled = (
            self._jax.jit(lambda w, x: interpreter.run(ops, data.block, w, x))
            .lower(weights, inputs)
            .compile()
        )
        return lambda: compiled(weights, inputs)

    def run(self) -> None:
        super().run()
        if self.target.kind == "cpu":  # else runs would overlap
            self.synchronize()

    def synchronize(self) -> None:
        self._jax.block_until_ready(self._results)

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor)


class TensorFlowRunner(_FunctionRunner):
    """Stock TensorFlow: a function with constant weights, without the plugin."""

    xla = False

    def start(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        from ios_tf.bench.frameworks.tensorflow_ops import TensorFlowOps

        tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
        tf.config.threading.set_intra_op_parallelism_threads(self.target.threads)
        tf.config.experimental.enable_tensor_float_32_execution(self.target.tf32)
        on_gpu = self.target.kind == "cuda"
        if on_gpu and not tf.config.list_physical_devices("GPU"):
            raise UserError("TensorFlow sees no GPU")
        self._device = "/GPU:0" if on_gpu else "/CPU:0"
        self._tf = tf
        self.ops = TensorFlowOps(self.target.dtype)

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        tf, ops = self._tf, self.ops
        weights = [[ops.weight(w) for w in ws] for ws in data.weights]
        with tf.device(self._device):
            if self.xla:  # which copies constants again and again, and gains nothing
                weights = [[tf.constant(w) for w in ws] for ws in weights]
            inputs = [ops.tensor(x) for x in data.inputs]
            function = tf.function(
                lambda *inputs: interpreter.run(ops, data.block, weights, inputs),
                jit_compile=self.xla or None,
                autograph=False,
            ).get_concrete_function(*inputs)

        def call() -> Sequence[Any]:
            with tf.device(self._device):
                return function(*inputs)

        return call

    def synchronize(self) -> None:
        if self.target.kind == "cuda":
            for results in self._results:
                results[0].numpy()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor)


class TensorFlowXlaRunner(TensorFlowRunner):
    """TensorFlow, compiled by XLA."""

    xla = True


class _OnnxRunner(_FunctionRunner):
    """What reads ONNX models."""

    def start(self) -> None:
        from ios_tf.bench.frameworks import onnx_ops

        if self.target.dtype == "bfloat16":
            raise UserError("bfloat16 is not exported to ONNX")
        self._onnx = onnx_ops
        self.ops = onnx_ops.OnnxOps(self.target.dtype)

    def model(self, data: Data) -> bytes:
        """The region as a serialized ONNX model."""
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
        if self.parallel:  # as many threads in all: each operator has one
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
            options.inter_op_num_threads = self.target.threads
            options.intra_op_num_threads = 1
        cuda = self.target.kind == "cuda"
        provider = "CUDAExecutionProvider" if cuda else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise UserError(f"this ONNX Runtime has no {provider}")
        flags = {"use_tf32": str(int(self.target.tf32))} if cuda else {}
        session = onnxruntime.InferenceSession(
            self.model(data), options, providers=[(provider, flags)]
        )
        if provider not in session.get_providers():
            raise UserError(f"{provider} cannot be loaded")
        binding = session.io_binding()
        self._inputs = [
            onnxruntime.OrtValue.ortvalue_from_numpy(
                self.ops.tensor(x), self.target.kind, 0
            )
            for x in data.inputs
        ]
        for i, value in enumerate(self._inputs):
            binding.bind_ortvalue_input(f"input{i}", value)
        for i in range(len(data.block["outputs"])):
            binding.bind_output(f"output{i}", self.target.kind)

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
    """TensorRT; PyTorch holds its memory."""

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        import tensorrt
        import torch

        self._torch = torch
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
        stream = torch.cuda.Stream()

        def call() -> Sequence[Any]:
            context.execute_async_v3(stream.cuda_stream)
            return outputs

        call.alive = (compiled, inputs)  # as long as the function
        return call

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor.cpu().numpy())


@dataclasses.dataclass(frozen=True)
class Peer:
    """A row of the table.

    Attributes:
      name: in the table.
      make: the runner of a network.
      modules: what must be installed.
      devices: kinds it runs on.
    """

    name: str
    make: Callable[[Network, Target], Runner]
    modules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu", "cuda")

    def missing(self) -> str:
        """The modules that are not installed, or ""."""
        return ", ".join(
            name for name in self.modules if importlib.util.find_spec(name) is None
        )

    def versions(self) -> dict[str, str]:
        """Of its modules."""
        return {
            name: str(getattr(importlib.import_module(name), "__version__", "?"))
            for name in self.modules
        }


OURS = "IOS, best schedule"
PEERS: Mapping[str, Peer] = {
    "ios": Peer(OURS, IosRunner),
    "ios_sequential": Peer(
        "IOS, sequential", lambda n, t: IosRunner(n, t, "sequential")
    ),
    "torch": Peer("PyTorch eager", TorchRunner, ("torch",)),
    "torch_channels_last": Peer(
        "PyTorch channels_last", TorchChannelsLastRunner, ("torch",)
    ),
    "torch_compile": Peer("torch.compile", TorchCompileRunner, ("torch",)),
    "jax": Peer("JAX", JaxRunner, ("jax",)),
    "onnxruntime": Peer("ONNX Runtime", OnnxRuntimeRunner, ("onnxruntime", "onnx")),
    "onnxruntime_parallel": Peer(
        "ONNX Runtime, parallel",
        OnnxRuntimeParallelRunner,
        ("onnxruntime", "onnx"),
        ("cpu",),
    ),
    "openvino": Peer("OpenVINO", OpenVinoRunner, ("openvino", "onnx"), ("cpu",)),
    "tensorflow": Peer("TensorFlow", TensorFlowRunner, ("tensorflow",)),
    "tensorflow_xla": Peer("TensorFlow XLA", TensorFlowXlaRunner, ("tensorflow",)),
    "tensorrt": Peer(
        "TensorRT", TensorRtRunner, ("tensorrt", "torch", "onnx"), ("cuda",)
    ),
}
