"""The report of a conversion, as a table."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
import math
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ios_tf.cost.samples import MachineLoad
from ios_tf.cost.verdict import Ratio
from ios_tf.printable import printable
from ios_tf.scheduler import Schedule, Strategy
from ios_tf.tables import two_columns

if TYPE_CHECKING:  # these import TensorFlow, which a report works without
    from ios_tf.conversion.comparison import Comparison
    from ios_tf.conversion.region_check import RegionLatency


_logger = logging.getLogger("ios_tf")


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Logs at level INFO the duration of a step, and the peak memory so far."""
    start = time.monotonic()
    yield
    seconds = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10  # KiB to MiB
    _logger.info("%s: %.1f s, peak memory so far %d MiB", name, seconds, peak)


@dataclasses.dataclass(frozen=True)
class SizeReport:
    """Properties of the schedules for one batch size, summed over all signatures.

    Attributes:
      stages: number of stages.
      merged, concurrent, split: number of stages that merge operators, that have
        several groups, and that split the batch.
      sequential_ms, scheduled_ms: latencies of all regions together with sequential
        schedules, and with the kept ones.
    """

    stages: int = 0
    merged: int = 0
    concurrent: int = 0
    split: int = 0
    sequential_ms: float = 0.0
    scheduled_ms: float = 0.0

    def plus(
        self, schedules: Iterable[Schedule], sequential_ms: float, scheduled_ms: float
    ) -> SizeReport:
        """The sum of this report and the given schedules and latencies."""
        stages = [stage for schedule in schedules for stage in schedule.stages]
        return SizeReport(
            self.stages + len(stages),
            self.merged + sum(s.strategy is Strategy.MERGE for s in stages),
            self.concurrent + sum(len(s.groups) > 1 for s in stages),
            self.split + sum(s.strategy is Strategy.SPLIT for s in stages),
            self.sequential_ms + sequential_ms,
            self.scheduled_ms + scheduled_ms,
        )


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a conversion.

    Attributes:
      output: the directory that was written, if any.
      device: fingerprint of the device of the schedules.
      sizes: properties of the schedules for each batch size.
      image_size: height and width of the schedules, if the inputs leave them open.
      operators, blocks: numbers of scheduled operators and blocks in all signatures.
      different_blocks: number of blocks of all batch sizes; equal ones count once.
      cached_blocks: number of different blocks with a schedule from the cache.
      measurements: number of stages, groups and schedules that were measured.
      reused: number of stages and groups with a known latency.
      bounded: number of stages that were not measured because they could not win.
      search_seconds: duration of the searches.
      left_to_tensorflow: op type -> number of nodes outside of the schedules.
      regions: the regions that were timed one by one beside TensorFlow.
      comparisons: comparisons of the converted functions with the original ones.
      notes: lines with further information for the user.
      undecided: names of signatures for which the measurements do not show whether they
        became faster. The better version by the estimate is kept.
      load: the load of the machine during the measurements.
    """

    output: str | None
    device: str
    sizes: Mapping[int, SizeReport]
    image_size: tuple[int, int] | None = None
    operators: int = 0
    blocks: int = 0
    different_blocks: int = 0
    cached_blocks: int = 0
    measurements: int = 0
    reused: int = 0
    bounded: int = 0
    search_seconds: float = 0.0
    left_to_tensorflow: Mapping[str, int] = dataclasses.field(default_factory=dict)
    regions: Sequence[RegionLatency] = ()
    comparisons: Sequence[Comparison] = ()
    notes: Sequence[str] = ()
    undecided: Sequence[str] = ()
    load: MachineLoad = dataclasses.field(default_factory=MachineLoad)

    @property
    def verdict(self) -> str:
        """The outcome: "converted", "copied" or "undecided"."""
        if self.undecided:
            return "undecided"
        return "converted" if self.comparisons else "copied"

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object for programs."""
        return {
            "verdict": self.verdict,
            "output": self.output,
            "device": self.device,
            "load": {
                **dataclasses.asdict(self.load),
                "disturbed_share": self.load.share,
                "busy": self.load.busy,
            },
            "undecided": list(self.undecided),
            "signatures": [_signature(one) for one in self.comparisons],
            "regions": [
                {
                    "name": one.name,
                    "faster": one.is_faster(),
                    "latencies": _latencies(
                        {"tensorflow": one.tensorflow_ms, "region": one.region_ms},
                        {"region": one.ratios},
                    ),
                }
                for one in self.regions
            ],
            "batch_sizes": {
                str(size): dataclasses.asdict(one) for size, one in self.sizes.items()
            },
            "operators": self.operators,
            "blocks": self.blocks,
            "measurements": self.measurements,
            "reused": self.reused,
            "search_seconds": self.search_seconds,
            "left_to_tensorflow": dict(self.left_to_tensorflow),
            "notes": list(self.notes),
        }

    def with_notes(self, *notes: str) -> Report:
        """The report with additional notes."""
        return dataclasses.replace(self, notes=[*self.notes, *notes])

    def table(self) -> str:
        """The report as lines of text."""
        if not self.blocks:
            written = [f"written: {self.output}"] if self.output else []
            lines = [*self._warnings(), *self.notes, *written]
            return "\n".join(map(printable, lines))
        rows = [
            ("device", self.device),
            ("operators", str(self.operators)),
            (
                "blocks",
                f"{self.blocks} ({self.different_blocks} different, "
                f"{self.cached_blocks} from cache)",
            ),
            *self._open_sizes(),
            *self._by_size(),
            (
                "measurements",
                f"{self.measurements} ({self.reused} reused, {self.bounded} "
                "not needed)",
            ),
            ("search", f"{self.search_seconds:.1f} s"),
            ("left to TensorFlow", _counts(self.left_to_tensorflow)),
            *self._regions(),
            *self._comparisons(),
            *([("written", self.output)] if self.output else []),
        ]
        notes = (printable(f"note: {note}") for note in self.notes)
        return "\n".join([*self._warnings(), two_columns(rows), *notes])

    def _warnings(self) -> list[str]:
        """Lines that come first, because they affect how to read the other lines."""
        if not self.load.busy:
            return []
        return [f"warning: the machine was busy ({self.load}): latencies are estimates"]

    def _open_sizes(self) -> Iterator[tuple[str, str]]:
        if self.image_size:
            height, width = self.image_size
            yield "image size", f"{height} x {width} (see --image_size)"

    def _regions(self) -> Iterator[tuple[str, str]]:
        """The row that counts the faster regions, if regions were timed one by one."""
        if self.regions:
            every = sum(len(one.regions) for one in self.regions)
            faster = sum(len(one.regions) for one in self.regions if one.is_faster())
            yield "regions", f"{faster} of {every} are faster than TensorFlow"

    def _comparisons(self) -> Iterator[tuple[str, str]]:
        """Rows with the latencies and differences of the converted functions."""
        for one in self.comparisons:
            of = f" ({one.signature})" if len(self.comparisons) > 1 else ""
            if one.converted_ms:
                yield f"TensorFlow{of}", self._row(_milliseconds(one.tensorflow_ms))
                speedups = _speedups(
                    one.converted_ms, one.tensorflow_ms, one.converted_ratios
                )
                yield f"converted{of}", self._row(speedups)
            if one.portable_ms:
                speedups = _speedups(
                    one.portable_ms, one.tensorflow_ms, one.portable_ratios
                )
                yield f"  without ios_tf{of}", self._row(speedups)
            difference = "not compared"
            sizes = f"batch sizes {', '.join(map(str, one.batch_sizes))}"
            if one.difference is not None:
                evidence = one.evidence() or "no evidence"
                difference = f"{one.difference:.1e} of the spread ({evidence}; {sizes})"
            elif one.batch_sizes:
                found = "equal" if one.equal else "not equal everywhere, see the notes"
                difference = f"{found} (no floating-point outputs; {sizes})"
            yield f"largest difference{of}", difference

    def _row(self, cells: Mapping[int, str]) -> str:
        """Joins the cells of batch sizes.

        Cells are labeled with their batch size if they do not match the columns.
        """
        if list(cells) == list(self.sizes):
            return "  ".join(cells.values())
        return "  ".join(f"{text} at {size}" for size, text in cells.items())

    def _by_size(self) -> list[tuple[str, str]]:
        """The rows that have a column for each batch size."""
        columns = [
            (
                str(batch_size),
                str(size.stages),
                str(size.merged),
                str(size.concurrent),
                str(size.split),
                *_measured(size),
            )
            for batch_size, size in self.sizes.items()
        ]
        padded = [
            [c.ljust(max(map(len, column))) for c in column] for column in columns
        ]
        names = ("batch size", "stages", "  merged", "  concurrent", "  split")
        return [
            (name, "  ".join(cells))
            for name, *cells in zip(
                (*names, "sequential", "scheduled"), *padded, strict=True
            )
        ]


