"""Adds results and decisions to a report.

The decisions are about searches, comparisons and nodes that are left to TensorFlow.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence

from ios_tf.conversion.comparison import Comparison, DifferenceError, Timed
from ios_tf.conversion.error_budget import Choice
from ios_tf.conversion.left_nodes import decisions_about
from ios_tf.conversion.planning import Function, Plan
from ios_tf.conversion.report import Report
from ios_tf.cost.samples import MachineLoad
from ios_tf.cost.verdict import Verdict
from ios_tf.model.function_library import (
    count_convolutions,
    hidden_convolutions,
    other_convolutions,
)
from ios_tf.model.outputs import size_of
from ios_tf.native import malloc
from ios_tf.options import USUAL_IMAGE_SIZE
from ios_tf.reasons import Decision, Reason
from ios_tf.report.document import PATH
from ios_tf.scheduler import Schedule
from ios_tf.tables import counted, rounded
from ios_tf.tuning.block_search import SearchStats


def comparisons(report: Report, found: Sequence[Comparison]) -> Report:
    """Adds the comparisons of the converted functions with the originals."""
    decisions: list[Decision] = []
    for comparison in found:
        name = f"signature {comparison.signature!r}"
        decisions += comparison.decisions
        if not comparison.latencies and report.regions:
            decisions.append(
                Decision(
                    Reason.REGIONS_ONLY,
                    f"{name} was not timed as a whole. Its regions were timed with "
                    "random tensors, and the converted regions are faster than "
                    "TensorFlow",
                )
            )
        elif not comparison.latencies:
            decisions.append(
                Decision(
                    Reason.NOT_TIMED,
                    f"{name} was not timed, so it is not known whether the signature "
                    "is faster",
                )
            )
        sizes = ", ".join(map(str, comparison.slower_in_tensorflow()))
        if sizes:
            decisions.append(
                Decision(
                    Reason.SLOW_WITHOUT_PACKAGE,
                    f"{name} takes longer than the original at batch size {sizes} "
                    "where this package is not installed",
                )
            )
    report = dataclasses.replace(report, comparisons=list(found))
    return report.with_decisions(*decisions)


def slower(report: Report, made: Plan, comparison: Comparison | None) -> Report:
    """Says why a function is left to TensorFlow.

    `comparison`: the comparison of the converted function with the original. It is None
    if no region was faster, so that there was nothing to compare.
    """
    name = f"signature {made.function.reference.name!r}"
    if comparison:
        report = dataclasses.replace(report, rejected=[*report.rejected, comparison])
    if comparison and comparison.latencies:
        return report.with_decisions(
            Decision(Reason.SLOW_SIGNATURE, _left_to_tensorflow(name, comparison)),
            *(one for one in comparison.decisions if one.reason is Reason.NO_TIMELINE),
        )
    refusal = made.function.reference.calls.refusal()
    if refusal:
        text = f"{name} could not be called: {refusal}"
        report = report.with_decisions(Decision(refusal.reason, text))
    if not made.regions:
        return report.with_decisions(
            Decision(
                Reason.NOTHING_TIMED,
                f"{name} is left to TensorFlow, because neither the signature nor any "
                "of its regions could be timed. Use --keep_slower to convert it anyway",
            )
        )
    several = sum(len(one.regions) for one in made.regions) > 1
    which = "none of its regions is" if several else "its region is not"
    return report.with_decisions(
        Decision(
            Reason.NO_FAST_REGION,
            f"{name} is left to TensorFlow, because {which} clearly faster",
        ),
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
    text = f"the result does not have the model's {functions} {', '.join(names)}, "
    text += "because no signature computes the same outputs"
    return report.with_decisions(Decision(Reason.LOST_FUNCTION, text))


def not_requested(report: Report, names: Sequence[str]) -> Report:
    """Says which signatures are not converted, because the options do not name them."""
    return report.with_decisions(
        *(
            Decision(
                Reason.NOT_REQUESTED,
                f"signature {name!r} is left as it is, because the options name other "
                "signatures",
            )
            for name in names
        )
    )


def load(report: Report, found: MachineLoad, command: str) -> Report:
    """Says what the load of the machine made uncertain.

    `command`: the command that decides the undecided signatures later.
    """
    decisions = [
        Decision(
            Reason.UNDECIDED,
            f"it is not known whether signature {name!r} is faster, because the "
            f"machine was busy ({found}). The version that is faster by the estimates "
            f"is kept. When the machine is idle, run {command!r} with your other "
            "options. Good measurements are reused",
        )
        for name in report.undecided
    ]
    if found.busy:
        text = f"the machine was busy ({found}), so latencies are estimates"
        decisions.append(Decision(Reason.BUSY, text))
    report = dataclasses.replace(report, load=found, peak_bytes=malloc.peak_bytes())
    return report.with_decisions(*decisions)


def sizes(report: Report, source: str, directory: str) -> Report:
    """Adds the sizes of the original and the written model, without reports."""
    return dataclasses.replace(
        report, model_bytes=size_of(source, PATH), output_bytes=size_of(directory, PATH)
    )


def search(report: Report, stats: SearchStats) -> Report:
    """Adds the number of measurements, and says which searches ended early."""
    decisions = [
        Decision(
            Reason.CUT,
            f"block {name} is too large to search as a whole, so it was cut into at "
            f"least {cuts + 1} parts. Lower --max_groups or --max_group_size to make "
            "the search smaller",
        )
        for name, cuts in stats.cut.items()
    ]
    if stats.too_large:
        count = len(stats.too_large)
        text = f"{counted(count, 'block', 'blocks')} could be measured only in part, "
        text += "or not at all, because too little memory was free. Blocks without any "
        text += "measurement run sequentially"
        names = tuple(sorted(stats.too_large))
        decisions.append(Decision(Reason.LITTLE_MEMORY, text, names))
    if stats.stopped:
        decisions.append(Decision(Reason.TIME_LIMIT, _stopped(stats.stopped)))
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
    ).with_decisions(*decisions)


def _stopped(stopped: Mapping[str, float]) -> str:
    """Says by how much schedules could still improve after the time limit."""
    text = f"{counted(len(stopped), 'search', 'searches')} stopped at the time limit"
    gap = max(stopped.values())
    if gap < 1:
        text += ": according to the measurements, schedules that are at most "
        text += f"{gap:.0%} faster may exist"
    else:
        text += " before all stages were considered"
    return text + ". Raise --time_limit to search longer"


def rejected_algorithms(report: Report, error: DifferenceError) -> Report:
    """Says that convolutions are computed directly, because Winograd is too inexact."""
    text = f"signature {error.signature!r} would differ from the original by "
    text += f"{error.difference} with Winograd's minimal filtering, so its "
    text += "convolutions are computed directly"
    return report.with_decisions(Decision(Reason.DIRECT_CONVOLUTIONS, text))


def precisions(
    report: Report, choices: Sequence[Choice], functions: Sequence[Function]
) -> Report:
    """Adds the precisions of functions, and says what computes in float32.

    The report names the nodes that the functions leave to TensorFlow in float32. The
    given `functions` have the chosen precisions.
    """
    known = {node for one in report.decisions if one.types for node in one.nodes}
    left = [
        node
        for function in functions
        for node in next(iter(function.collected.values())).report.get(
            "left_to_tensorflow", ()
        )
        if node["node"] not in known
    ]
    decisions = decisions_about(left, ())
    for choice in choices:
        name = f"signature {choice.signature!r}"
        if choice.precision == "float32":
            decisions.append(
                Decision(
                    Reason.FULL_PRECISION_SIGNATURE,
                    f"{name} computes in float32, because {choice.why}",
                )
            )
        elif choice.returned:
            names = tuple(op for one in choice.returned for op in one.operators)
            text = f"{counted(len(names), 'operator', 'operators')} of {name} compute "
            text += "in float32. With all operators in bfloat16, an output would "
            text += f"change by more than {choice.max_error:g} of its largest value"
            decisions.append(Decision(Reason.FULL_PRECISION_OPERATORS, text, names))
    report = dataclasses.replace(report, precisions=list(choices))
    return report.with_decisions(*decisions)


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
        Decision(
            Reason.SEQUENTIAL,
            f"the schedules found for batch size {batch_size} are not faster than the "
            "sequential schedules in the whole network, so the sequential ones are "
            "used",
        )
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
    ).with_decisions(*fell_back, *_slow_regions(made))


def unsupported_nodes(report: Report, converted: Sequence[Function]) -> Report:
    """Says which convolutions, nodes and batch sizes the schedules do not cover."""
    # The reports are the same for all batch sizes.
    reports = [next(iter(f.collected.values())).report for f in converted]
    graphs = [function.frozen.graph_def for function in converted]
    left = [one for found in reports for one in found.get("left_to_tensorflow", ())]
    inside: collections.Counter[str] = collections.Counter()
    for graph_def in graphs:
        inside.update(hidden_convolutions(graph_def))
    others = set().union(*map(other_convolutions, graphs))
    outside = sum(count_convolutions(graph_def.node) for graph_def in graphs)
    decisions = []
    if not outside and not inside:
        text = "the model has no convolution that the engine supports"
        decisions.append(Decision(Reason.NO_CONVOLUTION, text))
    decisions += _sizes_not_scheduled(report, converted)
    decisions += _image_sizes_not_scheduled(converted)
    decisions += [
        Decision(
            Reason.INSIDE_FUNCTION,
            f"{counted(count, 'convolution is', 'convolutions are')} left to "
            f"TensorFlow inside {where}",
            unnamed=count,
        )
        for where, count in inside.items()
    ]
    in_functions = others - {one["op"] for one in left}
    if in_functions:
        text = f"convolutions of type {', '.join(sorted(in_functions))} in functions "
        text += "are left to TensorFlow"
        decisions.append(Decision(Reason.CONVOLUTION_TYPE, text))
    return report.with_decisions(*decisions, *decisions_about(left, others))


def _sizes_not_scheduled(
    report: Report, converted: Sequence[Function]
) -> list[Decision]:
    """Decisions about requested batch sizes without a schedule."""
    fixed = [(f, f.fixed_batch_size()) for f in converted]
    decisions = [
        Decision(
            Reason.FIXED_BATCH_SIZE,
            f"signature {f.reference.name!r} {f.describe_fixed_batch_size()}, so it is "
            f"scheduled for {counted(size, 'image', 'images')} per call",
        )
        for f, size in fixed
        if size and size not in map(int, report.sizes)
    ]
    return decisions + [
        Decision(
            Reason.OTHER_NETWORK,
            f"signature {f.reference.name!r} has other operators at batch size "
            f"{size} than at {', '.join(map(str, f.collected))}, so no schedule is "
            f"made for batch size {size}",
        )
        for f in converted
        for size in f.other_networks
    ]


def _image_sizes_not_scheduled(converted: Sequence[Function]) -> list[Decision]:
    """Decisions about a requested image size without a schedule."""
    decisions = []
    for function in converted:
        wanted, used = function.frozen.image_size, function.image_size
        fixed = [spec.shape[1:3] for spec in function.frozen.inputs.values()]
        # The default size may not be what the user wants, so it needs no schedule.
        if wanted in (USUAL_IMAGE_SIZE, used) or (used is None and wanted in fixed):
            continue
        text = "has no input with an open height or width"
        if used:
            text = f"can only process images of {used[0]} x {used[1]}"
        decisions.append(
            Decision(
                Reason.OTHER_IMAGE_SIZE,
                f"--image_size={wanted[0]},{wanted[1]} has no effect: signature "
                f"{function.reference.name!r} {text}",
            )
        )
    return decisions


def _slow_regions(made: Plan) -> list[Decision]:
    """The regions that are left to TensorFlow, and why."""
    region_of = next(iter(made.function.collected.values())).regions

    def operators(regions: Collection[int]) -> tuple[str, ...]:
        names = (name for name, region in region_of.items() if region in regions)
        return tuple(sorted(names, key=region_of.__getitem__))

    decisions = [
        Decision(
            Reason.SLOW_REGION,
            _left_to_tensorflow(one.name, one),
            operators(one.regions),
        )
        for one in made.regions
        if not one.is_faster()
    ]
    untimed = made.left.difference(*(one.regions for one in made.regions))
    if untimed:
        text = f"{counted(len(untimed), 'region is', 'regions are')} left to "
        text += "TensorFlow, because timing failed. Use --keep_slower to convert "
        text += "untimed regions"
        decisions.append(Decision(Reason.REGION_NOT_TIMED, text, operators(untimed)))
    return decisions


def _left_to_tensorflow(name: str, timed: Timed) -> str:
    return (
        f"{name} is left to TensorFlow, because the engine is not clearly faster: "
        + "; ".join(
            f"TensorFlow took {rounded(one[0])} ms and the engine took "
            f"{rounded(one[1])} ms at batch size {size}"
            for size, one in timed.latencies.items()
        )
    )
