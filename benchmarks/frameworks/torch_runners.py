"""Runners on PyTorch, the peer on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks import interpreter
from benchmarks.frameworks.runner import Data, FunctionRunner


class TorchRunner(FunctionRunner):
    """PyTorch with its default settings."""

    channels_last = False

    def start(self) -> None:
        import torch

        from benchmarks.frameworks.torch_ops import TorchOps

        self._torch = torch
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = self.target.tf32
        torch.backends.cudnn.allow_tf32 = self.target.tf32
        torch.cuda.set_device(self.target.ordinal)
        self.ops = TorchOps(self.target.platform, self.target.dtype, self.channels_last)

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        inputs = [self.ops.tensor(x) for x in data.inputs]
        return self.prepared(self.module(data), inputs)

    def module(self, data: Data) -> Any:
        """Returns a graph module: straight-line code with the weights as constants."""
        ops = self.ops
        weights = [[ops.weight(w) for w in ws] for ws in data.weights]

        class Region(self._torch.nn.Module):
            def forward(self, *inputs: Any) -> list[Any]:
                return interpreter.run(ops, data.block, weights, inputs)

        return self._torch.fx.symbolic_trace(Region()).eval()

    def prepared(self, module: Any, inputs: list[Any]) -> Callable[[], Sequence[Any]]:
        return lambda: module(*inputs)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor)


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
