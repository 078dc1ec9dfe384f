"""direct: calls a function with little of TensorFlow's Python code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from ios_tf.conversion.originals import KERAS_ENDPOINT, Original
from ios_tf.errors import UserError


class DirectFunction:
    """The function that `direct` returns. Call it like the original.

    Several threads may call it at the same time.
    """

    def __init__(
        self,
        original: Original,
        compute: Callable[[list[tf.Tensor]], Sequence[Any]],
        otherwise: Callable[..., Any] | None = None,
    ) -> None:
        """`compute` returns the flat outputs of a call for the flat inputs.

        `otherwise` is called with arguments that cannot be converted to flat inputs.
        """
        self._original = original
        self._compute = compute
        self._otherwise = otherwise
        self.__name__ = original.name
        self.__signature__ = original.call.signature

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            tensors = self._original.call.tensors(args, kwargs)
        # Arguments of a wrong type or structure may raise any error.
        except Exception:
            if not self._otherwise:
                raise
        else:
            return self._original.call.result(self._compute(tensors))
        # This call is outside of the except clause, so that Python does not chain its
        # error to the earlier error.
        return self._otherwise(*args, **kwargs)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the direct function {self.__name__!r} cannot be pickled or copied, "
            "because it contains TensorFlow's graphs. Load its model again"
        )

    def __repr__(self) -> str:
        return f"<direct function {self.__name__}{self.__signature__}>"


def direct(model_or_function: Any) -> DirectFunction:
    """Returns an equivalent function whose calls need less of TensorFlow's Python code.

    In a call of a signature, TensorFlow runs Python code for gradients, for tracing and
    for distributed variables. This code takes a fifth of the time of a small network.
    The returned function passes its tensors to TensorFlow's runtime directly, and lets
    calls of many threads begin in order of arrival. While a gradient tape records, or
    inside of a `tf.function`, it calls the original. The original also gets arguments
    of unusual types or shapes, so their results and errors are the same.

    Args:
      model_or_function: what `ios_tf.optimize` accepts: a signature of a loaded
        SavedModel, a `ConcreteFunction`, a `tf.function` with an `input_signature`, or
        a `keras.Model`, which is run with `training=False`. It need not be converted.

    Returns:
      A function with the original's signature: the same arguments, which may be numpy
      arrays, and the same structure of results. The function of a SavedModel needs the
      loaded model, so the caller keeps a reference to this model.

    Raises:
      UserError: one line that says what is wrong with the argument.

    Examples:
      >>> report = ios_tf.convert(model, "faster", batch_size=8)
      >>> loaded = tf.saved_model.load("faster")
      >>> serve = ios_tf.direct(loaded.signatures["serving_default"])
      >>> serve(images=images)["output_0"].shape
      TensorShape([8, 5])
    """
    if isinstance(model_or_function, DirectFunction):
        raise UserError("the function is already direct. Pass the original function")
    original = Original.of(model_or_function, "ios_tf.direct")
    otherwise: Callable[..., Any] = original.function
    if original.endpoint == KERAS_ENDPOINT:
        otherwise = functools.partial(model_or_function, training=False)
    elif isinstance(model_or_function, polymorphic_function.Function):
        otherwise = model_or_function
    return DirectFunction(original, original.compute, otherwise)
