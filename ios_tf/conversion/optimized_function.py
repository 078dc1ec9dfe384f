"""optimize: a function of Python in, a faster equal function out, nothing written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ios_tf.conversion import notes
from ios_tf.conversion.comparison import Comparison, DifferenceError
from ios_tf.conversion.options import ConvertOptions
from ios_tf.conversion.originals import Original
from ios_tf.conversion.planning import (
    Function,
    Plan,
    computed_directly,
    of_signature,
    with_their_batch_sizes,
)
from ios_tf.conversion.report import Report
from ios_tf.cost.samples import RECORDER
from ios_tf.errors import UserError, first_line
from ios_tf.model import assigned_variables, frozen_graphs, graph_optimizer
from ios_tf.model.leftovers import remove_abandoned_steps
from ios_tf.model.weights import Weights
from ios_tf.native.graph import USUAL_IMAGE_SIZE
from ios_tf.scheduler import Schedule
from ios_tf.tuning.searcher import NetworkSearcher

_Compute = Callable[[list[tf.Tensor]], Sequence[tf.Tensor]]


class OptimizedFunction:
    """The function that `optimize` returns: called as the original is.

    Attributes:
      report: what was done; it is shown where this object is, too.
    """

    def __init__(
        self,
        original: Original,
        compute: _Compute,
        report: Report,
    ) -> None:
        self._form = original.call
        self._compute = compute
        self.__name__ = original.name
        self.__signature__ = original.call.signature
        self.report = report

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._form.result(self._compute(self._form.tensors(args, kwargs)))

    def __repr__(self) -> str:
        kind = "optimized" if self.report.blocks else "not optimized"
        signature = f"{self.__name__}{self.__signature__}"
        return f"<{kind} function {signature}>\n{self.report.table()}"


def optimize(
    model_or_function: Any,
    batch_size: int | Sequence[int] = 1,
    *,
    image_size: int | Sequence[int] = USUAL_IMAGE_SIZE,
    device: str = "auto",
    strategy: str = "both",
    max_groups: int = 8,
    max_group_size: int = 3,
    time_limit: float = 300.0,
    units: Sequence[str] = (),
    borders: Sequence[str] = (),
    cache_dir: str | None = None,
    warmup: int = 2,
    number: int = 3,
    repeat: int = 3,
    keep_slower: bool = False,
    winograd: bool = True,
    fresh: bool = False,
    samples: Any = None,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> OptimizedFunction:
    """Makes an equal function that runs faster in this process.

    Variables become constants, with the values they have now: whatever changes them
    later, such as training, does not change the result. Schedules are searched, kept
    and found as by `convert`; no model is written.

    Args:
      model_or_function: a `keras.Model`, which is run with `training=False`; a
        `tf.function` with an `input_signature`; a `ConcreteFunction`; or a signature of
        a loaded SavedModel.
      batch_size: the batch size to schedule for, where the function's is dynamic, or
        several: a batch then runs by the schedule of the nearest one, by ratio, the
        smaller of two.
      image_size: the height and width to schedule for, where the function leaves them
        open, or one number for both.
      device, strategy, max_groups, max_group_size, time_limit, units, borders,
        cache_dir, warmup, number, repeat, keep_slower, winograd, fresh, samples,
        progress,
        say: as of `convert`.

    Returns:
      A function of the same signature: arguments, which may be numpy arrays, results
      and their structures are the original's. It has a `report`. Where there is nothing
      to schedule, or the function changes variables, it runs the original, and the
      report says so.

    Raises:
      UserError: one line that says what is wrong with the input.
      NativeLibraryError: the native library is missing.
    """
    options = ConvertOptions.of(locals())
    if isinstance(model_or_function, OptimizedFunction):
        raise UserError("it is optimized already; pass the original")
    original = Original.of(model_or_function)
    remove_abandoned_steps()
    with options.searcher(say, progress) as searcher:
        report = options.report(searcher, None)
        with RECORDER.watched() as load:
            try:
                compute, report = _faster(original, searcher, report, options)
            except frozen_graphs.NotConvertedError as reason:
                compute, report = None, report.with_notes(str(reason))
        report = notes.load(report, load[0], "ios_tf.optimize")
    if not compute:
        compute = original.compute
        report = report.with_notes("the original function is run")
    return OptimizedFunction(original, compute, report)


def _faster(
    original: Original,
    searcher: NetworkSearcher,
    report: Report,
    options: ConvertOptions,
) -> tuple[_Compute | None, Report]:
    """A faster equivalent; None if there is none, and the report says why.

    Raises NotConvertedError where the original has to stay as it is.
    """
    device = searcher.cost_model.device.kind
    equivalents = _Equivalents(original, options, device)
    try:
        return _searched(equivalents, searcher, report, options)
    finally:  # the comparisons called the function
        assigned_variables.restore(equivalents.function.frozen)


def _searched(
    equivalents: _Equivalents,
    searcher: NetworkSearcher,
    report: Report,
    options: ConvertOptions,
) -> tuple[_Compute | None, Report]:
    """The result of `_faster`."""
    device, keeps_all = searcher.cost_model.device.kind, options.keeps_all
    function = equivalents.function
    report = notes.the_rest(report, [function])
    if not function.problems:
        return None, report
    # A graph that cannot work fails before the search, not after it.
    equivalents.compared(function.rewrite_sequential(device), timed=False)
    schedules, stats = searcher.schedule_all(function.problems.values())
    report = notes.search(report, stats)

    def find(
        schedules: Mapping[str, Schedule],
    ) -> tuple[Plan, _Compute | None, Comparison | None]:
        plan = Plan.find(function, schedules, searcher, keeps_all)
        if not plan.gains:
            return plan, None, None
        return plan, *equivalents.compared(plan.rewrite(device), timed=True)

    try:
        plan, compute, comparison = find(schedules)
    except DifferenceError as error:
        if not any(schedule.algorithms for schedule in schedules.values()):
            raise
        report = notes.too_inexact(report, error)
        plan, compute, comparison = find(computed_directly(schedules))
    if not keeps_all:
        report = notes.undecided(report, plan, comparison)
    if not comparison or not (keeps_all or plan.is_faster(comparison)):
        return None, notes.slower(report, plan, comparison)
    report = notes.plan(report, plan, schedules)
    return compute, notes.comparisons(report, [comparison])


class _Equivalents:
    """Functions that compute what an original does, by other graphs.

    Attributes:
      function: the original.
    """

    def __init__(
        self, original: Original, options: ConvertOptions, device: str
    ) -> None:
        """Raises NotConvertedError where it has to stay as it is."""
        if not original.function.outputs:
            raise frozen_graphs.NoFunctionError(f"{original.name} has no outputs")
        self._original = original
        self._batch_sizes = options.batch_sizes
        self._frozen = frozen_graphs.freeze_flat(
            original.name, original.function, keep_filters=True
        )
        # Later changes of the original, such as training, must not change others.
        self._weights = Weights()
        found = Function.find(
            original.name,
            self._named(original.compute),
            self._weights.copied(self._frozen),
            self._batch_sizes,
            options.height_and_width,
            device,
            self._weights,
        )
        if options.samples is not None:
            found.reference.use_samples(options.samples)
        (self.function,) = with_their_batch_sizes({0: found}).values()

    def compared(self, graph_def: Any, timed: bool) -> tuple[_Compute, Comparison]:
        """The function of a graph, and how it compares with the original.

        Raises:
          UserError: TensorFlow cannot make it, or it computes something else.
        """
        compute = self._rebuilt(graph_def)
        comparison = self.function.compare(
            self._named(compute), graph_def, self._batch_sizes, timed=timed
        )
        return compute, comparison

    def _named(
        self, compute: Callable[..., Any]
    ) -> Callable[..., dict[str, tf.Tensor]]:
        """A function of flat tensors as one of the names of inputs and outputs."""
        frozen = self._frozen
        return lambda **inputs: dict(
            zip(
                frozen.outputs,
                compute([inputs[key] for key in frozen.inputs]),
                strict=True,
            )
        )

    def _rebuilt(self, graph_def: Any) -> _Compute:
        frozen = self.function.frozen
        try:
            rebuilt = frozen_graphs.rebuild(
                frozen, *self._weights.take(frozen, graph_def)
            )
        # TensorFlow raises all kinds of errors for what it cannot import again.
        except Exception as error:
            with of_signature(self._original.name):
                graph_optimizer.check_folding(self._frozen)  # else the mistake is ours
            raise UserError(
                f"TensorFlow cannot make the function {self._original.name!r} again: "
                f"{first_line(error)}"
            ) from error

        def compute(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            results = rebuilt._call_flat(tensors, rebuilt.captured_inputs)
            return [results[key] for key in self._frozen.outputs]

        # Variables live as long as they do; so do tables and others.
        owner = self._original.owner if self._frozen.captures else None
        compute.owners = self._weights, owner  # type: ignore[attr-defined]
        return compute
