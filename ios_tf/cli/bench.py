"""The commands that measure: ios_tf bench MODEL, ios_tf bench EXPERIMENT."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ios_tf.bench.experiments.command import EXPERIMENTS, add_arguments, run
from ios_tf.bench.experiments.page import RESULTS, write_page
from ios_tf.cli import arguments
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
    # The command's own parser says what is left out.
    parser.add_argument("--batch_size", nargs="?", default="", const="")
    found, rest = parser.parse_known_args(words[1:])
    if "," in found.batch_size:
        return ["bench", "specialization", *rest, f"--batch_sizes={found.batch_size}"]
    return ["bench", "model", *words[1:]]


def add_commands(commands: Any) -> None:
    """Adds them to the commands."""
    parser = commands.add_parser(
        "bench",
        help="measure a model, or one of the paper's experiments",
        description="Measures a model (ios_tf bench MODEL), or one of the paper's "
        "experiments. All that is compared is measured in turn.",
    )
    names = parser.add_subparsers(required=True, metavar="EXPERIMENT")
    model = arguments.command(
        names,
        "model",
        _model,
        "a model on stock TensorFlow and with each strategy; may be left out",
        "Measures a model on stock TensorFlow and on the engine under each strategy, "
        "in one process, in turn.",
    )
    arguments.add_model(model)
    arguments.add_batch_size(model)
    arguments.add_device(model)
    arguments.add_weights(model)
    arguments.add_signature(model, "the one to call")
    arguments.add_input(model)
    arguments.add_strategies(model)
    arguments.add_whole(model, "rounds", 10, 1, "rounds of measurements")
    arguments.add_cache_dir(model)
    model.add_argument("--json", metavar="FILE", help="write the results here")
    page = arguments.command(
        names,
        "page",
        _page,
        "make docs/benchmarks.md of the results",
        "Makes the results page of the JSON files in the checkout.",
    )
    page.add_argument("--results", metavar="DIR", default=RESULTS)
    page.add_argument("--output", metavar="FILE", default="docs/benchmarks.md")
    page.add_argument("--paper", metavar="FILE", help="in place of the paper's")
    for what in EXPERIMENTS:
        add_arguments(arguments.command(names, what.name, run, what.help), what)


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
        device=devices.choose(options.device, arguments.say).kind,
        strategies=options.strategies,
        rounds=options.rounds,
        signature=options.signature,
        tags=options.tags,
        weights=options.weights,
        cache_dir=options.cache_dir,
        progress=True,
        say=arguments.say,
    )
    arguments.say(f"{options.model}, batch size {options.batch_size}, {result.device}")
    print(result.table())
    if options.json:
        write_json(options.json, result.to_json())


def _page(options: argparse.Namespace) -> None:
    count = write_page(options.output, options.results, options.paper)
    arguments.say(f"{options.output}: {count} results")
