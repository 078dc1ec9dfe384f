"""Compares a converted model with its original: outputs on made-up inputs, latencies.

Both run in this process, in turn; the original as if this package were not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.conversion import timing
from ios_tf.conversion.differences import (
    allowed_difference,
    compare_outputs,
    tolerance,
    undefined,
)
from ios_tf.conversion.made_up_inputs import (
    OTHER_SIZES,
    SIZES,
    VALUES,
    CannotCompareError,
    Inputs,
    NotAcceptedError,
    Size,
    accepted_made_up_inputs,
    rounded_inputs,
    told_sizes,
)
from ios_tf.conversion.region_check import differing_region
from ios_tf.cost.verdict import Ratio, Verdict, by_estimate, judge, slower_sizes
from ios_tf.errors import UserError, first_line
from ios_tf.model.frozen_graphs import FrozenSignature, NotConvertedError

# Batch sizes of functions that do not take those which are asked for.
_OTHER_BATCHES = (2, 4, 8, 16, 32)


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
      difference: largest absolute difference of outputs over the largest absolute
        value of the output, of all float outputs and batch sizes; None: not compared,
        or there are none.
      batch_sizes: those of the inputs that were compared.
      equal: whether all other outputs were equal.
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

    def is_faster(self) -> bool:
        """The same as far as is known, where the verdict is undecided."""
        return by_estimate(self.converted_ratios)

    def slower_in_tensorflow(self) -> list[int]:
        """The batch sizes at which TensorFlow alone would run the original faster."""
        return slower_sizes(self.portable_ratios)


class Reference:
    """The original function of a signature, with inputs that were made up for it."""

    def __init__(
        self,
        name: str,
        function: Any,
        frozen: FrozenSignature,
        device: str,
        image_size: Size | None = None,
    ) -> None:
        """Makes a reference without calling the function.

        Args:
          name: what errors and notes call it.
          function: the original.
          frozen: the same, frozen.
          device: "cpu" or "gpu".
          image_size: what the function's images are known to have, where its inputs
            leave that open.
        """
        self.name = name
        self._function = function
        self._frozen = frozen
        self._device = device
        # Latencies are of images of the first one.
        self._sizes: Sequence[Size] = (frozen.image_size, *SIZES)
        # Tried before, and after, the usual ones.
        self._first_sizes = () if image_size is None else (image_size,)
        self._last_sizes = told_sizes(frozen.graph_def)
        self._inputs: dict[int, Inputs] = {}
        self._expected: dict[int, Mapping[str, Any]] = {}
        self._noise: dict[int, float] = {}
        self._refused: dict[int, CannotCompareError] = {}

    def compare(
        self,
        found: Callable[..., Any],
        graph_def: Any,
        batch_sizes: Sequence[int],
        timed: Sequence[int] = (),
        portable: bool = False,
    ) -> Comparison:
        """Compares another function with the original one.

        Args:
          found: what should compute the same.
          graph_def: the graph it was made of, with schedules.
          batch_sizes: those to compare outputs at: beside the first one with images of
            another size, where they may have any.
          timed: those to measure latencies at; if it takes none of them, another one.
          portable: whether to measure it in TensorFlow alone, too.

        Raises:
          DifferenceError: a region computes something else.
          NotConvertedError: so does the original with TensorFlow's optimizers.
          UserError: it fails.
        """
        differences, notes = [], []
        equal = True
        references, reason = self._references(batch_sizes, timed)
        if not references:
            text = f"signature {self.name!r} is not compared with the original"
            notes.append(f"{text}: {reason}")
        notes += [
            f"signature {self.name!r} is neither compared nor timed at batch size "
            f"{size}: {self._refused[size]}"
            for size in timed
            if references and size in self._refused
        ]
        for batch_size, (inputs, expected) in references.items():
            outputs = self._outputs(found, batch_size, inputs)
            difference, unequal = compare_outputs(outputs, expected)
            if 1.0 in undefined(expected):
                notes.append(
                    f"signature {self.name!r}: an output is NaN for all inputs that "
                    f"were made up at batch size {batch_size}: equal ones say little"
                )
            equal = equal and not unequal
            if difference is not None:
                differences.append(difference)
            if difference is None or difference > self._tolerance() or unequal:
                notes += self._explain(
                    graph_def, batch_size, difference or 0.0, unequal
                )
                self._check_numbers(batch_size, outputs)
        measured = [size for size in timed if size in self._inputs]
        if timed and not measured:
            measured = list(references)[:1]
        latencies = {size: self._latencies(found, size, portable) for size in measured}
        return Comparison(
            self.name,
            max(differences, default=None),
            list(references),
            {size: latency[0] for size, latency in latencies.items()},
            {size: latency[1] for size, latency in latencies.items()},
            {size: latency[2] for size, latency in latencies.items() if portable},
            list(dict.fromkeys(notes)),
            equal,
            {size: timing.ratios(latency)[0] for size, latency in latencies.items()},
            {
                size: timing.ratios(latency)[1]
                for size, latency in latencies.items()
                if portable
            },
        )

    def inputs(self, batch_sizes: Sequence[int]) -> dict[int, Inputs]:
        """Made-up arguments, by those of the batch sizes for which there are any.

        If there are for none, by another one.
        """
        for batch_size in batch_sizes:
            with contextlib.suppress(CannotCompareError):
                self._reference(batch_size)
        found = [size for size in batch_sizes if size in self._inputs]
        if not found:
            found = list(self._references(batch_sizes, batch_sizes)[0])
        return {size: self._inputs[size] for size in found}

    def refusal(self) -> CannotCompareError | None:
        """Why the original could not be called; None if it was at some batch size."""
        return None if self._expected else next(iter(self._refused.values()), None)

    def _references(
        self, batch_sizes: Sequence[int], timed: Sequence[int]
    ) -> tuple[dict[int, tuple[Inputs, Mapping[str, Any]]], CannotCompareError | None]:
        """Inputs and outputs by batch size, and why there are none, or no more.

        Some functions take one batch size only, though they do not say so: if they take
        none of those that are asked for, another one.
        """
        found: dict[int, tuple[Inputs, Mapping[str, Any]]] = {}
        reason: CannotCompareError | None = None
        for batch_size in dict.fromkeys((*batch_sizes, *_OTHER_BATCHES)):
            sizes: Sequence[Size] = OTHER_SIZES
            if batch_size in (batch_sizes[0], *timed):
                sizes = self._sizes
            elif batch_size not in batch_sizes:
                sizes = self._sizes[:2]
                if found:
                    break
            try:
                found[batch_size] = self._reference(batch_size, sizes)
            except CannotCompareError as error:
                reason = reason or error
                if not isinstance(error, NotAcceptedError):
                    break
        return found, reason

    def _reference(
        self, batch_size: int, sizes: Sequence[Size] = ()
    ) -> tuple[Inputs, Mapping[str, Any]]:
        if batch_size in self._refused:
            raise self._refused[batch_size]
        if batch_size not in self._expected:
            try:
                self._call_original(batch_size, sizes or self._sizes)
            except CannotCompareError as reason:
                self._refused[batch_size] = reason
                raise
        return self._inputs[batch_size], self._expected[batch_size]

    def _call_original(self, batch_size: int, sizes: Sequence[Size]) -> None:
        if self._frozen.changes:
            raise CannotCompareError("every call changes what the next one computes")
        with timing.running(plugin=False, device=self._device):
            inputs, expected, noise = self._steady_inputs(batch_size, sizes)
            again, unequal = compare_outputs(self._function(**inputs), expected)
        self._inputs[batch_size] = inputs
        if _differ(again, unequal, self._tolerance()):
            raise CannotCompareError("two calls of the original differ")
        self._expected[batch_size] = expected
        self._noise[batch_size] = noise

    def _steady_inputs(
        self, batch_size: int, sizes: Sequence[Size]
    ) -> tuple[Inputs, Mapping[str, Any], float]:
        """Inputs, outputs, and how much rounding changes these: of several inputs
        those for which most is defined, and then that is least."""
        best, least = None, (math.inf, math.inf)
        sizes = [*self._first_sizes, *sizes, *self._last_sizes]
        for values in VALUES:
            try:
                inputs, expected = accepted_made_up_inputs(
                    self._function, self._frozen.inputs, batch_size, values, sizes
                )
            except CannotCompareError:
                if best is None:
                    raise
                break
            rounded, noise = rounded_inputs(inputs), None
            if rounded is not None:
                noise, _ = compare_outputs(self._function(**rounded), expected)
            noise = noise or 0.0
            nan = max(undefined(expected), default=0.0)
            if (nan, noise) < least:
                best, least = (inputs, expected, noise), (nan, noise)
            allowed = allowed_difference(self._tolerance(), noise)
            if not nan and allowed <= self._tolerance():
                break
        assert best is not None  # there are values to try
        return best

    def _outputs(
        self, found: Callable[..., Any], batch_size: int, inputs: Inputs
    ) -> Mapping[str, Any]:
        try:
            with timing.running(plugin=True, device=self._device):
                return found(**inputs)
        except tf.errors.OpError as error:
            raise UserError(
                f"signature {self.name!r} would fail at batch size {batch_size}, where "
                f"the original does not: {first_line(error)}; nothing is written"
            ) from error

    def _tolerance(self) -> float:
        return tolerance(self._frozen, self._device)

    def _explain(
        self,
        graph_def: Any,
        batch_size: int,
        difference: float,
        unequal: Mapping[str, str],
    ) -> list[str]:
        """Why outputs differ, if it is not a region that does.

        What chooses by comparing values (argmax, non-maximum suppression, ...) may make
        a large difference of rounding errors.
        """
        worst = None
        # Pieces of a graph may fail for inputs that the whole takes.
        with contextlib.suppress(tf.errors.OpError):
            worst = differing_region(
                self._frozen, graph_def, self._inputs[batch_size], self._device
            )
        allowed = allowed_difference(self._tolerance(), self._noise[batch_size])
        where, difference_there, allowed = worst or ("an output", difference, allowed)
        if difference_there > allowed:
            self._check_optimizers(batch_size)
            raise DifferenceError(self.name, batch_size, where, difference_there)
        where = " in what follows the regions"
        why = f"; the regions agree to {worst[1]:.1e}" if worst else ""
        if difference_there > self._tolerance():
            where, why = "", "; so they do when its inputs are rounded"
        notes = [
            f"signature {self.name!r}: {text} at batch size {batch_size}{why}"
            for text in unequal.values()
        ]
        if difference > self._tolerance():
            notes.append(
                f"signature {self.name!r}: outputs differ by {difference:.1e} at batch "
                f"size {batch_size}{where}{why}"
            )
        return notes

    def _check_numbers(self, batch_size: int, outputs: Mapping[str, Any]) -> None:
        """Checks that as much of the outputs is NaN as of the original's.

        Raises:
          NotConvertedError: it is not, by what TensorFlow makes of the graph.
        """
        shares = undefined(outputs), undefined(self._expected[batch_size])
        if shares[0] == shares[1] or math.isinf(self._noise[batch_size]):
            return
        self._check_optimizers(batch_size)
        found, expected = next(p for p in zip(*shares, strict=True) if p[0] != p[1])
        raise NotConvertedError(
            f"signature {self.name!r}: at batch size {batch_size} {found:.0%} of an "
            f"output of the converted model would be NaN, not {expected:.0%}: "
            "TensorFlow optimizes what follows the regions otherwise"
        )

    def _check_optimizers(self, batch_size: int) -> None:
        """Checks that TensorFlow optimizes the original without changing its outputs.

        It has, for one, taken the maximum of 2 x and x for a leaky ReLU, and its
        convolutions with a ReLU make 0 of NaN, for which ReLU alone gives NaN.

        Raises:
          NotConvertedError: it does not.
        """
        with timing.running(plugin=False, device=self._device, optimizers=False):
            plain = self._function(**self._inputs[batch_size])
        changed, unequal = compare_outputs(plain, self._expected[batch_size])
        allowed = allowed_difference(self._tolerance(), self._noise[batch_size])
        if _differ(changed, unequal, allowed):
            by = "" if changed is None else f" by {changed:.1e} (relative)"
            raise NotConvertedError(
                f"signature {self.name!r}: at batch size {batch_size} TensorFlow's "
                f"graph optimizers change its outputs{by} from what it computes "
                "without them (disable_meta_optimizer), and would not change those of "
                "a converted model so"
            )

    def _latencies(
        self, found: Callable[..., Any], batch_size: int, portable: bool
    ) -> list[float]:
        inputs = self._inputs[batch_size]
        turns = [(self._function, False), (found, True), (found, False)]
        return timing.latencies(
            [
                (
                    functools.partial(timing.running, plugin, self._device),
                    functools.partial(function, **inputs),
                )
                for function, plugin in turns[: 2 + portable]
            ]
        )


def _differ(
    difference: float | None, unequal: Mapping[str, str], allowed: float
) -> bool:
    """Whether outputs differ, of which `compare_outputs` says this: floats by more
    than rounding, or, where there are none, others at all."""
    return bool(unequal) if difference is None else difference > allowed
