"""The hypothesis strategy of random graphs."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis import reject

from random_graphs.builder import Builder, ByteChoices
from random_graphs.program import Program, Settings
from random_graphs.steps.registry import FREQUENCY, KINDS

_MOST_STEPS = 14
_GENES = 24
# One of this many graphs is checked end to end: saved, converted and loaded.
_ROAD = 20


def programs(
    without: Sequence[str] = (), precision: str = "float32"
) -> st.SearchStrategy[Program]:
    """Programs of all kinds of steps except those in `without`.

    Args:
      without: kinds of steps.
      precision: the precision to convert the programs to.
    """
    kinds = [
        name
        for name, count in FREQUENCY.items()
        for _ in range(count)
        if name not in without
    ]
    step = st.tuples(st.sampled_from(kinds), _bytes(_GENES))
    return st.builds(
        _program,
        _bytes(32),
        st.lists(step, min_size=1, max_size=_MOST_STEPS),
        _bytes(16),
        st.just(precision),
    )


def _bytes(count: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=count, max_size=count)


def _program(
    arguments: bytes,
    steps: Sequence[tuple[str, bytes]],
    ending: bytes,
    precision: str,
) -> Program:
    builder = Builder()
    genes = ByteChoices(arguments)
    image_sizes = _arguments(builder, genes)
    if not genes.chance(6):
        KINDS["conv2d"](builder, genes)
    for kind, data in steps:
        genes = ByteChoices(data)
        KINDS[kind](builder, genes)
        # A convolution after a step puts the step's result inside a region.
        if genes.chance(3):
            KINDS["conv2d"](builder, genes)
    if not builder.steps:
        reject()
    genes = ByteChoices(ending)
    values = builder.values()
    outputs = [values[0]]
    for _ in range(genes.pick([0, 0, 1, 2])):
        outputs.append(genes.pick(values))
    batch_sizes = genes.pick([(1,), (1,), (3,), (1, 3), (2, 5), (5,)])
    for bound in builder.bounds[:1]:
        few, near = genes.number(1, 3), genes.number(0, 2)
        image_sizes += ((bound - 1 + near, few), (few, 2 * bound + near))
    settings = Settings(
        image_sizes,
        batch_sizes,
        genes.byte(),
        genes.byte() % _ROAD == _ROAD - 1,
        precision,
    )
    return builder.program(outputs, settings)


def _arguments(builder: Builder, genes: ByteChoices) -> tuple[tuple[int, int], ...]:
    """Adds the arguments; gives the sizes for their unknown dimensions."""
    height, width = genes.number(1, 9), genes.number(1, 9)
    if genes.chance(2):
        height, width = genes.number(4, 9), genes.number(4, 9)
    channels = genes.pick([3, 4, 1, 2, 6, 8, 5])
    batch = genes.pick([None] * 8 + [1, 2])
    kind = genes.number(0, 15)
    image = [batch, height, width, channels]
    if kind == 15:
        image = [batch, None, width, channels]
    elif kind >= 11:
        image = [batch, None, None, channels]
    for _ in range(genes.pick([0, 0, 0, 1, 1, 2])):
        builder.argument(
            genes.pick(
                [
                    image,
                    [1, *image[1:]],
                    [None, 1, 1, channels],
                    [None, *image[1:3], 1],
                    [None, channels],
                    [None, 5, channels],
                    [channels],
                    [],
                    [None, None, None, channels],
                    [None, *image[1:3], genes.number(1, 9)],
                ]
            )
        )
    # Most steps start from the last argument.
    if kind == 10:
        x = builder.argument([batch, channels, height, width])
        builder.one(f"tf.transpose({x}, [0, 2, 3, 1])")
    elif kind == 9:
        builder.argument([batch, height * width, channels])
    elif kind == 8:
        x = builder.argument([batch, height, width])
        builder.one(f"tf.expand_dims({x}, -1)")
    else:
        builder.argument(image)
    other = (genes.number(1, 12), genes.number(1, 12))
    return (height, width), other
