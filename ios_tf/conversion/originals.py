"""The functions that users pass to `optimize` and `direct`, and how they are called."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import concrete_function as concrete
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops

from ios_tf.errors import UserError, first_line
from ios_tf.model import keras2
from ios_tf.model.endpoints import parameters_of
from ios_tf.model.flat_calls import FlatCall
from ios_tf.model.loading import traced
from ios_tf.model.saved_models import without_signatures

# The name of the function in the SavedModels that Keras exports.
KERAS_ENDPOINT = "serve"
_KINDS = (
    "a keras.Model, a tf.function with an input_signature, a ConcreteFunction or "
    "tf.saved_model.load(DIRECTORY).signatures[NAME]"
)


class Call:
    """Converts between a function's Python arguments and results and flat tensors.

    Attributes:
      signature: the parameters of a call.
      specs: positional and keyword arguments, with a spec in place of each tensor.
    """

    def __init__(
        self,
        function: Any,
        defaults: Mapping[str, Any],
        prepare: Callable[..., Any] | None = None,
    ) -> None:
        """`prepare` converts the arguments of a caller to those of the function."""
        self._type = function.function_type
        self.specs = function.structured_input_signature
        self._defaults = defaults
        self._keywords = function._arg_keywords
        self._positional = function._num_positional_args
        self._prepare = prepare
        # Checks of the arguments by their names, if each argument is one tensor.
        one_each = len(self._keywords) == len(self.types) and all(
            isinstance(spec, tf.TensorSpec) for spec in self.types
        )
        self._fits = (
            dict(zip(self._keywords, map(_check_of, self.types), strict=True))
            if one_each
            else {}
        )
        self.signature = (
            inspect.signature(prepare)
            if prepare
            else parameters_of(self._type, defaults)
        )

    @property
    def types(self) -> Sequence[Any]:
        """The types of the tensors that the function's graph takes."""
        return self._type.flat_inputs

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tf.Tensor]:
        """Converts arguments to the flat tensors that the function's graph takes.

        Raises:
          TypeError, ValueError: the arguments are not those of the function.
        """
        if self._prepare:
            args, kwargs = self._prepare(*args, **kwargs), {}
        tensors = self._unchanged(args, kwargs)
        if tensors:
            return tensors
        try:
            bound = self._type.bind_partial(*args, **kwargs)
            for name, value in self._defaults.items():
                bound.arguments.setdefault(name, value)
            bound = self._type.bind_with_defaults(bound.args, bound.kwargs, {})
        except TypeError:
            # As in TensorFlow, arguments may be passed by the names of their tensors. A
            # signature's only argument may also be passed by position.
            values = {**dict(zip(self._keywords, args, strict=False)), **kwargs}
            if len(args) > self._positional or values.keys() != {*self._keywords}:
                raise
            types = zip(self._keywords, self.types, strict=True)
            return [one for key, of in types for one in of.to_tensors(values[key])]
        return self._type.unpack_inputs(bound)

    def _unchanged(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tf.Tensor]:
        """The arguments if they already are the flat tensors; otherwise [].

        Usually they are. Then they need not be bound to the parameters, which would
        take longer than all other Python code for a small network.
        """
        checks = self._fits
        if kwargs:
            if args or kwargs.keys() != checks.keys():
                return []
            args = tuple(kwargs[name] for name in checks)
        elif len(args) > max(1, self._positional):
            return []  # the others can only be passed by name
        if len(args) != len(checks):
            return []
        fits = all(check(arg) for check, arg in zip(checks.values(), args, strict=True))
        return list(args) if fits else []

    def result(self, tensors: Sequence[tf.Tensor]) -> Any:
        """Puts the graph's flat output tensors into the function's structure."""
        return self._type.pack_output(tensors)


class PrunedCall:
    """Converts the arguments of a pruned function of `wrap_function`.

    A caller passes its tensors in order or by name. The function's own type still has
    the arguments from before pruning. The attributes are those of `Call`.
    """

    def __init__(self, function: Any) -> None:
        keywords = function._arg_keywords
        arguments = function.inputs[: len(keywords)]
        self.types = [tf.TensorSpec.from_tensor(tensor) for tensor in arguments]
        self._keywords = keywords
        self._type = function.function_type
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        # Names of nodes may not be valid Python identifiers.
        names = [re.sub(r"\W", "_", key) for key in keywords]
        self.signature = inspect.Signature(
            [inspect.Parameter(name, kind) for name in names]
        )
        specs = zip(self.types, names, strict=True)
        self.specs: tuple[tuple[Any, ...], dict[str, Any]] = (
            tuple(tf.TensorSpec(of.shape, of.dtype, name) for of, name in specs),
            {},
        )

    def tensors(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tf.Tensor]:
        """See `Call.tensors`."""
        keywords = self._keywords
        values = {**dict(zip(keywords, args, strict=False)), **kwargs}
        count = len(args) + len(kwargs)
        if count != len(keywords) or values.keys() != {*keywords}:
            raise TypeError(
                f"the function takes the tensors {', '.join(keywords)}, each in this "
                f"order or by name. The call has {len(args)} in order, and by name: "
                f"{', '.join(kwargs) or 'none'}"
            )
        return [
            tf.convert_to_tensor(values[name], spec.dtype)
            for name, spec in zip(keywords, self.types, strict=True)
        ]

    def result(self, tensors: Sequence[tf.Tensor]) -> Any:
        """See `Call.result`."""
        return self._type.pack_output(tensors)


