"""Compares the engine with its peers, which are other frameworks."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments.experiment import (
    QUANTILES,
    Context,
    Experiment,
    Result,
    Table,
    quantile_cells,
    ratio,
    summary,
)
from benchmarks.frameworks.peers import PEERS
from benchmarks.frameworks.runner import Target
from benchmarks.network import Network
from benchmarks.worker import Worker
from ios_tf.differences import relative_difference
from ios_tf.errors import UserError
from ios_tf.processes import ChildError

# Limits for the largest difference of outputs, divided by the largest value, by dtype,
# and for float32 with TF32. With random weights, EfficientNetB0's outputs differ by up
# to 3e-4 between any two peers that add in different orders, and InceptionV3's by 3e-3
# in MNN, whose Winograd kernels have large tiles. A wrong operator differs far more.
_TOLERANCES = {"float32": 5e-3, "float16": 2e-2, "bfloat16": 1e-1}
_TF32_TOLERANCE = 1e-2
# The limit for peers that choose their precision. It excludes only values that rounding
# cannot give: bfloat16 changes MobileNetV3Small's outputs by 0.4, because its weights
# are random. The peer's row in float32 shows wrong operators.
_AS_INSTALLED_TOLERANCE = 1.0
_PAPER_PEERS = {
    "tensorflow": "TensorFlow",
    "tensorflow_xla": "TensorFlow XLA",
    "taso": "TASO",
    "tvm_cudnn": "TVM cuDNN",
    "tensorrt": "TensorRT",
}


class Frameworks(Experiment):
    name = "frameworks"
    help = "the engine beside other frameworks"
    quick_networks = ("models:inception_v3", "models:squeezenet")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_peers(parser)

    def measure_network(self, network: Network, context: Context) -> Any:
        return compare(network, peers_of(context), context)

    def tables_of(self, result: Result) -> list[Table]:
        found = result.found
        of_paper = result.published("frameworks_batch_1")
        lines = []
        for peer, row in found.items():
            line = [PEERS[peer].name]
            if "median_ms" in row:
                line += [
                    *quantile_cells(row),
                    f"{row['over_ios']:.3f}" if "over_ios" in row else "",
                    f"{row['difference']:.0e}",
                    f"{row['seconds']:.1f}",
                ]
            else:
                line += [""] * 6
            if of_paper:
                line.append(f"{of_paper[peer]:.2f}" if of_paper.get(peer) else "")
            lines.append([*line, row["note"]])
        for key in [k for k in of_paper if k not in found]:
            name = _PAPER_PEERS.get(key, key)
            lines.append([name, *[""] * 6, f"{of_paper[key]:.2f}", "paper only"])
        header = ["", *QUANTILES, "/ IOS", "difference", "setup s"]
        header += ["paper ms"] if of_paper else []
        return [Table(result.title, [*header, "note"], lines)]


def peers_of(context: Context, default: Sequence[str] = tuple(PEERS)) -> Sequence[str]:
    """Returns the value of --peers, or those of `default` that the device can run."""
    kind = context.target.kind
    return context.options.peers or [p for p in default if kind in PEERS[p].devices]


def add_peers(
    parser: argparse.ArgumentParser, default: Sequence[str] = tuple(PEERS)
) -> None:
    """Adds --peers, whose value `peers_of` returns."""

    def peers(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        for name in names:
            if name not in PEERS:
                raise argparse.ArgumentTypeError(
                    f"{name!r} is not one of {', '.join(PEERS)}"
                )
        return names

    parser.add_argument(
        "--peers",
        type=peers,
        metavar="A,B",
        help=f"any of {', '.join(PEERS)}; default: those of "
        f"{'them' if len(default) == len(PEERS) else ', '.join(default)} that run on "
        "the device",
    )

    def environment(text: str) -> tuple[str, str]:
        name, _, python = text.partition("=")
        names = sorted({p.environment for p in PEERS.values() if p.environment})
        if name not in names:
            text = f"{name!r} is not one of {', '.join(names)}"
            raise argparse.ArgumentTypeError(text)
        if not os.access(python, os.X_OK):
            raise argparse.ArgumentTypeError(f"{python!r} is not a program")
        return name, python

    parser.add_argument(
        "--peer_python",
        type=environment,
        metavar="NAME=PYTHON",
        action="append",
        default=[],
        help="the Python of the environment that has mnn, ncnn or zentf; may be "
        "repeated",
    )


def compare(
    network: Network, peers: Sequence[str], context: Context
) -> dict[str, dict[str, Any]]:
    """Measures peers on one network in turn, after comparing their outputs.

    Args:
      network: the network to run.
      peers: keys of PEERS, in the order of the rows.
      context: the settings.

    Returns:
      A row for each peer: its latencies, "over_ios" (ratio to the engine's),
      "difference" of its outputs from those of the first peer that runs the same (the
      blocks or the SavedModel), and "seconds" of preparation. The row of a peer that
      was not measured has only "note" with the reason. For example, the peer failed, or
      its outputs differ by more than rounding explains.

    Raises:
      UserError: no peer can be measured.
    """
    saved_model = context.saved_models.get(network.name)
    target = dataclasses.replace(
        context.target,
        saved_model=saved_model,
        pythons=dict(context.options.peer_python),
    )
    rows: dict[str, dict[str, Any]] = {peer: {"note": ""} for peer in peers}
    workers: dict[str, Worker] = {}
    with contextlib.ExitStack() as stack:
        path = os.path.join(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ios_tf_")),
            "network.json",
        )
        network.write(path)
        # Whether peers run the SavedModel -> the outputs of the first such peer. Peers
        # that run blocks have other outputs, because blocks have random weights.
        expected: dict[bool, list[np.ndarray]] = {}
        for key in peers:
            name, row = f"{network.name}, {PEERS[key].name}", rows[key]
            try:
                # A worker that is not measured ends, so that it disturbs no other.
                with contextlib.ExitStack() as own:
                    worker, outputs = _ready(key, path, target, own)
                    first = expected.setdefault(PEERS[key].runs_saved_model, outputs)
                    difference = _rounding(
                        outputs, first, target, PEERS[key].as_installed
                    )
                    stack.enter_context(own.pop_all())
            except _NotMeasuredError as reason:
                row["note"] = str(reason)
                context.log(f"{name}: {reason}")
                continue
            row.update(
                difference=difference,
                seconds=worker.seconds,
                note=worker.notes,
                versions=worker.versions,
            )
            context.log(f"{name}: ready, {worker.seconds:.1f} s")
            workers[key] = worker
        if not workers:
            raise UserError("none of the peers can be measured")
        latencies, failures = _in_turn(workers, context.rounds)
    for key, why in failures.items():
        rows[key] = {"note": f"failed: {why}"}
        context.log(f"{network.name}, {PEERS[key].name}: {rows[key]['note']}")
    for key, found in latencies.items():
        rows[key].update(summary(found))
        if "ios" in latencies:
            rows[key]["over_ios"] = ratio(found, latencies["ios"])
    return rows


class _NotMeasuredError(Exception):
    """A peer was not measured; the message is the note of its row."""


def _ready(
    key: str, path: str, target: Target, stack: contextlib.ExitStack
) -> tuple[Worker, list[np.ndarray]]:
    """Starts a peer; returns its worker and its outputs."""
    peer = PEERS[key]
    if target.kind not in peer.devices:
        raise _NotMeasuredError(f"does not run on {target.kind}")
    if peer.missing():
        raise _NotMeasuredError(f"not installed: {peer.missing()}")
    if peer.environment and peer.environment not in target.pythons:
        raise _NotMeasuredError(f"needs --peer_python={peer.environment}=PYTHON")
    if peer.runs_saved_model and target.saved_model is None:
        raise _NotMeasuredError("needs a SavedModel, and this network is only blocks")
    try:
        worker = Worker(key, path, target)
        stack.callback(worker.close)
        return worker, worker.outputs()
    except ChildError as error:
        raise _NotMeasuredError(f"failed: {error}") from None


def _rounding(
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    target: Target,
    as_installed: bool,
) -> float:
    """Returns the difference of outputs if rounding explains it.

    Otherwise, the latency of this peer would be meaningless. The other peers are still
    measured.

    Raises:
      _NotMeasuredError: the difference exceeds the limit.
    """
    pairs = zip(outputs, expected, strict=True)
    difference = max((relative_difference(*pair) for pair in pairs), default=0.0)
    tolerance = _TOLERANCES[target.dtype]
    if target.kind != "cpu" and target.dtype == "float32" and target.tf32:
        tolerance = _TF32_TOLERANCE
    if as_installed:
        tolerance = _AS_INSTALLED_TOLERANCE
    if not difference <= tolerance:
        raise _NotMeasuredError(
            f"outputs differ by {difference:.1e}, more than the limit {tolerance:.0e}"
        )
    return difference


def _in_turn(
    workers: Mapping[str, Worker], rounds: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Measures all workers in every round, in reverse order in every other round.

    Returns:
      Latencies in ms of workers that always answered, and the other workers' errors.
    """
    latencies: dict[str, list[float]] = {key: [] for key in workers}
    failures: dict[str, str] = {}
    for number in range(rounds):
        for key in list(latencies)[:: -1 if number % 2 else 1]:
            try:
                latencies[key].append(workers[key].time())
            except ChildError as error:
                failures[key] = str(error)
                del latencies[key]
    return latencies, failures
