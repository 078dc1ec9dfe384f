"""The report of a conversion: the results that its JSON document is made of."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ios_tf.conversion.report_document import document_of
from ios_tf.cost.samples import MachineLoad
from ios_tf.files import utc_now
from ios_tf.reasons import Decision
from ios_tf.report import gain
from ios_tf.report.text import notes, text
from ios_tf.scheduler import Schedule, Strategy
from ios_tf.tuning.roofline import Roofline

if TYPE_CHECKING:  # these modules import TensorFlow, which a report does not need
    from ios_tf.conversion.comparison import Comparison
    from ios_tf.conversion.error_budget import Choice
    from ios_tf.conversion.region_check import RegionLatency


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

    `print(report)` shows it as a table, and notebooks show it as a page.

    Examples:
      >>> report = ios_tf.optimize(model).report
      >>> report.to_json()["verdict"] == report.verdict
      True
      >>> for decision in report.decisions:
      ...     assert decision.code.startswith("IOS"), decision.sentence

    Attributes:
      output: the directory that was written, if any.
      device: fingerprint of the device of the schedules.
      sizes: properties of the schedules for each batch size.
      image_size: height and width of the schedules, if the inputs leave them open.
      operators, blocks: numbers of scheduled operators and blocks in all signatures.
      different_blocks: number of blocks of all batch sizes; identical blocks count
        once.
      cached_blocks: number of different blocks with a schedule from the cache.
      measurements: number of stages, groups and schedules that were measured.
      reused: number of stages and groups with a known latency.
      bounded: number of stages that were not measured, because they could not be part
        of the fastest schedule.
      search_seconds: duration of the searches.
      regions: the regions that were timed one by one beside TensorFlow.
      comparisons: comparisons of the converted functions with the original ones.
      rejected: comparisons of functions that were not faster, so that the originals
        are kept.
      networks: the blocks, stages and operators of each function and batch size, with
        their latencies, as JSON objects.
      decisions: what was left to TensorFlow, not compared or not timed, and further
        decisions, with the codes of their reasons.
      undecided: names of signatures for which the measurements do not show whether they
        became faster. The better version by the estimate is kept.
      load: the load of the machine during the measurements.
      roofline: the highest rates of the engine on the machine, if they were measured.
      states, transitions: the size of the dynamic programs.
      model: the model, as the caller named it.
      options: the options of the conversion as JSON values.
      device_kind: "cpu" or "gpu".
      lanes: the number of lanes of the device.
      created: the time at which the conversion began.
      model_bytes, output_bytes: sizes of the original's and the result's files.
      peak_bytes: the largest resident memory of the process so far.
      precisions: the precision of each function, if it was chosen (`precision`).
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
    regions: Sequence[RegionLatency] = ()
    comparisons: Sequence[Comparison] = ()
    decisions: Sequence[Decision] = ()
    undecided: Sequence[str] = ()
    load: MachineLoad = dataclasses.field(default_factory=MachineLoad)
    rejected: Sequence[Comparison] = ()
    networks: Sequence[Mapping[str, Any]] = ()
    roofline: Roofline | None = None
    states: int = 0
    transitions: int = 0
    model: str | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    device_kind: str = "cpu"
    lanes: int = 1
    created: str = dataclasses.field(default_factory=utc_now)
    model_bytes: int | None = None
    output_bytes: int | None = None
    peak_bytes: int = 0
    precisions: Sequence[Choice] = ()

    @property
    def verdict(self) -> str:
        """The outcome: "converted", "copied" or "undecided"."""
        if self.undecided:
            return "undecided"
        return "converted" if self.comparisons else "copied"

    @property
    def left_to_tensorflow(self) -> dict[str, int]:
        """Type of nodes -> the number of nodes outside of the schedules."""
        left: collections.Counter[str] = collections.Counter()
        for decision in self.decisions:
            left.update(decision.types)
        return dict(left)

    @property
    def notes(self) -> list[str]:
        """The decisions as lines, except those that the table summarizes."""
        return notes([one.to_json() for one in self.decisions])

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object, as ios_tf/report/schema.json describes it.

        `table`, `_repr_html_` and the HTML page are made from this object.
        """
        return document_of(self)

    def with_decisions(self, *decisions: Decision) -> Report:
        """The report with additional decisions. Equal ones appear once."""
        every = list(self.decisions)
        every += [one for one in decisions if one not in every]
        return dataclasses.replace(self, decisions=every)

    @property
    def headline(self) -> str:
        """One line that says what the conversion achieved."""
        return gain.headline(self.to_json())

    @property
    def speedup(self) -> float:
        """TensorFlow's time divided by that of the converted model.

        It is the geometric mean over the signatures and batch sizes that were timed,
        and 1 if nothing was converted.
        """
        return gain.speedup(self.to_json())

    def table(self) -> str:
        """The report as lines of text."""
        return text(self.to_json())

    def _repr_html_(self) -> str:
        """The report as an element of a notebook."""
        from ios_tf.report.page import frame  # only notebooks need Jinja2

        return frame(self.to_json())

    def __str__(self) -> str:
        return self.table()
