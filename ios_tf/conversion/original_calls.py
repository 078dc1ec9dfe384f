"""Calls of an original function: random inputs or samples, and the outputs."""

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
    spreads,
    tolerance,
    undefined,
)
from ios_tf.conversion.samples import rows
from ios_tf.errors import first_line
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.inputs import open_sizes
from ios_tf.reasons import Reason
from ios_tf.scheduler.problem import batch_sizes_of

# Batch sizes that are tried if a function does not accept the requested sizes.
_OTHER_BATCHES = (2, 4, 8, 16, 32)
# Other inputs are tried if rounding changes outputs by more than this.
STEADY = 1e-4
# The largest number of samples that show how exact a function is.
_MOST_SAMPLES = 256
# Limits for calls near bounds (input sizes at which the function starts to compute
# something else): the number of calls, and the number of elements of each call's
# inputs.
_MOST_BOUNDS = 8
_MOST_ELEMENTS = 16_000_000


class Case(NamedTuple):
    """A call of the original: its inputs and outputs.

    Attributes:
      inputs: the arguments.
      others: arguments of the same shapes with other values.
      expected: the outputs for `inputs`.
      spreads: how much the outputs change between `inputs` and `others`. Empty if
        differences are computed relative to the outputs' values instead.
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


class OriginalCalls:
    """Calls the original function of a signature once per batch size.

    Attributes:
      inputs: the arguments by batch size, also if two calls of the original with the
          same inputs give different outputs.
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
        """Does not call the function yet. For the arguments, see `Reference`."""
        self.inputs: dict[int, Inputs] = {}
        self.refused: dict[int, CannotCompareError] = {}
        self._bound_sizes = sorted(bound_sizes, key=math.prod)
        self._function = function
        self._frozen = frozen
        self._device = device
        # Latencies are measured with the first of these image sizes that the model
        # accepts.
        self._sizes: Sequence[Size] = (frozen.image_size, *SIZES)
        # Image sizes that are tried before, and after, the usual sizes.
        self._first_sizes = () if image_size is None else (image_size,)
        self._last_sizes = sizes_from_constants(frozen.graph_def)
        self._cases: dict[int, Case] = {}
        self._samples: Mapping[str, np.ndarray] | None = None

    def use_samples(self, samples: Mapping[str, np.ndarray]) -> None:
        """Makes all later calls use real inputs."""
        self._samples = samples

    def inputs_at(self, batch_sizes: Sequence[int]) -> dict[int, Inputs]:
        """Returns the arguments of calls at the batch sizes that the original accepts.

        If the original does not accept any of these batch sizes, another one is used.
        The keys of the result are loads if `batch_sizes` contains loads.
        """
        sizes = batch_sizes_of(batch_sizes)
        for size in sizes:
            with contextlib.suppress(CannotCompareError):
                self.case_at(size)
        accepted = [load for load in batch_sizes if int(load) in self.inputs]
        accepted = accepted or list(self.cases(sizes, sizes)[0])
        return {load: self.inputs[int(load)] for load in accepted}

    def varied_inputs(self, batch_sizes: Sequence[int]) -> list[Inputs]:
        """Returns the arguments of calls that show how exact a function is.

        Without samples, these are two calls for each batch size that the original
        accepts. With samples, they are calls for the samples.
        """
        cases = self.cases(batch_sizes, batch_sizes)[0]
        if self._samples is None or not cases:
            return [one for c in cases.values() for one in (c.inputs, c.others)]
        count = min(_MOST_SAMPLES, *map(len, self._samples.values()))
        specs, size = self._frozen.inputs, next(iter(cases))
        return [
            rows(self._samples, specs, size, first) for first in range(0, count, size)
        ]

    def refusal(self) -> CannotCompareError | None:
        """Returns why the original could not be called, or None if a call succeeded."""
        return None if self._cases else next(iter(self.refused.values()), None)

    def cases(
        self, batch_sizes: Sequence[int], timed: Sequence[int]
    ) -> tuple[dict[int, Case], CannotCompareError | None]:
        """Returns the calls by batch size, and why the first missing one is missing.

        Some functions accept only one batch size without declaring it. If a function
        does not accept any requested size, other sizes are tried.
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
        """Returns the inputs and outputs of the call at a batch size.

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
            raise CannotCompareError(
                Reason.STATEFUL,
                "each call of the original changes the outputs of the next call, so "
                "IOS-TF does not run the original. Compare the models yourself where "
                "changes of the model's state do no harm",
            )
        with timing.running(plugin=False, device=self._device):
            if self._samples is not None:
                case = self._sampled_case(self._samples, batch_size)
            else:
                case = self._steady_case(batch_size, sizes)
            # The noise of a function with random outputs is random, too, and may be
            # large. So a second call decides whether it is repeatable.
            again = self._repeat(case)
            random = differ(*again, self._tolerance) and (
                differ(*again, case.noise)
                or differ(*self._repeat(case), self._tolerance)
            )
        self.inputs[batch_size] = case.inputs
        if random:
            raise CannotCompareError(
                Reason.NOT_REPEATABLE,
                "two calls of the original with the same inputs return different "
                "outputs",
            )
        self._cases[batch_size] = case

    def _repeat(self, case: Case) -> tuple[float | None, dict[str, str]]:
        """Calls the function once more, and compares with the case's outputs."""
        outputs = self._function(**case.inputs)
        return compare_outputs(outputs, case.expected, case.spreads)

    def _steady_case(self, batch_size: int, sizes: Sequence[Size]) -> Case:
        """Returns the call whose outputs reveal mistakes best.

        This is the call with the smallest share of NaN in the outputs; among equal
        ones, the call with the fewest constant outputs, and then with the smallest
        effect of rounding.
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
        assert best is not None  # VALUES is not empty
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
                Reason.SAMPLES_REJECTED,
                f"it does not accept the samples ({first_line(error)})",
            ) from error

    def _case(
        self, inputs: Inputs, others: Inputs, expected: Mapping[str, Any]
    ) -> Case:
        moved: Spreads = {}
        # The function may raise an error for the other values.
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

    def at_bounds(
        self,
    ) -> Iterator[tuple[tuple[int, int, int], Inputs, Mapping[str, Any]]]:
        """Makes calls with sizes around the bounds, or none if samples are used.

        Yields the size, the inputs and the outputs of each call.
        """
        called = 0
        specs = self._frozen.inputs
        for bound in self._bound_sizes if not self._samples else ():
            batch_size, height, width = bound
            guess = Guess((height, width))
            elements = sum(_elements(one, *bound) for one in specs.values())
            if called == _MOST_BOUNDS:
                break
            if elements > _MOST_ELEMENTS:
                continue
            try:
                inputs = made_up_inputs(specs, batch_size, guess)
                with timing.running(plugin=False, device=self._device):
                    expected = self._function(**inputs)
            # The function may raise any error for these sizes, which are then skipped.
            except Exception:
                continue
            called += 1
            yield bound, inputs, expected


def _elements(spec: tf.TensorSpec, batch_size: int, *image_size: int) -> int:
    """Returns a lower bound of the number of elements of an input."""
    if spec.shape.rank is None:
        return 0
    known = spec.shape.as_list()
    sizes = {d: image_size[i] for d, i in open_sizes(known).items()} | {0: batch_size}
    return math.prod(
        sizes.get(d, 1) if size is None else size for d, size in enumerate(known)
    )


def constant_in_all(cases: Mapping[int, Case]) -> list[str]:
    """Returns the names of outputs that are constant at all batch sizes."""
    still = [case.constant for case in cases.values()]
    return [name for name in still[0] if all(name in s for s in still)] if still else []


def has_no_evidence(cases: Mapping[int, Case]) -> bool:
    """Returns whether no output depends on the input."""
    constant = constant_in_all(cases)
    return all(name in constant for case in cases.values() for name in case.expected)
