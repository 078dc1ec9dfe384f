"""The zoo's results as a page: one row a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TITLE = """# Networks

What `python -m ios_tf.bench zoo` measured. Every network is built with random weights
and the batch statistics of smooth images, converted, and compared with the original at
two batch sizes: on the engine, and without the plugin, as any TensorFlow runs it.
Conversions, in processes of their own, are for all batch sizes of the page, and keep
what is slower than TensorFlow (`--keep_slower`; without it `convert` leaves that to
TensorFlow). Ratios are latencies over stock TensorFlow's, interleaved: below 1 is
faster, and `*` marks those beside which other processes took more than a tenth of a
core. In a network of one region, its ratio is the region's.
"""
# Of cores that others use; their timing is then not to be relied on.
_BUSY = 0.1
_COLUMNS = (
    "network",
    "operators",
    "multiplications in regions",
    "regions",
    "difference",
    "without plugin",
    "converted in",
    "memory",
)


def page(record: Mapping[str, Any]) -> str:
    """The text of docs/models.md."""
    rows = record["networks"]
    sizes = record["batch_sizes"]
    header = [*_COLUMNS, *(f"ratio, batch {size}" for size in sizes)]
    lines = [_TITLE, f"{record['device']}, TensorFlow {record['tensorflow']}.", ""]
    lines += [_line(header), _line(["---"] * len(header))]
    failures = []
    for name in sorted(rows, key=str.casefold):
        row = rows[name]
        if "failure" in row:
            failures.append(f"* {name}: {row['failure']}")
        else:
            lines.append(_line([name, *_cells(row, sizes)]))
    if failures:
        lines += ["", "Not converted:", "", *failures]
    weak = [n for n, row in rows.items() if row.get("spread", 1) < 0.01]
    if weak:
        lines += ["", f"Outputs hardly depend on the input: {', '.join(weak)}."]
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any], sizes: list[int]) -> list[str]:
    return [
        str(row["operators"]),
        f"{100 * row['share']:.2f} %",
        str(row["regions"]),
        f"{row['difference']:.1e}",
        f"{row['stock_difference']:.1e}",
        f"{row['convert_seconds']:.0f} s",
        f"{row['convert_mib']:.0f} MiB",
        *(_ratio(row["latency"][str(size)]) for size in sizes),
    ]


def _ratio(latency: Mapping[str, float]) -> str:
    # Old records do not know.
    mark = "*" if latency.get("other_cores", 1.0) > _BUSY else ""
    return f"{latency['ratio']:.2f}{mark} ({latency['tensorflow_ms']:.1f} ms)"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
