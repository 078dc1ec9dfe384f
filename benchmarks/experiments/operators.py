"""Compares each operator of a network with the same operator in another framework.

Both run a network of one operator. The comparison is fair, because neither can fuse the
operator with its neighbours. Convolutions use the algorithms that a search chooses.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.experiment import (
    Context,
    Experiment,
    Table,
    ms,
    ratio,
    short_name,
    summary,
)
from benchmarks.frameworks.ios_runner import IosRunner
from benchmarks.frameworks.peers import PEERS
from benchmarks.frameworks.runner import Runner, Target
from ios_tf.errors import UserError
from ios_tf.model.network import Network

# Number of rows in a table: the operators that lose the most time.
_SHOWN = 20


class Operators(Experiment):
    name = "operators"
    help = "each operator of a network, beside another framework"
    quick_networks = ("models:squeezenet",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--peer",
            choices=[
                name
                for name, peer in PEERS.items()
                if not name.startswith("ios") and not peer.runs_saved_model
            ],
            default="onnxruntime",
            help="default: onnxruntime",
        )

    def measure(self, context: Context) -> dict[str, Any]:
        peer = PEERS[context.options.peer]
        if peer.missing():
            raise UserError(f"{peer.name} needs {peer.missing()}: pip install it")
        target = Target(
            context.device, context.dtype, context.threads, context.time_limit
        )
        if target.kind not in peer.devices:
            raise UserError(f"{peer.name} does not run on {target.kind}")
        networks = {}
        for network in context.networks:
            networks[network.name] = _operators(network, peer.make, target, context)
            context.say(
                f"{network.name}: {len(networks[network.name])} different operators"
            )
        return {"peer": peer.name, "networks": networks}

    def tables(
        self, results: Mapping[str, Any], paper: Mapping[str, Any]
    ) -> list[Table]:
        header = ["", "reads", "count", "ms alone", f"{results['peer']} / ours"]
        header += ["lost ms", "algorithm"]
        tables = []
        for network, rows in results["networks"].items():
            rows = sorted(rows, key=_lost_ms, reverse=True)
            lines = [
                [
                    row["what"],
                    ", ".join("x".join(map(str, shape)) for shape in row["inputs"]),
                    str(row["count"]),
                    ms(row["median_ms"]),
                    f"{row['ratio']:.2f}",
                    ms(_lost_ms(row)),
                    row["algorithm"],
                ]
                for row in rows[:_SHOWN]
            ]
            ours = sum(row["count"] * row["median_ms"] for row in rows)
            lost = sum(map(_lost_ms, rows))
            total = [f"all {len(rows)}", "", str(sum(r["count"] for r in rows))]
            total += [ms(ours), f"{(ours - lost) / ours:.2f}", ms(lost), ""]
            tables.append(Table(short_name(network), header, [*lines, total]))
        return tables


def _operators(
    network: Network, peer: Any, target: Target, context: Context
) -> list[dict[str, Any]]:
    """Measures each distinct operator of a network on both, in turn."""
    rows = []
    for name, alone, count in network.different_operators():
        (operator,) = alone.block["operators"]
        one = Network.of(alone)
        ours = IosRunner(one, target)
        rows.append(
            {
                "operator": name,
                "what": _words(operator),
                "inputs": alone.block["inputs"],
                "algorithm": ", ".join(ours.algorithms()),
                **_compared(ours, peer(one, target), context.rounds),
                "count": count,
            }
        )
    return rows


def _compared(ours: Runner, peer: Runner, rounds: int) -> dict[str, Any]:
    """Returns our latency, and the rounds' median ratio of the peer's to ours."""
    runners = (ours, peer)
    calls = [runner.calls() for runner in runners]
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for i in order:
            found[i].append(runners[i].time(calls[i]))
    return {**summary(found[0]), "ratio": ratio(found[1], found[0])}


def _lost_ms(row: Mapping[str, Any]) -> float:
    """Returns the ms that the network loses to the peer in all such operators."""
    return float(row["count"] * row["median_ms"] * (1 - row["ratio"]))


def _words(operator: Mapping[str, Any]) -> str:
    words = [operator["type"]]
    if "kernel" in operator:
        words.append("x".join(map(str, operator["kernel"])))
    if "filters" in operator:
        words.append(f"to {operator['filters']}")
    if operator.get("groups", 1) > 1:
        words.append(f"in {operator['groups']} groups")
    if max(operator.get("strides", (1,))) > 1:
        words.append("by " + "x".join(map(str, operator["strides"])))
    if "activation" in operator:
        words.append(operator["activation"])
    if operator.get("residual"):
        words.append("+ residual")
    return " ".join(words)
