"""All activations of blocks by name, as in cc/core/ops/activation.def."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ios_tf.native import engine

# The defaults of the parameters of each activation, alpha and beta.
ACTIVATIONS: Mapping[str, list[float]] = {
    name: defaults
    for name, defaults in engine.shared_names()["activations"].items()
    if name != "none"
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
