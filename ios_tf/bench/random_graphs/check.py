"""Checks that what a function is converted into computes what the function computes.

A function is run as it is, by TensorFlow's kernels and no optimizer. The same feeds are
then given to what `convert` writes, without the plugin ("plain") and with it
("plugin"), and to its frozen graph as `enable` schedules it ("optimize"). The
schedules are random; nothing is measured. Settings.road takes the whole road: saved,
converted and loaded.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2

import ios_tf
from ios_tf.bench.random_graphs.program import Program, Settings
from ios_tf.model import frozen_graphs, graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.graph_optimizer import Collected
from ios_tf.scheduler import Problem, Schedule, Stage, validate
from ios_tf.scheduler.problem import mask_of, operators_of
from ios_tf.tuning import on_the_fly

BATCH_SIZES = (0, 1, 2, 3, 5)
# Of functions of several arguments of unknown batch.
_MIXED_BATCHES = ((3, 1), (1, 3), (2, 3))
# The largest difference over the largest value, of float32 and of half precision.
_TOLERANCE, _HALF_TOLERANCE = 1e-4, 1e-2
_ON = rewriter_config_pb2.RewriterConfig.ON
_OFF = rewriter_config_pb2.RewriterConfig.OFF

Feed = Mapping[str, np.ndarray]  # by the argument's name
Outcome = Sequence[np.ndarray] | Exception


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference between a converted function and the original.

    Attributes:
      mode: "convert", "plain", "plugin", "optimize", "road plain" or "road plugin".
      kind: "raises", "does not raise", "shape", "dtype" or "values".
      shapes: of the arguments; empty for "convert".
      expected, got: in words.
    """

    mode: str
    kind: str
    shapes: Mapping[str, Sequence[int]]
    expected: str
    got: str

    def __str__(self) -> str:
        shapes = ", ".join(f"{n} {list(s)}" for n, s in self.shapes.items())
        where = f"{self.mode}, {shapes}" if shapes else self.mode
        return f"{where}: {self.kind}\n  expected: {self.expected}\n  got: {self.got}"


@dataclasses.dataclass
class Result:
    """The result of a check.

    Attributes:
      differences: none: the graph is right.
      comparisons: how many pairs of outcomes were compared.
      skipped: differences that TensorFlow's own optimizers, or rounding, explain.
      regions: of the converted graph.
      operators: types of the engine's operators -> count.
      operations: types of the graph's nodes -> count.
      road: whether the whole road was taken.
    """

    differences: list[Difference] = dataclasses.field(default_factory=list)
    comparisons: int = 0
    skipped: int = 0
    regions: int = 0
    operators: Counter[str] = dataclasses.field(default_factory=Counter)
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    road: bool = False

    def add(self, other: Result) -> None:
        """Adds up the counts; `regions` and `road` stay this one's."""
        self.comparisons += other.comparisons
        self.skipped += other.skipped
        self.operators.update(other.operators)
        self.operations.update(other.operations)

    def __str__(self) -> str:
        lines = [f"{len(self.differences)} differences"] if self.differences else []
        seen = set()
        for difference in self.differences:
            key = difference.mode, difference.kind
            if key not in seen:
                lines.append(str(difference))
            seen.add(key)
        return "\n".join(
            lines or [f"equal: {self.comparisons} comparisons, {self.regions} regions"]
        )


def check_program(
    program: Program, say: Callable[[str], None] = lambda phase: None
) -> Result:
    """Checks a program; see `check`."""
    return check(program.function(), program.settings, say)


def run_stock(
    program: Program, say: Callable[[str], None] = lambda phase: None
) -> Result:
    """Runs a program with TensorFlow's optimizers, which may end the process."""
    say("freeze")
    concrete = program.function().get_concrete_function()
    frozen = frozen_graphs.freeze("random", concrete)
    say("stock")
    for session in _stock_sessions(frozen):
        for feed in feeds_of(frozen, program.settings):
            session.run(feed)
        session.close()
    return Result()


def reproduce(function: Any, **settings: Any) -> None:
    """Prints what is wrong with a function; what a reported program calls."""
    result = check(function, Settings(**settings))
    print(result)
    sys.exit(bool(result.differences))


