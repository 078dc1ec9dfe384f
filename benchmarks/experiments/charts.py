"""The kinds of charts in the figures, on matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def grouped_bars(
    axes: Any, groups: Sequence[str], series: Mapping[str, Sequence[float | None]]
) -> None:
    """Draws one bar per series in every group; skips None."""
    width = 0.8 / max(len(series), 1)
    for number, (name, values) in enumerate(series.items()):
        offset = (number - (len(series) - 1) / 2) * width
        shown = [(i, value) for i, value in enumerate(values) if value is not None]
        axes.bar(
            [i + offset for i, _ in shown],
            [value for _, value in shown],
            width,
            label=name,
            color=_color(number, len(series)),
        )
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(axis="y", alpha=0.3)


def _color(number: int, count: int) -> Any:
    from matplotlib import colormaps

    return colormaps["tab10" if count <= 10 else "tab20"](number)


def legend(axes: Any) -> None:
    """Puts the legend below the axes, where it hides nothing."""
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
        ncols=3,
        fontsize=8,
        frameon=False,
    )


def heat_map(
    axes: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
) -> None:
    """Draws numbers, coloured by their ratio to the least of their row."""
    relative = [[value / min(row) for value in row] for row in values]
    axes.imshow(relative, cmap="YlOrRd", vmin=1.0, vmax=1.2, aspect="auto")
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            axes.text(j, i, f"{value:.2f}", ha="center", va="center")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)


def side_by_side(figure: Any, titles: Sequence[str], width: float = 6.0) -> list[Any]:
    """Returns axes with these titles, from left to right."""
    figure.set_size_inches(width * len(titles), 4.5)
    found = figure.subplots(1, len(titles), squeeze=False)[0]
    for axes, title in zip(found, titles, strict=True):
        axes.set_title(title)
    return list(found)
