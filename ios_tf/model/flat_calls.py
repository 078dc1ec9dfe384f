"""Calls of a ConcreteFunction with little Python code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import ops


class FlatCall:
    """Calls a ConcreteFunction with flat tensors, and returns its flat outputs.

    TensorFlow's own call runs Python code for gradients, for functions that are being
    traced and for distributed variables. Usual calls need none of it, and this class
    then passes the tensors to TensorFlow's runtime directly.

    Args:
      function: the function. Its captures must not change later.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self._captures = list(function.captured_inputs)
        self._atomic = function._inference_function
        outputs = function.outputs
        self._count = len(outputs)
        # TensorFlow's own call adds data to outputs that are resources.
        self._may_be_direct = (
            all(isinstance(one, ops.EagerTensor) for one in self._captures)
            and not function.graph.deferred_external_captures
            and not any(one.dtype in (tf.resource, tf.variant) for one in outputs)
        )

    def __call__(self, tensors: list[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Computes the flat outputs.

        Args:
          tensors: the values of `function.inputs` without captures.
        """
        if (
            self._may_be_direct
            and context.executing_eagerly()
            and not record.could_possibly_record()
        ):
            with atomic_function.InterpolateRuntimeError(self._atomic):
                results = context.context().call_function(
                    self._atomic.name, [*tensors, *self._captures], self._count
                )
            return results or []
        result = self._function._call_flat(tensors, self._function.captured_inputs)
        flat = tf.nest.flatten(result, expand_composites=True)
        return [tensor for tensor in flat if tensor is not None]
