"""Steps that convolve or multiply matrices."""

from __future__ import annotations

from random_graphs.builder import Builder, ByteChoices

_SIZES = (3, 1, 3, 1, 2, 5, 4)


def conv2d(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.channels_last())
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
    padding = pick_padding(genes)
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


def depthwise_conv2d(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.channels_last())
    if x is None:
        return
    multiplier = genes.pick([1, 1, 2])
    kernel = [genes.pick(_SIZES), genes.pick(_SIZES)]
    filters = b.variable([*kernel, b.shape(x)[3], multiplier], "constant")
    stride = genes.pick([1, 1, 2])
    padding = pick_padding(genes)
    strides = [1, stride, stride, 1]
    dilations = ", dilations=[2, 2]" if stride == 1 and genes.chance(6) else ""
    y = b.one(
        f"tf.nn.depthwise_conv2d({x}, {filters}, {strides}, {padding}{dilations})"
    )
    if y and genes.chance(2):
        pointwise = b.variable([1, 1, b.shape(y)[3], genes.number(1, 9)])
        b.one(f"tf.nn.conv2d({y}, {pointwise}, 1, 'SAME')")


def conv2d_channels_first(b: Builder, genes: ByteChoices) -> None:
    """Transposes, computes with channels first, and may transpose back."""
    x = b.choose(genes, b.channels_last())
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
            stride = genes.pick([1, 2])
            padding = pick_padding(genes, channels_first=True)
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


def conv2d_transpose(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, b.channels_last())
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


def conv1d(b: Builder, genes: ByteChoices) -> None:
    x = b.choose(genes, [name for name in b.floats(3) if b.shape(name)[2]])
    if x is None:
        return
    filters = b.variable([genes.pick([3, 1, 2]), b.shape(x)[2], genes.number(1, 9)])
    dilations = genes.pick(["", "", ", dilations=2"])
    padding = genes.pick(['"SAME"', '"VALID"'])
    b.one(f"tf.nn.conv1d({x}, {filters}, 1, {padding}{dilations})")


def matmul(b: Builder, genes: ByteChoices) -> None:
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


def pick_padding(genes: ByteChoices, channels_first: bool = False) -> str:
    """A padding by name, or an explicit one."""
    padding = genes.pick(['"SAME"', '"SAME"', '"VALID"', "explicit"])
    if padding != "explicit":
        return padding
    height = [genes.number(0, 2), genes.number(0, 2)]
    width = [genes.number(0, 2), genes.number(0, 2)]
    if channels_first:
        return str([[0, 0], [0, 0], height, width])
    return str([[0, 0], height, width, [0, 0]])
