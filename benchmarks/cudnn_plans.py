"""Compares the fastest cuDNN plans on a GPU with the expected plans.

python -m benchmarks cudnn_plans --device=gpu: compiles convolutions one by one, so
that the engine times cuDNN's plans for each. Compares the winners with the plans that
cuDNN proposed for a GPU of that name when it was queried without the GPU.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu_data
from benchmarks.frameworks.weights import random_weights
from benchmarks.results import read_json, write_measured
from benchmarks.standalone import add_engine_device
from ios_tf.native import engine

_CASES = (("float32", 1), ("float16", 1), ("float32", 32), ("float16", 32))

# Convolutions by network, then by the arithmetic that their tensors are padded for.
Convolutions = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def measure(networks: Convolutions, device: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the fastest plans of the convolutions of all networks.

    Args:
      networks: the content of gpu_data.CONVOLUTIONS.
      device: the engine's name of the device. If its TF32 is off, "float32" is called
        "exact".

    Yields:
      "NETWORK DTYPE BATCH", and the names of cuDNN's engines with their knobs, in the
      convolutions' order. A name is "" if our engine computes the convolution by its
      own kernel, or cannot compute it.
    """
    exact = device.endswith(",tf32=off")
    # cuDNN compiles for seconds if tensors are pitched, so these cases come last.
    order = sorted(
        ((network, dtype, batch) for dtype, batch in _CASES for network in networks),
        key=lambda case: case[0] == gpu_data.IN_CONCATS,
    )
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        os.environ["IOS_TF_PLAN_CACHE"] = directory  # read once by the engine
        for network, dtype, batch in order:
            dtype = "exact" if exact and dtype == "float32" else dtype
            yield (
                f"{network} {dtype} {batch}",
                [
                    _fastest(gpu_data.block(one, batch, dtype), device, Path(directory))
                    for one in networks[network][gpu_data.PADDED_FOR[dtype]]
                ],
            )


def _fastest(block: Mapping[str, Any], device: str, directory: Path) -> str:
    before = plan_names(directory)
    weights = [
        array
        for of_operator in random_weights(block, np.random.default_rng(0))
        for array in of_operator
    ]
    try:
        engine.Program(block, gpu_data.schedule(block), weights, device)
    except engine.EngineError as error:
        print(f"the engine cannot compute a convolution: {error}", flush=True)
    new = plan_names(directory).items() - before.items()
    return next((plan for _, plan in new), "")


def plan_names(directory: Path) -> dict[str, str]:
    """Returns the names of the cached plans, by description of the convolution."""
    names = {}
    for path in directory.glob("*.json"):
        names.update(json.loads(path.read_text(encoding="utf-8"))["plans"])
    # Other entries of the cache name the form in which a convolution runs; skip these.
    return {what: n for what, n in names.items() if not what.startswith("form of ")}


def expected_engines(timed: str) -> set[str]:
    """Returns the engines in a recording's text, such as "eng10*4 eng41*29"."""
    return set(re.findall(r"eng\d+", timed))


def compare(
    found: Mapping[str, Sequence[str]], recorded: Mapping[str, Any]
) -> dict[str, list[int]]:
    """Returns [number of plans of expected engines, number of all plans].

    The keys of the result are "NETWORK DTYPE BATCH".
    """
    result = {}
    for key, plans in found.items():
        answers = recorded["answers"].get(key)
        if not answers:
            continue
        known = [
            plan.split("_")[0] in expected_engines(answer.get("timed", ""))
            for plan, answer in zip(plans, answers, strict=True)
            if plan
        ]
        result[key] = [sum(known), len(known)]
    return result


def _agreement(found: Mapping[str, Sequence[str]], recordings: str, device: str) -> str:
    """Returns one line: the number of plans whose engines were expected."""
    name = device.split(",")[0]
    path = gpu_data.recording(recordings, name)
    if path is None:
        return f"there is no recording of {name!r} to compare with"
    agree = compare(found, read_json(path))
    good, of = (sum(n[i] for n in agree.values()) for i in (0, 1))
    return f"{good} of {of} plans use the engines expected for {path.stem}"


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds all options except the output file."""
    add_engine_device(parser, "gpu")
    parser.add_argument(
        "--convolutions", metavar="FILE", default=gpu_data.CONVOLUTIONS, help="JSON"
    )
    parser.add_argument(
        "--recordings",
        metavar="DIR",
        default=gpu_data.RECORDINGS,
        help="directory of expected plans, with one file per GPU name",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser)
    parser.add_argument("--json", metavar="FILE", help="write the plans to this file")


def run(options: argparse.Namespace) -> int:
    device = engine.device_fingerprint(options.device)
    print(device, flush=True)
    found: dict[str, list[str]] = {}
    for case, plans in measure(read_json(options.convolutions), options.device):
        found[case] = plans
        if options.json:
            write_measured(options.json, options, plans=found)
    for key, plans in found.items():
        counts = collections.Counter(p.split("_")[0] or "none" for p in plans)
        print(f"{key}: {' '.join(f'{n}*{k}' for n, k in counts.items())}")
    print(_agreement(found, options.recordings, device))
    return 0
