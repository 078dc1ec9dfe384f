"""The report as lines of text: the headline, why, and a table."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ios_tf.native.names import common_scope
from ios_tf.printable import printable
from ios_tf.reasons import Reason
from ios_tf.report.document import Document
from ios_tf.report.gain import (
    arena_bytes,
    by_processor_time,
    gains,
    headline,
    speedup_of,
    timed,
)
from ios_tf.tables import byte_count, counted, rounded, two_columns

# The largest number of node types in the row "left to TensorFlow".
_MOST_TYPES = 8
# The largest number of groups of operators that are listed for a precision.
_MOST_GROUPS = 8


def text(report: Document) -> str:
    """The report as lines of text."""
    head = [*_warnings(report), headline(report), *_why(report)]
    decisions = report["decisions"]
    output = report["output"]
    if not report["blocks"]:
        written = [f"written: {output}"] if output else []
        lines = [*head, *notes(decisions), *written, *_hint(decisions)]
        return "\n".join(map(printable, lines))
    search = report["search"]
    several_sizes = len(report["batch_sizes"]) > 1
    of_sizes = " over all batch sizes" if several_sizes else ""
    rows = [
        ("device", report["machine"]["device"]),
        ("operators", str(report["operators"])),
        *_precisions(report),
        (
            "blocks",
            f"{report['blocks']} ({search['different_blocks']} different{of_sizes}, "
            f"{search['cached_blocks']} from cache)",
        ),
        *_image_size(report),
        *_by_size(report),
        *_memory(report),
        (
            "measurements",
            f"{search['measured']} ({search['reused']} reused, {search['bounded']} "
            "not needed)",
        ),
        ("search", f"{search['seconds']:.1f} s"),
        ("left to TensorFlow", _left(decisions)),
        *_regions(report),
        *_signatures(report),
        *([("written", output)] if output else []),
    ]
    return "\n".join(
        [
            *map(printable, head),
            two_columns(rows),
            *(printable(f"note: {note}") for note in notes(decisions)),
            *_hint(decisions),
        ]
    )


def notes(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The decisions as lines, except those that other parts of the text summarize.

    The table counts the nodes that are left to TensorFlow, so only convolutions among
    them are named here. If the machine was busy, a warning at the beginning says so.
    """
    return [
        _line(one)
        for one in decisions
        if one["code"] != Reason.BUSY.code
        and (not one["types"] or any("Conv" in op for op in one["types"]))
    ]


def _line(decision: Mapping[str, Any]) -> str:
    return f"{decision['sentence']} [{decision['code']}]"


