"""Runners on TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks import interpreter
from benchmarks.frameworks.runner import Data, FunctionRunner
from ios_tf.errors import UserError


class TensorFlowRunner(FunctionRunner):
    """Stock TensorFlow: a function with constant weights, without the plugin."""

    xla = False

    def start(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        from benchmarks.frameworks.tensorflow_ops import TensorFlowOps

        tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
        tf.config.threading.set_intra_op_parallelism_threads(self.target.threads)
        tf.config.experimental.enable_tensor_float_32_execution(self.target.tf32)
        on_gpu = self.target.kind == "gpu"
        if on_gpu and not tf.config.list_physical_devices("GPU"):
            raise UserError("TensorFlow sees no GPU")
        self._device = f"/GPU:{self.target.ordinal}" if on_gpu else "/CPU:0"
        self._tf = tf
        self.ops = TensorFlowOps(self.target.dtype)

    def function(self, data: Data) -> Callable[[], Sequence[Any]]:
        tf, ops = self._tf, self.ops
        weights = [[ops.weight(w) for w in ws] for ws in data.weights]
        with tf.device(self._device):
            if self.xla:  # XLA copies constants repeatedly without a gain
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
        if self.target.kind == "gpu":
            for results in self._results:
                results[0].numpy()

    def array(self, tensor: Any) -> np.ndarray:
        return self.ops.array(tensor)


class TensorFlowXlaRunner(TensorFlowRunner):
    """TensorFlow, compiled by XLA."""

    xla = True
