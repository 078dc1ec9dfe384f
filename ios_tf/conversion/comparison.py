"""The result of comparing a converted model with its original."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ios_tf.conversion.inner_tensors import InnerTensor
from ios_tf.conversion.timing import Latencies
from ios_tf.cost.verdict import Ratio, Verdict, by_estimate, judge, slower_sizes
from ios_tf.errors import UserError
from ios_tf.native.tracing import Trace
from ios_tf.reasons import Decision
from ios_tf.tables import counted


class DifferenceError(UserError):
    """A converted function computes other outputs than the original."""

    def __init__(
        self, signature: str, batch_size: int, where: str, difference: float | str
    ) -> None:
        """`difference` is a relative difference, or words that follow "differs by"."""
        if not isinstance(difference, str):
            difference = f"{difference:.1e} (relative)"
        self.difference = f"{difference} at batch size {batch_size}"
        self.signature = signature
        super().__init__(
            f"signature {signature!r} would not compute the same as the original, so "
            f"nothing is written: at batch size {batch_size}, {where} differs by "
            f"{difference}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timed:
    """A function that was measured in turn with the original in TensorFlow.

    Attributes:
      latencies: by batch size or load, the latencies of the original, of the converted
        function on the engine and, perhaps, of the converted function in TensorFlow
        alone.
    """

    latencies: Mapping[int, Latencies] = dataclasses.field(default_factory=dict)

    def ratios(self, number: int = 0) -> dict[int, Ratio]:
        """The original's latency divided by another one (see `Latencies.ratios`)."""
        return {
            size: one.ratios[number]
            for size, one in self.latencies.items()
            if number < len(one.ratios)
        }

    def verdict(self) -> Verdict:
        """Whether the measurements show that the function is faster than TensorFlow."""
        return judge(self.ratios())

    def is_faster(self) -> bool:
        """Whether the function is faster according to the estimated ratios.

        Unlike `verdict`, this is never undecided.
        """
        return by_estimate(self.ratios())


@dataclasses.dataclass(frozen=True)
class Comparison(Timed):
    """The comparison of a function of the converted model with the original one.

    Attributes:
      signature: the function's name; the first one if several signatures share it.
      difference: largest absolute difference of an output, divided by the output's
        spread (its largest change between two inputs). The maximum is over all float
        outputs and batch sizes. None if nothing was compared or no output is float.
      by_value: whether the difference is divided by the output's largest value instead,
        as for a conversion to bfloat16.
      batch_sizes: the batch sizes at which outputs were compared.
      equal: whether all outputs that are not float were equal.
      has_no_evidence: true if no output depends on the input, so that the comparison
          shows nothing.
      inner: the tensors inside the network that were also compared.
      decisions: what was not compared or not equal, with the reasons.
      traces: a recorded call of the converted function, by batch size.
    """

    signature: str
    difference: float | None = None
    batch_sizes: Sequence[int] = ()
    decisions: Sequence[Decision] = ()
    equal: bool = True
    has_no_evidence: bool = False
    inner: Sequence[InnerTensor] = ()
    traces: Mapping[int, Trace] = dataclasses.field(default_factory=dict)
    by_value: bool = False

    def evidence(self) -> str:
        """Describes which tensors were compared that would reveal a mistake."""
        regions = sum(one.is_region and one.moves for one in self.inner)
        logits = sum(not one.is_region and one.moves for one in self.inner)
        named = {
            "outputs": not self.has_no_evidence,
            counted(regions, "result of a region", "results of regions"): regions,
            counted(logits, "tensor of logits", "tensors of logits"): logits,
        }
        return ", ".join(name for name, is_there in named.items() if is_there)

    def slower_in_tensorflow(self) -> list[int]:
        """The batch sizes at which the result is slower in TensorFlow alone.

        The converted model then takes longer than the original if IOS-TF is missing.
        """
        return slower_sizes(self.ratios(1))