def check(
    function: Any,
    settings: Settings,
    say: Callable[[str], None] = lambda phase: None,
) -> Result:
    """Compares a tf.function of a fixed signature with what it is converted into.

    Args:
      function: returns a dict.
      settings: what to compare it on.
      say: gets the name of what is done next.
    """
    result = Result()
    say("trace")
    concrete = function.get_concrete_function()
    say("freeze")
    try:
        frozen = frozen_graphs.freeze("random", concrete)
    except Exception as error:
        result.differences.append(_conversion_fails(error, "convert"))
        return result
    result.operations.update(node.op for node in frozen.graph_def.node)
    feeds = list(feeds_of(frozen, settings))
    say("original")
    original = _Session(frozen, frozen.graph_def, _config(None))
    expected = [original.run(feed) for feed in feeds]
    settings = _possible(frozen, settings, feeds, expected)
    if not settings.batch_sizes:
        result.skipped += 1
        original.close()
        return result
    check_one = _Comparison(frozen, original, settings, result)
    with tempfile.TemporaryDirectory(prefix="ios_tf_random_") as directory:
        say("convert")
        try:
            rewritten = _convert(frozen, settings, directory, result)
        except Exception as error:
            check_one.conversion_fails(error, "convert")
            rewritten = None
        optimize = on_the_fly.session_config(
            cache_dir=os.path.join(directory, "cache"),
            on_miss="greedy",
            batch_size=settings.batch_sizes[0],
        )
        modes = [("optimize", frozen.graph_def, _config(_ON, optimize))]
        if rewritten is not None:
            modes = [
                ("plain", rewritten, _config(_OFF)),
                ("plugin", rewritten, _config(_ON)),
                *modes,
            ]
        for mode, graph_def, config in modes:
            say(mode)
            session = _Session(frozen, graph_def, config)
            for feed, outcome in zip(feeds, expected, strict=True):
                check_one(mode, feed, outcome, session.run)
            session.close()
        if settings.road:
            result.road = True
            road = _Road(concrete, function, settings, directory)
            road.check(list(zip(feeds, expected, strict=True)), check_one, say)
    original.close()
    return result


def feeds_of(frozen: FrozenSignature, settings: Settings) -> Iterator[Feed]:
    """Arguments of all the sizes that the signature admits."""
    dynamic = [name for name, spec in frozen.inputs.items() if _is_dynamic(spec)]
    batches = [dict.fromkeys(dynamic, size) for size in BATCH_SIZES]
    if len(dynamic) > 1:
        for first, second in _MIXED_BATCHES:
            batches.append({n: second if n == dynamic[0] else first for n in dynamic})
    seen = set()
    for image_size in settings.image_sizes:
        for batch in batches:
            shapes = tuple(
                _shape_of(spec.shape.as_list(), batch.get(name), image_size)
                for name, spec in frozen.inputs.items()
            )
            if shapes not in seen:
                yield _feed(frozen, shapes, settings.seed)
            seen.add(shapes)


def _possible(
    frozen: FrozenSignature,
    settings: Settings,
    feeds: Sequence[Feed],
    outcomes: Sequence[Outcome],
) -> Settings:
    """The settings without the batch sizes that the original refuses."""
    dynamic = [name for name, spec in frozen.inputs.items() if _is_dynamic(spec)]
    run = [f for f, o in zip(feeds, outcomes, strict=True) if _ran(o)]
    if not dynamic:
        return settings if run else dataclasses.replace(settings, batch_sizes=())
    sizes = {feed[name].shape[0] for feed in run for name in dynamic}
    possible = tuple(size for size in settings.batch_sizes if size in sizes)
    # Others would do: whoever converts for one chooses one that runs.
    possible = possible or tuple(sorted(sizes - {0}))[:1]
    return dataclasses.replace(settings, batch_sizes=possible)


def _is_dynamic(spec: tf.TensorSpec) -> bool:
    """Whether any batch may be given."""
    return bool(spec.shape.rank) and spec.shape[0] is None


def _ran(outcome: Outcome) -> bool:
    return not isinstance(outcome, Exception)


def _shape_of(
    shape: Sequence[int | None], batch: int | None, image_size: Sequence[int]
) -> tuple[int, ...]:
    rest = iter([*image_size, *image_size])
    return tuple(
        size if size is not None else batch if axis == 0 else next(rest)
        for axis, size in enumerate(shape)
    )


