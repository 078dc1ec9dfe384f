"""Steps that take parts of tensors or join tensors."""

from __future__ import annotations

from random_graphs.builder import Builder, ByteChoices


def concat(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 4, 3, 2))
    if x is None:
        return
    rank = b.rank(x)
    axis = genes.pick([rank - 1, -1, 1, 0, 2, -2]) % rank if rank else 0

    def fits(name: str) -> bool:
        return all(
            k == axis or m is None or n is None or m == n
            for k, (m, n) in enumerate(zip(b.shape(name), b.shape(x), strict=True))
        )

    others = [name for name in b.floats(rank) if fits(name)]
    parts = [x] + [genes.pick(others) for _ in range(genes.number(1, 2))]
    shape = [size or 1 for size in b.shape(x)]
    if genes.chance(6):
        shape[axis] = genes.number(1, 3)
        parts.append(b.constant(shape))
    if genes.chance(2):
        parts.reverse()
    if genes.chance(4):
        axis -= rank
    b.one(f"tf.concat([{', '.join(parts)}], {axis})")


def split(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 4, 3, 2))
    if x is None:
        return
    rank = b.rank(x)
    axis = genes.pick([rank - 1, rank - 1, 1, 2, 0]) % rank
    size = b.shape(x)[axis]
    shown = axis if not genes.chance(3) else axis - rank
    how = genes.number(0, 3)
    if how == 0 or size is None:
        count = next((n for n in (2, 3, 5) if size and size % n == 0), 1)
        b.add(f"tf.split({x}, {count}, {shown})", count) if count > 1 else None
    elif how == 1 and size > 1:
        first = genes.number(1, size - 1)
        b.add(f"tf.split({x}, [{first}, {size - first}], {shown})", 2)
    elif how == 2 and size > 1:
        b.add(f"tf.split({x}, [1, -1], {shown})", 2)
    elif size > 1:
        b.add(f"tf.unstack({x}, axis={shown})", size)


def stack(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(3, 2, 1))
    if x is None:
        return
    same = b.values(lambda n: b.shape(n) == b.shape(x) and b.dtype(n) == b.dtype(x))
    parts = [x] + [genes.pick(same) for _ in range(genes.number(0, 2))]
    b.one(f"tf.stack([{', '.join(parts)}], axis={genes.number(0, b.rank(x))})")


def slices(b: Builder, genes: ByteChoices) -> None:
    """Slices in all forms of Python's x[...]."""
    x = b.choose(genes, b.floats(4, 4, 3, 2, 1))
    if x is None:
        return
    rank = b.rank(x)
    near = genes.number(1, 3)
    far = genes.pick([100, 4, 5, 6, 7])
    parts = [":"] * rank
    for _ in range(genes.pick([1, 1, 2])):
        parts[genes.number(0, rank - 1)] = genes.pick(
            [
                ":1",
                f":{near}",
                f"-{near}:",
                f"{near}:",
                f":-{near}",
                f"-{far}:",
                f":{far}",
                "::2",
                "1::2",
                f"1:{near + 1}",
                "::-1",
                "0:1",
                str(near - 1),
                "-1",
                f"{near}:{far}",
            ]
        )
    if genes.chance(4):
        axis = genes.number(0, rank - 1)
        # An ellipsis may take the place of several dimensions.
        parts = [*parts[:axis], "...", *parts[axis + 1 :]]
    while len(parts) > 1 and parts[-1] == ":" and not genes.chance(3):
        parts.pop()
    if genes.chance(12):
        parts.insert(genes.number(0, len(parts)), "tf.newaxis")
    b.one(f"{x}[{', '.join(parts)}]")


def tf_slice(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 4, 3, 2))
    if x is None:
        return
    begin, size = [], []
    for known in b.shape(x):
        whole = not genes.chance(3)
        begin.append(0 if whole else genes.number(0, min(2, (known or 1) - 1)))
        left = (known or 1) - begin[-1]
        size.append(-1 if whole or genes.chance(2) else genes.number(1, max(left, 1)))
    shown = str(size)
    if genes.chance(4):
        shown = f"tf.shape({x}) - {begin}"
    b.one(f"tf.slice({x}, {begin}, {shown})")


