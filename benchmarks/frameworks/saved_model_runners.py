"""Runners of the network's SavedModel, which is what users of TensorFlow have."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.frameworks.runner import Runner, Target
from ios_tf.errors import UserError
from ios_tf.model.network import Network


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
        on_gpu = target.kind == "gpu"
        if on_gpu and not tf.config.list_physical_devices("GPU"):
            raise UserError("TensorFlow sees no GPU")
        self.device = f"/GPU:{target.ordinal}" if on_gpu else "/CPU:0"
        self.tf = tf
        with tf.device(self.device):
            # Without a reference to it, the model would lose its variables.
            self.loaded = saved_models.load(self.source.path, self.source.tags)
            self.name = saved_models.choose_signature(
                self.source.signature, self.loaded
            )
            function = self.loaded.signatures[self.name]
            inputs = example_inputs(function, network.batch_size)
            self._call = self.function(function, inputs)
        self.results: Mapping[str, Any] = {}
        self.run()
        self.synchronize()

    @abc.abstractmethod
    def function(
        self, signature: Any, inputs: Mapping[str, Any]
    ) -> Callable[[], Mapping[str, Any]]:
        """Returns a function that runs the signature on its inputs."""

    def run(self) -> None:
        self.results = self._call()

    def outputs(self) -> list[np.ndarray]:
        return [np.asarray(self.results[name]) for name in sorted(self.results)]


class TensorFlowRunner(_SavedModelRunner):
    """Stock TensorFlow, without the plugin."""

    xla = False

    def function(
        self, signature: Any, inputs: Mapping[str, Any]
    ) -> Callable[[], Mapping[str, Any]]:
        if self.xla:
            signature = self.tf.function(
                lambda **arguments: signature(**arguments), jit_compile=True
            ).get_concrete_function(**inputs)

        def call() -> Mapping[str, Any]:
            with self.tf.device(self.device):
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

    def function(
        self, signature: Any, inputs: Mapping[str, Any]
    ) -> Callable[[], Mapping[str, Any]]:
        from ai_edge_litert.interpreter import Interpreter

        converter = self.tf.lite.TFLiteConverter.from_saved_model(
            self.source.path, signature_keys=[self.name], tags=self.source.tags
        )
        interpreter = Interpreter(
            model_content=converter.convert(), num_threads=self.target.threads
        )
        runner = interpreter.get_signature_runner(self.name)
        details = runner.get_input_details()
        self._indices = {
            name: each["index"] for name, each in runner.get_output_details().items()
        }
        del runner  # the interpreter allocates nothing while a runner exists
        for name, value in inputs.items():
            interpreter.resize_tensor_input(details[name]["index"], value.shape)
        interpreter.allocate_tensors()
        for name, value in inputs.items():
            interpreter.set_tensor(details[name]["index"], value.numpy())
        self._interpreter = interpreter

        def call() -> Mapping[str, Any]:
            interpreter.invoke()
            return {}

        return call

    def outputs(self) -> list[np.ndarray]:
        indices = [self._indices[name] for name in sorted(self._indices)]
        return [self._interpreter.get_tensor(index) for index in indices]
