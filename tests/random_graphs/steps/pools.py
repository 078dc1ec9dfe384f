"""Steps with pooling, reductions and norms."""

from __future__ import annotations

from random_graphs.builder import Builder, ByteChoices
from random_graphs.steps.convolutions import pick_padding


def batch_norm(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, [n for n in b.floats(4, 4, 2, 3) if b.shape(n)[-1]])
    if x is None:
        return
    channels = b.shape(x)[-1]
    gamma, beta, mean = (b.variable([channels], "constant") for _ in range(3))
    variance = f"{b.variable([channels], 'constant')} ** 2"
    if b.rank(x) == 4 and not genes.chance(3):
        b.one(
            f"tf.compat.v1.nn.fused_batch_norm({x}, {gamma}, {beta}, {mean}, "
            f"{variance} + 0.5, is_training=False)[0]"
        )
    else:
        b.one(
            f"tf.nn.batch_normalization({x}, {mean}, {variance}, {beta}, {gamma}, 0.5)"
        )


def pool(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4))
    if x is None:
        return
    kind = genes.pick(["max", "avg"])
    size = genes.pick([2, 3, [2, 3], 1, 4])
    strides = genes.pick([1, 2, 3, [2, 1]])
    padding = (
        pick_padding(genes) if kind == "max" else genes.pick(['"SAME"', '"VALID"'])
    )
    b.one(f"tf.nn.{kind}_pool2d({x}, {size}, {strides}, {padding})")


def reduce(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 3, 2))
    if x is None:
        return
    what = genes.pick(["mean", "max", "sum", "min", "mean", "prod"])
    rank = b.rank(x)
    if rank == 4 and not genes.chance(2):
        axes = genes.pick([[1, 2], [2, 1], [-3, -2], [2, 3], [1, 2, 3]])
    else:
        axes = [axis for axis in range(rank) if genes.chance(3)] or [rank - 1]
        if genes.chance(3):
            axes = [axis - rank for axis in axes]
    shown = axes[0] if len(axes) == 1 and genes.chance(2) else axes
    keepdims = genes.pick(["", ", keepdims=True"])
    b.one(f"tf.reduce_{what}({x}, {shown}{keepdims})")


def normalize(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 3, 2))
    if x is None or not b.shape(x)[-1]:
        return
    rank, channels = b.rank(x), b.shape(x)[-1]
    how = genes.number(0, 6)
    if how == 0:
        b.one(f"tf.nn.softmax({x})")
    elif how == 1:
        b.one(f"tf.nn.softmax({x}, axis={genes.number(0, rank - 1)})")
    elif how == 2 and rank == 4:
        b.one(f"tf.nn.lrn({x}, {genes.number(1, 3)}, 1.0, 0.5, 0.75)")
    elif how == 3:
        b.one(f"tf.nn.l2_normalize({x}, {genes.pick([-1, rank - 1, 1])}, 1e-2)")
    elif how == 4 or rank != 4:
        # A layer normalisation, as Keras computes it.
        axes = genes.pick([[rank - 1], list(range(1, rank))])
        mean = b.one(f"tf.reduce_mean({x}, {axes}, keepdims=True)")
        variance = mean and b.one(
            f"tf.reduce_mean(tf.math.squared_difference({x}, {mean}), {axes}, "
            "keepdims=True)"
        )
        if not variance:
            return
        # Uses one number for each channel, or the same numbers with more dimensions.
        shape = [channels, *(1 for _ in range(genes.pick([0, 0, 0, 1, rank - 2])))]
        scale = b.one(
            f"tf.math.rsqrt({variance} + 0.1) * {b.variable(shape, 'constant')}"
        )
        if scale:
            shift = b.variable(shape, "constant")
            b.one(f"{x} * {scale} + ({shift} - {mean} * {scale})")
    elif how == 5:
        b.one(f"tf.nn.log_softmax({x})")
    else:
        # A squeeze-and-excitation block.
        y = b.one(f"tf.reduce_mean({x}, [1, 2], keepdims=True)")
        weights = b.variable([1, 1, channels, channels])
        y = y and b.one(f"tf.sigmoid(tf.nn.conv2d({y}, {weights}, 1, 'SAME'))")
        if y:
            b.one(f"{x} * {y}")
