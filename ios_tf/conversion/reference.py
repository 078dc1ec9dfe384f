"""Compares a converted model with its original: outputs and latencies.

Both models run in this process and take turns. The original runs without the plugin.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.conversion import inner_tensors, timing
from ios_tf.conversion.comparison import Comparison, DifferenceError
from ios_tf.conversion.inner_tensors import InnerTensor
from ios_tf.conversion.made_up_inputs import CannotCompareError, Inputs, Size
from ios_tf.conversion.original_calls import (
    STEADY,
    Case,
    OriginalCalls,
    constant_in_all,
    has_no_evidence,
)
from ios_tf.conversion.output_differences import (
    allowed_difference,
    compare_outputs,
    differ,
    shapes,
    tolerance,
    undefined,
)
from ios_tf.conversion.samples import Samples
from ios_tf.errors import UserError, first_line
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.not_converted import NotConvertedError
from ios_tf.native import tracing
from ios_tf.native.tracing import Trace
from ios_tf.reasons import Decision, Reason
from ios_tf.scheduler import Load
from ios_tf.scheduler.problem import batch_sizes_of
from ios_tf.tables import counted

# Rounding never explains a difference of an output above this value.
_CLEAR = 0.5
# The largest number of operators of a recorded call that a report contains.
_TRACED_OPERATORS = 20_000


class Reference:
    """The original function of a signature, with made-up or real inputs.

    Attributes:
      name: the function's name in errors and notes.
      calls: the calls of the function.
    """

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
          name: the function's name in errors and notes.
          function: the original.
          frozen: the original as a frozen graph.
          device: "cpu" or "gpu".
          image_size: the size of the function's images, if it is known although the
            inputs leave it open.
          bound_sizes: input sizes (batch, height, width) near which the function starts
            to compute something else. Outputs are also compared at these sizes.
        """
        self.name = name
        self._function = function
        self._frozen = frozen
        self._device = device
        self.calls = OriginalCalls(function, frozen, device, image_size, bound_sizes)

    def use_samples(self, samples: Samples) -> None:
        """Makes all later comparisons and measurements use real inputs.

        Raises:
          UserError: the samples do not fit this signature's inputs.
        """
        self.calls.use_samples(samples.of_signature(self.name, self._frozen.inputs))

    def with_frozen(self, frozen: FrozenSignature) -> Reference:
        """Returns a reference for the same function in another precision.

        Both share the calls of the original.
        """
        reference = copy.copy(self)
        reference._frozen = frozen
        return reference

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
          found: the function that should compute the same.
          graph_def: the graph with schedules from which `found` was made.
          batch_sizes: the batch sizes at which outputs are compared. At the first one
            and those in `timed`, images have the size of the schedules. At the others
            they have another size, if the model accepts images of any size.
          timed: the batch sizes or loads for which latencies are measured. If the
            original does not accept any of them, another size is used.
          portable: whether to time `found` in TensorFlow alone, too.

        Raises:
          DifferenceError: a region or an output differs by more than rounding explains.
          NotConvertedError: TensorFlow's optimizers change the original's outputs.
          UserError: `found` fails.
        """
        cases, reason = self.calls.cases(batch_sizes, batch_sizes_of(timed))
        decisions = self._not_compared(cases, reason, batch_sizes_of(timed))
        differences: list[float] = []
        equal = True
        inner: Sequence[InnerTensor] = ()
        for batch_size, case in cases.items():
            outputs = self._outputs(found, batch_size, case.inputs)
            difference, unequal = compare_outputs(
                outputs, case.expected, None if self._max_error else case.spreads
            )
            decisions += self._all_nan(batch_size, case)
            equal = equal and not unequal
            if difference is not None:
                differences.append(difference)
            differs = differ(difference, unequal, self._unexplained(case)) or unequal
            if inner and not differs:
                continue
            compared = self._compare_inside(graph_def, case)
            inner = inner or compared
            worst = inner_tensors.worst(compared)
            if differs or (worst and worst.differs):
                decisions += self._explain(
                    worst, batch_size, case, difference or 0.0, unequal
                )
                self._check_numbers(batch_size, case, outputs)
        if cases:
            self._compare_at_bounds(found)
        measured = [load for load in timed if int(load) in self.calls.inputs]
        if timed and not measured:
            measured = list(cases)[:1]
        latencies = {size: self._latencies(found, size, portable) for size in measured}
        traces, skipped = self._traces(found, batch_sizes_of(measured))
        constant = constant_in_all(cases)
        return Comparison(
            self.name,
            max(differences, default=None),
            list(cases),
            [*decisions, *self._constant_outputs(constant, inner), *skipped],
            equal,
            bool(constant) and has_no_evidence(cases),
            inner,
            traces,
            by_value=self._max_error > 0,
            latencies=latencies,
        )

    def _not_compared(
        self,
        cases: Mapping[int, Case],
        reason: CannotCompareError | None,
        timed: Sequence[int],
    ) -> list[Decision]:
        """Says why the signature is not compared, or not at some batch sizes.

        Args:
          cases, reason: what `OriginalCalls.cases` returned.
          timed: the batch sizes of the measurements.
        """
        if not cases:
            assert reason is not None
            text = f"signature {self.name!r} is not compared with the original"
            return [Decision(reason.reason, f"{text}: {reason}")]
        return [
            Decision(
                refusal.reason,
                f"signature {self.name!r} is neither compared nor timed at batch size "
                f"{size}: {refusal}",
            )
            for size, refusal in self.calls.refused.items()
            if size in timed
        ]

    def _all_nan(self, batch_size: int, case: Case) -> list[Decision]:
        """Says so if all values of one of the original's outputs are NaN."""
        if 1.0 not in undefined(case.expected):
            return []
        return [
            Decision(
                Reason.ALL_NAN,
                f"signature {self.name!r}: all values of an output are NaN at "
                f"batch size {batch_size}, so the comparison proves little",
            )
        ]

    def _unexplained(self, case: Case) -> float:
        """The largest difference of outputs that inner tensors need not explain."""
        noise = min(allowed_difference(0.0, case.noise), STEADY)
        return self._max_error or max(self._tolerance(), noise)

    def _outputs(
        self, found: Callable[..., Any], batch_size: int, inputs: Inputs
    ) -> Mapping[str, Any]:
        try:
            with timing.running(plugin=True, device=self._device):
                return found(**inputs)
        except tf.errors.OpError as error:
            raise UserError(
                f"the converted signature {self.name!r} would fail at batch size "
                f"{batch_size}, where the original does not, so nothing is written: "
                f"{first_line(error)}"
            ) from error

    def _compare_at_bounds(self, found: Callable[..., Any]) -> None:
        """Compares outputs at sizes around the bounds (see `bound_sizes`).

        Raises:
          DifferenceError: an output has another shape, or clearly other values.
        """
        for (size, height, width), inputs, expected in self.calls.at_bounds():
            outputs = self._outputs(found, size, inputs)
            where = f"for images of {height} x {width}"
            found_shapes = shapes(outputs)
            for name, shape in shapes(expected).items():
                if found_shapes[name] != shape:
                    raise DifferenceError(
                        self.name,
                        size,
                        f"output {name!r} {where}",
                        f"its shape, {_shape_text(found_shapes[name])} instead of "
                        f"{_shape_text(shape)}",
                    )
            difference, _ = compare_outputs(outputs, expected)
            if difference is not None and difference > _CLEAR:
                raise DifferenceError(self.name, size, f"an output {where}", difference)

    @property
    def _max_error(self) -> float:
        """The largest difference that the user allows; 0 for float32."""
        return self._frozen.precision.max_error

    def _tolerance(self) -> float:
        return tolerance(self._frozen, self._device)

    def _compare_inside(self, graph_def: Any, case: Case) -> list[InnerTensor]:
        # Parts of a graph may raise errors for inputs that the whole graph accepts;
        # nothing is compared then.
        with contextlib.suppress(tf.errors.OpError):
            return inner_tensors.compare(
                self._frozen, graph_def, case.inputs, case.others, self._device
            )
        return []

    def _constant_outputs(
        self, constant: Sequence[str], inner: Sequence[InnerTensor]
    ) -> list[Decision]:
        """Names the constant outputs, and the tensors that are compared instead."""
        moving = sum(one.moves for one in inner)
        instead = (
            "The comparison also covers "
            f"{counted(moving, 'tensor', 'tensors')} inside the network"
            if moving
            else "Use --samples=FILE.npz to give inputs on which the output depends"
        )
        return [
            Decision(
                Reason.CONSTANT_OUTPUT,
                f"signature {self.name!r}: output {name!r} does not depend on the "
                f"input, so equal values prove nothing. {instead}",
            )
            for name in constant
        ]

    def _explain(
        self,
        worst: InnerTensor | None,
        batch_size: int,
        case: Case,
        difference: float,
        unequal: Mapping[str, str],
    ) -> list[Decision]:
        """Explains why outputs differ although inner tensors do not.

        An operator that compares values (argmax, non-maximum suppression, ...) may turn
        rounding errors into a large difference.

        Raises:
          DifferenceError: a tensor differs by more than rounding explains.
          NotConvertedError: TensorFlow's optimizers change the original's outputs.
        """
        where, difference_there = "an output", difference
        allowed = self._max_error or allowed_difference(self._tolerance(), case.noise)
        differs = difference > allowed
        if worst and not (differs and self._max_error):
            where, difference_there = worst.name, worst.difference
            differs = worst.differs
        if differs:
            self._check_optimizers(batch_size, case)
            raise DifferenceError(self.name, batch_size, where, difference_there)
        reason, where = Reason.AFTER_REGIONS, " in operators after the regions"
        why = f"; inner tensors differ by up to {worst.difference:.1e}" if worst else ""
        if difference_there > self._tolerance():
            reason, where = Reason.ROUNDING, ""
            why = "; rounding the inputs has a similar effect"
        texts = [f"{text} at batch size {batch_size}{why}" for text in unequal.values()]
        if difference > self._tolerance():
            texts.append(
                f"outputs differ by {difference:.1e} at batch size {batch_size}{where}"
                f"{why}"
            )
        return [Decision(reason, f"signature {self.name!r}: {text}") for text in texts]

    def _check_numbers(
        self, batch_size: int, case: Case, outputs: Mapping[str, Any]
    ) -> None:
        """Checks that the outputs have the same share of NaN as the original's.

        Raises:
          NotConvertedError: the share differs, because TensorFlow optimizes the
            converted graph differently.
        """
        shares = undefined(outputs), undefined(case.expected)
        if shares[0] == shares[1] or math.isinf(case.noise):
            return
        self._check_optimizers(batch_size, case)
        found, expected = next(p for p in zip(*shares, strict=True) if p[0] != p[1])
        raise NotConvertedError(
            Reason.SHARE_OF_NAN,
            f"signature {self.name!r}, batch size {batch_size}: {found:.0%} of an "
            f"output would be NaN in the converted model, and {expected:.0%} in the "
            "original, because TensorFlow optimizes the operators after the regions in "
            "another way",
        )

    def _check_optimizers(self, batch_size: int, case: Case) -> None:
        """Checks that TensorFlow's optimizers do not change the original's outputs.

        Two examples: the optimizers replace the maximum of 2 x and x by a leaky ReLU.
        They also fuse a convolution with a ReLU. For NaN, the fused kernel returns 0,
        but a separate ReLU returns NaN.

        Raises:
          NotConvertedError: TensorFlow changes the outputs.
        """
        with timing.running(plugin=False, device=self._device, optimizers=False):
            plain = self._function(**case.inputs)
        changed, unequal = compare_outputs(plain, case.expected, case.spreads)
        allowed = allowed_difference(self._tolerance(), case.noise)
        if differ(changed, unequal, allowed):
            by = "" if changed is None else f" by {changed:.1e} (relative)"
            raise NotConvertedError(
                Reason.OPTIMIZERS_CHANGE_OUTPUTS,
                f"signature {self.name!r}: at batch size {batch_size}, the outputs of "
                f"the original change{by} if TensorFlow's graph optimizers are off "
                "(disable_meta_optimizer). TensorFlow would not optimize a converted "
                "model in the same way, so the outputs of that model would differ",
            )

    def _traces(
        self, found: Callable[..., Any], batch_sizes: Sequence[int]
    ) -> tuple[dict[int, Trace], list[Decision]]:
        """Records a call of `found` at each batch size, on the engine.

        Returns:
          The traces, and why traces are missing.
        """
        traces: dict[int, Trace] = {}
        for size in batch_sizes:
            try:
                with tracing.record(_TRACED_OPERATORS) as recording:
                    self._outputs(found, size, self.calls.inputs[size])
            except tracing.AlreadyRecordingError:
                text = f"signature {self.name!r} has no timeline in the report, "
                text += "because your program records a trace"
                return traces, [Decision(Reason.NO_TIMELINE, text)]
            if recording.trace and recording.trace.calls:
                traces[size] = recording.trace
        return traces, []

    def _latencies(
        self, found: Callable[..., Any], load: int, portable: bool
    ) -> timing.Latencies:
        inputs = self.calls.inputs[int(load)]
        turns = [(False, self._function), (True, found), (False, found)]
        return timing.latencies(
            [
                timing.turn(plugin, self._device, function, **inputs)
                for plugin, function in turns[: 2 + portable]
            ],
            Load.of(load).callers,
        )


def _shape_text(components: Sequence[Sequence[int]]) -> str:
    """The shapes of an output's components (one, unless the output is composite)."""
    return ", ".join(str(list(shape)) for shape in components)
