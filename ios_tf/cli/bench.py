"""The commands that measure: ios_tf bench MODEL, ios_tf bench EXPERIMENT."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from ios_tf.bench.experiments.command import EXPERIMENTS, add_arguments, run
from ios_tf.bench.experiments.page import RESULTS, write_page
from ios_tf.files import check_writable, write_json


def with_command(words: Sequence[str]) -> list[str]:
    """`bench MODEL` as what it is short for: `bench model MODEL`.

    With several batch sizes it is `bench specialization MODEL`.
    """
    if len(words) < 2 or words[0] != "bench":
        return list(words)
    known = ["model", "page", "-h", "--help", *(what.name for what in EXPERIMENTS)]
    if words[1] in known:
        return list(words)
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--batch_size", default="")
    found, rest = parser.parse_known_args(words[1:])
    if "," in found.batch_size:
        return ["bench", "specialization", *rest, f"--batch_sizes={found.batch_size}"]
    return ["bench", "model", *words[1:]]


def add_commands(
    commands: Any, add_traceback: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    """Adds them to the `ios_tf` parser.

    Args:
      commands: its sub-parsers.
      add_traceback: adds --traceback.

    Returns:
      The parser of `bench model`, which lacks what it shares with `convert`.
    """
    bench = commands.add_parser(
        "bench",
        help="measure a model, or one of the paper's experiments",
        description="Measures a model (ios_tf bench MODEL), or one of the paper's "
        "experiments. All that is compared is measured in turn.",
    )
    names = bench.add_subparsers(required=True, metavar="EXPERIMENT")
    model = names.add_parser(
        "model",
        help="a model on stock TensorFlow and with each strategy; may be left out",
        description="Measures a model on stock TensorFlow and on the engine under "
        "each strategy, in one process, in turn.",
    )
    model.set_defaults(run=_model)
    model.add_argument("--signature", metavar="NAME", help="the one to call")
    add_input(model)
    model.add_argument("--json", metavar="FILE", help="write the results here")
    page = names.add_parser(
        "page",
        help="make docs/benchmarks.md of the results",
        description="Makes the results page of the JSON files in the checkout.",
    )
    page.set_defaults(run=_page)
    page.add_argument("--results", metavar="DIR", default=RESULTS)
    page.add_argument("--output", metavar="FILE", default="docs/benchmarks.md")
    page.add_argument("--paper", metavar="FILE", help="in place of the paper's")
    add_traceback(page)
    for what in EXPERIMENTS:
        command = names.add_parser(what.name, help=what.help)
        command.set_defaults(run=run)
        add_arguments(command, what)
        add_traceback(command)
    return model


def add_input(command: argparse.ArgumentParser) -> None:
    """Adds --input, which says what to call a signature with."""
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input's FILE.npy, or the shape of a random one, such as "
        "image=1,224,224,3 (may be repeated); default: random, with the batch size",
    )


def _model(options: argparse.Namespace) -> None:
    from ios_tf.bench.model import bench
    from ios_tf.model.inputs import parse_inputs
    from ios_tf.native import devices

    if options.json:
        check_writable(options.json)  # now rather than after the measurements
    inputs = parse_inputs(options.input)
    result = bench(
        options.model,
        inputs=inputs,
        batch_size=options.batch_size,
        device=devices.choose(options.device, _say).kind,
        strategies=options.strategies,
        rounds=options.rounds,
        signature=options.signature,
        tags=options.tags,
        weights=options.weights,
        cache_dir=options.cache_dir,
        progress=True,
        say=_say,
    )
    print(f"{options.model}, batch size {options.batch_size}, {result.device}")
    print(result.table())
    if options.json:
        write_json(options.json, result.to_json())


def _page(options: argparse.Namespace) -> None:
    count = write_page(options.output, options.results, options.paper)
    print(f"{options.output}: {count} results")


def _say(line: str) -> None:
    print(line, flush=True)
