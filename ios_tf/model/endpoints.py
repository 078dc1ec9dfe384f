"""The functions of a SavedModel that Python code can call, such as `serve` of Keras.

In a converted model, such a function calls a converted signature. So the model keeps
only functions that compute the same as one of its signatures.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from ios_tf.model.computations import Computation


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to call an endpoint: with tensors of certain types, and Python values.

    Attributes:
      arguments: the arguments in the order of the parameters, with a spec for each
        tensor.
      results: the structure of the results, with a spec for each tensor.
      signature: the name of the signature that computes the results.
      inputs: for each input of the signature, the index of the argument tensor.
      outputs: for each tensor of the results, the index of the signature's output.
    """

    arguments: Sequence[Any]
    results: Any
    signature: str
    inputs: Sequence[int]
    outputs: Sequence[int]

    def takes(self, values: Sequence[Any]) -> bool:
        """Whether the variant accepts these arguments (see `arguments`)."""
        try:
            tf.nest.assert_same_structure(
                values, self.arguments, expand_composites=True
            )
        except (TypeError, ValueError):
            return False
        leaves = (
            tf.nest.flatten(of, expand_composites=True)
            for of in (values, self.arguments)
        )
        return all(
            _is_taken(value, expected)
            if _is_spec(expected)
            else type(value) is type(expected) and value == expected
            for value, expected in zip(*leaves, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A function of a SavedModel's root object.

    Attributes:
      parameters: its parameters and their defaults.
      input_signature: its `input_signature`, if it has one.
      variants: the ways of calling it for which some signature computes the same.
    """

    parameters: inspect.Signature
    input_signature: Sequence[Any] | None
    variants: Sequence[Variant]

    def rebuild(self, signatures: Mapping[str, Any]) -> Any:
        """The endpoint as a `tf.function` that calls the given signatures.

        Args:
          signatures: for each name, a ConcreteFunction that takes the signature's
            inputs in their order and returns its outputs by name.
        """

        def endpoint(*args: Any, **kwargs: Any) -> Any:
            values = _in_order(self.parameters, args, kwargs)
            variant = next(one for one in self.variants if one.takes(values))
            tensors = _tensors(values)
            called = signatures[variant.signature]
            results = called(*(tensors[i] for i in variant.inputs))
            outputs = tf.nest.flatten(results, expand_composites=True)
            numbers = iter(variant.outputs)
            return tf.nest.map_structure(
                lambda leaf: outputs[next(numbers)] if _is_spec(leaf) else leaf,
                variant.results,
                expand_composites=True,
            )

        endpoint.__signature__ = self.parameters  # type: ignore[attr-defined]
        function = tf.function(
            endpoint, input_signature=self.input_signature, autograph=False
        )
        for variant in self.variants:
            given = () if self.input_signature else variant.arguments
            named = collections.OrderedDict(
                zip(self.parameters.parameters, given, strict=False)
            )
            arguments = inspect.BoundArguments(self.parameters, named)
            function.get_concrete_function(*arguments.args, **arguments.kwargs)
        return function


def find(loaded: Any) -> tuple[dict[str, Endpoint], list[str]]:
    """Finds the endpoints of a loaded SavedModel.

    Returns:
      The endpoints by name, and the names of public functions that no signature can
      replace.
    """
    functions = functions_of(loaded)
    if not functions:
        return {}, []
    signatures = {
        name: (signature, Computation.of(signature))
        for name, signature in loaded.signatures.items()
    }
    endpoints = {}
    for name, function in functions.items():
        defaults = function.function_spec.default_values
        parameters = parameters_of(function.function_type, defaults)
        variants = [
            variant
            for concrete in function.concrete_functions
            if (variant := _variant(parameters, concrete, signatures))
        ]
        if variants:
            endpoints[name] = Endpoint(parameters, function.input_signature, variants)
    public = (name for name in functions if name == "__call__" or name[0] != "_")
    return endpoints, [name for name in public if name not in endpoints]


def functions_of(loaded: Any) -> dict[str, Any]:
    """The functions of a loaded SavedModel's root that can be called, by name."""
    names = dict.fromkeys(("__call__", *sorted(vars(loaded))))
    functions = {name: getattr(loaded, name, None) for name in names}
    return {
        name: function
        for name, function in functions.items()
        if isinstance(function, polymorphic_function.Function)
        and function._list_all_concrete_functions()
    }


def parameters_of(function_type: Any, defaults: Mapping[str, Any]) -> inspect.Signature:
    """The parameters of a FunctionType with their defaults, as a Python signature."""
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(name, one.kind, default=defaults.get(name, empty))
            for name, one in function_type.parameters.items()
        ]
    )


def _variant(
    parameters: inspect.Signature,
    concrete: Any,
    signatures: Mapping[str, tuple[Any, Computation | None]],
) -> Variant | None:
    """Returns a concrete function's variant; None if no signature computes the same."""
    computation = Computation.of(concrete)
    if computation is None:
        return None
    args, kwargs = concrete.structured_input_signature
    arguments = _in_order(parameters, args, kwargs)
    specs = _tensors(arguments)
    names = list(concrete._arg_keywords)
    if len(specs) != len(names):
        return None
    for key, (signature, of_signature) in signatures.items():
        keywords = signature._arg_keywords
        if (
            of_signature is None
            or computation.effects != of_signature.effects
            or not {*computation.outputs} <= {*of_signature.outputs}
            or sorted(names) != sorted(keywords)
        ):
            continue
        inputs = [names.index(keyword) for keyword in keywords]
        taken = zip(inputs, signature.inputs[: len(inputs)], strict=True)
        if not all(_is_taken(specs[i], tensor) for i, tensor in taken):
            continue
        outputs = [of_signature.outputs.index(one) for one in computation.outputs]
        results = concrete.structured_outputs
        return Variant(arguments, results, key, inputs, outputs)
    return None


def _in_order(
    parameters: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """Returns the arguments in the order of the parameters."""
    bound = parameters.bind(*args, **kwargs)
    bound.apply_defaults()
    return list(bound.arguments.values())


def _tensors(values: Sequence[Any]) -> list[Any]:
    """Returns those arguments that are tensors or specs of tensors."""
    flat = tf.nest.flatten(values, expand_composites=True)
    return [one for one in flat if tf.is_tensor(one) or _is_spec(one)]


def _is_taken(value: Any, expected: Any) -> bool:
    """Whether a tensor, or any tensor of a spec, has the expected type and shape."""
    return (
        (tf.is_tensor(value) or _is_spec(value))
        and value.dtype == expected.dtype
        and value.shape.is_subtype_of(expected.shape)
    )


def _is_spec(value: Any) -> bool:
    return isinstance(value, tf.TensorSpec)
