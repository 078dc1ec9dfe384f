"""Adds results and notes to a report.

The notes are about searches, comparisons and nodes that are left to TensorFlow.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from ios_tf.conversion.comparison import Comparison, DifferenceError
from ios_tf.conversion.planning import Function, Plan
from ios_tf.conversion.report import Report
from ios_tf.cost.samples import MachineLoad
from ios_tf.cost.verdict import Verdict
from ios_tf.model.function_library import (
    CONVOLUTIONS,
    count_convolutions,
    hidden_convolutions,
    other_convolutions,
)
from ios_tf.scheduler import Schedule
from ios_tf.tuning.searcher import SearchStats

_UNKNOWN = "their shapes are unknown, or the engine does not support their type"


def comparisons(report: Report, found: Sequence[Comparison]) -> Report:
    """Adds the comparisons of the converted functions with the originals."""
    notes: list[str] = []
    for comparison in found:
        notes += comparison.notes
        if not comparison.converted_ms:
            notes.append(
                f"signature {comparison.signature!r} was not timed: "
                + (
                    "only its regions were timed, with made-up tensors, and those that "
                    "were kept are faster than TensorFlow"
                    if report.regions
                    else "it is not known whether the signature is faster"
                )
            )
        sizes = ", ".join(map(str, comparison.slower_in_tensorflow()))
        if sizes:
            notes.append(
                f"signature {comparison.signature!r} takes longer than the original at "
                f"batch size {sizes} where this package is not installed"
            )
    return dataclasses.replace(report, comparisons=list(found)).with_notes(*notes)


def slower(report: Report, made: Plan, comparison: Comparison | None) -> Report:
    """Says why a function is left to TensorFlow.

    `comparison`: the comparison of the converted function with the original. It is None
    if no region was faster, so that there was nothing to compare.
    """
    name = f"signature {made.function.reference.name!r}"
    if comparison:
        report = dataclasses.replace(report, rejected=[*report.rejected, comparison])
    if comparison and comparison.converted_ms:
        return report.with_notes(
            _left_to_tensorflow(name, comparison.tensorflow_ms, comparison.converted_ms)
        )
    refusal = made.function.reference.refusal()
    if refusal:
        report = report.with_notes(f"{name} could not be called: {refusal}")
    if not made.regions:
        return report.with_notes(
            f"{name} is left to TensorFlow, because neither the signature nor any of "
            "its regions could be timed; --keep_slower converts it anyway"
        )
    several = sum(len(one.regions) for one in made.regions) > 1
    reason = "none of its regions is" if several else "its region is not"
    return report.with_notes(
        f"{name} is left to TensorFlow, because {reason} clearly faster",
        *_slow_regions(made),
    )


def undecided(report: Report, made: Plan, comparison: Comparison | None) -> Report:
    """Says that it is not known whether a function became faster."""
    if made.verdict(comparison) is not Verdict.UNDECIDED:
        return report
    names = [*report.undecided, made.function.reference.name]
    return dataclasses.replace(report, undecided=names)


def lost_functions(report: Report, names: Sequence[str]) -> Report:
    """Adds a note that says which functions of the model are missing in the result."""
    if not names:
        return report
    functions = "function" if len(names) == 1 else "functions"
    return report.with_notes(
        f"the result does not have the {functions} {', '.join(names)} of the model, "
        "which no signature computes"
    )


def load(report: Report, found: MachineLoad, command: str) -> Report:
    """Says what the load of the machine made uncertain.

    Args:
      report: the report.
      found: the load of the machine during the measurements.
      command: the command that decides the undecided signatures later.
    """
    return dataclasses.replace(report, load=found).with_notes(
        *(
            f"signature {name!r} is undecided, because the machine was busy ({found}); "
            "the version that is faster by the estimates is kept. When the machine is "
            f"idle, run {command!r} with your other options; good measurements are "
            "reused"
            for name in report.undecided
        )
    )


def search(report: Report, stats: SearchStats) -> Report:
    """Adds the number of measurements, and says which searches ended early."""
    notes = [
        f"block {name} is too large to search as a whole, so it was cut into at least "
        f"{cuts + 1} parts; smaller --max_groups and --max_group_size make the search "
        "smaller"
        for name, cuts in stats.cut.items()
    ]
    if stats.too_large:
        notes.append(
            f"{len(stats.too_large)} blocks could be measured only in part, or not at "
            "all, because too little memory was free; blocks without any measurement "
            "run sequentially"
        )
    if stats.stopped:
        unsearched = max(stats.stopped.values())
        notes.append(
            f"the searches of {len(stats.stopped)} blocks stopped at the time limit: "
            "according to the measurements, schedules that are at most "
            f"{unsearched:.0%} faster may exist; a larger --time_limit searches longer"
            if unsearched < 1
            else f"the searches of {len(stats.stopped)} blocks stopped at the time "
            "limit before they had considered all stages; a larger --time_limit "
            "searches longer"
        )
    return dataclasses.replace(
        report,
        different_blocks=stats.blocks,
        cached_blocks=stats.cached,
        measurements=stats.measured,
        reused=stats.reused,
        bounded=stats.bounded,
        states=stats.states,
        transitions=stats.transitions,
        search_seconds=stats.seconds,
    ).with_notes(*notes)


def rejected_algorithms_note(report: Report, error: DifferenceError) -> Report:
    """Says that convolutions are computed directly, because Winograd is too inexact."""
    return report.with_notes(
        f"signature {error.signature!r} would differ from the original by "
        f"{error.difference} with Winograd's minimal filtering, so its convolutions "
        "are computed directly"
    )


def plan(report: Report, made: Plan, schedules: Mapping[str, Schedule]) -> Report:
    """Adds the plan of a function. `schedules` are the results of the searches."""
    sizes = dict(report.sizes)
    for batch_size, size in made.checked.sizes.items():
        blocks = [
            block
            for block in made.function.collected[batch_size].blocks
            if block["region"] not in made.left
        ]
        sizes[batch_size] = sizes[batch_size].plus(
            [size.schedules[block["signature"]] for block in blocks],
            size.sequential_ms,
            size.scheduled_ms,
        )
    fell_back = [
        f"the schedules found for batch size {batch_size} are not faster than the "
        "sequential schedules in the whole network, so the sequential ones are used"
        for batch_size, size in made.checked.sizes.items()
        if size.fell_back
    ]
    parts = [schedules[block["signature"]].metadata["parts"] for block in blocks]
    return dataclasses.replace(
        report,
        sizes=sizes,
        # The operators are those of one batch size; they are the same at all batch
        # sizes.
        operators=report.operators + sum(len(block["names"]) for block in blocks),
        blocks=report.blocks + sum(parts),
        image_size=report.image_size or made.function.image_size,
        regions=[*report.regions, *made.regions],
    ).with_notes(*fell_back, *_slow_regions(made))


def unsupported_nodes_note(report: Report, converted: Sequence[Function]) -> Report:
    """Says which convolutions, nodes and batch sizes the schedules do not cover."""
    left: collections.Counter[str] = collections.Counter()
    outside = 0
    inside: collections.Counter[str] = collections.Counter()
    # The reports are the same for all batch sizes.
    reports = [next(iter(f.collected.values())).report for f in converted]
    for function, of_function in zip(converted, reports, strict=True):
        left.update(of_function.get("left_to_tensorflow", {}))
        graph_def = function.frozen.graph_def
        outside += count_convolutions(graph_def.node)
        inside += hidden_convolutions(graph_def)
    fixed = [(f, f.fixed_batch_size()) for f in converted]
    notes = [
        f"signature {f.reference.name!r} {f.describe_fixed_batch_size()}, so it is "
        f"scheduled for {size} {'image' if size == 1 else 'images'} per call"
        for f, size in fixed
        if size and size not in report.sizes
    ]
    notes += [
        f"signature {f.reference.name!r} is a different network at batch size {size} "
        f"than at {', '.join(map(str, f.collected))}, so nothing is scheduled for "
        f"batch size {size}"
        for f in converted
        for size in f.other_networks
    ]
    others = set().union(*(other_convolutions(f.frozen.graph_def) for f in converted))
    if not outside and not inside:
        names = (
            f" that the engine supports, only {', '.join(sorted(others))}"
            if others
            else ""
        )
        notes.append(f"the model has no convolution{names}")
        others = set()
    if others:
        notes.append(
            f"convolutions of type {', '.join(sorted(others))} are left to TensorFlow: "
            "the engine does not support them"
        )
    notes += [
        f"{count} {'convolution is' if count == 1 else 'convolutions are'} left to "
        f"TensorFlow inside {where}"
        for where, count in inside.items()
    ]
    unscheduled = sum(left[op] for op in CONVOLUTIONS)
    if unscheduled:
        refused = [r for of_function in reports for r in of_function.get("refused", ())]
        notes.append(
            f"{unscheduled} of {outside} convolutions are left to TensorFlow: "
            + (_reasons(refused) or _UNKNOWN)
        )
    report = dataclasses.replace(report, left_to_tensorflow=dict(left))
    return report.with_notes(*dict.fromkeys(notes))


def _slow_regions(made: Plan) -> list[str]:
    """Lines that say which regions are left to TensorFlow, and why."""
    lines = [
        _left_to_tensorflow(one.name, one.tensorflow_ms, one.region_ms)
        for one in made.regions
        if not one.is_faster()
    ]
    untimed = len(made.left.difference(*(one.regions for one in made.regions)))
    if untimed:
        lines.append(
            f"{untimed} {'region is' if untimed == 1 else 'regions are'} left to "
            "TensorFlow, because timing failed; --keep_slower converts untimed regions"
        )
    return lines


def _left_to_tensorflow(
    name: str, tensorflow_ms: Mapping[int, float], ours_ms: Mapping[int, float]
) -> str:
    return (
        f"{name} is left to TensorFlow, because the engine is not clearly faster: "
        + "; ".join(
            f"TensorFlow took {tensorflow_ms[size]:.2f} ms and the engine took "
            f"{ms:.2f} ms at batch size {size}"
            for size, ms in ours_ms.items()
        )
    )


def _reasons(refused: Sequence[Mapping[str, str]]) -> str:
    """The most frequent reasons for refusing nodes, and the refused nodes."""
    nodes = collections.defaultdict(list)
    for refusal in refused:
        nodes[refusal["reason"]].append(refusal["node"])
    most = sorted(nodes, key=lambda reason: -len(nodes[reason]))[:3]
    return "; ".join(f"{_some(nodes[reason])}: {reason}" for reason in most)


def _some(names: Sequence[str]) -> str:
    """Returns one or two of the names, and the number of the others."""
    more = len(names) - 2
    return ", ".join(names[:2]) + (f" and {more} more" if more > 0 else "")
