"""Runs networks on PyTorch, the peer on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks import interpreter
from benchmarks.frameworks.runner import Data, Runner, Target, data_of
from benchmarks.network import Network


class TorchRunner(Runner):
    """PyTorch with its default settings; each region is a function."""

    channels_last = False

    def __init__(self, network: Network, target: Target) -> None:
        import torch

        from benchmarks.frameworks.torch_ops import TorchOps

        self._torch = torch
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = target.tf32
        torch.backends.cudnn.allow_tf32 = target.tf32
        torch.cuda.set_device(target.ordinal)
        self.ops = TorchOps(target.platform, target.dtype, self.channels_last)
        self._functions = []
        regions = data_of(network, target.dtype)
        while regions:  # weights are large, so free each region's after use
            data = regions.pop(0)
            inputs = [self.ops.tensor(x) for x in data.inputs]
            self._functions.append(self.prepared(self.module(data), inputs))
        self._results: list[Any] = []
        self.run()
        self.synchronize()

    def module(self, data: Data) -> Any:
        """Returns a graph module: straight-line code with the weights as constants."""
        ops = self.ops
        weights = [[ops.weight(w) for w in ws] for ws in data.weights]

        class Region(self._torch.nn.Module):
            def forward(self, *inputs: Any) -> list[Any]:
                return interpreter.run(ops, data.block, weights, inputs)

        return self._torch.fx.symbolic_trace(Region()).eval()

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
        """Returns a function that runs a module on its inputs."""
        return lambda: module(*inputs)

    def run(self) -> None:
        self._results = [function() for function in self._functions]

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def outputs(self) -> list[np.ndarray]:
        self.synchronize()
        return [self.ops.array(y) for results in self._results for y in results]


class TorchChannelsLastRunner(TorchRunner):
    """PyTorch with channels last and cuDNN's autotuning, as a CUDA graph."""

    channels_last = True

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
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
    """torch.compile with frozen weights and max-autotune."""

    channels_last = True

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
        import torch._inductor.config

        torch._inductor.config.freezing = True
        compiled = torch.compile(module, mode="max-autotune")
        return lambda: compiled(*inputs)
