"""Writes a model's blocks as one JSON file, for machines without TensorFlow.

    python -m benchmarks export_blocks MODEL FILE

The file contains the regions and blocks of a model without its weights. The
experiments measure this network on the engine alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from benchmarks.network import Network, Part, Region
from ios_tf.cli import arguments
from ios_tf.errors import UserError
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.model.graph_optimizer import Collected
from ios_tf.model.loading import saved_model
from ios_tf.options import BenchOptions
from ios_tf.scheduler import sequential_schedule


def network_of(
    model: Any,
    *,
    batch_size: int = 1,
    signature: str | None = None,
    tags: Sequence[str] | None = None,
) -> Network:
    """Returns the regions and blocks of a model's signature.

    Args:
      model: as for `ios_tf.convert`.
      batch_size: replaces an unknown leading dimension of the inputs.
      signature: the signature to export; by default `serving_default`, or the only
        signature.
      tags: as for `ios_tf.convert`.

    Raises:
      UserError: the input is wrong; the message is one line.
    """
    with saved_model(model) as source:
        loaded = saved_models.load(source, tags)
        name = saved_models.choose_signature(signature, loaded)
        frozen = frozen_graphs.freeze(name, loaded.signatures[name], keep_filters=True)
        frozen = graph_optimizer.fold_constants(frozen)
    collected = graph_optimizer.collect(frozen, batch_size)
    if not collected.problems:
        raise UserError("the model has no convolution that the engine can run")
    return Network(
        str(model) if isinstance(model, (str, os.PathLike)) else model.name,
        collected.problems,
        _regions(frozen, collected, batch_size),
    )


def _regions(
    frozen: frozen_graphs.FrozenSignature, collected: Collected, batch_size: int
) -> list[Region]:
    sequential = {
        signature: sequential_schedule(problem)
        for signature, problem in collected.problems.items()
    }
    graph_def = graph_optimizer.rewrite(frozen, sequential, [batch_size])
    programs = graph_optimizer.lowered_programs(
        dataclasses.replace(frozen, graph_def=graph_def), batch_size
    )
    regions = []
    for program in programs:
        number = {op["name"]: i for i, op in enumerate(program["block"]["operators"])}
        parts = [
            Part(block["signature"], [number[name] for name in block["names"]])
            for block in collected.blocks
            if block["names"][0] in number
        ]
        regions.append(Region(program["block"], parts))
    return regions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_model(parser)
    parser.add_argument("output", metavar="FILE", help="file to write")
    arguments.add_options(parser, BenchOptions, "batch_size", "signature")


def run(options: argparse.Namespace) -> int:
    network = network_of(
        options.model,
        batch_size=options.batch_size,
        signature=options.signature,
        tags=options.tags,
    )
    network.write(options.output)
    operators = sum(len(region.block["operators"]) for region in network.regions)
    print(
        f"{options.output}: {operators} operators in {len(network.regions)} regions, "
        f"{len(network.problems)} different blocks"
    )
    return 0
