"""Draws the stages of a converted model, for the README:

    ios_tf convert keras:InceptionV3 OUTPUT
    python -m tests.schedule_picture OUTPUT > docs/pictures/schedule.svg

The picture shows a part of the schedule with concurrent stages. On few cores, most
stages are not concurrent.
"""

from __future__ import annotations

import argparse
import html
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ios_tf.report import document

_WIDTH, _HEIGHT, _TOP, _GAP = 900, 150, 44, 6
_COLORS = {
    "winograd": ("#f2b36f", "Winograd"),
    "gemm": ("#8fc7a3", "matrix product"),
    "direct": ("#8db4e2", "direct convolution"),
    "other": ("#d5d5d5", "other operators"),
}
_NAMES = {"conv2d": "conv", "pool": "pool", "concat": "concat"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.schedule_picture")
    parser.add_argument("model", help="a converted SavedModel")
    parser.add_argument("--stages", type=int, default=9)
    options = parser.parse_args()
    network = document.read(options.model)["networks"][0]
    stages = [
        stage
        for region in network["regions"]
        for block in region["blocks"]
        for stage in block["stages"]
    ]
    operators = network["operators"]
    chosen = _richest(operators, stages, options.stages)
    sys.stdout.write("\n".join(_picture(operators, chosen)) + "\n")


def _richest(
    operators: list[dict[str, Any]], stages: list[dict[str, Any]], count: int
) -> list[dict[str, Any]]:
    """The `count` consecutive stages with the most kinds, and then the most groups."""

    def score(first: int) -> tuple[int, int]:
        groups = [g for s in stages[first : first + count] for g in s["groups"]]
        return len({_kind(operators[i]) for g in groups for i in g}), len(groups)

    best = max(range(max(1, len(stages) - count + 1)), key=score)
    return stages[best : best + count]


def _picture(
    operators: list[dict[str, Any]], stages: list[dict[str, Any]]
) -> Iterator[str]:
    height = _TOP + _HEIGHT + 66
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    width = (_WIDTH - 12) / sum(map(_columns, stages))
    x = 0.0
    for number, stage in enumerate(stages, 1):
        span = width * _columns(stage)
        yield from _stage(operators, stage, number, x, span)
        x += span
    yield from _legend(height - 40)
    yield "</svg>"


def _columns(stage: Mapping[str, Any]) -> int:
    """The width of a stage: the operators of its longest group."""
    return max(len(group) for group in stage["groups"])


def _stage(
    operators: list[dict[str, Any]],
    stage: Mapping[str, Any],
    number: int,
    x: float,
    width: float,
) -> Iterator[str]:
    bottom = _TOP + _HEIGHT
    groups = stage["groups"]
    how = "concurrent" if len(groups) > 1 else stage["strategy"]
    how = "1 operator" if sum(map(len, groups)) == 1 else how
    for line, text in enumerate((f"stage {number}", how)):
        size = "bold" if line == 0 else "normal"
        yield (
            f'<text x="{x + _GAP:.0f}" y="{16 + 15 * line}" fill="#333" '
            f'font-weight="{size}">{text}</text>'
        )
    yield (
        f'<line x1="{x + width:.0f}" y1="{_TOP - 4}" x2="{x + width:.0f}" '
        f'y2="{bottom}" stroke="#999" stroke-dasharray="4 3"/>'
    )
    high = _HEIGHT / len(groups)
    for row, group in enumerate(groups):
        step = (width - _GAP) / len(group)
        for column, index in enumerate(group):
            yield from _operator(
                operators[index],
                (x + _GAP + column * step, _TOP + row * high),
                (step - _GAP, high - _GAP),
            )


def _operator(
    operator: Mapping[str, Any], at: tuple[float, float], size: tuple[float, float]
) -> Iterator[str]:
    (x, y), (width, height) = at, size
    yield (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'rx="4" fill="{_COLORS[_kind(operator)][0]}" stroke="#666"/>'
    )
    yield (
        f'<text x="{x + width / 2:.0f}" y="{y + height / 2 + 4:.0f}" '
        f'text-anchor="middle" fill="#111">{html.escape(_label(operator))}</text>'
    )


def _label(operator: Mapping[str, Any]) -> str:
    name = _NAMES.get(operator["type"], operator["type"])
    if operator["type"] not in ("conv2d", "pool"):
        return name
    return f"{name} {'x'.join(map(str, operator['attributes'].get('kernel', [1, 1])))}"


def _kind(operator: Mapping[str, Any]) -> str:
    algorithm = operator["algorithm"] or ""
    if operator["type"] != "conv2d":
        return "other"
    return next((kind for kind in _COLORS if algorithm.startswith(kind)), "direct")


def _legend(y: float) -> Iterator[str]:
    for number, (color, text) in enumerate(_COLORS.values()):
        x = _GAP + number * 190
        yield f'<rect x="{x}" y="{y}" width="18" height="14" fill="{color}"/>'
        yield f'<text x="{x + 24}" y="{y + 12}" fill="#333">{text}</text>'


if __name__ == "__main__":
    main()
