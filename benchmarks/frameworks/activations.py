"""All activations of blocks by name: the only such table of benchmarks and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# The defaults of an activation's parameters, alpha and beta, as in cc/core/ir/block.cc.
ACTIVATIONS: Mapping[str, tuple[float, ...]] = {
    "relu": (),
    "relu6": (),
    "sigmoid": (),
    "tanh": (),
    "swish": (1.0,),
    "hard_sigmoid": (1 / 6, 0.5),
    "hard_swish": (),
    "elu": (1.0,),
    "leaky_relu": (0.2,),
    "selu": (),
    "softplus": (),
    "softsign": (),
    "gelu": (),
    "gelu_tanh": (),
    "mish": (),
    "maximum": (0.0,),
    "minimum": (0.0,),
    "clip": (0.0, 1.0),
    "threshold": (0.0,),
    "exp": (),
    "expm1": (),
    "log": (),
    "log1p": (),
    "sqrt": (),
    "rsqrt": (),
    "square": (),
    "pow": (3.0,),
    "abs": (),
    "erf": (),
    "erfc": (),
    "sin": (),
}


def parameters_of(operator: Mapping[str, Any]) -> tuple[float, ...]:
    """Returns the parameters of an operator's activation; the operator is JSON."""
    defaults = ACTIVATIONS[operator["activation"]]
    names = ("alpha", "beta")[: len(defaults)]
    return tuple(
        operator.get(name, default)
        for name, default in zip(names, defaults, strict=True)
    )


def function_named(
    name: str, exceptions: Mapping[str, Callable[..., Any]], *modules: Any
) -> Callable[..., Any]:
    """Returns a framework's function for an activation.

    Args:
      name: name of the activation.
      exceptions: functions whose name or arguments differ from the activation's.
      modules: modules with functions named as the activations.

    Raises:
      AttributeError: there is no such function.
    """
    if name in exceptions:
        return exceptions[name]
    for module in modules:
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"there is no function for the activation {name!r}")
