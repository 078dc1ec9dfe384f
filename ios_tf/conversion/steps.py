"""The steps of a conversion that `convert` and `optimize` share."""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping
from typing import Any

from ios_tf.conversion import notes, phases
from ios_tf.conversion.comparison import Comparison, DifferenceError
from ios_tf.conversion.error_budget import (
    Choice,
    in_float32,
    is_float32,
    requested_precision,
    within_budget,
)
from ios_tf.conversion.measuring import loads_of
from ios_tf.conversion.networks import with_networks
from ios_tf.conversion.planning import Function, Plan, computed_directly
from ios_tf.conversion.report import Report
from ios_tf.model.weights import Weights
from ios_tf.native.graph import FLOAT32
from ios_tf.options import ModelOptions
from ios_tf.scheduler import BASELINES, Schedule
from ios_tf.tuning.searcher import NetworkSearcher


class Conversion(abc.ABC):
    """The conversion of one or several functions, from their blocks to the report.

    Subclasses set `_functions`, which maps numbers to the functions.
    """

    def __init__(self, searcher: NetworkSearcher, options: ModelOptions) -> None:
        self._searcher = searcher
        self._progress = searcher.progress
        self._device = searcher.cost_model.device.kind
        self._keeps_all = options.keep_slower or options.strategy in BASELINES
        self._batch_sizes = loads_of(options)
        self._precision = requested_precision(options, searcher.cost_model.device)
        self._weights = Weights()
        self._functions: dict[int, Function] = {}

    @abc.abstractmethod
    def _compare(
        self, graph_defs: Mapping[int, Any], timed: Collection[int] = ()
    ) -> dict[int, Comparison]:
        """Makes functions from these graphs, and compares them with the originals.

        `timed`: the numbers of the functions to compare and time. If it is empty, all
        functions are compared and none is timed.
        """

    def _discard(self) -> None:  # noqa: B027
        """Removes the result of `_compare` with `timed` functions."""

    def _with_blocks(self) -> list[Function]:
        return [f for f in self._functions.values() if f.collected]

    def _converted(self, report: Report) -> Report:
        """Converts the functions; returns the completed report.

        If no function becomes faster, the report has no comparisons.

        Raises:
          NotConvertedError: the functions cannot be converted.
        """
        if not any(function.problems for function in self._with_blocks()):
            return report
        with self._progress.phase(phases.TRY):
            # If the functions cannot be converted, this fails before the search instead
            # of after it.
            self._compare(
                {
                    number: function.rewrite_sequential()
                    for number, function in self._functions.items()
                }
            )
            exact = dict(self._functions)
            choices = self._choose_precision()
        try:
            narrow = notes.precisions(report, choices, self._with_blocks())
            return self._searched(narrow)
        except DifferenceError as error:
            if self._functions == exact:
                raise
            self._discard()
            self._functions = exact
            choices = [in_float32(choice, error) for choice in choices]
            return self._searched(notes.precisions(report, choices, ()))

    def _choose_precision(self) -> list[Choice]:
        """Lets operators compute in the requested precision if it is exact enough."""
        if self._precision == FLOAT32:
            return []
        choices = []
        for number, function in self._functions.items():
            if not is_float32(function):
                continue
            self._functions[number], choice = within_budget(
                function,
                self._precision,
                self._batch_sizes,
                self._searcher,
                self._keeps_all,
            )
            choices.append(choice)
        return choices

    def _searched(self, report: Report) -> Report:
        """Searches for schedules, and converts the functions with them."""
        functions = self._with_blocks()
        problems = {s: p for f in functions for s, p in f.problems.items()}
        with self._progress.phase(phases.SEARCH, measures=True):
            schedules, stats = self._searcher.schedule_all(problems.values())
        report = notes.search(report, stats)
        try:
            return self._finished(schedules, report)
        except DifferenceError as error:
            if not any(schedule.algorithms for schedule in schedules.values()):
                raise
            self._discard()
            report = notes.rejected_algorithms(report, error)
            return self._finished(computed_directly(schedules), report)

    def _finished(self, schedules: Mapping[str, Schedule], report: Report) -> Report:
        """Gives these schedules to the functions that become faster.

        Other functions keep their original graphs.
        """
        with self._progress.phase(phases.CHECK, measures=True):
            plans = {
                number: Plan.find(function, schedules, self._searcher, self._keeps_all)
                for number, function in self._functions.items()
                if function.problems
            }
        with self._progress.phase(phases.COMPARE, measures=True):
            kept, lost = self._keep_faster(plans)
        with self._progress.phase(phases.MEASURE, measures=True):
            report = with_networks(report, list(plans.values()), self._searcher)
        for number, comparison in (kept | lost).items():
            if not self._keeps_all:
                report = notes.undecided(report, plans[number], comparison)
        for number, comparison in lost.items():
            report = notes.slower(report, plans[number], comparison)
        for number in kept:
            report = notes.plan(report, plans[number], schedules)
        return notes.comparisons(report, list(kept.values()))

    def _keep_faster(
        self, plans: Mapping[int, Plan]
    ) -> tuple[dict[int, Comparison], dict[int, Comparison | None]]:
        """Applies those plans that make their functions faster.

        Returns:
          The comparisons of the kept plans, and those of the rejected plans, by
          function. The comparison is None for a plan that leaves all regions to
          TensorFlow.
        """
        kept = {n: plan for n, plan in plans.items() if plan.gains}
        merged = set(kept)
        lost: dict[int, Comparison | None] = dict.fromkeys(plans.keys() - kept.keys())
        graph_defs = {n: f.frozen.graph_def for n, f in self._functions.items()}
        graph_defs |= {n: plan.rewrite() for n, plan in kept.items()}
        # The functions are compared again after each change. The loop ends, because a
        # function changes at most twice: first it loses its merged convolutions, and
        # then all of its regions.
        while kept:
            comparisons = self._compare(graph_defs, timed=kept)
            changed = False
            for number, comparison in comparisons.items():
                plan = plans[number]
                ratios = [ratio.estimate for ratio in comparison.ratios().values()]
                if ratios:
                    self._progress.best(max(ratios), "TensorFlow")
                if self._keeps_all:
                    continue
                if not plan.is_faster(comparison):
                    changed = True
                    lost[number] = comparison
                    del kept[number]
                    graph_defs[number] = plan.function.frozen.graph_def
                elif number in merged and comparison.slower_in_tensorflow():
                    # A merged convolution may be faster on the engine but slower in
                    # TensorFlow. The engine then merges instead, and the graph keeps
                    # the separate convolutions.
                    merged.remove(number)
                    before = graph_defs[number]
                    graph_defs[number] = plan.rewrite(materialise_merges=False)
                    changed |= graph_defs[number] != before
            if not changed:
                return comparisons, lost
            self._discard()
        return {}, lost
