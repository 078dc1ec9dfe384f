"""Checks that a float32 function converted to bfloat16 is as exact as bfloat16 allows.

The truth is the original graph, computed in float64. The allowed error comes from
emulations of bfloat16 (emulation.py), which do not use the engine. An emulation
computes the graph in float64, but replaces every input, weight and result of the nodes
that the engine computes in bfloat16 by the bfloat16 number above or below it, at
random. Nodes that TensorFlow computes are rounded to float32. Several emulations show
how far bfloat16 can move an output. The engine rounds to the nearest number, which
halves the error of a rounding, and it does not round after every node. Two checks use
this:

* No element may differ from the truth by more than the largest difference of an
  emulation in the element's channel, plus one rounding of the result to bfloat16.
* The root mean square of the differences of a tensor may not exceed 0.75 times that
  of an emulation, plus that of one rounding. This check finds small errors of all
  elements.

At first there are two emulations. If the engine differs by more than these allow, there
are 34, because two can be equal to the truth by chance. A comparison is inconclusive if
the engine is within these limits for two other inputs of the same kind. It is loose if
an emulation differs from the truth by more than a quarter of the largest value, for
example if the graph divides by a difference of nearly equal numbers.

One of the inputs has NaN and infinite numbers. NaN and infinite numbers of the output
must be at the same positions as in the truth. Other positions are allowed if an
emulation has them, because numbers near 3.4e38 may round to infinity. So are positions
of the same region in float32, because they do not depend on bfloat16: a merged
convolution, for example, pads small windows by zeros, and zero times infinity is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ios_tf.model import frozen_graphs, graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.native import engine, plugin
from ios_tf.native.graph import Precision
from ios_tf.scheduler import sequential_schedule
from ios_tf.tuning import on_the_fly
from random_graphs.conversion import convert
from random_graphs.differences import Difference, Result, conversion_fails
from random_graphs.emulation import Emulation, random_neighbour
from random_graphs.program import Settings
from random_graphs.sessions import (
    KINDS_OF_FEEDS,
    ON,
    Feed,
    Outcome,
    Session,
    config_of,
    feed_of,
    feeds_of,
    ran,
)

_EMULATIONS, _MORE_EMULATIONS = 2, 32
_MOST_FEEDS = 3
_MOST_ELEMENTS = 20_000  # of an input; the campaign in float32 covers large images
# Factors of the largest difference, and of the root mean square.
_LARGEST, _MEAN = 1.0, 0.75
_FLOAT32_ERROR = 1e-6  # of the nodes that TensorFlow computes
_LOOSE = 0.25
# bfloat16 numbers above this size are infinite, or round to infinity.
_INFINITE = 3.38e38
_BFLOAT16 = Precision("bfloat16")


def check_bfloat16(
    concrete: Any, settings: Settings, say: Callable[[str], None], directory: str
) -> Result:
    """Compares a function with its conversion to bfloat16.

    Args:
      concrete: a concrete function that returns a dict.
      settings: the inputs and batch sizes to compare on.
      say: gets the name of each phase when it starts.
      directory: an empty directory for a schedule cache.
    """
    result = Result()
    say("freeze")
    frozen = frozen_graphs.freeze("random", concrete)
    result.operations.update(node.op for node in frozen.graph_def.node)
    library, has = plugin.runtime(), engine.has_bfloat16("cpu")
    library.ios_tf_set_computes_bfloat16(1)  # is emulated on other processors
    try:
        _check(frozen, settings, result, say, directory)
    finally:
        library.ios_tf_set_computes_bfloat16(int(has))
    return result


def _check(
    frozen: FrozenSignature,
    settings: Settings,
    result: Result,
    say: Callable[[str], None],
    directory: str,
) -> None:
    say("original")
    original = Session(frozen, frozen.graph_def, config_of(None))
    feeds = [
        feed
        for feed in feeds_of(frozen, settings)
        if all(0 < array.size < _MOST_ELEMENTS for array in feed.values())
        and ran(original.run(feed))
    ]
    original.close()
    if not feeds:
        result.skipped += 1
        return
    random = np.random.default_rng(settings.seed)
    chosen = [feeds[i] for i in random.permutation(len(feeds))[:_MOST_FEEDS]]
    chosen.append(_with_special_values(chosen[0], random))
    say("convert")
    narrow = frozen.with_precision(_BFLOAT16)
    try:
        rewritten = convert(narrow, settings, result)
        marked = _marked(narrow, settings)
    except Exception as error:
        # The campaign in float32 checks which graphs are converted.
        if _converts(frozen, settings):
            result.differences.append(conversion_fails(error, "convert"))
        else:
            result.skipped += 1
        return
    references = _References(frozen, marked)
    if not references.rounded:
        result.regions = 0
        return
    compare = _Comparison(frozen, settings, references, result)
    config = on_the_fly.session_config(
        cache_dir=directory,
        on_miss="greedy",
        batch_size=settings.batch_sizes[0],
        precision="bfloat16",
    )
    for mode, graph_def, session_config in (
        ("plugin", rewritten, config_of(ON)),
        ("optimize", frozen.graph_def, config_of(ON, config)),
    ):
        say(mode)
        session = Session(frozen, graph_def, session_config)
        for feed in chosen:
            compare(mode, feed, session)
        session.close()


class _Comparison:
    """Compares outputs with references, and adds differences to a result."""

    def __init__(
        self,
        frozen: FrozenSignature,
        settings: Settings,
        references: _References,
        result: Result,
    ) -> None:
        self._frozen = frozen
        self._settings = settings
        self._references = references
        self._result = result

    def __call__(self, mode: str, feed: Feed, session: Session) -> None:
        self._result.comparisons += 1
        found = self._different(feed, session)
        self._result.loose += self._references.of(feed).is_loose
        if found is None:
            return
        if found[0] == "values" and not self._recurs(feed, session):
            self._result.skipped += 1
            return
        shapes = {name: array.shape for name, array in feed.items()}
        self._result.differences.append(Difference(mode, found[0], shapes, *found[1:]))

    def _different(self, feed: Feed, session: Session) -> tuple[str, str, str] | None:
        got = session.run(feed)
        if isinstance(got, Exception):
            return "raises", "no error", str(got)[:300]
        reference = self._references.of(feed)
        found = reference.different(got)
        if found and not reference.has_many_emulations:
            reference.add(self._references.emulate(feed, _MORE_EMULATIONS))
            found = reference.different(got)
        if found and found[0] == "special values":
            exact = run_in_float32(self._frozen, self._settings, feed)
            found = reference.different(got, exact)
        return found

    def _recurs(self, feed: Feed, session: Session) -> bool:
        """Whether one of two other inputs of the same kind also shows a difference."""
        shapes = [array.shape for array in feed.values()]
        seeds = (self._settings.seed + k * KINDS_OF_FEEDS for k in (1, 2))
        others = (feed_of(self._frozen, shapes, seed) for seed in seeds)
        return any(self._different(other, session) for other in others)


def run_in_float32(frozen: FrozenSignature, settings: Settings, feed: Feed) -> Outcome:
    """The outputs of the conversion in float32, with schedules of the same seed."""
    rewritten = convert(frozen, settings, Result())
    session = Session(frozen, rewritten, config_of(ON))
    outcome = session.run(feed)
    session.close()
    return outcome


def _with_special_values(feed: Feed, random: np.random.Generator) -> Feed:
    """A copy of the inputs, in which some numbers are NaN or infinite."""
    special = {}
    for name, array in feed.items():
        special[name] = array.copy()
        if array.dtype == np.float32:
            values = random.permutation([np.nan, np.inf, -np.inf])
            for value in values[: random.integers(1, 4)]:
                special[name].flat[random.integers(array.size)] = value
    return special


def _marked(frozen: FrozenSignature, settings: Settings) -> Any:
    """The graph whose nodes tell their precision. None of them is merged."""
    folded = graph_optimizer.fold_constants(frozen)
    size = settings.batch_sizes[0]
    problems = graph_optimizer.collect(folded, size).problems
    schedules = {s: sequential_schedule(problem) for s, problem in problems.items()}
    return graph_optimizer.rewrite(folded, schedules, [size])


def _converts(frozen: FrozenSignature, settings: Settings) -> bool:
    try:
        convert(frozen, settings, Result())
    except Exception:
        return False
    return True


class _References:
    """Computes the expected outputs of a graph, once for each set of inputs.

    Args:
      frozen: the original graph.
      marked: the graph in which nodes that compute in bfloat16 have an attribute.
    """

    def __init__(self, frozen: FrozenSignature, marked: Any) -> None:
        self.rounded = {n.name for n in marked.node if "_ios_precision" in n.attr}
        inputs = {name: spec.name for name, spec in frozen.inputs.items()}
        outputs = [tensor for tensor, _ in frozen.outputs.values()]
        self._original = Emulation(frozen.graph_def, inputs, outputs)
        self._marked = Emulation(marked, inputs, outputs, self.rounded)
        self._random = np.random.default_rng(0)
        self._known: dict[int, tuple[Feed, _Reference]] = {}

    def of(self, feed: Feed) -> _Reference:
        if id(feed) not in self._known:
            reference = _Reference(self._original.run(feed), self._marked.run(feed))
            reference.add(self.emulate(feed, _EMULATIONS))
            self._known[id(feed)] = feed, reference
        return self._known[id(feed)][1]

    def emulate(self, feed: Feed, count: int) -> Iterator[list[np.ndarray]]:
        rounding = functools.partial(random_neighbour, self._random)
        for _ in range(count):
            yield self._marked.run(feed, rounding)


class _Reference:
    """The true outputs for some inputs, and how far bfloat16 may move them.

    Args:
      truth: the outputs of the original graph in float64.
      unrounded: the outputs of the graph that is emulated.
    """

    def __init__(
        self, truth: Sequence[np.ndarray], unrounded: Sequence[np.ndarray]
    ) -> None:
        self._outputs = [_Output(a, b) for a, b in zip(truth, unrounded, strict=True)]
        self._emulations = 0

    def add(self, emulations: Iterator[Sequence[np.ndarray]]) -> None:
        """Adds outputs of emulations."""
        for emulation in emulations:
            self._emulations += 1
            for output, values in zip(self._outputs, emulation, strict=True):
                output.add(values)

    @property
    def has_many_emulations(self) -> bool:
        return self._emulations > _EMULATIONS

    @property
    def is_loose(self) -> bool:
        return any(output.is_loose for output in self._outputs)

    def different(
        self, got: Sequence[np.ndarray], exact: Outcome | None = None
    ) -> tuple[str, str, str] | None:
        """The first difference as (kind, expected, got).

        Args:
          got: the outputs to compare.
          exact: outputs of the engine in float32, whose special values are allowed.
        """
        for i, (output, array) in enumerate(zip(self._outputs, got, strict=True)):
            same = None if exact is None or isinstance(exact, Exception) else exact[i]
            found = output.different(np.asarray(array), same)
            if found:
                return found
        return None


class _Output:
    """A true output, and how far bfloat16 may move it."""

    def __init__(self, truth: np.ndarray, unrounded: np.ndarray) -> None:
        self._shape = truth.shape
        self._is_float = truth.dtype.kind == "f"
        if not self._is_float:
            return
        self._truth = _float64(truth)
        self._unrounded = _float64(unrounded)
        self._kinds = [_kinds(self._truth)]
        self._finite = np.isfinite(self._unrounded) & (self._kinds[0] == 0)
        self._farthest = np.zeros(self._truth.shape)
        self._mean_square = 0.0

    def add(self, values: np.ndarray) -> None:
        """Adds an emulation."""
        if not self._is_float:
            return
        values = _float64(values)
        self._kinds.append(_kinds(values))
        self._finite &= self._kinds[-1] == 0
        with np.errstate(invalid="ignore"):
            distance = np.abs(values - self._unrounded)
        distance[~self._finite] = 0
        self._farthest = np.maximum(self._farthest, distance)
        self._mean_square = max(self._mean_square, _mean_square(distance))

    @property
    def is_loose(self) -> bool:
        if not self._is_float or not self._finite.any():
            return False
        largest = np.abs(self._truth[self._finite]).max()
        return bool(self._farthest[self._finite].max() > _LOOSE * largest)

    def different(
        self, got: np.ndarray, exact: np.ndarray | None
    ) -> tuple[str, str, str] | None:
        if got.shape != self._shape:
            return "shape", str(list(self._shape)), str(list(got.shape))
        if not self._is_float or not got.size:
            return None
        got = _float64(got)
        kinds = _kinds(got)
        allowed = [*self._kinds, *([] if exact is None else [_kinds(_float64(exact))])]
        wrong = ~np.any([kinds == one for one in allowed], axis=0)
        if wrong.any():
            return "special values", *_words(wrong, self._truth, got)
        finite = self._finite & (kinds == 0)
        if not finite.any():
            return None
        truth = np.where(finite, self._truth, 0)
        error = np.abs(np.where(finite, got, 0) - truth)
        one_rounding = np.where(finite, np.ldexp(1.0, np.frexp(truth)[1] - 9), 0)
        slack = _FLOAT32_ERROR * np.abs(truth).max() + np.finfo(np.float32).tiny
        farthest = np.where(finite, self._farthest, 0)
        if farthest.ndim > 1:  # of each channel
            axes = tuple(range(farthest.ndim - 1))
            farthest = farthest.max(axis=axes, keepdims=True)
        else:
            farthest = farthest.max()
        wrong = error > _LARGEST * farthest + one_rounding + slack
        if wrong.any():
            return "values", *_words(wrong, self._truth, got)
        limit = _MEAN * self._mean_square**0.5 + _mean_square(one_rounding) ** 0.5
        if _mean_square(error) ** 0.5 > limit + slack:
            mean = _mean_square(error) ** 0.5
            return "values", f"a mean difference of {limit:.3g}", f"{mean:.3g}"
        return None


def _float64(values: np.ndarray) -> np.ndarray:
    return np.atleast_1d(values).astype(np.float64)


def _kinds(values: np.ndarray) -> np.ndarray:
    """0 for a finite number, 1 for infinity, -1 for minus infinity, 2 for NaN."""
    kinds = np.where(np.abs(values) >= _INFINITE, np.sign(values), 0)
    return np.where(np.isnan(values), 2, kinds)


def _mean_square(values: np.ndarray) -> float:
    return float(np.mean(np.square(values))) if values.size else 0.0


def _words(wrong: np.ndarray, truth: np.ndarray, got: np.ndarray) -> tuple[str, str]:
    """The first elements that differ."""
    positions = np.argwhere(wrong)[:4]
    first = positions[0].tolist()
    where = f"{int(wrong.sum())} of {wrong.size} elements, first {first}"
    return tuple(
        f"{where}: " + ", ".join(f"{values[tuple(i)]:.6g}" for i in positions)
        for values in (truth, got)
    )
