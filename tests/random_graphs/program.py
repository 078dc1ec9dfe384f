"""Program: a random TensorFlow graph as Python source, with settings for its check."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

_HELPERS = '''\
def weight(seed, *shape):
    """Weights with which a layer's outputs are about as large as its inputs."""
    return constant(seed, *shape) * np.float32(0.75 / np.prod(shape[:-1]) ** 0.5)


def constant(seed, *shape):
    values = np.random.default_rng(seed).uniform(-2, 2, shape)
    return values.astype(np.float32)


def after(first, x):
    with tf.control_dependencies([first]):
        return tf.identity(x)
'''


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings for checking a graph.

    Attributes:
      image_sizes: values for a tensor's unknown dimensions except the first.
      batch_sizes: the sizes to schedule for.
      seed: determines schedules and data.
      end_to_end: also saves, converts and loads the graph.
      precision: "float32", or "bfloat16" to check only the conversion to bfloat16.
    """

    image_sizes: tuple[tuple[int, int], ...] = ((5, 4), (7, 6))
    batch_sizes: tuple[int, ...] = (1,)
    seed: int = 0
    end_to_end: bool = False
    precision: str = "float32"

    def __str__(self) -> str:
        """The keyword arguments that differ from the default."""
        return ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        )


@dataclasses.dataclass(frozen=True)
class Step:
    """One statement: `targets = expression`."""

    targets: tuple[str, ...]
    expression: str

    def __str__(self) -> str:
        return f"{', '.join(self.targets)} = {self.expression}"

    def reads(self) -> set[str]:
        return names_in(self.expression)


@dataclasses.dataclass(frozen=True)
class Program:
    """A tf.function with a fixed signature.

    Attributes:
      arguments: name -> shape (None: unknown) and type.
      variables: the layers' weights.
      steps: the function's body.
      outputs: the values it returns; they get the names y0, y1, ...
    """

    arguments: Mapping[str, tuple[tuple[int | None, ...], str]]
    variables: tuple[Step, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    settings: Settings

    @property
    def function_source(self) -> str:
        """The function named `function`, its weights and its helpers."""
        lines = [_HELPERS, ""] + [str(variable) for variable in self.variables]
        lines += ["", "", "@tf.function(", "    autograph=False,"]
        lines += ["    input_signature=["]
        for name, (shape, dtype) in self.arguments.items():
            lines.append(f'        tf.TensorSpec({list(shape)}, {dtype}, "{name}"),')
        lines += ["    ],", ")", f"def function({', '.join(self.arguments)}):"]
        lines += [f"    {step}" for step in self.steps]
        outputs = (f'"y{i}": {name}' for i, name in enumerate(self.outputs))
        return "\n".join([*lines, f"    return {{{', '.join(outputs)}}}", ""])

    @property
    def source(self) -> str:
        """A program that checks the graph and prints the differences."""
        arguments = ["function", *filter(None, [str(self.settings)])]
        return "\n".join(
            [
                "import numpy as np",
                "import tensorflow as tf",
                "",
                "from random_graphs.check import reproduce",
                "",
                "",
                self.function_source,
                "",
                f"reproduce({', '.join(arguments)})",
                "",
            ]
        )

    def __repr__(self) -> str:
        return self.source

    def function(self) -> Any:
        """The program as a tf.function."""
        return function_of(self.function_source)

    def only_live(self) -> Program:
        """The program without arguments, weights and steps that no output needs."""
        live = set(self.outputs)
        steps = []
        for step in reversed(self.steps):
            if live & set(step.targets):
                steps.append(step)
                live |= step.reads()
        return dataclasses.replace(
            self,
            arguments={n: a for n, a in self.arguments.items() if n in live},
            variables=tuple(v for v in self.variables if live & set(v.targets)),
            steps=tuple(reversed(steps)),
        )

    def operations(self) -> list[str]:
        """The operations of the steps, for a report: tf.nn.conv2d, +, [], ..."""
        found = set()
        for step in self.steps:
            called = re.findall(r"\btf\.[a-z0-9_.]+(?=\()", step.expression, re.I)
            found.update(called or ["arithmetic"])
            if re.search(r"\bv\d+\[|\bx\d+\[", step.expression):
                found.add("slice")
        return sorted(found)


def names_in(expression: str) -> set[str]:
    """The values and weights that an expression names."""
    return set(re.findall(r"\b[vwx]\d+\b", expression))


def helpers() -> dict[str, Any]:
    """The namespace that a program's statements need."""
    namespace: dict[str, Any] = {"np": np, "tf": tf}
    exec(_HELPERS, namespace)
    return namespace


def function_of(source: str) -> Any:
    """The tf.function that `Program.function_source` defines."""
    namespace: dict[str, Any] = {"np": np, "tf": tf}
    exec(compile(source, "<random graph>", "exec"), namespace)
    function = namespace["function"]
    # A tf.function does not keep its variables alive.
    function.random_graph_variables = [
        value for value in namespace.values() if isinstance(value, tf.Variable)
    ]
    return function
