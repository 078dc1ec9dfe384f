"""Node data for Model Explorer: times, stages and lanes on the original's nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from ios_tf.errors import UserError, first_line
from ios_tf.report.document import Document
from ios_tf.report.gain import load_of

# White to orange; Model Explorer interpolates between the least and the largest value.
_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e08a35"}]
# Scopes in operators' names that come from functions that TensorFlow has inlined.
_CALLS = ("PartitionedCall/", "StatefulPartitionedCall/")

# Graph -> names of nodes -> their identifiers in Model Explorer.
_Identifiers = Mapping[str, Mapping[str, list[str]]]


def node_data(report: Document, original: str) -> dict[str, dict[str, Any]]:
    """The node data of a report: name of a file -> its content.

    Args:
      report: the report.
      original: the SavedModel that was converted, as Model Explorer shows it.

    Raises:
      UserError: the adapter of Model Explorer is missing or cannot read the model, or
        the model has none of the report's operators.
    """
    graphs = _identifiers(original)
    several = len(report["networks"]) > 1
    files: dict[str, dict[str, Any]] = {}
    for network in report["networks"]:
        load = load_of(network).replace(" ", "_")
        prefix = f"batch_{load}_" if several else ""
        for kind, values in _values(report, network).items():
            found = _of_graphs(values, graphs)
            if found:
                files[f"{prefix}{kind}.json"] = found
    if not files:
        raise UserError(
            f"{original} has no node of the report. Use --original=DIR to name the "
            "model that was converted"
        )
    return files


def _values(
    report: Document, network: Mapping[str, Any]
) -> dict[str, dict[str, float | str]]:
    """Maps each kind of data to the values of nodes, by the nodes' names."""
    names = [operator["name"] for operator in network["operators"]]
    stages, lanes = {}, {}
    for region in network["regions"]:
        position = 0
        for block in region["blocks"] if region["kept"] else ():
            for stage in block["stages"]:
                position += 1
                for lane, group in enumerate(stage["groups"], 1):
                    for op in group:
                        stages[names[op]] = position
                        lanes[names[op]] = lane
    lanes |= _recorded_lanes(report, network)
    return {
        "time_ms": {
            operator["name"]: operator["ms"]
            for operator in network["operators"]
            if operator["ms"] is not None
        },
        "stage": stages,
        "lane": lanes,
        "algorithm": {
            operator["name"]: operator["algorithm"]
            for operator in network["operators"]
            if operator["algorithm"]
        },
    }


def _recorded_lanes(report: Document, network: Mapping[str, Any]) -> dict[str, int]:
    """The lanes of the operators in the recorded call, if there is one."""
    return {
        name: one["lane"] + 1
        for timeline in report.get("timelines", ())
        if timeline["signature"] == network["signature"]
        and timeline["batch_size"] == network["batch_size"]
        for one in timeline["slices"]
        for name in one["name"].split("+")
    }


def _of_graphs(
    values: Mapping[str, float | str], graphs: _Identifiers
) -> dict[str, Any]:
    """The values as Model Explorer reads them: by graph and identifier of the node."""
    data = {}
    for graph, identifiers in graphs.items():
        results = {
            identifier: {"value": value}
            for name, value in values.items()
            for identifier in identifiers.get(_without_calls(name), ())
        }
        if results:
            numbers = not any(isinstance(value, str) for value in values.values())
            data[graph] = {
                "results": results,
                **({"gradient": _GRADIENT} if numbers else {}),
            }
    return data


def _without_calls(name: str) -> str:
    """The name of a node in its own function."""
    while name.startswith(_CALLS):
        name = name.partition("/")[2]
    return name


def _identifiers(model: str) -> dict[str, dict[str, list[str]]]:
    """The identifiers of a SavedModel's nodes, by graph and name."""
    found: dict[str, dict[str, list[str]]] = {}
    for graph in _graphs(model):
        names = found.setdefault(graph["id"], {})
        for node in graph["nodes"]:
            # A node's namespace ends with the node's own name. The graph's inputs and
            # outputs do not have a namespace.
            if node.get("namespace"):
                names.setdefault(node["namespace"], []).append(node["id"])
    return found


def _graphs(model: str) -> Iterator[Mapping[str, Any]]:
    """The graphs of a SavedModel, as Model Explorer makes them."""
    # The adapter contains its own TensorFlow, which also reads this variable.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import ai_edge_model_explorer_adapter as adapter
    except ImportError:
        raise UserError(
            "the adapter of Model Explorer is not installed. Install it with: pip "
            "install ai-edge-model-explorer-adapter"
        ) from None
    try:
        text = adapter.ConvertSavedModelToJson(adapter.VisualizeConfig(), model)
    except RuntimeError as error:
        raise UserError(
            f"Model Explorer cannot read {model}: {first_line(error)}"
        ) from None
    for part in json.loads(text):
        yield from part["subgraphs"]
