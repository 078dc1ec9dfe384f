"""Adds to reports what they say of each step, with notes on searches, comparisons, and
nodes that stay TensorFlow's."""

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

_UNKNOWN = "their shapes are unknown, or they are of a kind the engine does not have"


def comparisons(report: Report, found: Sequence[Comparison]) -> Report:
    """Says how the results differ from the originals."""
    notes: list[str] = []
    for comparison in found:
        notes += comparison.notes
        if not comparison.converted_ms:
            notes.append(
                f"signature {comparison.signature!r} was not timed: "
                + (
                    "that it is faster is known of its regions only, which were called "
                    "with tensors that were made up"
                    if report.regions
                    else "whether it is faster is not known"
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

    `comparison`: of the function with its regions; None if no region was faster, so
    that there was nothing to compare.
    """
    name = f"signature {made.function.reference.name!r}"
    if comparison and comparison.converted_ms:
        return report.with_notes(
            _left_to_tensorflow(name, comparison.tensorflow_ms, comparison.converted_ms)
        )
    refusal = made.function.reference.refusal()
    if refusal:
        report = report.with_notes(f"{name} could not be called: {refusal}")
    if not made.regions:
        return report.with_notes(
            f"{name} is left to TensorFlow, because neither the signature nor one of "
            "its regions could be timed; --keep_slower converts it all the same"
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
    """Says which functions of the model the result does not have."""
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
      found: the load while it was measured.
      command: what decides it later.
    """
    return dataclasses.replace(report, load=found).with_notes(
        *(
            f"signature {name!r} is not decided: the machine was busy ({found}); what "
            f"is better by the estimate is kept. Run {command!r} with your other "
            "options when the machine is calm: it reuses what was measured well"
            for name in report.undecided
        )
    )


def search(report: Report, stats: SearchStats) -> Report:
    """Says what the searches took, and where they ended early."""
    notes = [
        f"block {name} is too large to search and cut in {cuts + 1} or more parts; "
        "--max_groups and --max_group_size make searches smaller"
        for name, cuts in stats.cut.items()
    ]
    if stats.too_large:
        notes.append(
            f"{len(stats.too_large)} blocks could not be measured, or not all that was "
            "to be, in the memory that was free; where nothing could be, they run "
            "sequentially"
        )
    if stats.stopped:
        unsearched = max(stats.stopped.values())
        notes.append(
            f"the searches of {len(stats.stopped)} blocks ended with the time limit: "
            "by what was measured, schedules at most "
            f"{unsearched:.0%} faster may exist; --time_limit gives more time"
            if unsearched < 1
            else f"the searches of {len(stats.stopped)} blocks ended with the time "
            "limit before they had seen all stages; --time_limit gives more time"
        )
    return dataclasses.replace(
        report,
        different_blocks=stats.blocks,
        cached_blocks=stats.cached,
        measurements=stats.measured,
        reused=stats.reused,
        bounded=stats.bounded,
        search_seconds=stats.seconds,
    ).with_notes(*notes)


def too_inexact(report: Report, error: DifferenceError) -> Report:
    """Says that other algorithms than the direct one are not used."""
    return report.with_notes(
        f"signature {error.signature!r} would differ by {error.difference} with "
        "Winograd's minimal filtering: its convolutions are computed directly"
    )


def plan(report: Report, made: Plan, schedules: Mapping[str, Schedule]) -> Report:
    """Says what was found for the function; `schedules`: what the searches gave."""
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
        f"the schedules that were found for batch size {batch_size} are no faster than "
        "the sequential ones in the whole network: those are used"
        for batch_size, size in made.checked.sizes.items()
        if size.fell_back
    ]
    parts = [schedules[block["signature"]].metadata["parts"] for block in blocks]
    return dataclasses.replace(
        report,
        sizes=sizes,
        # They are the same for all batch sizes.
        operators=report.operators + sum(len(block["names"]) for block in blocks),
        blocks=report.blocks + sum(parts),
        image_size=report.image_size or made.function.image_size,
        regions=[*report.regions, *made.regions],
    ).with_notes(*fell_back, *_slow_regions(made))


def the_rest(report: Report, converted: Sequence[Function]) -> Report:
    """Says what the schedules do not cover."""
    left: collections.Counter[str] = collections.Counter()
    outside = 0
    inside: collections.Counter[str] = collections.Counter()
    # They are the same for all batch sizes.
    reports = [next(iter(f.collected.values())).report for f in converted]
    for function, of_function in zip(converted, reports, strict=True):
        left.update(of_function.get("left_to_tensorflow", {}))
        graph_def = function.frozen.graph_def
        outside += count_convolutions(graph_def.node)
        inside += hidden_convolutions(graph_def)
    fixed = [(f, f.fixed_batch_size()) for f in converted]
    notes = [
        f"signature {f.reference.name!r} {f.describe_fixed_batch_size()}: it is "
        f"scheduled for {size} {'image' if size == 1 else 'images'} in a call"
        for f, size in fixed
        if size and size not in report.sizes
    ]
    notes += [
        f"signature {f.reference.name!r} is another network at batch size {size} than "
        f"at {', '.join(map(str, f.collected))}: nothing is scheduled for it"
        for f in converted
        for size in f.other_networks
    ]
    others = set().union(*(other_convolutions(f.frozen.graph_def) for f in converted))
    if not outside and not inside:
        names = f" the engine knows, but {', '.join(sorted(others))}" if others else ""
        notes.append(f"the model has no convolution{names}")
        others = set()
    if others:
        notes.append(
            f"{', '.join(sorted(others))} are left to TensorFlow: the engine knows no "
            "such convolutions"
        )
    notes += [
        f"{count} {'convolution' if count == 1 else 'convolutions'} inside of {where} "
        "left to TensorFlow"
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
    """Which regions are left to TensorFlow, and why."""
    lines = [
        _left_to_tensorflow(one.name, one.tensorflow_ms, one.region_ms)
        for one in made.regions
        if not one.is_faster()
    ]
    untimed = len(made.left.difference(*(one.regions for one in made.regions)))
    if untimed:
        lines.append(
            f"{untimed} {'region is' if untimed == 1 else 'regions are'} left to "
            "TensorFlow, because they could not be timed; --keep_slower converts them"
        )
    return lines


def _left_to_tensorflow(
    name: str, tensorflow_ms: Mapping[int, float], ours_ms: Mapping[int, float]
) -> str:
    return f"{name} is left to TensorFlow, because ours is not clearly faster: " + (
        "; ".join(
            f"TensorFlow took {tensorflow_ms[size]:.2f} ms and ours {ms:.2f} ms at "
            f"batch size {size}"
            for size, ms in ours_ms.items()
        )
    )


def _reasons(refused: Sequence[Mapping[str, str]]) -> str:
    """The most frequent reasons for which nodes were refused, and those nodes."""
    nodes = collections.defaultdict(list)
    for refusal in refused:
        nodes[refusal["reason"]].append(refusal["node"])
    most = sorted(nodes, key=lambda reason: -len(nodes[reason]))[:3]
    return "; ".join(f"{_some(nodes[reason])}: {reason}" for reason in most)


def _some(names: Sequence[str]) -> str:
    """One or two names, and how many more there are."""
    more = len(names) - 2
    return ", ".join(names[:2]) + (f" and {more} more" if more > 0 else "")
