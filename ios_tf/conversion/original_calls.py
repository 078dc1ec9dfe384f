"""Calls of an original function: made-up inputs or samples, and the outputs."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ios_tf.conversion import timing
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
    sizes_from_constants,
)
from ios_tf.conversion.output_differences import (
    Spreads,
    compare_outputs,
    constant_outputs,
    differ,
    judged_by_value,
    noise_of_outputs,
    repeatable,
    spreads,
    tolerance,
    undefined,
)
from ios_tf.conversion.samples import rows
from ios_tf.errors import first_line
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.inputs import open_sizes

# Batch sizes to try if a function does not take the requested ones.
_OTHER_BATCHES = (2, 4, 8, 16, 32)
# Other inputs are tried if rounding changes outputs by more than this.
STEADY = 1e-4
# Limits of the calls near bounds, which are sizes at which the function changes: the
# number of calls, and the number of elements of the inputs of each call.
_MOST_BOUNDS = 8
_MOST_ELEMENTS = 16_000_000


class Case(NamedTuple):
    """Inputs, and the outputs of the original.

    Attributes:
      inputs: the arguments.
      others: other arguments of the same shapes.
      expected: the outputs for `inputs`.
      spreads: how much the outputs change between `inputs` and `others`. Empty if
        differences are judged relative to the outputs' values instead.
      constant: names of outputs that do not change.
      noise: how much rounding of the inputs changes the outputs, relative to their
        spreads.
    """

    inputs: Inputs
    others: Inputs
    expected: Mapping[str, Any]
    spreads: Spreads
    constant: Sequence[str]
    noise: float


class BoundCase(NamedTuple):
    """Inputs of a size near which the function starts to compute something else.

    Attributes:
      batch_size, image_size: the size.
      inputs: the arguments.
      expected: the outputs.
    """

    batch_size: int
    image_size: tuple[int, int]
    inputs: Inputs
    expected: Mapping[str, Any]


class OriginalCalls:
    """Calls the original function of a signature once per batch size.

    Attributes:
      inputs: the arguments by batch size, even if two calls of the original differ.
      refused: by batch size, why the original could not be called or compared.
    """

    def __init__(
        self,
        function: Any,
        frozen: FrozenSignature,
        device: str,
        image_size: Size | None,
        bound_sizes: Iterable[tuple[int, int, int]],
    ) -> None:
        """Calls nothing yet; see `Reference` for the arguments."""
        self.inputs: dict[int, Inputs] = {}
        self.refused: dict[int, CannotCompareError] = {}
        self._bound_sizes = sorted(bound_sizes, key=math.prod)
        self._function = function
        self._frozen = frozen
        self._device = device
        # Latencies are measured with the first of these sizes that the model takes.
        self._sizes: Sequence[Size] = (frozen.image_size, *SIZES)
        # Sizes to try before, and after, the usual ones.
        self._first_sizes = () if image_size is None else (image_size,)
        self._last_sizes = sizes_from_constants(frozen.graph_def)
        self._cases: dict[int, Case] = {}
        self._samples: Mapping[str, np.ndarray] | None = None

    def use_samples(self, samples: Mapping[str, np.ndarray]) -> None:
        """Uses real inputs for calls from now on."""
        self._samples = samples

    def inputs_at(self, batch_sizes: Sequence[int]) -> dict[int, Inputs]:
        """Made-up arguments by batch size, for the batch sizes that the original takes.

        If the original takes none of them, another batch size is used.
        """
        for batch_size in batch_sizes:
            with contextlib.suppress(CannotCompareError):
                self.case_at(batch_size)
        found = [size for size in batch_sizes if size in self.inputs]
        if not found:
            found = list(self.cases(batch_sizes, batch_sizes)[0])
        return {size: self.inputs[size] for size in found}

    def refusal(self) -> CannotCompareError | None:
        """Why the original could not be called; None if some call succeeded."""
        return None if self._cases else next(iter(self.refused.values()), None)

    def cases(
        self, batch_sizes: Sequence[int], timed: Sequence[int]
    ) -> tuple[dict[int, Case], CannotCompareError | None]:
        """Inputs and outputs by batch size, and the first reason for a missing size.

        Some functions take a single batch size but do not declare it. If a function
        takes none of the requested sizes, other sizes are tried.
        """
        found: dict[int, Case] = {}
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
                found[batch_size] = self.case_at(batch_size, sizes)
            except CannotCompareError as error:
                reason = reason or error
                if not isinstance(error, NotAcceptedError):
                    break
        return found, reason

    def case_at(self, batch_size: int, sizes: Sequence[Size] = ()) -> Case:
        """The inputs and outputs of the call at a batch size.

        Raises:
          CannotCompareError: the original cannot be called or compared at this size.
        """
        if batch_size in self.refused:
            raise self.refused[batch_size]
        if batch_size not in self._cases:
            try:
                self._call_original(batch_size, sizes or self._sizes)
            except CannotCompareError as reason:
                self.refused[batch_size] = reason
                raise
        return self._cases[batch_size]

    @property
    def _tolerance(self) -> float:
        return tolerance(self._frozen, self._device)

    def _call_original(self, batch_size: int, sizes: Sequence[Size]) -> None:
        if self._frozen.changes:
            raise CannotCompareError("each call changes the outputs of the next call")
        with timing.running(plugin=False, device=self._device):
            if self._samples is not None:
                case = self._sampled_case(self._samples, batch_size)
            else:
                case = self._steady_case(batch_size, sizes)
            again, unequal = compare_outputs(
                self._function(**case.inputs), case.expected, case.spreads
            )
        self.inputs[batch_size] = case.inputs
        if differ(again, unequal, repeatable(self._tolerance, case.noise)):
            raise CannotCompareError("two equal calls of the original differ")
        self._cases[batch_size] = case

    def _steady_case(self, batch_size: int, sizes: Sequence[Size]) -> Case:
        """Chooses the inputs with which the outputs show mistakes best.

        These are the inputs whose outputs have the least NaN. If several have the same
        share of NaN, the number of constant outputs decides, and then the effect of
        rounding.
        """
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
            if not nan and not still and case.noise <= STEADY:
                break
        assert best is not None  # there are values to try
        return best

    def _sampled_case(self, samples: Mapping[str, np.ndarray], batch_size: int) -> Case:
        specs = self._frozen.inputs
        inputs = rows(samples, specs, batch_size, 0)
        others = rows(samples, specs, batch_size, batch_size)
        try:
            return self._case(inputs, others, self._function(**inputs))
        # A function may raise anything for meaningless inputs.
        except Exception as error:
            raise NotAcceptedError(
                f"it does not accept the samples ({first_line(error)})"
            ) from error

    def _case(
        self, inputs: Inputs, others: Inputs, expected: Mapping[str, Any]
    ) -> Case:
        moved: Spreads = {}
        # The function may refuse the other values.
        with contextlib.suppress(Exception):
            moved = spreads(expected, self._function(**others))
        constant = constant_outputs(moved)
        if judged_by_value(self._tolerance):
            moved = {}
        rounded, noise = rounded_inputs(inputs), 0.0
        if rounded is not None:
            near = self._function(**rounded)
            noise = noise_of_outputs(near, expected, moved)
        return Case(inputs, others, expected, moved, constant, noise)

    def at_bounds(self) -> Iterator[BoundCase]:
        """Calls around the sizes at which the function changes.

        There are no such calls if samples are used.
        """
        called = 0
        for batch_size, height, width in self._bound_sizes if not self._samples else ():
            guess = Guess((height, width))
            if called == _MOST_BOUNDS:
                break
            specs = self._frozen.inputs.values()
            if sum(_elements(one, batch_size, guess) for one in specs) > _MOST_ELEMENTS:
                continue
            try:
                inputs = made_up_inputs(self._frozen.inputs, batch_size, guess)
                with timing.running(plugin=False, device=self._device):
                    expected = self._function(**inputs)
            # The function may refuse these sizes with any error.
            except Exception:
                continue
            called += 1
            yield BoundCase(batch_size, (height, width), inputs, expected)


def _elements(spec: tf.TensorSpec, batch_size: int, guess: Guess) -> int:
    """A lower bound of the number of elements of an input."""
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


def constant_in_all(cases: Mapping[int, Case]) -> list[str]:
    """The outputs that do not depend on the input at any batch size."""
    still = [case.constant for case in cases.values()]
    return [name for name in still[0] if all(name in s for s in still)] if still else []


def has_no_evidence(cases: Mapping[int, Case]) -> bool:
    """Whether no output depends on the input."""
    constant = constant_in_all(cases)
    return all(name in constant for case in cases.values() for name in case.expected)
