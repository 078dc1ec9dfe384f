"""Compares a converted model with its original: outputs on made-up inputs, latencies.

Both run in this process, in turn; the original as if this package were not there.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.conversion import inner_tensors, timing
from ios_tf.conversion.comparison import Comparison, DifferenceError, counted
from ios_tf.conversion.differences import (
    allowed_difference,
    compare_outputs,
    differ,
    shapes,
    tolerance,
    undefined,
)
from ios_tf.conversion.inner_tensors import InnerTensor
from ios_tf.conversion.made_up_inputs import CannotCompareError, Inputs, Size
from ios_tf.conversion.original_calls import (
    STEADY,
    Case,
    OriginalCalls,
    constant_in_all,
    has_no_evidence,
)
from ios_tf.conversion.samples import Samples
from ios_tf.errors import UserError, first_line
from ios_tf.model.frozen_graphs import FrozenSignature, NotConvertedError

# A difference of an output that rounding never explains.
_CLEAR = 0.5


class Reference:
    """The original function of a signature, with inputs that were made up for it."""

    def __init__(
        self,
        name: str,
        function: Any,
        frozen: FrozenSignature,
        device: str,
        image_size: Size | None = None,
        bound_sizes: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        """Makes a reference without calling the function.

        Args:
          name: what errors and notes call it.
          function: the original.
          frozen: the same, frozen.
          device: "cpu" or "gpu".
          image_size: what the function's images are known to have, where its inputs
            leave that open.
          bound_sizes: batch, height and width around which the function starts to do
            something else; outputs are compared there, too.
        """
        self.name = name
        self._function = function
        self._frozen = frozen
        self._device = device
        self._calls = OriginalCalls(function, frozen, device, image_size, bound_sizes)

    def use_samples(self, samples: Samples) -> None:
        """Compares and times with real inputs from now on.

        Raises:
          UserError: they are not for this signature's inputs.
        """
        self._calls.use_samples(samples.of_signature(self.name, self._frozen.inputs))

    def inputs(self, batch_sizes: Sequence[int]) -> dict[int, Inputs]:
        """Made-up arguments by batch size, for the batch sizes that the original takes.

        If the original takes none of them, another batch size is used.
        """
        return self._calls.inputs_at(batch_sizes)

    def refusal(self) -> CannotCompareError | None:
        """Why the original could not be called; None if it was at some batch size."""
        return self._calls.refusal()

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
        references, reason = self._calls.cases(batch_sizes, timed)
        if not references:
            text = f"signature {self.name!r} is not compared with the original"
            notes.append(f"{text}: {reason}")
        notes += [
            f"signature {self.name!r} is neither compared nor timed at batch size "
            f"{size}: {self._calls.refused[size]}"
            for size in timed
            if references and size in self._calls.refused
        ]
        inner: Sequence[InnerTensor] = ()
        constant = constant_in_all(references)
        for batch_size, case in references.items():
            expected = case.expected
            outputs = self._outputs(found, batch_size, case.inputs)
            difference, unequal = compare_outputs(outputs, expected, case.spreads)
            if 1.0 in undefined(expected):
                notes.append(
                    f"signature {self.name!r}: an output is NaN for all inputs that "
                    f"were made up at batch size {batch_size}: equal ones say little"
                )
            equal = equal and not unequal
            if difference is not None:
                differences.append(difference)
            # A small effect of rounding needs no explanation.
            noise = min(allowed_difference(0.0, case.noise), STEADY)
            explained = max(self._tolerance(), noise)
            differs = differ(difference, unequal, explained) or unequal
            if not inner or differs:
                compared = self._compare_inside(graph_def, case)
                inner = inner or compared
                worst = inner_tensors.worst(compared)
                if differs or (worst and worst.differs):
                    notes += self._explain(
                        worst, batch_size, difference or 0.0, unequal
                    )
                    self._check_numbers(batch_size, outputs)
        if references:
            self._compare_at_bounds(found)
        measured = [size for size in timed if size in self._calls.inputs]
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
            list(dict.fromkeys([*notes, *self._constant_notes(constant, inner)])),
            equal,
            {size: timing.ratios(latency)[0] for size, latency in latencies.items()},
            {
                size: timing.ratios(latency)[1]
                for size, latency in latencies.items()
                if portable
            },
            constant,
            bool(constant) and has_no_evidence(references),
            inner,
        )

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

    def _compare_at_bounds(self, found: Callable[..., Any]) -> None:
        """Compares outputs around the sizes at which the function changes.

        Raises:
          DifferenceError: an output has another shape, or clearly other values.
        """
        for case in self._calls.at_bounds():
            outputs = self._outputs(found, case.batch_size, case.inputs)
            difference, _ = compare_outputs(outputs, case.expected)
            if (difference or 0.0) > _CLEAR or shapes(outputs) != shapes(case.expected):
                height, width = case.image_size
                where = f"an output for images of {height} x {width}"
                raise DifferenceError(
                    self.name, case.batch_size, where, difference or math.inf
                )

    def _tolerance(self) -> float:
        return tolerance(self._frozen, self._device)

    def _compare_inside(self, graph_def: Any, case: Case) -> list[InnerTensor]:
        # Pieces of a graph may fail for inputs that the whole takes.
        with contextlib.suppress(tf.errors.OpError):
            return inner_tensors.compare(
                self._frozen, graph_def, case.inputs, case.others, self._device
            )
        return []

    def _constant_notes(
        self, constant: Sequence[str], inner: Sequence[InnerTensor]
    ) -> list[str]:
        """Names outputs that are not evidence, and the tensors in their place."""
        moving = sum(one.moves for one in inner)
        instead = (
            f"{counted(moving, 'tensor', 'tensors')} inside of the network were "
            "compared in addition"
            if moving
            else "--samples=FILE.npz gives inputs on which the output depends"
        )
        return [
            f"signature {self.name!r}: output {name!r} does not depend on the input, "
            f"so that equal values are not evidence; {instead}"
            for name in constant
        ]

    def _explain(
        self,
        worst: InnerTensor | None,
        batch_size: int,
        difference: float,
        unequal: Mapping[str, str],
    ) -> list[str]:
        """Why outputs differ, if it is not a tensor inside that does.

        What chooses by comparing values (argmax, non-maximum suppression, ...) may make
        a large difference of rounding errors.
        """
        where, difference_there = "an output", difference
        noise = self._calls.case_at(batch_size).noise
        allowed = allowed_difference(self._tolerance(), noise)
        if worst:
            where, difference_there = worst.name, worst.difference
            allowed = worst.allowed
        if difference_there > allowed:
            self._check_optimizers(batch_size)
            raise DifferenceError(self.name, batch_size, where, difference_there)
        where = " in what follows the regions"
        why = f"; the regions agree to {worst.difference:.1e}" if worst else ""
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
        shares = undefined(outputs), undefined(self._calls.case_at(batch_size).expected)
        if shares[0] == shares[1] or math.isinf(self._calls.case_at(batch_size).noise):
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
            plain = self._function(**self._calls.inputs[batch_size])
        case = self._calls.case_at(batch_size)
        changed, unequal = compare_outputs(plain, case.expected, case.spreads)
        allowed = allowed_difference(self._tolerance(), case.noise)
        if differ(changed, unequal, allowed):
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
        inputs = self._calls.inputs[batch_size]
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
