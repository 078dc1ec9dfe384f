"""Compares a converted model with its original: outputs on made-up inputs, latencies.

Both run in this process, in turn; the original as if this package were not there.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ios_tf.conversion import inner_tensors, timing
from ios_tf.conversion.comparison import Comparison, DifferenceError, counted
from ios_tf.conversion.differences import (
    Spreads,
    allowed_difference,
    compare_outputs,
    constant_outputs,
    judged_by_value,
    noise_of_outputs,
    repeatable,
    spreads,
    tolerance,
    undefined,
)
from ios_tf.conversion.inner_tensors import InnerTensor
from ios_tf.conversion.made_up_inputs import (
    OTHER_SIZES,
    SIZES,
    VALUES,
    CannotCompareError,
    Guess,
    Inputs,
    NotAcceptedError,
    Size,
    accepted_made_up_inputs,
    made_up_inputs,
    rounded_inputs,
    told_sizes,
)
from ios_tf.conversion.samples import Samples, rows
from ios_tf.errors import UserError, first_line
from ios_tf.model.frozen_graphs import FrozenSignature, NotConvertedError
from ios_tf.model.inputs import open_sizes

# Batch sizes of functions that do not take those which are asked for.
_OTHER_BATCHES = (2, 4, 8, 16, 32)
# Other inputs are tried where rounding changes outputs by more than this.
_STEADY = 1e-4
# Sizes around bounds at which outputs are compared, and elements of their inputs.
_MOST_BOUNDS = 8
_MOST_ELEMENTS = 16_000_000
# A difference of an output that rounding never explains.
_CLEAR = 0.5


class _Case(NamedTuple):
    """Inputs, and what the original makes of them.

    Attributes:
      inputs: the arguments.
      others: arguments of the same shapes.
      expected: the outputs for `inputs`.
      spreads: how much the outputs change between `inputs` and `others`, where
        differences are judged by that.
      constant: the outputs that do not change.
      noise: how much rounding of the inputs changes the outputs, of their spreads.
    """

    inputs: Inputs
    others: Inputs
    expected: Mapping[str, Any]
    spreads: Spreads
    constant: Sequence[str]
    noise: float


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
        self._bound_sizes = sorted(bound_sizes, key=math.prod)
        self._function = function
        self._frozen = frozen
        self._device = device
        # Latencies are of images of the first one.
        self._sizes: Sequence[Size] = (frozen.image_size, *SIZES)
        # Tried before, and after, the usual ones.
        self._first_sizes = () if image_size is None else (image_size,)
        self._last_sizes = told_sizes(frozen.graph_def)
        self._cases: dict[int, _Case] = {}
        # Also of batch sizes at which two calls of the original differ.
        self._inputs: dict[int, Inputs] = {}
        self._refused: dict[int, CannotCompareError] = {}
        self._samples: Mapping[str, np.ndarray] | None = None

    def use_samples(self, samples: Samples) -> None:
        """Compares and times with real inputs from now on.

        Raises:
          UserError: they are not for this signature's inputs.
        """
        self._samples = samples.of_signature(self.name, self._frozen.inputs)

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
        inner: Sequence[InnerTensor] = ()
        constant = _constant(references)
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
            noise = min(allowed_difference(0.0, case.noise), _STEADY)
            explained = max(self._tolerance(), noise)
            differs = _differ(difference, unequal, explained) or unequal
            if not inner or differs:
                compared = self._compare_inside(graph_def, case)
                inner = inner or compared
                worst = inner_tensors.worst(compared)
                if differs or (worst and worst.differs):
                    notes += self._explain(
                        worst, batch_size, difference or 0.0, unequal
                    )
                    self._check_numbers(batch_size, outputs)
        if references and self._samples is None:
            self._compare_at_bounds(found)
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
            list(dict.fromkeys([*notes, *self._constant_notes(constant, inner)])),
            equal,
            {size: timing.ratios(latency)[0] for size, latency in latencies.items()},
            {
                size: timing.ratios(latency)[1]
                for size, latency in latencies.items()
                if portable
            },
            constant,
            bool(constant) and _has_no_evidence(references),
            inner,
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
        return None if self._cases else next(iter(self._refused.values()), None)

    def _references(
        self, batch_sizes: Sequence[int], timed: Sequence[int]
    ) -> tuple[dict[int, _Case], CannotCompareError | None]:
        """Inputs and outputs by batch size, and why there are none, or no more.

        Some functions take one batch size only, though they do not say so: if they take
        none of those that are asked for, another one.
        """
        found: dict[int, _Case] = {}
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

    def _reference(self, batch_size: int, sizes: Sequence[Size] = ()) -> _Case:
        if batch_size in self._refused:
            raise self._refused[batch_size]
        if batch_size not in self._cases:
            try:
                self._call_original(batch_size, sizes or self._sizes)
            except CannotCompareError as reason:
                self._refused[batch_size] = reason
                raise
        return self._cases[batch_size]

    def _call_original(self, batch_size: int, sizes: Sequence[Size]) -> None:
        if self._frozen.changes:
            raise CannotCompareError("every call changes what the next one computes")
        with timing.running(plugin=False, device=self._device):
            if self._samples is not None:
                case = self._sampled_case(self._samples, batch_size)
            else:
                case = self._steady_case(batch_size, sizes)
            again, unequal = compare_outputs(
                self._function(**case.inputs), case.expected, case.spreads
            )
        self._inputs[batch_size] = case.inputs
        if _differ(again, unequal, repeatable(self._tolerance(), case.noise)):
            raise CannotCompareError("two calls of the original differ")
        self._cases[batch_size] = case

    def _steady_case(self, batch_size: int, sizes: Sequence[Size]) -> _Case:
        """Of several inputs those for which most is defined, and most outputs move,
        and then those whose rounding changes the outputs least."""
        best, least = None, (math.inf, math.inf, math.inf)
        sizes = [*self._first_sizes, *sizes, *self._last_sizes]
        for values in VALUES:
            try:
                inputs, expected, others = accepted_made_up_inputs(
                    self._function, self._frozen.inputs, batch_size, values, sizes
                )
            except CannotCompareError:
                if best is None:
                    raise
                break
            case = self._case(inputs, others, expected)
            nan = max(undefined(expected), default=0.0)
            still = len(case.constant)
            if (nan, still, case.noise) < least:
                best, least = case, (nan, still, case.noise)
            if not nan and not still and case.noise <= _STEADY:
                break
        assert best is not None  # there are values to try
        return best

    def _sampled_case(
        self, samples: Mapping[str, np.ndarray], batch_size: int
    ) -> _Case:
        specs = self._frozen.inputs
        inputs = rows(samples, specs, batch_size, 0)
        others = rows(samples, specs, batch_size, batch_size)
        try:
            return self._case(inputs, others, self._function(**inputs))
        # A function may raise anything for inputs that mean nothing to it.
        except Exception as error:
            raise NotAcceptedError(
                f"it does not take the samples ({first_line(error)})"
            ) from error

    def _case(
        self, inputs: Inputs, others: Inputs, expected: Mapping[str, Any]
    ) -> _Case:
        moved: Spreads = {}
        # Other values may be refused where the first ones are not.
        with contextlib.suppress(Exception):
            moved = spreads(expected, self._function(**others))
        constant = constant_outputs(moved)
        if judged_by_value(self._tolerance()):
            moved = {}
        rounded, noise = rounded_inputs(inputs), 0.0
        if rounded is not None:
            near = self._function(**rounded)
            noise = noise_of_outputs(near, expected, moved)
        return _Case(inputs, others, expected, moved, constant, noise)

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
        compared = 0
        for batch_size, *image_size in self._bound_sizes:
            height, width = image_size
            guess = Guess((height, width))
            if compared == _MOST_BOUNDS:
                break
            specs = self._frozen.inputs.values()
            if sum(_elements(one, batch_size, guess) for one in specs) > _MOST_ELEMENTS:
                continue
            try:
                inputs = made_up_inputs(self._frozen.inputs, batch_size, guess)
                with timing.running(plugin=False, device=self._device):
                    expected = self._function(**inputs)
            # The function may refuse these sizes, with any error.
            except Exception:
                continue
            compared += 1
            outputs = self._outputs(found, batch_size, inputs)
            difference, unequal = compare_outputs(outputs, expected)
            if (difference or 0.0) > _CLEAR or any(
                "shape" in t for t in unequal.values()
            ):
                where = f"an output for images of {height} x {width}"
                raise DifferenceError(
                    self.name, batch_size, where, difference or math.inf
                )

    def _tolerance(self) -> float:
        return tolerance(self._frozen, self._device)

    def _compare_inside(self, graph_def: Any, case: _Case) -> list[InnerTensor]:
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
        noise = self._cases[batch_size].noise
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
        shares = undefined(outputs), undefined(self._cases[batch_size].expected)
        if shares[0] == shares[1] or math.isinf(self._cases[batch_size].noise):
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
        case = self._cases[batch_size]
        changed, unequal = compare_outputs(plain, case.expected, case.spreads)
        allowed = allowed_difference(self._tolerance(), case.noise)
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


def _elements(spec: tf.TensorSpec, batch_size: int, guess: Guess) -> int:
    """How many elements an input of an image size has, at least."""
    if spec.shape.rank is None:
        return 0
    known = spec.shape.as_list()
    assert isinstance(guess.image_size, tuple)
    opened = {d: guess.image_size[i] for d, i in open_sizes(known).items()}
    sizes = (batch_size if not d else opened.get(d, 1) for d in range(len(known)))
    return math.prod(
        size if size is not None else open_size
        for size, open_size in zip(known, sizes, strict=True)
    )


def _constant(cases: Mapping[int, _Case]) -> list[str]:
    """The outputs that do not depend on the input at any batch size."""
    still = [case.constant for case in cases.values()]
    return [name for name in still[0] if all(name in s for s in still)] if still else []


def _has_no_evidence(cases: Mapping[int, _Case]) -> bool:
    """Whether no output depends on the input."""
    constant = _constant(cases)
    return all(name in constant for case in cases.values() for name in case.expected)
