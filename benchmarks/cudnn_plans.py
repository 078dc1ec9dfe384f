"""Which of cuDNN's plans are the fastest on a GPU, beside those expected of it.

python -m benchmarks cudnn_plans --device=gpu: compiles convolutions one by one, so
that the engine times cuDNN's plans for each, and compares the winners with the plans
that cuDNN itself, asked without a GPU of that name, would have had timed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu_data
from benchmarks.frameworks.weights import random_weights
from ios_tf.errors import UserError
from ios_tf.files import utc_now, write_json
from ios_tf.native import engine
from ios_tf.scheduler import document
from ios_tf.validation import add_engine_device

_CASES = (("float32", 1), ("float16", 1), ("float32", 32), ("float16", 32))

# Of a network the convolutions, by what their tensors are padded for.
Convolutions = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]


def measure(
    networks: Convolutions, device: str, output: str = ""
) -> dict[str, list[str]]:
    """The fastest plans of all convolutions, by "NETWORK DTYPE BATCH".

    Args:
      networks: of gpu_data.CONVOLUTIONS.
      device: as the engine calls it; without TF32 "float32" is called "exact".
      output: a file that gets what is known after each network; "": none.

    Returns:
      Names of cuDNN's engines with their knobs, in the convolutions' order; "" where
      the engine computes one by a kernel of its own, or not at all.
    """
    exact = device.endswith(",tf32=off")
    # Where tensors are pitched cuDNN compiles for seconds: at the end.
    order = sorted(
        ((network, dtype, batch) for dtype, batch in _CASES for network in networks),
        key=lambda case: case[0] == gpu_data.IN_CONCATS,
    )
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        os.environ["IOS_TF_PLAN_CACHE"] = directory  # the engine reads it once
        for network, dtype, batch in order:
            dtype = "exact" if exact and dtype == "float32" else dtype
            found[f"{network} {dtype} {batch}"] = [
                _fastest(gpu_data.block(one, batch, dtype), device, Path(directory))
                for one in networks[network][gpu_data.PADDED_FOR[dtype]]
            ]
            if output:
                _write(output, device, found)
    return found


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
        print(f"a convolution cannot be computed: {error}", flush=True)
    new = plan_names(directory).items() - before.items()
    return next((plan for _, plan in new), "")


def plan_names(directory: Path) -> dict[str, str]:
    """The names of the plans that are kept there, by convolution in words."""
    names = {}
    for path in directory.glob("*.json"):
        names.update(json.loads(path.read_text(encoding="utf-8"))["plans"])
    # Beside plans there is in which form, of those that have one, convolutions run.
    return {what: n for what, n in names.items() if not what.startswith("form of ")}


def expected_engines(timed: str) -> set[str]:
    """The engines of a recording's text, "eng10*4 eng41*29"."""
    return set(re.findall(r"eng\d+", timed))


def compare(
    found: Mapping[str, Sequence[str]], recorded: Mapping[str, Any]
) -> dict[str, list[int]]:
    """By "NETWORK DTYPE BATCH": how many plans are of expected engines, of how many."""
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


def _write(path: str, device: str, found: Mapping[str, Sequence[str]]) -> None:
    result = {
        "command": "python -m benchmarks cudnn_plans " + " ".join(sys.argv[1:]),
        "date": utc_now(),
        "device": engine.device_fingerprint(device),
        "plans": found,
    }
    write_json(path, result)


def _read(path: str) -> Any:
    try:
        return document.read(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _agreement(found: Mapping[str, Sequence[str]], recordings: str, device: str) -> str:
    """One line: how many plans are of engines that were expected."""
    name = device.split(",")[0]
    path = gpu_data.recording(recordings, name)
    if path is None:
        return f"there is no recording of {name!r} to compare with"
    agree = compare(found, _read(str(path)))
    good, of = (sum(n[i] for n in agree.values()) for i in (0, 1))
    return f"{good} of {of} plans use the engines expected for {path.stem}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds all but where results go."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives 0, 1 for failure, 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks cudnn_plans",
        description="Finds the fastest of cuDNN's plans for convolutions.",
    )
    add_arguments(parser)
    parser.add_argument(
        "--json", metavar="FILE", default="", help="write the plans to this file"
    )
    options = parser.parse_args(arguments)
    try:
        device = engine.device_fingerprint(options.device)
        print(device, flush=True)
        found = measure(_read(options.convolutions), options.device, options.json)
        for key, plans in found.items():
            counts = collections.Counter(p.split("_")[0] or "none" for p in plans)
            print(f"{key}: {' '.join(f'{n}*{k}' for n, k in counts.items())}")
        print(_agreement(found, options.recordings, device))
    except (UserError, engine.EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