def _measured(size: SizeReport) -> tuple[str, str]:
    if not size.scheduled_ms:
        return "not measured", "not measured"
    speedup = size.sequential_ms / size.scheduled_ms
    return (
        f"{size.sequential_ms:.2f} ms",
        f"{size.scheduled_ms:.2f} ms ({speedup:.2f}x)",
    )


def _milliseconds(latencies: Mapping[int, float]) -> dict[int, str]:
    return {size: f"{ms:.2f} ms" for size, ms in latencies.items()}


def _speedups(
    latencies: Mapping[int, float],
    others: Mapping[int, float],
    ratios: Mapping[int, Ratio],
) -> dict[int, str]:
    speedups = {}
    for size, ms in latencies.items():
        text = f"{others[size] / ms:.2f}x"
        if ratios[size].by_processor_time:
            text = f"{ratios[size].estimate:.2f}x by processor time"
        speedups[size] = f"{ms:.2f} ms ({text})"
    return speedups


def _signature(one: Comparison) -> dict[str, Any]:
    return {
        "name": one.signature,
        "difference": one.difference,
        "equal": one.equal,
        "compared_batch_sizes": list(one.batch_sizes),
        "latencies": _latencies(
            {
                "tensorflow": one.tensorflow_ms,
                "converted": one.converted_ms,
                "portable": one.portable_ms,
            },
            {"converted": one.converted_ratios, "portable": one.portable_ratios},
        ),
    }


def _latencies(
    milliseconds: Mapping[str, Mapping[int, float]],
    ratios: Mapping[str, Mapping[int, Ratio]],
) -> dict[str, Any]:
    """Latencies and speedups by batch size, as JSON. Infinity becomes null."""
    by_size: dict[str, Any] = collections.defaultdict(dict)
    for name, of_sizes in milliseconds.items():
        for size, ms in of_sizes.items():
            by_size[str(size)][f"{name}_ms"] = ms
    for name, of_ratios in ratios.items():
        for size, ratio in of_ratios.items():
            high = ratio.high if math.isfinite(ratio.high) else None
            found = {**dataclasses.asdict(ratio), "high": high}
            by_size[str(size)][f"{name}_speedup"] = found
    return dict(by_size)


def _counts(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{op} x{count}" for op, count in most[:8])
    rest = sum(count for _, count in most[8:])
    return shown + (f", {rest} more" if rest else "") if shown else "nothing"
