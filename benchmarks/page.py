"""Makes docs/benchmarks/paper.md from the JSON files of the results.

python -m benchmarks page [--results=DIR] [--output=FILE] [--paper=FILE]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.command import EXPERIMENTS
from benchmarks.experiments.experiment import Record, paper_results
from benchmarks.results import markdown_table
from ios_tf.errors import UserError
from ios_tf.files import write_text

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

_INTRODUCTION = """# Benchmarks

This page is made by `python -m benchmarks page` from the JSON files in
`docs/results/<machine>`; those hold all numbers in full.

* Whatever is compared was measured in one run, in turn, every other round in reverse
  order. Medians, with the 10th and the 90th percentile; speedups and ratios are
  medians of the rounds' own ratios.
* PyTorch runs the blocks of the engine, with the same random weights and inputs, and
  batch norms folded. TensorFlow, XLA and LiteRT run the network's SavedModel; ONNX
  Runtime, OpenVINO and TensorRT run its ONNX export by tf2onnx. (Until 2026-11-28, all
  of them except LiteRT ran the blocks.)
* Outputs are compared before anything is timed: those of the blocks with the engine's,
  those of the SavedModel with TensorFlow's.
* Each peer has a process of its own and the same threads. Only one process runs at a
  time.
* A search begins with nothing known. `*` marks one that `--time_limit` has stopped.
* The paper's numbers are those its authors measured on an NVIDIA V100.
"""


def write_page(
    output: str, results: str | os.PathLike[str] = RESULTS, paper: str | None = None
) -> int:
    """Writes the page.

    Args:
      output: the Markdown file.
      results: a directory with one subdirectory per machine.
      paper: the file with the paper's numbers; by default the package's file.

    Returns:
      The number of results on the page.

    Raises:
      UserError: a file cannot be read or written.
    """
    published = paper_results(paper)
    order = list(EXPERIMENTS)
    machines: dict[str, list[tuple[Path, Record]]] = {}
    for directory in sorted(p for p in Path(results).glob("*") if p.is_dir()):
        records = [(path, Record.read(path)) for path in directory.glob("*.json")]
        for path, record in records:
            if record.experiment not in EXPERIMENTS:
                raise UserError(f"{path}: there is no experiment {record.experiment!r}")
        records.sort(key=lambda each: (order.index(each[1].experiment), each[0]))
        machines[directory.name] = records
    every = [record for records in machines.values() for _, record in records]
    text = _INTRODUCTION
    text += _commands(every)
    for name, records in machines.items():
        text += f"\n## {name}\n"
        for path, record in records:
            text += _section(path, record, published)
    write_text(output, text)
    return len(every)


def _commands(records: Sequence[Record]) -> str:
    """Returns a table of all experiments' commands and how long the records took."""
    rows = []
    for what in EXPERIMENTS.values():
        took = [
            f"{record.seconds / 60:.1f} min ({record.machine['cores']} cores"
            + (", --quick)" if record.settings["quick"] else ")")
            for record in records
            if record.experiment == what.name
        ]
        command = f"python -m benchmarks {what.name} --output=docs/results/MACHINE"
        rows.append([f"`{command}`", what.help, ", ".join(took) or "not run yet"])
    made = "`python -m benchmarks page`"
    rows.append([made, "this page", "seconds"])
    header = ["command", "what it measures", "took"]
    return (
        "\n## Commands\n\nIn a checkout, on a machine that does nothing else, after "
        "`pip install '.[peers]'`:\n\n"
        + markdown_table(header, rows, left=3)
        + "\n`--quick` measures less, in under 10 minutes. Where there is no "
        "TensorFlow, name files that `python -m benchmarks export_blocks` wrote as "
        "networks.\n"
    )


def _section(path: Path, record: Record, paper: Mapping[str, Any]) -> str:
    what = EXPERIMENTS[record.experiment]
    text = f"\n### {record.experiment}: {what.help}\n\n"
    text += f"* `{record.command}`\n* {record.date[:10]}, {record.device}\n"
    found = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    minutes = record.seconds / 60
    text += (
        f"* {record.machine['processor']}, {record.machine['cores']} cores; {found}\n"
    )
    text += f"* took {minutes:.1f} min; `{path.name}` has all numbers\n"
    for table in what.tables(record.results, paper):
        text += f"\n{table.title}\n\n{markdown_table(table.header, table.rows, left=1)}"
    return text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", metavar="DIR", default=RESULTS)
    parser.add_argument("--output", metavar="FILE", default="docs/benchmarks/paper.md")
    parser.add_argument(
        "--paper", metavar="FILE", help="numbers to show instead of the paper's"
    )


def run(options: argparse.Namespace) -> int:
    count = write_page(options.output, options.results, options.paper)
    print(f"{options.output}: {count} results")
    return 0
