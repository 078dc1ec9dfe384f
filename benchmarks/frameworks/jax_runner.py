"""JAX as a runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks import interpreter
from benchmarks.frameworks.runner import Data, FunctionRunner
from ios_tf.errors import UserError


class JaxRunner(FunctionRunner):
    """JAX, which compiles by XLA."""

    def start(self) -> None:
        import jax

        from benchmarks.frameworks.jax_ops import JaxOps

        if (jax.default_backend() == "gpu") != (self.target.kind == "gpu"):
            raise UserError(f"JAX has the device {jax.default_backend()} only")
        device = jax.local_devices()[self.target.ordinal]
        jax.config.update("jax_default_device", device)
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
