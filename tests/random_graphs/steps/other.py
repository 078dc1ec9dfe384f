"""Steps with operations of other kinds, and with values that are not float32."""

from __future__ import annotations

from random_graphs.builder import Builder, ByteChoices


def other(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats())
    if x is None:
        return
    rank = b.rank(x)
    how = genes.number(0, 8)
    if how == 0:
        first = genes.pick(b.values())
        b.one(f"after({first}, {x})")
    elif how == 1 and rank:
        multiples = [genes.pick([1, 1, 2]) for _ in range(rank)]
        b.one(f"tf.tile({x}, {multiples})")
    elif how == 2 and rank:
        axis = genes.number(0, rank - 1)
        b.one(f"tf.gather({x}, [0, {genes.number(0, 2)}], axis={axis})")
    elif how == 3 and rank:
        b.one(f"tf.reverse({x}, [{genes.number(0, rank - 1)}])")
    elif how == 4 and rank:
        shift, axis = genes.number(1, 2), genes.number(0, rank - 1)
        b.one(f"tf.roll({x}, {shift}, {axis})")
    elif how == 5:
        b.one(f"tf.cast(tf.cast({x} * 8.0, tf.float16), tf.float32)")
    elif how == 6 and rank:
        b.one(f"tf.cumsum({x}, {genes.number(0, rank - 1)})")
    elif how == 7 and rank:
        # The size of a batch or of an image as a number.
        size = f"tf.cast(tf.shape({x})[{genes.number(0, rank - 1)}], tf.float32)"
        b.one(f"{x} * 0.5 + 0.125 * {size}")
    elif rank:
        b.one(f"tf.repeat({x}, 2, axis={genes.number(0, rank - 1)})")


def integers(b: Builder, genes: ByteChoices) -> None:
    """Values of other types, which become outputs."""
    x = b.choose(genes, b.floats())
    if x is None:
        return
    rank = b.rank(x)
    how = genes.number(0, 3)
    if how == 0 and rank:
        b.one(f"tf.argmax({x}, {genes.pick([-1, 0, rank - 1])})")
    elif how == 1:
        b.one(f"tf.shape({x})")
    elif how == 2:
        b.one(f"tf.cast({x}, tf.float16)")
    else:
        b.one(f"tf.cast({x}, tf.float64)")
