"""The zoo's results as a page: one table per machine, one row per network."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.results import markdown_table

_TITLE = """# Networks

This page shows how much faster whole networks run after a conversion, and how far their
outputs differ. `python -m benchmarks zoo` builds each network with random weights and
batch norm statistics that fit smooth images. It converts each network in a separate
process, for all batch sizes of the page. Each row is a network; a *region* is a part
that runs as one unit on IOS-TF's engine.

* **Ratio** is the latency of the converted model divided by that of the original in
  stock TensorFlow, which is in parentheses. A ratio below 1 is faster. The two were
  called in turn. `*` marks a ratio that other processes disturbed. If a network is
  one region, this is also the ratio of the region.
* **Slower parts** stay on the engine (`--keep_slower`). By default, `convert` leaves
  parts that are not faster to TensorFlow.
* **Difference** is the largest difference between an output on the engine and the
  original's, divided by the output's largest value, at two batch sizes. *Without
  plugin* is the same for the converted model in TensorFlow alone.
* **Converted in** and **memory** are the time and the peak of memory of the conversion.
  *Multiplications in regions* is the share of the network's multiplications that runs
  on the engine.
"""
# Older rows have the number of cores that other processes kept busy. A timing is
# unreliable if the number exceeds this limit.
_BUSY = 0.1
# If another image changes the outputs by less than this, equal outputs prove little.
_WEAK = 0.01
_COLUMNS = (
    "network",
    "operators",
    "multiplications in regions",
    "regions",
    "difference",
    "difference without plugin",
    "converted in",
    "memory to convert",
)


def page(record: Mapping[str, Any], names: Sequence[str]) -> str:
    """Returns the text of docs/benchmarks/models.md: a table for each machine.

    Args:
      record: the results.
      names: names of all existing networks.
    """
    tables: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in record["rows"]:
        tables.setdefault((row["device"], row["tensorflow"]), []).append(row)
    lines = [_TITLE]
    for (device, tensorflow), rows in tables.items():
        lines += _table(device, tensorflow, rows, record["batch_sizes"])
        if device in record["notes"]:
            lines += [*textwrap.wrap(record["notes"][device], 88), ""]
    measured = {row["network"] for row in record["rows"]}
    missing = [name for name in names if name not in measured]
    if missing:
        lines += [*textwrap.wrap(f"Not measured yet: {', '.join(missing)}.", 88), ""]
    return "\n".join(lines).rstrip() + "\n"


def _table(
    device: str, tensorflow: str, rows: Sequence[Mapping[str, Any]], sizes: list[int]
) -> list[str]:
    dates = sorted({row["date"] for row in rows})
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    header = [*_COLUMNS, *(f"ratio, batch {size} (TensorFlow)" for size in sizes)]
    lines = [f"## {device}", "", f"Measured with TensorFlow {tensorflow}, {days}.", ""]
    cells, failures = [], []
    for row in sorted(rows, key=lambda row: row["network"].casefold()):
        name = row["network"]
        if "failure" in row:
            failures.append(f"* {name}: {row['failure']}")
        else:
            cells.append([name, *_cells(row, sizes)])
    lines += [markdown_table(header, cells, left=len(header))]
    if failures:
        lines += ["Not converted:", "", *failures, ""]
    weak = [row["network"] for row in rows if row.get("spread", 1) < _WEAK]
    if weak:
        text = f"Outputs hardly depend on the input: {', '.join(weak)}."
        lines += [*textwrap.wrap(text, 88), ""]
    return lines


def _cells(row: Mapping[str, Any], sizes: list[int]) -> list[str]:
    def cell(key: str, text: Callable[[Any], str]) -> str:
        # Some rows lack values that were not recorded at the time.
        return text(row[key]) if key in row else ""

    return [
        cell("operators", str),
        cell("share", lambda share: f"{100 * share:.2f} %"),
        cell("regions", str),
        cell("difference", "{:.1e}".format),
        cell("stock_difference", "{:.1e}".format),
        cell("convert_seconds", "{:.0f} s".format),
        cell("convert_mib", "{:.0f} MiB".format),
        *(_ratio(row["latency"][str(size)]) for size in sizes),
    ]


def _ratio(latency: Mapping[str, Any]) -> str:
    # A record without either value counts as busy.
    busy = latency.get("busy", latency.get("other_cores", 1.0) > _BUSY)
    return (
        f"{latency['ratio']:.2f}{'*' if busy else ''} "
        f"({latency['tensorflow_ms']:.1f} ms)"
    )
