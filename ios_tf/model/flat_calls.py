"""Calls of a ConcreteFunction with little Python code, in order of arrival."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import ops

from ios_tf.model import function_library
from ios_tf.model.turns import Turns


class FlatCall:
    """Calls a ConcreteFunction with flat tensors, and returns its flat outputs.

    TensorFlow's own call runs Python code for gradients, for functions that are being
    traced and for distributed variables. Usual calls need none of it, and this class
    then passes the tensors to TensorFlow's runtime directly.

    Calls that wait for a thread of TensorFlow are not in order there, so this class
    lets only as many calls begin as there are threads, in order of arrival.

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

    @functools.cached_property
    def _takes_turns(self) -> bool:
        # A call that waits for another call must not keep a turn, because the other
        # call may need this turn.
        return not function_library.may_wait(self._function.graph.as_graph_def())

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
            call = functools.partial(self._call_directly, tensors)
            return _turns().run(call) if self._takes_turns else call()
        result = self._function._call_flat(tensors, self._function.captured_inputs)
        flat = tf.nest.flatten(result, expand_composites=True)
        return [tensor for tensor in flat if tensor is not None]

    def _call_directly(self, tensors: list[tf.Tensor]) -> Sequence[tf.Tensor]:
        try:
            results = context.context().call_function(
                self._atomic.name, [*tensors, *self._captures], self._count
            )
        except tf.errors.OpError:
            with atomic_function.InterpolateRuntimeError(self._atomic):
                raise
        return results or []


@functools.cache
def _turns() -> Turns:
    """The turns of all calls of the process."""
    # One call more than TensorFlow has threads, so that no thread waits for Python.
    return Turns(_inter_op_threads() + 1)


# A child process begins without turns: the threads that have one in the parent do not
# exist in the child, so their turns would never end.
os.register_at_fork(after_in_child=_turns.cache_clear)


def _inter_op_threads() -> int:
    """The number of calls that TensorFlow runs at the same time."""
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    if threads > 0:
        return threads
    variable = os.environ.get("TF_NUM_INTEROP_THREADS", "")
    if variable.isdecimal() and int(variable) > 0:
        return int(variable)
    return len(os.sched_getaffinity(0))