def _hint(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The line that says how to look up the codes of the other lines."""
    return [f"to explain a code: ios_tf explain {one['code']}" for one in decisions[:1]]


def _warnings(report: Document) -> list[str]:
    """Lines that come first, because they affect how to read the other lines."""
    return [
        f"warning: {_line(one)}"
        for one in report["decisions"]
        if one["code"] == Reason.BUSY.code
    ]


def _why(report: Document) -> Iterator[str]:
    """The parts of the gain: one line for each signature and batch size."""
    several = len({signature["name"] for signature, _, _ in timed(report)}) > 1
    for signature, size, latencies in timed(report):
        parts = gains(report, signature["name"], size)
        if not parts:
            continue
        saved = latencies["tensorflow"]["ms"] - latencies["converted"]["ms"]
        of = f" of {signature['name']}" if several else ""
        yield f"{rounded(saved)} ms{of} saved at batch {size}:"
        for part in parts:
            yield f"  {100 * part.share:3.0f} %  {part.text}"


def _precisions(report: Document) -> Iterator[tuple[str, str]]:
    """The precision of each function, and the operators that compute in float32."""
    choices = report.get("precisions", ())
    for one in choices:
        of = f" ({one['signature']})" if len(choices) > 1 else ""
        yield f"precision{of}", precision_text(one)
        returned = one["returned"]
        for group in returned[:_MOST_GROUPS]:
            names = group["operators"]
            scope = len(common_scope(names)) if len(names) > 1 else 0
            name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1][scope:]}"
            yield (
                "  float32",
                f"{name} (alone in bfloat16: error {_error(group['error'])}; bfloat16 "
                f"is {rounded(abs(group['ms']))} ms "
                f"{'faster' if group['ms'] >= 0 else 'slower'} than float32)",
            )
        if len(returned) > _MOST_GROUPS:
            more = counted(len(returned) - _MOST_GROUPS, "more group", "more groups")
            yield "  float32", more


def precision_text(choice: Mapping[str, Any]) -> str:
    """Describes the precision of a function, with its error."""
    if choice["precision"] == "float32":
        return "float32, see the notes"
    errors = choice["chosen"]
    text = f"bfloat16: error {_error(errors['error'])} of the largest value, at most "
    text += f"{choice['max_error']:g} is allowed"
    if errors["agreement"] is not None:
        text += f"; {errors['agreement']:.1%} of {errors['images']} images have the "
        text += "same best class"
    return text


def _error(error: float | None) -> str:
    return "infinite" if error is None else f"{error:.1e}"


def _image_size(report: Document) -> Iterator[tuple[str, str]]:
    if report["image_size"]:
        height, width = report["image_size"]
        yield "image size", f"{height} x {width} (see --image_size)"


def _memory(report: Document) -> Iterator[tuple[str, str]]:
    """The row with the memory that the engine needs for its tensors."""
    cells = {load: byte_count(size) for load, size in arena_bytes(report).items()}
    if cells:
        yield "memory of a call", _row(report, cells)


def _regions(report: Document) -> Iterator[tuple[str, str]]:
    """The row that counts the faster regions, if regions were timed one by one."""
    regions = report["regions"]
    if regions:
        every = sum(len(one["numbers"]) for one in regions)
        faster = sum(len(one["numbers"]) for one in regions if one["faster"])
        yield "regions", f"{faster} of {every} are faster than TensorFlow"


def _signatures(report: Document) -> Iterator[tuple[str, str]]:
    """Rows with the latencies and differences of the converted functions."""
    kept = [one for one in report["signatures"] if one["kept"]]
    for one in kept:
        of = f" ({one['name']})" if len(kept) > 1 else ""
        latencies = one["latencies"]
        if latencies:
            tensorflow = {
                size: f"{rounded(found['tensorflow']['ms'])} ms"
                for size, found in latencies.items()
            }
            yield f"TensorFlow{of}", _row(report, tensorflow)
            yield f"converted{of}", _row(report, _speedups(latencies, "converted"))
        portable = {s: found for s, found in latencies.items() if "portable" in found}
        if portable:
            yield f"  without ios_tf{of}", _row(report, _speedups(portable, "portable"))
        yield f"largest difference{of}", difference_text(one)


def divided_by(signature: Mapping[str, Any]) -> str:
    """The number by which the difference of a signature is divided, as text."""
    by_value = signature.get("divided_by") == "value"
    return "largest value" if by_value else "spread"


def difference_text(signature: Mapping[str, Any]) -> str:
    """Says how much the outputs of a signature differ, and by what evidence."""
    compared = signature["compared_batch_sizes"]
    sizes = f"batch sizes {', '.join(map(str, compared))}"
    if signature["difference"] is not None:
        evidence = signature["evidence"] or "no evidence"
        of = divided_by(signature)
        return f"{signature['difference']:.1e} of the {of} ({evidence}; {sizes})"
    if compared:
        equal = "equal" if signature["equal"] else "not equal everywhere, see the notes"
        return f"{equal} (no floating-point outputs; {sizes})"
    return "not compared"


def _row(report: Document, cells: Mapping[str, str]) -> str:
    """Joins the cells of batch sizes.

    Cells are labeled with their batch size if they do not match the columns.
    """
    if list(cells) == list(report["batch_sizes"]):
        return "  ".join(cells.values())
    return "  ".join(f"{text} at {size}" for size, text in cells.items())


def _by_size(report: Document) -> list[tuple[str, str]]:
    """The rows that have a column for each batch size."""
    columns = [
        (
            batch_size,
            *(str(size[name]) for name in ("stages", "merged", "concurrent", "split")),
            *_measured(size),
        )
        for batch_size, size in report["batch_sizes"].items()
    ]
    padded = [[c.ljust(max(map(len, column))) for c in column] for column in columns]
    names = ("batch size", "stages", "  merged", "  concurrent", "  split")
    return [
        (name, "  ".join(cells))
        for name, *cells in zip(
            (*names, "sequential", "scheduled"), *padded, strict=True
        )
    ]


def _measured(size: Mapping[str, Any]) -> tuple[str, str]:
    if not size["scheduled_ms"]:
        return "not measured", "not measured"
    speedup = size["sequential_ms"] / size["scheduled_ms"]
    return (
        f"{rounded(size['sequential_ms'])} ms",
        f"{rounded(size['scheduled_ms'])} ms ({speedup:.2f}x as fast as sequential)",
    )


def _speedups(latencies: Mapping[str, Any], name: str) -> dict[str, str]:
    speedups = {}
    for size, found in latencies.items():
        milliseconds = f"{rounded(found[name]['ms'])} ms"
        text = f"{speedup_of(found, name):.2f}x as fast as TensorFlow"
        if by_processor_time(found, name):
            milliseconds += ", disturbed"
            text += " by processor time"
        speedups[size] = f"{milliseconds} ({text})"
    return speedups


def _left(decisions: Sequence[Mapping[str, Any]]) -> str:
    """The numbers of nodes that are left to TensorFlow, by type, with codes."""
    counts = [
        (count, op, one["code"])
        for one in decisions
        for op, count in one["types"].items()
    ]
    if not counts:
        return "nothing"
    order = sorted(counts, key=lambda one: ("Conv" not in one[1], -one[0], one[1:]))
    most = order[:_MOST_TYPES]
    by_code: dict[str, list[str]] = collections.defaultdict(list)
    for count, op, code in most:
        by_code[code].append(f"{op} x{count}")
    shown = [f"{', '.join(ops)} [{code}]" for code, ops in by_code.items()]
    rest = sum(count for count, *_ in counts) - sum(count for count, *_ in most)
    return ", ".join(shown + ([f"{rest} more"] if rest else []))