def strided_slice(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 4, 3, 2))
    if x is None:
        return
    length = genes.number(1, b.rank(x))
    begin = [genes.pick([0, 1, -1, 2]) for _ in range(length)]
    end = [genes.pick([9, 1, 2, -1, 3]) for _ in range(length)]
    strides = [genes.pick([1, 1, 1, 2, -1]) for _ in range(length)]
    masks = ", ".join(
        f"{name}={genes.number(0, 2**length - 1)}"
        for name, often in (
            ("begin_mask", 1),
            ("end_mask", 1),
            ("shrink_axis_mask", 5),
            ("ellipsis_mask", 8),
            ("new_axis_mask", 8),
        )
        if often == 1 or genes.chance(often)
    )
    b.one(f"tf.strided_slice({x}, {begin}, {end}, {strides}, {masks})")


def sizes(b: Builder, genes: ByteChoices) -> None:
    """Crops, pads and resizes by numbers that are computed from sizes."""
    x = b.choose(genes, b.floats(4))
    if x is None:
        return
    y = genes.pick(b.floats(4))
    bound = genes.number(1, 9)
    expression = genes.pick(
        [
            "{x}[:, : tf.shape({x})[1] // 2 * 2, : tf.shape({x})[2] // 2 * 2]",
            "{x}[:, : tf.shape({y})[1], : tf.shape({y})[2]]",
            "{x}[:, : tf.minimum(tf.shape({x})[1], {bound})]",
            "{x}[:, tf.shape({x})[1] - {bound} :, tf.shape({x})[2] // 2 :]",
            "{x}[:, tf.shape({x})[1] // 4 : -1, 1:]",
            "tf.pad({x}, [[0, 0], [0, tf.shape({x})[1] % 2], "
            "[tf.shape({x})[2] % 2, 0], [0, 0]])",
            "tf.image.resize({x}, tf.minimum(tf.shape({x})[1:3], {bound}))",
            "tf.image.resize({x}, tf.shape({y})[1:3])",
            "tf.image.resize({x}, (tf.shape({x})[1:3] + 1) // 2, 'nearest')",
        ]
    )
    b.one(expression.format(x=x, y=y, bound=bound))


# Larger than any size that is tried for a graph without such constants.
_LARGE = (12_000, 16_001, 33_000)


def large_bounds(b: Builder, genes: ByteChoices) -> None:
    """Treats images of many rows or columns differently, at most once in a graph.

    An image padded along both axes would have a billion cells.
    """
    if b.bounds:
        return
    x = b.choose(genes, [n for n in b.floats(4, 3) if None in b.shape(n)[1:3]])
    if x is None:
        return
    open_axes = [k for k in (1, 2) if b.shape(x)[k] is None]
    axis, bound = genes.pick(open_axes), genes.pick(_LARGE)
    size = f"tf.shape({x})[{axis}]"
    padding = f"[[0, 0]] * {axis} + [[0, {{}}]] + [[0, 0]] * {b.rank(x) - 1 - axis}"
    longer = f"tf.maximum(0, {bound} - {size})"
    to_multiple = f"-{size} % {bound}"
    expression = genes.pick(
        [
            f":{bound}",
            f"-{bound}:",
            f"{bound // 2}:{bound}",
            f":-{bound}",
            f"::{bound}",
            f": tf.minimum({size}, {bound})",
            f"tf.maximum(0, {size} - {bound}) :",
            f"{size} // {bound} :",
            f"{size} % {bound} :",
            f"tf.cast(tf.cast({size}, tf.float32) / {bound}, tf.int32) :",
            f"tf.where({size} > {bound}, 1, 0) :",
            f"tf.cast({size} >= {bound}, tf.int32) :",
            f"tf.pad({x}, {padding.format(longer)})",
            f"tf.pad({x}, {padding.format(to_multiple)})",
        ]
    )
    if not expression.startswith("tf.pad"):
        expression = f"{x}[{':, ' * axis}{expression}]"
    if b.one(expression):
        b.bounds.append(bound)


def pad(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.floats(4, 4, 3, 2))
    if x is None:
        return
    rank = b.rank(x)
    paddings = [[0, 0] for _ in range(rank)]
    image_only = genes.pick([True, True, False])
    for axis in (1, 2) if image_only and rank == 4 else range(rank):
        if not genes.chance(3):
            paddings[axis] = [genes.number(0, 2), genes.number(0, 2)]
    how = genes.pick(
        ["", "", ", constant_values=0.5", ', "REFLECT"', ', "SYMMETRIC"', "", ""]
    )
    b.one(f"tf.pad({x}, {paddings}{how})")