def _feed(frozen: FrozenSignature, shapes: Sequence[Sequence[int]], seed: int) -> Feed:
    random = np.random.default_rng(seed)
    feed = {}
    for (name, spec), shape in zip(frozen.inputs.items(), shapes, strict=True):
        feed[name] = random.uniform(-1, 1, shape).astype(spec.dtype.as_numpy_dtype)
        if seed % 3 == 0 and len(shape) == 4:
            feed[name][:, : shape[1] // 2] = 0  # as black parts of images
    return feed


def _config(
    plugins: int | None, config: config_pb2.ConfigProto | None = None
) -> config_pb2.ConfigProto:
    """A session's configuration; without any optimizer if `plugins` is None."""
    config = config or config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    if plugins is None:
        rewrite.disable_meta_optimizer = True
    else:
        rewrite.use_plugin_optimizers = plugins
    rewrite.min_graph_nodes = -1  # small graphs are optimised, too
    return config


class _Session:
    """A graph that is run with a configuration."""

    def __init__(
        self,
        frozen: FrozenSignature,
        graph_def: Any,
        config: config_pb2.ConfigProto,
    ):
        self._inputs = {name: spec.name for name, spec in frozen.inputs.items()}
        self._outputs = [tensor for tensor, _ in frozen.outputs.values()]
        self._refused: Exception | None = None
        with tf.Graph().as_default() as graph:
            try:
                tf.import_graph_def(graph_def, name="")
            except ValueError as error:  # constant folding makes such graphs, too
                self._refused = error
        self._session = tf.compat.v1.Session(graph=graph, config=config)

    def run(self, feed: Feed, tensors: Sequence[str] = ()) -> Outcome:
        """Gives the outputs, or the named tensors."""
        if self._refused is not None:
            return self._refused
        try:
            return self._session.run(
                list(tensors) or self._outputs,
                {self._inputs[name]: array for name, array in feed.items()},
            )
        except tf.errors.OpError as error:
            return error

    def close(self) -> None:
        self._session.close()


def _stock_sessions(frozen: FrozenSignature) -> Iterator[_Session]:
    """The original with TensorFlow's optimizers.

    With all of them, and without the one whose fused convolutions lack groups.
    """
    unfused = _config(_OFF)
    unfused.graph_options.rewrite_options.remapping = _OFF
    for config in (_config(_OFF), unfused):
        yield _Session(frozen, frozen.graph_def, config)


class _Comparison:
    """Compares outcomes, and adds what differs to a result."""

    def __init__(
        self,
        frozen: FrozenSignature,
        original: _Session,
        settings: Settings,
        result: Result,
    ):
        self._frozen = frozen
        self._original = original
        self._settings = settings
        self._result = result
        self._stock: list[_Session] = []
        types = {
            node.attr[key].type
            for node in frozen.graph_def.node
            for key in ("DstT", "T")
            if key in node.attr
        }
        halves = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}
        self._tolerance = _HALF_TOLERANCE if types & halves else _TOLERANCE

    def __call__(
        self,
        mode: str,
        feed: Feed,
        expected: Outcome,
        run: Callable[[Feed], Outcome],
    ) -> None:
        self._result.comparisons += 1
        found = different(expected, run(feed), self._tolerance)
        if found is None:
            return
        if self._explained(feed, expected, run, found[0]):
            self._result.skipped += 1
            return
        shapes = {name: array.shape for name, array in feed.items()}
        self._result.differences.append(Difference(mode, found[0], shapes, *found[1:]))

    def conversion_fails(self, error: Exception, mode: str) -> None:
        """Adds what a conversion raised."""
        self._result.differences.append(_conversion_fails(error, mode))

    def _explained(
        self,
        feed: Feed,
        expected: Outcome,
        run: Callable[[Feed], Outcome],
        kind: str,
    ) -> bool:
        """Whether it is TensorFlow's own, or due to rounding."""
        if not self._stock:
            self._stock = list(_stock_sessions(self._frozen))
        if any(different(expected, s.run(feed), self._tolerance) for s in self._stock):
            return True
        if not convolves_nothing() and self._contradicts_itself(feed):
            return True
        if kind != "values":
            return False
        # Where a tiny change of the data changes the result, nothing can be said;
        # and a difference that other data does not show may be such a place.
        random = np.random.default_rng(self._settings.seed + 1)
        near = {
            name: array
            + (np.abs(array) * random.uniform(-2e-6, 2e-6, array.shape)).astype(
                array.dtype
            )
            for name, array in feed.items()
        }
        if different(expected, self._original.run(near), self._tolerance / 4):
            return True
        shapes = [array.shape for array in feed.values()]
        other = _feed(self._frozen, shapes, self._settings.seed + 1)
        return not different(self._original.run(other), run(other), self._tolerance)

    def _contradicts_itself(self, feed: Feed) -> bool:
        """Whether a convolution's output has another shape than TensorFlow says."""
        with tf.Graph().as_default() as graph:
            known = {
                self._frozen.inputs[name].name: tf.compat.v1.placeholder(
                    array.dtype, array.shape
                )
                for name, array in feed.items()
            }
            try:
                tf.import_graph_def(self._frozen.graph_def, input_map=known, name="")
            except ValueError:  # shapes that do not fit: it is right to raise
                return False
        for node in graph.get_operations():
            if "Conv2d" in node.type or "Conv2D" in node.type:
                outcome = self._original.run(feed, [node.outputs[0].name])
                if _ran(outcome) and not node.outputs[0].shape.is_compatible_with(
                    outcome[0].shape
                ):
                    return True
        return False


