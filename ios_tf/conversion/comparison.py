"""The result of comparing a converted model with its original."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ios_tf.conversion.inner_tensors import InnerTensor
from ios_tf.cost.verdict import Ratio, Verdict, by_estimate, judge, slower_sizes
from ios_tf.errors import UserError


class DifferenceError(UserError):
    """A function would compute something else than the original."""

    def __init__(
        self, signature: str, batch_size: int, where: str, difference: float
    ) -> None:
        self.difference = f"{difference:.1e} (relative) at batch size {batch_size}"
        self.signature = signature
        super().__init__(
            f"signature {signature!r} would compute something else than the original: "
            f"at batch size {batch_size} {where} differs by {difference:.1e} "
            "(relative); nothing is written"
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A function of the converted model beside the original one.

    Attributes:
      signature: its name, the first if it has several.
      difference: largest absolute difference of outputs over the output's spread: its
        largest change between two inputs. It is over all float outputs and batch
        sizes. None: not compared, or there are none.
      batch_sizes: those of the inputs that were compared.
      equal: whether all other outputs were equal.
      constant: outputs that do not depend on the input, and so are no evidence.
      has_no_evidence: whether that is so of all outputs.
      inner: the tensors inside of the network that were compared, too.
      tensorflow_ms, converted_ms, portable_ms: median latencies of a call by batch
        size: of the original in TensorFlow, of the converted model on the engine, and
        of that one in TensorFlow alone.
      notes: one line each on what was not compared, or not equal, and why.
      converted_ratios, portable_ratios: how many times as long the original takes, by
        batch size, with intervals.
    """

    signature: str
    difference: float | None = None
    batch_sizes: Sequence[int] = ()
    tensorflow_ms: Mapping[int, float] = dataclasses.field(default_factory=dict)
    converted_ms: Mapping[int, float] = dataclasses.field(default_factory=dict)
    portable_ms: Mapping[int, float] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()
    equal: bool = True
    converted_ratios: Mapping[int, Ratio] = dataclasses.field(default_factory=dict)
    portable_ratios: Mapping[int, Ratio] = dataclasses.field(default_factory=dict)

    def verdict(self) -> Verdict:
        """Whether the converted model is worth having, by what was measured."""
        return judge(self.converted_ratios)

    constant: Sequence[str] = ()
    has_no_evidence: bool = False
    inner: Sequence[InnerTensor] = ()

    def evidence(self) -> str:
        """Names the tensors that would show a mistake."""
        regions = sum(one.is_region and one.moves for one in self.inner)
        logits = sum(not one.is_region and one.moves for one in self.inner)
        named = {
            "outputs": not self.has_no_evidence,
            counted(regions, "result of a region", "results of regions"): regions,
            counted(logits, "tensor of logits", "tensors of logits"): logits,
        }
        return ", ".join(name for name, is_there in named.items() if is_there)

    def is_faster(self) -> bool:
        """The same as far as is known, where the verdict is undecided."""
        return by_estimate(self.converted_ratios)

    def slower_in_tensorflow(self) -> list[int]:
        """The batch sizes at which TensorFlow alone would run the original faster."""
        return slower_sizes(self.portable_ratios)


def counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
