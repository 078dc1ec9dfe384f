"""Steps that change a tensor's shape or order, and resizes."""

from __future__ import annotations

from random_graphs.builder import Builder, ByteChoices


def reshape(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats())
    if x is None or b.rank(x) == 0:
        return
    shape = b.shape(x)
    rank, rest = len(shape), shape[1:]
    known = None not in rest
    total = 1
    for size in rest:
        total *= size or 1
    how = genes.number(0, 9)
    if how == 0 and known:
        b.one(f"tf.reshape({x}, [-1, {total}])")
    elif how == 1:
        b.one(f"tf.reshape({x}, [tf.shape({x})[0], -1])")
    elif how == 2 and rank == 4 and shape[3]:
        cells = "-1" if shape[1] is None or shape[2] is None else shape[1] * shape[2]
        first = f"tf.shape({x})[0]" if cells == "-1" or genes.chance(2) else "-1"
        b.one(f"tf.reshape({x}, [{first}, {cells}, {shape[3]}])")
    elif how == 3 and rank == 4 and shape[3]:
        cells = f"tf.shape({x})[1] * tf.shape({x})[2]"
        b.one(f"tf.reshape({x}, tf.stack([tf.shape({x})[0], {cells}, {shape[3]}]))")
    elif how == 4 and rank == 4 and shape[3] and known:
        # Swaps rows and columns, or channels and columns.
        sizes = genes.pick(
            [
                [shape[2], shape[1], shape[3]],
                [shape[1] * shape[2], 1, shape[3]],
                [1, shape[1] * shape[2], shape[3]],
                [shape[1], shape[2] * shape[3], 1],
            ]
        )
        b.one(f"tf.reshape({x}, {[-1, *sizes]})")
    elif how == 5 and rank == 2 and shape[1]:
        height = next(n for n in (3, 2, 1) if shape[1] % n == 0)
        sizes = genes.pick([[1, 1, shape[1]], [height, 1, shape[1] // height]])
        b.one(f"tf.reshape({x}, {[-1, *sizes]})")
    elif how == 6 and shape[-1]:
        b.one(f"tf.reshape({x}, [-1, {shape[-1]}])")
    elif how == 7 and rank == 3 and shape[2] and shape[1]:
        b.one(f"tf.reshape({x}, [-1, {shape[1]}, 1, {shape[2]}])")
    elif how == 8:
        axes = [axis for axis in range(rank) if shape[axis] == 1]
        if axes:
            one, negative = axes[-1], axes[0] - rank
            chosen = genes.pick(["", f", {axes}", f", {one}", f", {negative}"])
            b.one(f"tf.squeeze({x}{chosen})")
    else:
        b.one(f"tf.expand_dims({x}, {genes.pick([1, -2, 2, 0, -1])})")


def channel_shuffle(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.channels_last())
    if x is None:
        return
    height, width, channels = b.shape(x)[1:]
    groups = next((n for n in (2, 3, 5) if channels % n == 0), 1)
    if groups == 1:
        return
    each = channels // groups
    if height and width and not genes.chance(3):
        left, back = f"-1, {height}, {width}", f"-1, {height}, {width}"
    else:
        left = back = f"tf.shape({x})[0], tf.shape({x})[1], tf.shape({x})[2]"
    y = b.one(f"tf.reshape({x}, [{left}, {groups}, {each}])")
    y = y and b.one(f"tf.transpose({y}, [0, 1, 2, 4, 3])")
    if y:
        b.one(f"tf.reshape({y}, [{back}, {channels}])")


def transpose(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 4, 3, 2))
    if x is None:
        return
    rank = b.rank(x)
    if rank == 4 and not genes.chance(2):
        order = genes.pick([[0, 3, 1, 2], [0, 2, 3, 1], [0, 2, 1, 3], [0, 1, 2, 3]])
    else:
        left = list(range(rank))
        order = [left.pop(genes.byte() % len(left)) for _ in range(rank)]
    b.one(f"tf.transpose({x}, {order})")


def resize(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4))
    if x is None:
        return
    height, width = b.shape(x)[1:3]
    how = genes.number(0, 5)
    if height is None or width is None or genes.chance(3):
        size = f"tf.shape({x})[1:3] * {genes.pick([2, 3])}"
    else:
        size = str(
            genes.pick(
                [
                    [height * 2, width * 2],
                    [genes.number(1, 9), genes.number(1, 9)],
                    [height, width],
                ]
            )
        )
    if how == 0:
        b.one(f'tf.image.resize({x}, {size}, "nearest")')
    elif how == 1:
        b.one(f"tf.image.resize({x}, {size})")
    else:
        kind = genes.pick(["Bilinear", "NearestNeighbor"])
        flag = genes.pick(
            ["", ", align_corners=True", ", half_pixel_centers=True"][: 3 if how else 1]
        )
        b.one(f"tf.raw_ops.Resize{kind}(images={x}, size={size}{flag})")


def depth_to_space(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.channels_last())
    if x is None:
        return
    if b.shape(x)[3] % 4 == 0 and genes.chance(2):
        b.one(f"tf.nn.depth_to_space({x}, 2)")
    else:
        b.one(f"tf.nn.space_to_depth({x}, 2)")