@functools.cache
def convolves_nothing() -> bool:
    """Whether TensorFlow gives no images the shape of its convolution's output.

    Where its oneDNN is on, 2.21 gives them the shape of the input.
    """
    filters = np.ones((1, 1, 1, 2), np.float32)
    return (
        tf.nn.conv2d(np.ones((0, 1, 1, 1), np.float32), filters, 1, "SAME").shape[3]
        == 2
    )


def different(
    expected: Outcome, got: Outcome, tolerance: float
) -> tuple[str, str, str] | None:
    """How outcomes differ: kind, expected, got."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        if isinstance(expected, Exception) and isinstance(got, Exception):
            return None
        if isinstance(got, Exception):
            return "raises", _words(expected), _words(got)
        return "does not raise", _words(expected), _words(got)
    for a, b in zip(expected, got, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype:
            return "dtype", str(a.dtype), str(b.dtype)
        if a.shape != b.shape:
            return "shape", str(list(a.shape)), str(list(b.shape))
        if not _close(a, b, tolerance):
            return "values", _values(a, a, b), _values(b, a, b)
    return None


def _close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    if not np.issubdtype(a.dtype, np.floating) or not a.size:
        return bool(np.array_equal(a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    if not finite.any():
        return True
    a, b = a[finite], b[finite]
    limit = tolerance * np.abs(a).max() + tolerance / 100
    return bool(np.abs(a - b).max() <= limit)  # False for a NaN


def _words(outcome: Outcome) -> str:
    if isinstance(outcome, Exception):
        lines = [line.strip() for line in str(outcome).splitlines() if line.strip()]
        # Before the node's name; what precedes and follows are tracebacks.
        at = [k for k, line in enumerate(lines) if line.startswith("[[{{node")]
        kept = " ".join(lines[at[0] - 1 : at[0] + 1]) if at else lines[0]
        return f"{type(outcome).__name__}: {kept[:300]}"
    return "outputs of " + ", ".join(str(list(np.shape(o))) for o in outcome)


def _values(shown: np.ndarray, a: np.ndarray, b: np.ndarray) -> str:
    """Some of the values, the first that differs among them."""
    with np.errstate(invalid="ignore"):
        worst = np.flatnonzero(~np.isclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True))
    start = int(worst[0]) if len(worst) else 0
    index = [int(i) for i in np.unravel_index(start, a.shape)] if a.shape else []
    values = ", ".join(f"{v:.6g}" for v in shown.reshape(-1)[start : start + 4])
    return f"{list(a.shape)} of which from {index}: {values}"


def _conversion_fails(error: Exception, mode: str) -> Difference:
    return Difference(mode, "raises", {}, "no error", _words(error))


def _convert(
    frozen: FrozenSignature, settings: Settings, directory: str, result: Result
) -> Any:
    """Converts a signature as `ios_tf.convert` does, with random schedules."""
    folded = graph_optimizer.fold_constants(frozen)
    sizes = list(settings.batch_sizes)
    collected = {size: graph_optimizer.collect(folded, size) for size in sizes}
    if not any(map(_is_dynamic, frozen.inputs.values())):
        sizes = sizes[:1]
    first = collected[sizes[0]]
    for size in sizes[1:]:
        if _network(collected[size]) != _network(first):
            raise ValueError(f"batch size {size} makes another network than {sizes[0]}")
    result.regions = len({block["region"] for block in first.blocks})
    for block in first.blocks:
        result.operators.update(first.problems[block["signature"]].types)
    random = np.random.default_rng(settings.seed)
    for size in sizes:
        for signature, problem in collected[size].problems.items():
            schedule = random_schedule(problem, random)
            validate(schedule, problem)
            with open(os.path.join(directory, f"{signature}.json"), "w") as file:
                file.write(schedule.to_json())
    return graph_optimizer.rewrite(folded, sizes, directory)


def _network(collected: Collected) -> list[Any]:
    """The blocks without their batch sizes."""
    return [
        (
            block["names"],
            collected.problems[block["signature"]].block["operators"],
            collected.problems[block["signature"]].block["outputs"],
        )
        for block in collected.blocks
    ]


def random_schedule(problem: Problem, random: np.random.Generator) -> Schedule:
    """Any schedule that is valid: concurrent, merged and split stages."""
    done, stages = 0, []
    eager = random.uniform(0.3, 1.0)
    while done != problem.all_operators:
        ready = inside = 0
        for op in operators_of(problem.all_operators & ~done):
            before = problem.predecessors[op]
            if not before & ~done:
                ready |= 1 << op
            if not before & ~(done | inside) and random.random() < eager:
                inside |= 1 << op
        mergeable = [
            merge_class & ready
            for merge_class in problem.merge_classes
            if (merge_class & ready).bit_count() > 1
        ]
        if mergeable and random.random() < 0.7:
            members = list(operators_of(mergeable[random.integers(len(mergeable))]))
            stage = Stage.merge(mask_of(members))
        else:
            inside = inside or ready & -ready
            if random.random() < 0.2:
                stage = Stage.split(inside, int(random.integers(2, 5)))
            else:
                stage = Stage.concurrent(problem, inside)
        stages.append(stage)
        done |= stage.operators
    return Schedule(tuple(stages), problem.signature)


@dataclasses.dataclass(frozen=True)
class _Road:
    """The whole road of one function."""

    concrete: Any
    function: Any
    settings: Settings
    directory: str

    def check(
        self,
        outcomes: Sequence[tuple[Feed, Outcome]],
        check_one: _Comparison,
        say: Callable[[str], None],
    ) -> None:
        """Saves, converts, loads and runs."""
        say("road save")
        module = tf.Module()
        module.weights = list(self.concrete.graph.variables)
        module.function = self.function
        saved = os.path.join(self.directory, "saved")
        tf.saved_model.save(module, saved, signatures=self.concrete)
        say("road convert")
        try:
            converted = self._convert(saved)
        except Exception as error:
            check_one.conversion_fails(error, "road convert")
            return
        for mode, plugin in (("road plugin", True), ("road plain", False)):
            say(mode)
            _use_plugin(plugin)
            try:
                # A function keeps the graph that it was first optimised into.
                signature = tf.saved_model.load(converted).signatures["serving_default"]
                for feed, outcome in outcomes:
                    check_one(mode, feed, outcome, functools.partial(_call, signature))
            finally:
                _use_plugin(True)

    def _convert(self, saved: str) -> str:
        converted = os.path.join(self.directory, "converted")
        fixed = all(
            tensor.shape.rank == 0 or tensor.shape[0] is not None
            for tensor in self.concrete.inputs
            if tensor.dtype != tf.resource
        )
        sizes = self.settings.batch_sizes
        ios_tf.convert(
            saved,
            converted,
            batch_size=sizes[:1] if fixed else sizes,
            device="cpu",
            strategy=("sequential", "greedy", "both")[self.settings.seed % 3],
            cache_dir=os.path.join(self.directory, "cache"),
            warmup=0,
            number=1,
            repeat=1,
            time_limit=2,
            keep_slower=True,
        )
        return converted


def _use_plugin(use: bool) -> None:
    tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": use})


def _call(signature: Any, feed: Feed) -> Outcome:
    try:
        outputs = signature(**{n: tf.constant(array) for n, array in feed.items()})
    except tf.errors.OpError as error:
        return error
    return [outputs[name].numpy() for name in sorted(outputs)]
