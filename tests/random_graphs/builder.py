"""Builder: appends statements that TensorFlow accepts to a program, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.framework import func_graph

from random_graphs import program
from random_graphs.program import Program, Settings, Step

T = TypeVar("T")
# The limit for the product of a tensor's known dimensions; it keeps graphs fast.
_MOST_ELEMENTS = 20_000
_MOST_CHANNELS = 64


# The errors that TensorFlow raises if an operation does not accept its arguments.
_REFUSALS = (
    ValueError,
    TypeError,
    NotImplementedError,
    OverflowError,
    tf.errors.OpError,
)


class ByteChoices:
    """Choices from bytes: fewer and smaller bytes make the first, simplest choices."""

    def __init__(self, data: bytes):
        self._data = iter(data)

    def byte(self) -> int:
        return next(self._data, 0)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.byte() % len(options)]

    def number(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.byte() % (high - low + 1)

    def chance(self, one_of: int) -> bool:
        """True with a probability of 1 / `one_of`."""
        return self.byte() % one_of == one_of - 1


class Builder:
    """A program under construction; every statement is traced when it is added."""

    def __init__(self) -> None:
        self.arguments: dict[str, tuple[tuple[int | None, ...], str]] = {}
        self.variables: list[Step] = []
        self.steps: list[Step] = []
        # Image sizes at which the graph starts to behave differently.
        self.bounds: list[int] = []
        self._namespace = program.helpers()
        self._tensors: dict[str, tf.Tensor] = {}
        self._graph = func_graph.FuncGraph("random_graph")
        self._seeds = 0

    def argument(self, shape: Sequence[int | None], dtype: str = "tf.float32") -> str:
        name = f"x{len(self.arguments)}"
        self.arguments[name] = tuple(shape), dtype
        with self._graph.as_default():
            tensor = tf.compat.v1.placeholder(getattr(tf, dtype[3:]), shape)
        self._tensors[name] = self._namespace[name] = tensor
        return name

    def seed(self) -> int:
        """A number that no other weight uses."""
        self._seeds += 1
        return self._seeds

    def constant(self, shape: Sequence[int]) -> str:
        """The expression of a constant with random values."""
        return f"constant({', '.join(map(str, [self.seed(), *shape]))})"

    def variable(self, shape: Sequence[int], kind: str = "weight") -> str:
        """Adds weights of this shape and kind; returns their name."""
        name = f"w{len(self.variables)}"
        arguments = ", ".join(map(str, [self.seed(), *shape]))
        value = f"{kind}({arguments})"
        self.variables.append(Step((name,), f"tf.Variable({value})"))
        self._namespace[name] = eval(value, self._namespace)
        return name

    def weights_of_shape(self, fits: Callable[[tuple[int, ...]], bool]) -> list[str]:
        """The names of weights that a layer might share."""
        return [
            target
            for variable in self.variables
            for target in variable.targets
            if fits(self._namespace[target].shape)
        ]

    def add(self, expression: str, count: int = 1) -> tuple[str, ...] | None:
        """Appends `v, ... = expression`; None if TensorFlow refuses it."""
        first = sum(len(step.targets) for step in self.steps)
        names = tuple(f"v{first + i}" for i in range(count))
        with self._graph.as_default():
            try:
                value = eval(expression, self._namespace)
            except _REFUSALS:
                return None
        values = (value,) if count == 1 else tuple(value)
        if len(values) != count or not all(_is_small(value) for value in values):
            return None
        for name, tensor in zip(names, values, strict=True):
            self._tensors[name] = self._namespace[name] = tensor
        self.steps.append(Step(names, expression))
        return names

    def one(self, expression: str) -> str | None:
        """Calls `add` for a statement with one target; returns the target's name."""
        names = self.add(expression)
        return names[0] if names else None

    def shape(self, name: str) -> list[int | None]:
        return self._tensors[name].shape.as_list()

    def dtype(self, name: str) -> tf.DType:
        return self._tensors[name].dtype

    def rank(self, name: str) -> int:
        return len(self.shape(name))

    def values(self, fits: Callable[[str], bool] = lambda name: True) -> list[str]:
        """The names of all values for which `fits` is true, the latest first."""
        return [name for name in reversed(self._tensors) if fits(name)]

    def floats(self, *ranks: int) -> list[str]:
        """The float32 values of one of the ranks (default: any), the latest first."""
        return self.values(
            lambda name: (
                self.dtype(name) == tf.float32
                and (not ranks or self.rank(name) in ranks)
            )
        )

    def channels_last(self) -> list[str]:
        """The float32 images with a known number of channels, the latest first."""
        return [name for name in self.floats(4) if self.shape(name)[3]]

    def choose(self, genes: ByteChoices, names: Sequence[str]) -> str | None:
        """One of the names, most often the first; None if there is none."""
        if not names:
            return None
        byte = genes.byte()
        return names[0 if byte % 8 < 5 else byte // 8 % len(names)]

    def program(self, outputs: Sequence[str], settings: Settings) -> Program:
        return Program(
            dict(self.arguments),
            tuple(self.variables),
            tuple(self.steps),
            tuple(outputs),
            settings,
        ).only_live()


def _is_small(value: Any) -> bool:
    if not isinstance(value, tf.Tensor) or value.shape.rank is None:
        return False
    known = [size for size in value.shape.as_list() if size is not None]
    return (
        len(known) <= 6
        and math.prod(known) <= _MOST_ELEMENTS
        and (not known or value.shape[-1] is None or value.shape[-1] <= _MOST_CHANNELS)
    )
