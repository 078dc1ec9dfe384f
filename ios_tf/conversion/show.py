"""show: prints the schedule of a converted model as text, stage by stage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ios_tf.errors import UserError
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.model.loading import saved_model
from ios_tf.native.names import MERGED, common_scope
from ios_tf.printable import printable
from ios_tf.scheduler import Load, Schedule
from ios_tf.tables import counted


def converted_regions(
    model: str, signature: str | None = None, tags: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The regions of a converted SavedModel with their schedules.

    Args:
      model: directory of the SavedModel.
      signature: the signature to look at; by default all.
      tags: tags of the MetaGraph to look at, if there are several.

    Returns:
      JSON objects: "signatures" are names that share a graph; "regions" are that
      graph's regions, each with a "block" and "schedules" (one for each batch size).

    Raises:
      UserError: `model` is not a converted SavedModel.
    """
    with saved_model(model) as source:
        loaded = saved_models.load(source, tags)
    keys = [signature] if signature else sorted(loaded.signatures)
    same: dict[Any, list[str]] = {}
    frozen = {}
    for key in keys:
        if key not in loaded.signatures:
            raise UserError(saved_models.no_signature(key, loaded))
        one = frozen_graphs.freeze(key, loaded.signatures[key], keep_filters=True)
        if graph_optimizer.is_converted(one):
            same.setdefault(one.key(), []).append(key)
            frozen[key] = one
    if not same:
        what = f"signature {signature!r} of {model}" if signature else model
        raise UserError(f"{what} has no schedules, so ios_tf has not converted it")
    found = []
    for names in same.values():
        # The nodes of a model that was converted for a GPU may name that device.
        one = frozen[names[0]]
        programs = graph_optimizer.lowered_programs(
            one
        ) or graph_optimizer.lowered_programs(one, device="gpu")
        regions = [{key: p[key] for key in ("block", "schedules")} for p in programs]
        found.append({"signatures": names, "regions": regions})
    return found


def text_of(graphs: Sequence[Mapping[str, Any]]) -> str:
    """The result of `converted_regions` as text, stage by stage."""
    lines = []
    for graph in graphs:
        lines.append(f"signature {', '.join(graph['signatures'])}")
        for number, region in enumerate(graph["regions"], 1):
            lines += _region(number, region["block"], region["schedules"])
    return "\n".join(map(printable, lines))


def _region(
    number: int, block: Mapping[str, Any], schedules: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    operators = block["operators"]
    precision = _precision(block)
    count = counted(len(operators), "operator", "operators")
    yield f"region {number}: {count}{precision}"
    # Leaves out the scope that all names have in common.
    scope = common_scope(op["name"] for op in operators)
    skip = len(scope)
    if scope:
        yield f"  names are relative to {scope[:-1]}"
    # A schedule that is the same for several loads (batch size and number of callers)
    # is shown once.
    loads: dict[str, list[int]] = {}
    for entry in schedules:
        load = Load(entry["batch_size"], entry["callers"])
        loads.setdefault(json.dumps(entry["schedule"]), []).append(load)
    for text, of_schedule in loads.items():
        schedule = json.loads(text)
        stages = schedule["stages"]
        algorithms = Schedule.from_json(schedule).algorithms
        shown = [
            {**op, "type": f"{op['type']}, {algorithms[i]}"} if i in algorithms else op
            for i, op in enumerate(operators)
        ]
        sizes_text = ", ".join(map(str, of_schedule))
        yield f"  batch size {sizes_text}: {counted(len(stages), 'stage', 'stages')}"
        for i, stage in enumerate(stages, 1):
            yield from _stage(i, stage, shown, skip)


def _precision(block: Mapping[str, Any]) -> str:
    """Returns the type that a block computes in, unless the type is always float32."""
    dtype = block.get("dtype", "float32")
    borders = {*block.get("input_dtypes", ()), *block.get("output_dtypes", ())}
    if "float16" in borders:
        return f" in {dtype}, with float16 inputs and outputs"
    return "" if dtype == "float32" else f" in {dtype}"


def _stage(
    number: int,
    stage: Mapping[str, Any],
    operators: Sequence[Mapping[str, Any]],
    skip: int,
) -> Iterator[str]:
    groups = [
        [operators[op] for op in group if not _is_part(operators[op])]
        for group in stage["groups"]
    ]
    # If all batch sizes merge the same convolutions, the graph has a merged
    # convolution, whose name contains MERGED.
    merges = stage["strategy"] == "merge"
    merged = merges or any(MERGED in op["name"] for group in groups for op in group)
    if stage["strategy"] == "split":
        how = f"split into {stage['micro_batches']} micro-batches"
    elif merged:
        how = "merge"
    elif len(groups) > 1:
        how = f"concurrent, {len(groups)} groups"
    else:
        how = "one group" if len(groups[0]) > 1 else "one operator"
    yield f"    stage {number}  {how}"
    for group in groups:
        yield "      " + (" + " if merges else " > ").join(
            f"{op['name'][skip:]} ({op['type']})" for op in group
        )


def _is_part(operator: Mapping[str, Any]) -> bool:
    """Returns whether an operator is a slice of a merged convolution's output."""
    return operator["type"] == "slice" and MERGED in operator["name"]
