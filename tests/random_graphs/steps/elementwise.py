"""Steps of activations, sums and products."""

from __future__ import annotations

from random_graphs.builder import Builder, ByteChoices

_UNARY = (
    "tf.nn.relu({x})",
    "tf.nn.relu({x})",
    "tf.nn.relu6({x} * 2.0)",
    "{x} / 3.0 * 2.0",
    "2.0 * ({x} / 3.0) / 7.0 * {a}",
    "tf.sigmoid({x})",
    "tf.tanh({x})",
    "tf.nn.elu({x})",
    "tf.nn.leaky_relu({x}, {a})",
    "tf.nn.silu({x})",
    "tf.nn.gelu({x}, approximate=True)",
    "tf.nn.gelu({x}, approximate=False)",
    "{x} * tf.nn.relu6({x} + 3.0) * {sixth}",
    "tf.nn.relu6({x} + 3.0) * {sixth}",
    "tf.nn.softplus({x})",
    "tf.nn.softsign({x})",
    "tf.nn.selu({x})",
    "tf.square({x})",
    "tf.abs({x})",
    "tf.sqrt(tf.abs({x}) + 0.1)",
    "tf.math.rsqrt(tf.square({x}) + 0.1)",
    "tf.exp({x} * 0.25)",
    "-{x}",
    "tf.clip_by_value({x}, -0.5, {a})",
    "tf.maximum({x}, {a} * {x})",
    "tf.minimum({x}, {a})",
    "tf.math.log1p(tf.abs({x}))",
    "tf.math.erf({x})",
    "{x} + tf.square(tf.sin({a} * {x}))",
    "1.0 - {x}",
    "{a} / (1.5 + tf.abs({x}))",
    "tf.identity({x})",
    "tf.stop_gradient({x})",
    "tf.where({x} > 0.0, {x}, {a} * {x})",
    "tf.cast(tf.cast({x}, tf.float64), tf.float32)",
    "{x} * tf.sigmoid({x})",
    "{x} * tf.sigmoid(1.5 * {x})",
    # An optimizer might wrongly ignore a number that is this small.
    "tf.math.log(tf.nn.relu({x}) + {tiny})",
    "tf.math.log(tf.clip_by_value(tf.sigmoid(9.0 * {x}), {tiny}, 1.0 - {tiny}))",
    "{x} / (tf.abs({x}) + {tiny})",
    "{x} * tf.math.rsqrt(tf.square(tf.nn.relu({x})) + {tiny})",
    "{tiny} / (tf.nn.relu({x}) + {tiny})",
    "{tiny} * tf.tanh({x})",
    "tf.where({x} > {tiny}, {x}, {a} * {x})",
)


def unary(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats())
    if x:
        expression = genes.pick(_UNARY)
        value = genes.pick([0.2, 0.5, 1.0, 0.0, 1.5])
        tiny = genes.pick(["1e-6", "1e-3", "1e-8", "1e-12", "0.02"])
        b.one(expression.format(x=x, a=value, sixth="0.16666667", tiny=tiny))


def prelu(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 2, 3))
    if x is None or not b.shape(x)[-1]:
        return
    shape = [size or 1 for size in b.shape(x)[1:]]
    shape = genes.pick([shape[-1:], [*(1 for _ in shape[:-1]), shape[-1]], shape])
    alpha = b.variable(shape, "constant")
    if genes.chance(2):
        b.one(f"tf.maximum({x}, 0.0) + {alpha} * tf.minimum({x}, 0.0)")
    else:
        b.one(f"tf.nn.relu({x}) - {alpha} * tf.nn.relu(-{x})")


_BINARY = (
    "{x} + {y}",
    "{x} + {y}",
    "{x} * {y}",
    "{x} * {y}",
    "{x} - {y}",
    "{y} - {x}",
    "tf.maximum({x}, {y})",
    "tf.minimum({x}, {y})",
    "tf.math.squared_difference({x}, {y})",
    "{x} / (1.0 + tf.abs({y}))",
    "tf.add_n([{x}, {y}])",
    "{y} + {x}",
    "{y} * {x}",
)


def broadcast_constant(b: Builder, genes: ByteChoices) -> None:
    """Arithmetic with a constant of any shape that broadcasts."""
    x = b.choose(genes, b.floats())
    if x is None:
        return
    shape = b.shape(x)
    kept = genes.number(0, len(shape))
    constant = [size or 1 for size in shape[len(shape) - kept :]]
    for axis in range(kept):
        if genes.chance(3):
            constant[axis] = 1
    if genes.chance(6) and len(shape) == kept and kept:
        constant[0] = genes.number(1, 3)
    y = b.constant(constant) if constant else str(genes.pick([0.5, 2.0, -1.0, 0.0]))
    expression = genes.pick(_BINARY)
    b.one(expression.format(x=x, y=y))


def broadcast(b: Builder, genes: ByteChoices) -> None:
    """Arithmetic with another value or with a part of the same value."""
    x = b.choose(genes, b.floats())
    if x is None:
        return
    rank = b.rank(x)
    expression = genes.pick(_BINARY)
    how = genes.number(0, 9)
    y: str | None = None
    if how <= 5:
        others = [
            name
            for name in b.floats()
            if name != x and _broadcast(b.shape(x), b.shape(name))
        ]
        same = [name for name in others if b.shape(name) == b.shape(x)]
        y = genes.pick(same) if same and how <= 1 else None
        y = y or (genes.pick(others) if others else x)
    elif rank:
        axis = genes.number(0, rank - 1)
        colons = ":, " * axis
        part = genes.pick(
            ["mean", "[:1]", "[-1:]", "spatial mean", "[:1]", "max", "channels"]
        )
        if part == "mean":
            y = b.one(f"tf.reduce_mean({x}, {axis}, keepdims=True)")
        elif part == "max":
            y = b.one(f"tf.reduce_max({x}, {axis}, keepdims=True)")
        elif part == "spatial mean" and rank == 4:
            y = b.one(f"tf.reduce_mean({x}, [1, 2], keepdims=True)")
        elif part == "channels" and b.shape(x)[-1]:
            y = b.one(f"{x}[..., :1]")
        else:
            y = b.one(f"{x}[{colons}{part[1:-1] if part[0] == '[' else ':1'}]")
    if y:
        b.one(expression.format(x=x, y=y))


def _broadcast(a: list[int | None], b: list[int | None]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(m is None or n is None or m == n or 1 in (m, n) for m, n in pairs)


def add_n(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats())
    if x is None:
        return
    same = [name for name in b.floats() if b.shape(name) == b.shape(x)]
    parts = [x] + [genes.pick(same) for _ in range(genes.number(1, 3))]
    b.one(f"tf.add_n([{', '.join(parts)}])")
