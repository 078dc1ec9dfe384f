"""The kinds of steps of random graphs: each appends statements to a builder.

Kinds are named after what they append. They choose by genes; what TensorFlow refuses
when it traces the graph is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from ios_tf.bench.random_graphs.builder import Builder, Genes

Kind = Callable[[Builder, Genes], None]
# Kinds by name; the first is the simplest.
KINDS: dict[str, Kind] = {}
# How often each is taken, relative to the others.
FREQUENCY: dict[str, int] = {}


def _kind(frequency: int) -> Callable[[Kind], Kind]:
    def register(kind: Kind) -> Kind:
        KINDS[kind.__name__] = kind
        FREQUENCY[kind.__name__] = frequency
        return kind

    return register


def _channels_last(b: Builder) -> list[str]:
    """Images of known channels."""
    return [name for name in b.floats(4) if b.shape(name)[3]]


def _padding(genes: Genes, channels_first: bool = False) -> str:
    padding = genes.pick(['"SAME"', '"SAME"', '"VALID"', "explicit"])
    if padding != "explicit":
        return padding
    height = [genes.number(0, 2), genes.number(0, 2)]
    width = [genes.number(0, 2), genes.number(0, 2)]
    if channels_first:
        return str([[0, 0], [0, 0], height, width])
    return str([[0, 0], height, width, [0, 0]])


_SIZES = (3, 1, 3, 1, 2, 5, 4)


@_kind(12)
def conv2d(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, _channels_last(b))
    if x is None:
        return
    channels = b.shape(x)[3]
    shared = b.weights_of_shape(lambda s: len(s) == 4 and s[2] == channels)
    if shared and genes.chance(5):
        filters = genes.pick(shared)
    else:
        kernel = [genes.pick(_SIZES), genes.pick(_SIZES)]
        groups = channels if genes.chance(12) else 1
        if genes.chance(12) and channels % 2 == 0:
            groups = 2
        outputs = groups * genes.number(1, max(9 // groups, 1))
        filters = b.variable([*kernel, channels // groups, outputs])
    strides = genes.pick([1, 1, 1, 1, 2, [1, 2], [2, 1], 3])
    padding = _padding(genes)
    dilations = genes.pick(["", "", "", "", "", ", dilations=2", ", dilations=[1, 2]"])
    y = b.one(f"tf.nn.conv2d({x}, {filters}, {strides}, {padding}{dilations})")
    after_it = genes.number(0, 7)
    if y is None or after_it < 3:
        return
    count = b.shape(y)[3]
    if after_it in (4, 5, 6):
        y = b.one(f"tf.nn.bias_add({y}, {b.variable([count], 'constant')})")
    elif after_it == 3:
        y = b.one(f"{y} + {b.constant([count])}")
    if y and after_it in (5, 7):
        b.one(f"tf.nn.relu({y})")


@_kind(4)
def depthwise_conv2d(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, _channels_last(b))
    if x is None:
        return
    multiplier = genes.pick([1, 1, 2])
    kernel = [genes.pick(_SIZES), genes.pick(_SIZES)]
    filters = b.variable([*kernel, b.shape(x)[3], multiplier], "constant")
    stride = genes.pick([1, 1, 2])
    padding = _padding(genes)
    strides = [1, stride, stride, 1]
    dilations = ", dilations=[2, 2]" if stride == 1 and genes.chance(6) else ""
    y = b.one(
        f"tf.nn.depthwise_conv2d({x}, {filters}, {strides}, {padding}{dilations})"
    )
    if y and genes.chance(2):
        pointwise = b.variable([1, 1, b.shape(y)[3], genes.number(1, 9)])
        b.one(f"tf.nn.conv2d({y}, {pointwise}, 1, 'SAME')")


@_kind(3)
def conv2d_channels_first(b: Builder, genes: Genes) -> None:
    """Transposes, computes with the channels first, and may transpose back."""
    x = b.choose(genes, _channels_last(b))
    if x is None:
        return
    x = b.one(f"tf.transpose({x}, [0, 3, 1, 2])")
    for _ in range(genes.number(1, 3)):
        if not x or not b.shape(x)[1]:
            return
        channels = b.shape(x)[1]
        what = genes.number(0, 7)
        nchw = 'data_format="NCHW"'
        if what <= 2:
            size, outputs = genes.pick([3, 1]), genes.number(1, 9)
            filters = b.variable([size, size, channels, outputs])
            stride, padding = genes.pick([1, 2]), _padding(genes, channels_first=True)
            x = b.one(f"tf.nn.conv2d({x}, {filters}, {stride}, {padding}, {nchw})")
        elif what == 3:
            x = b.one(f"tf.nn.bias_add({x}, {b.constant([channels])}, {nchw})")
        elif what == 4:
            x = b.one(f"tf.nn.relu({x})")
        elif what == 5:
            shape = genes.pick([[channels, 1, 1], [1, channels, 1, 1], [1, 1, 1, 1]])
            x = b.one(f"{x} {genes.pick('+*')} {b.constant(shape)}")
        elif what == 6:
            x = b.one(f"tf.concat([{x}, {x}], {genes.pick([1, 2, -3])})")
        else:
            x = b.one(f"{x}[:, {genes.pick([':2', '1:', '-2:'])}]")
    if x and not genes.chance(4):
        x = b.one(f"tf.transpose({x}, [0, 2, 3, 1])")


@_kind(3)
def conv2d_transpose(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, _channels_last(b))
    if x is None:
        return
    height, width, channels = b.shape(x)[1:]
    size, outputs, stride = genes.pick([3, 2, 4, 1]), genes.number(1, 9), 2
    if genes.chance(3):
        stride = 1
    filters = b.variable([size, size, outputs, channels], "weight")
    same = genes.chance(2)
    grown = 0 if same else max(size - stride, 0)

    def long(axis: int, known: int | None) -> str:
        if known and not genes.chance(3):
            return str(known * stride + grown)
        return f"tf.shape({x})[{axis}] * {stride} + {grown}"

    shape = f"[tf.shape({x})[0], {long(1, height)}, {long(2, width)}, {outputs}]"
    padding = '"SAME"' if same else '"VALID"'
    shape = f"tf.stack({shape})"
    y = b.one(f"tf.nn.conv2d_transpose({x}, {filters}, {shape}, {stride}, {padding})")
    if y and not b.shape(y)[3]:
        b.one(f"tf.ensure_shape({y}, [None, None, None, {outputs}])")


@_kind(3)
def conv1d(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, [name for name in b.floats(3) if b.shape(name)[2]])
    if x is None:
        return
    filters = b.variable([genes.pick([3, 1, 2]), b.shape(x)[2], genes.number(1, 9)])
    dilations = genes.pick(["", "", ", dilations=2"])
    padding = genes.pick(['"SAME"', '"VALID"'])
    b.one(f"tf.nn.conv1d({x}, {filters}, 1, {padding}{dilations})")


@_kind(3)
def matmul(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, [n for n in b.floats(2, 3, 2) if b.shape(n)[-1]])
    if x is None:
        return
    channels, outputs = b.shape(x)[-1], genes.number(1, 9)
    if genes.chance(4):
        filters, transposed = b.variable([outputs, channels], "constant"), True
    else:
        filters, transposed = b.variable([channels, outputs]), False
    extra = ", transpose_b=True" if transposed else ""
    b.one(f"tf.matmul({x}, {filters}{extra})")


@_kind(3)
def batch_norm(b: Builder, genes: Genes) -> None:
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
    "1.0 - {x}",
    "{a} / (1.5 + tf.abs({x}))",
    "tf.identity({x})",
    "tf.stop_gradient({x})",
    "tf.where({x} > 0.0, {x}, {a} * {x})",
    "tf.cast(tf.cast({x}, tf.float64), tf.float32)",
    "{x} * tf.sigmoid({x})",
    "{x} * tf.sigmoid(1.5 * {x})",
    # Numbers that look as if they could be left out.
    "tf.math.log(tf.nn.relu({x}) + {tiny})",
    "tf.math.log(tf.clip_by_value(tf.sigmoid(9.0 * {x}), {tiny}, 1.0 - {tiny}))",
    "{x} / (tf.abs({x}) + {tiny})",
    "{x} * tf.math.rsqrt(tf.square(tf.nn.relu({x})) + {tiny})",
    "{tiny} / (tf.nn.relu({x}) + {tiny})",
    "{tiny} * tf.tanh({x})",
    "tf.where({x} > {tiny}, {x}, {a} * {x})",
)


@_kind(14)
def unary(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, b.floats())
    if x:
        expression = genes.pick(_UNARY)
        value = genes.pick([0.2, 0.5, 1.0, 0.0, 1.5])
        tiny = genes.pick(["1e-6", "1e-3", "1e-8", "1e-12", "0.02"])
        b.one(expression.format(x=x, a=value, sixth="0.16666667", tiny=tiny))


@_kind(2)
def prelu(b: Builder, genes: Genes) -> None:
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


@_kind(7)
def pool(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, b.floats(4))
    if x is None:
        return
    kind = genes.pick(["max", "avg"])
    size = genes.pick([2, 3, [2, 3], 1, 4])
    strides = genes.pick([1, 2, 3, [2, 1]])
    padding = _padding(genes) if kind == "max" else genes.pick(['"SAME"', '"VALID"'])
    b.one(f"tf.nn.{kind}_pool2d({x}, {size}, {strides}, {padding})")


@_kind(6)
def reduce(b: Builder, genes: Genes) -> None:
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


@_kind(8)
def concat(b: Builder, genes: Genes) -> None:
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


@_kind(4)
def split(b: Builder, genes: Genes) -> None:
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


@_kind(2)
def stack(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, b.floats(3, 2, 1))
    if x is None:
        return
    same = b.values(lambda n: b.shape(n) == b.shape(x) and b.dtype(n) == b.dtype(x))
    parts = [x] + [genes.pick(same) for _ in range(genes.number(0, 2))]
    b.one(f"tf.stack([{', '.join(parts)}], axis={genes.number(0, b.rank(x))})")


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


@_kind(10)
def broadcast_constant(b: Builder, genes: Genes) -> None:
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


@_kind(12)
def broadcast(b: Builder, genes: Genes) -> None:
    """Arithmetic with another value, or with a part of the same."""
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


@_kind(2)
def add_n(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, b.floats())
    if x is None:
        return
    same = [name for name in b.floats() if b.shape(name) == b.shape(x)]
    parts = [x] + [genes.pick(same) for _ in range(genes.number(1, 3))]
    b.one(f"tf.add_n([{', '.join(parts)}])")


@_kind(9)
def slices(b: Builder, genes: Genes) -> None:
    """x[...] with what Python can say."""
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
        # Where an ellipsis takes the place of several dimensions.
        parts = [*parts[:axis], "...", *parts[axis + 1 :]]
    while len(parts) > 1 and parts[-1] == ":" and not genes.chance(3):
        parts.pop()
    if genes.chance(12):
        parts.insert(genes.number(0, len(parts)), "tf.newaxis")
    b.one(f"{x}[{', '.join(parts)}]")


@_kind(3)
def tf_slice(b: Builder, genes: Genes) -> None:
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


@_kind(3)
def strided_slice(b: Builder, genes: Genes) -> None:
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


@_kind(4)
def sizes(b: Builder, genes: Genes) -> None:
    """Crops, pads and resizes by numbers that are computed of sizes."""
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


@_kind(5)
def pad(b: Builder, genes: Genes) -> None:
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


@_kind(6)
def reshape(b: Builder, genes: Genes) -> None:
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
        # Rows and columns change places, or channels and columns.
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


@_kind(2)
def channel_shuffle(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, _channels_last(b))
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


@_kind(3)
def transpose(b: Builder, genes: Genes) -> None:
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


@_kind(4)
def resize(b: Builder, genes: Genes) -> None:
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


@_kind(2)
def depth_to_space(b: Builder, genes: Genes) -> None:
    x = b.choose(genes, _channels_last(b))
    if x is None:
        return
    if b.shape(x)[3] % 4 == 0 and genes.chance(2):
        b.one(f"tf.nn.depth_to_space({x}, 2)")
    else:
        b.one(f"tf.nn.space_to_depth({x}, 2)")


@_kind(4)
def normalize(b: Builder, genes: Genes) -> None:
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
        # With one number for each channel, or for each row of as many.
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
        # A squeeze and an excitation.
        y = b.one(f"tf.reduce_mean({x}, [1, 2], keepdims=True)")
        weights = b.variable([1, 1, channels, channels])
        y = y and b.one(f"tf.sigmoid(tf.nn.conv2d({y}, {weights}, 1, 'SAME'))")
        if y:
            b.one(f"{x} * {y}")


@_kind(4)
def other(b: Builder, genes: Genes) -> None:
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
        # The size of a batch, of an image, as a number.
        size = f"tf.cast(tf.shape({x})[{genes.number(0, rank - 1)}], tf.float32)"
        b.one(f"{x} * 0.5 + 0.125 * {size}")
    elif rank:
        b.one(f"tf.repeat({x}, 2, axis={genes.number(0, rank - 1)})")


@_kind(1)
def integers(b: Builder, genes: Genes) -> None:
    """Values of other types, which are outputs."""
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