class Original:
    """A user's function with fixed argument types.

    Attributes:
      name: its name.
      call: how it is called.
      owner: the object that keeps alive the captures of `function`.
      function: the ConcreteFunction.
      compute: returns the flat outputs of `function` for flat inputs.
      endpoint: the name that the function gets at the root of a SavedModel.
    """

    def __init__(
        self,
        name: str,
        owner: Any,
        function: Any,
        call: Call | PrunedCall,
        endpoint: str = "__call__",
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.call = call
        self.owner = owner
        self.function = function
        # The shapes of the outputs are not checked, because some TensorFlow kernels
        # return shapes that their own shape functions refuse, for images without
        # pixels.
        self.compute = FlatCall(function)
        if any(one.dtype in (tf.resource, tf.variant) for one in call.types):
            raise UserError(
                f"{name} takes variables or data sets as arguments. Pass a function "
                "of tensors"
            )

    @classmethod
    def of(cls, given: Any, caller: str) -> Original:
        """Finds the function in an argument that a user gives to the function `caller`.

        Raises:
          UserError: the argument has no function, or several.
        """
        import keras

        if isinstance(given, keras.Model) or keras2.is_model(given):
            return cls._of_keras(given)
        if isinstance(given, polymorphic_function.Function):
            return cls._of_tf_function(given)
        if isinstance(given, concrete.ConcreteFunction):
            taken = len(given.inputs) - len(given.captured_inputs)
            pruned = taken != len(given.function_type.flat_inputs)
            call = PrunedCall(given) if pruned else Call(given, {})
            return cls(_name(given), given, given, call)
        signatures = getattr(given, "signatures", given)
        if isinstance(signatures, Mapping) and signatures:
            if len(signatures) > 1:
                names = ", ".join(sorted(signatures))
                raise UserError(
                    f"the model has several signatures, {names}. Pass one of them, "
                    f"for example model.signatures[{min(signatures)!r}]"
                )
            ((name, function),) = signatures.items()
            return cls(name, given, function, Call(function, {}))
        if isinstance(signatures, Mapping):
            raise UserError(f"the model has no signatures. {without_signatures(given)}")
        if isinstance(given, (str, os.PathLike)):
            raise UserError(
                f"{caller} does not accept a path. Convert a model on disk "
                f"with ios_tf.convert, or pass {_KINDS}"
            )
        if callable(given) and not isinstance(given, type):
            raise UserError(
                f"{_name(given)} has no fixed signature. Pass {_KINDS} (such as "
                "tf.function(f, input_signature=[tf.TensorSpec([None, 224, 224, 3])]))"
            )
        raise UserError(
            f"{caller} does not accept objects of type {type(given).__name__}. "
            f"Pass {_KINDS}"
        )

    @classmethod
    def _of_tf_function(cls, given: Any) -> Original:
        name = _name(given)
        if given.input_signature is None:
            raise UserError(
                f"the tf.function {name} has no input_signature. Pass "
                f"{name}.get_concrete_function(tf.TensorSpec(SHAPE, DTYPE), ...)"
            )
        call_with = given.function_spec.default_values
        try:
            function = given.get_concrete_function()
        # The function's own code may raise any error while it is traced.
        except Exception as error:
            raise UserError(
                f"the tf.function {name} cannot be traced: {first_line(error)}"
            ) from error
        return cls(name, given, function, Call(function, call_with))

    @classmethod
    def _of_keras(cls, model: Any) -> Original:
        import keras

        function, specs = traced(model)

        def convert(value: Any, spec: tf.TensorSpec) -> Any:
            return keras.ops.convert_to_tensor(value, spec.dtype)

        names = list(inspect.signature(model.call).parameters)[: len(specs)]

        def prepare(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            bound = signature.bind(*args, **kwargs)
            if bound.arguments.pop("training", False):
                raise ValueError(
                    f"{model_name} was optimized for training=False. Call the original "
                    "model with training=True"
                )
            return tuple(
                _like(spec, value, convert)
                for spec, value in zip(specs, bound.args, strict=True)
            )

        model_name = model.name
        parameter = inspect.Parameter
        signature = inspect.Signature(
            [
                *(parameter(name, parameter.POSITIONAL_OR_KEYWORD) for name in names),
                parameter("training", parameter.KEYWORD_ONLY, default=False),
            ]
        )
        prepare.__signature__ = signature  # type: ignore[attr-defined]
        call = Call(function, {}, prepare)
        return cls(model_name, model, function, call, KERAS_ENDPOINT)


def _check_of(spec: tf.TensorSpec) -> Callable[[Any], bool]:
    """Returns a fast function that tells whether a value is such a tensor."""
    of_type = spec.dtype.as_datatype_enum
    is_shape = functools.lru_cache(spec.shape.is_compatible_with)

    def check(value: Any) -> bool:
        return (
            isinstance(value, ops.EagerTensor)
            and value._datatype_enum() == of_type
            and is_shape(value._shape_tuple())
        )

    return check


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None) or getattr(function, "name", None)
    name = name.decode() if isinstance(name, bytes) else name or type(function).__name__
    # TensorFlow adds a prefix and a number to the name of a traced function.
    return re.sub(r"^__inference_(.+)_\d+$", r"\1", name)


def _like(spec: Any, value: Any, convert: Callable[[Any, tf.TensorSpec], Any]) -> Any:
    """Converts an argument of a Keras model to the structure that the model expects."""
    import keras

    if isinstance(spec, Mapping) and isinstance(value, Mapping):
        value = {name: value[name] for name in spec if name in value}
    flat, specs = keras.tree.flatten(value), keras.tree.flatten(spec)
    if len(flat) != len(specs):
        raise ValueError(
            f"the model takes {len(specs)} input tensors, but the call has {len(flat)}"
        )
    if any(one is None for one in flat):
        raise ValueError(
            "an input of the call is None, but the model was optimized for calls with "
            "all inputs. Pass a tensor for each input"
        )
    return keras.tree.pack_sequence_as(
        spec, [convert(one, of) for one, of in zip(flat, specs, strict=True)]
    )
