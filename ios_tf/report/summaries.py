"""The report as summaries for TensorBoard: scalars, texts, and pictures of blocks."""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ios_tf.errors import UserError
from ios_tf.report import gain, view
from ios_tf.report.document import Document
from ios_tf.report.text import text
from ios_tf.tables import counted

if TYPE_CHECKING:
    import numpy as np

# The slowest blocks of each network get pictures.
_PICTURES = 12
# A picture has a row for each group of a stage, but at most this many rows.
_ROWS = 64
# The width of a letter of an operator's label, as a share of a block's time.
_LETTER = 0.0065
_COLORS = {
    "conv": "#9ecae9",
    "depthwise": "#83cbbd",
    "matmul": "#88d27a",
    "pool": "#f2cf5b",
    "copy": "#d8d0cb",
    "other": "#d6a5c9",
}


def write(report: Document, directory: str) -> list[str]:
    """Writes the summaries of a report; TensorBoard shows them as one run.

    Pictures need Matplotlib, because TensorBoard shows images, not the HTML page.

    Returns:
      Sentences about what is missing.

    Raises:
      UserError: TensorBoard is not installed, or the directory cannot be written.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise UserError("--logdir needs TensorBoard. Run pip install tensorboard")
    import tensorflow as tf

    has_pictures = importlib.util.find_spec("matplotlib") is not None
    try:
        writer = tf.summary.create_file_writer(directory)
        with writer.as_default(step=0):
            for name, value in scalars(report):
                tf.summary.scalar(name, value)
            tf.summary.text("report", f"```\n{text(report)}\n```")
            for network in view.networks(report):
                of = f"{network['signature']}/batch {network['load']}"
                for block in _slowest(network["blocks"]):
                    tag = f"{of}/block {block['index'] + 1}"
                    # A text and an image cannot have the same tag.
                    tf.summary.text(f"{tag} stages", _table(block))
                    if has_pictures:
                        tf.summary.image(tag, picture(block)[None])
        writer.close()
    except tf.errors.OpError as error:
        raise UserError(f"{directory} cannot be written: {error.message}") from None
    if has_pictures:
        return []
    return [
        "the pictures of blocks are left out, because Matplotlib is not installed (pip "
        "install matplotlib)"
    ]


def scalars(report: Document) -> Iterator[tuple[str, float]]:
    """Names and values of the report's numbers."""
    yield "speedup", gain.speedup(report)
    yield "operators on the engine", report["operators"]
    yield "nodes left to TensorFlow", sum(report["left_to_tensorflow"].values())
    yield "search seconds", report["search"]["seconds"]
    for signature, size, latencies in gain.timed(report):
        of = f"{signature['name']}/batch {size}"
        for name, label in view.LABELS.items():
            if name in latencies:
                yield f"{of}/{label} ms", latencies[name]["ms"]
        yield f"{of}/speedup", gain.speedup_of(latencies)
    for signature in report["signatures"]:
        if signature["kept"] and signature["difference"] is not None:
            yield f"{signature['name']}/largest difference", signature["difference"]


def picture(block: Mapping[str, Any]) -> np.ndarray:
    """The stages of a block from left to right, with a row for each group.

    Widths are measured times. If the time of a stage is not known, its width is the
    sum of the times of its operators, or else their number. Groups after the first
    `_ROWS` of a stage are left out.

    Returns:
      The pixels, [height, width, 4].
    """
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    stages = block["stages"]
    rows = min(_ROWS, max(len(stage["lanes"]) for stage in stages))
    figure = Figure(figsize=(10, 1.4 + 0.6 * rows), dpi=100, layout="constrained")
    axes = figure.subplots()
    total = sum(map(_width, stages)) or 1.0
    ends = list(itertools.accumulate(map(_width, stages)))
    # Each row is one collection of bars, because thousands of collections are slow.
    for row in range(rows):
        bars = [
            bar
            for stage, end in zip(stages, ends, strict=True)
            if row < len(stage["lanes"])
            for bar in _bars(stage, stage["lanes"][row], end)
        ]
        spans = [(begin, width) for begin, width, _ in bars]
        colors = [_COLORS[operator["kind"]] for _, _, operator in bars]
        axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=colors, ec="white")
        for begin, width, operator in bars:
            if width > _LETTER * max(len(operator["label"]), 1) * total:
                axes.text(
                    begin + width / 2,
                    row,
                    operator["label"],
                    ha="center",
                    va="center",
                    size=7,
                    wrap=True,
                    parse_math=False,
                )
    axes.vlines(ends, -0.5, rows - 0.5, color="gray", lw=0.8, ls=":")
    axes.set_xlim(0, 1.02 * total)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks(range(rows), [f"group {i + 1}" for i in range(rows)])
    axes.set_xlabel("ms" if block["ms"] else "operators (latencies were not measured)")
    axes.set_title(_title(block), size=9, parse_math=False)
    kinds = dict.fromkeys(one["kind"] for one in block["operators"])
    axes.legend(
        handles=[Patch(color=_COLORS[kind], label=kind) for kind in kinds],
        ncols=len(kinds),
        fontsize="small",
        loc="upper left",
        bbox_to_anchor=(0, -0.25),
    )
    canvas: Any = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        # The font does not have all letters that names may contain.
        warnings.filterwarnings("ignore", message="Glyph ")
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def _slowest(blocks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The slowest blocks, in the order of the network."""
    slowest = sorted(blocks, key=lambda block: -block["share"])[:_PICTURES]
    return sorted(slowest, key=lambda block: block["index"])


def _width(stage: Mapping[str, Any]) -> float:
    alone = stage["alone_ms"]
    operators = sum(len(lane["operators"]) for lane in stage["lanes"])
    return float(stage["ms"] or alone or operators)


def _bars(
    stage: Mapping[str, Any], lane: Mapping[str, Any], end: float
) -> Iterator[tuple[float, float, Mapping[str, Any]]]:
    """(Begin, width, operator) of a lane's operators, in proportion to their times.

    `end` is the end of the stage.
    """
    operators = lane["operators"]
    times = [one["ms"] or 0.0 for one in operators]
    total = sum(times)
    begin = end - _width(stage)
    for operator, ms in zip(operators, times, strict=True):
        share = ms / total if total else 1 / len(operators)
        width = _width(stage) * lane["width"] * share
        yield begin, width, operator
        begin += width


def _title(block: Mapping[str, Any]) -> str:
    operators = counted(len(block["operators"]), "operator", "operators")
    stages = counted(len(block["stages"]), "stage", "stages")
    time = view.milliseconds(block["ms"])
    name = f"block {block['index'] + 1} from {block['name']}"
    return f"{name}: {operators}, {stages}, {time}"


def _table(block: Mapping[str, Any]) -> str:
    """The stages of a block as a table in Markdown."""
    lines = ["| stage | how | time | operators |", "|---|---|---|---|"]
    for stage in block["stages"]:
        groups = (
            (f"`{one['short']}` ({one['label']})" for one in lane["operators"])
            for lane in stage["lanes"]
        )
        time = view.milliseconds(stage["ms"])
        lanes = "<br>".join(map(" > ".join, groups))
        row = (str(stage["position"]), stage["kind"], time, lanes)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)
