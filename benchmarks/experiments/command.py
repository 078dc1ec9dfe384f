"""The experiments' command line: python -m benchmarks NAME.

It does not need TensorFlow if the networks are files that
`python -m benchmarks export_blocks` wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.experiments import experiment
from benchmarks.experiments.batch import Batch
from benchmarks.experiments.blocks import Blocks
from benchmarks.experiments.experiment import Context, Experiment, Record
from benchmarks.experiments.frameworks import Frameworks
from benchmarks.experiments.roofline import Roofline
from benchmarks.experiments.schedules import PruningExperiment, Schedules
from benchmarks.experiments.specialization import Specialization
from benchmarks.experiments.utilization import Utilization
from benchmarks.frameworks.runner import SavedModel, Target
from benchmarks.network import Network
from benchmarks.standalone import add_engine_device, saved_model_of
from ios_tf.cli.arguments import add_whole
from ios_tf.errors import UserError
from ios_tf.files import utc_now
from ios_tf.native import engine
from ios_tf.tables import table
from ios_tf.validation import as_argument, listed

EXPERIMENTS: Mapping[str, Experiment] = {
    what.name: what
    for what in (
        Schedules(),
        Frameworks(),
        Batch(),
        Specialization(),
        PruningExperiment(),
        Blocks(),
        Utilization(),
        Roofline(),
    )
}
_ROUNDS, _QUICK_ROUNDS = 20, 6
_TIME_LIMIT, _QUICK_TIME_LIMIT = 300.0, 20.0  # seconds per search


def add_arguments(parser: argparse.ArgumentParser, what: Experiment) -> None:
    """Adds the arguments of one experiment."""
    parser.set_defaults(experiment=what)
    parser.add_argument(
        "networks",
        metavar="NETWORK",
        nargs="*",
        help="a file that export_blocks wrote, or a MODEL that it reads; default: "
        + ", ".join(what.networks),
    )
    parser.add_argument(
        "--tags",
        type=as_argument(lambda value: tuple(listed("they", value))),
        metavar="A,B",
        help="tags of the MetaGraph, such as serve,gpu, if a MODEL has several",
    )
    parser.add_argument(
        "--signature", metavar="NAME", help="the signature of a MODEL to use"
    )
    add_engine_device(parser)
    parser.add_argument(
        "--dtype", choices=("float32", "float16", "bfloat16"), default="float32"
    )
    add_whole(parser, "batch_size", 1, "default: the networks' sizes")
    cores = len(os.sched_getaffinity(0))
    add_whole(parser, "threads", 1, "CPU threads; default: one per core", cores)
    add_whole(parser, "rounds", 2, f"default: {_ROUNDS}")
    limit = f"seconds per search; 0 means no limit; default: {_TIME_LIMIT:.0f}"
    add_whole(parser, "time_limit", 0, limit)
    quick = f"measure less: {_QUICK_ROUNDS} rounds, {_QUICK_TIME_LIMIT:.0f} s per "
    quick += "search"
    if list(what.quick_networks) != list(what.networks):
        quick += ", only " + " and ".join(what.quick_networks)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--output",
        metavar="DIR",
        default=".",
        help=f"directory for {what.name}.json; default: the current one",
    )
    parser.add_argument(
        "--paper", metavar="FILE", help="numbers to show instead of the paper's"
    )
    what.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the experiment in `options`.

    Raises:
      UserError: the input is wrong; the message is one line.
    """
    what: Experiment = options.experiment
    start = time.monotonic()
    paper = experiment.paper_results(options.paper)
    try:
        os.makedirs(options.output, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{options.output} cannot be created: {error.strerror}"
        ) from None
    os.environ["IOS_TF_NUM_THREADS"] = str(options.threads)  # read once by the engine
    fingerprint = engine.device_fingerprint(options.device)
    networks = options.networks or (
        what.quick_networks if options.quick else what.networks
    )
    rounds = options.rounds or (_QUICK_ROUNDS if options.quick else _ROUNDS)
    time_limit = options.time_limit
    if time_limit is None:
        time_limit = _QUICK_TIME_LIMIT if options.quick else _TIME_LIMIT
    stem = os.path.join(options.output, what.name)

    def keep(results: Mapping[str, Any]) -> None:
        Record(
            what.name,
            options.command,
            utc_now(),
            fingerprint,
            experiment.machine(),
            experiment.versions(),
            {
                "device": options.device,
                "batch_sizes": sorted({n.batch_size for n in context.networks}),
                "dtype": options.dtype,
                "threads": options.threads,
                "rounds": context.rounds,
                "time_limit": context.target.time_limit,
                "quick": options.quick,
            },
            round(time.monotonic() - start, 1),
            results,
        ).write(f"{stem}.json")

    with contextlib.ExitStack() as stack:
        found = [_network(name, options, stack) for name in networks]
        context = Context(
            [network for network, _ in found],
            Target(options.device, options.dtype, options.threads, float(time_limit)),
            rounds + rounds % 2,
            options.quick,
            options,
            lambda line: print(line, file=sys.stderr, flush=True),
            keep,
            {network.name: source for network, source in found if source},
        )
        print(fingerprint)
        keep(what.measure(context))
    # Reads the rounded numbers from the file, so that these tables equal those on the
    # page of results.
    for each in what.tables(Record.read(f"{stem}.json").results, paper):
        print(f"\n{each.title}\n{table(each.header, each.rows)}")
    print(f"\nwritten: {stem}.json")
    return 0


def _network(
    name: str, options: argparse.Namespace, stack: contextlib.ExitStack
) -> tuple[Network, SavedModel | None]:
    """Returns a network, and its SavedModel, which exists until the stack closes."""
    source = None
    if name.endswith(".json"):
        network = Network.read(name)
    elif importlib.util.find_spec("tensorflow") is None:
        raise UserError(
            f"{name} cannot be read, because TensorFlow is not installed. Name files "
            "that python -m benchmarks export_blocks wrote"
        )
    else:
        print(f"reading {name}", file=sys.stderr, flush=True)
        from benchmarks.export_blocks import network_of

        path = stack.enter_context(saved_model_of(name))
        source = SavedModel(path, options.signature, options.tags)
        network = network_of(
            path,
            batch_size=options.batch_size or 1,
            signature=options.signature,
            tags=options.tags,
        )
        network = dataclasses.replace(network, name=name)
    if options.batch_size:
        network = network.with_batch(options.batch_size)
    return network.with_dtype(options.dtype), source
