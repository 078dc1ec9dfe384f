"""Small regions compared with TensorFlow, and which of them `enable` leaves to it.

    python -m benchmarks small_regions [--every=N] [--json=FILE]

A region has one or two convolutions (1x1, 3x3 or depthwise) and in some cases a pool,
on images of several sizes. Each region runs in turn on the engine, sequentially, and in
TensorFlow, as `convert` times a region. `enable` cannot measure TensorFlow, so the
plugin itself is asked whether `enable` would leave the region to TensorFlow.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

import ios_tf
from benchmarks.standalone import exit_code
from ios_tf.conversion import region_check, timing
from ios_tf.files import utc_now, write_json
from ios_tf.model import frozen_graphs, graph_optimizer
from ios_tf.native.names import REGION
from ios_tf.scheduler import sequential_schedule
from ios_tf.tables import table

_KINDS = ("1x1", "3x3", "depthwise")
_SIZES = (1, 2, 4, 7, 14, 28, 56)
_CHANNELS = (8, 32, 128)
_BATCHES = (1, 8)


@dataclasses.dataclass(frozen=True)
class Case:
    """`count` convolutions of a kind, each with a ReLU, and optionally a pool."""

    kind: str
    count: int
    pool: bool
    size: int
    channels: int
    batch: int

    def __str__(self) -> str:
        image = f"{self.batch}x{self.size}x{self.size}x{self.channels}"
        return f"{self.count} {self.kind}{' and a pool' if self.pool else ''}, {image}"


@dataclasses.dataclass(frozen=True)
class Found:
    """The result of a case.

    Attributes:
      flops: floating-point operations of the case.
      tensorflow_ms, region_ms: median latencies of a call.
      left: whether `enable` leaves the case to TensorFlow.
    """

    case: Case
    flops: int
    tensorflow_ms: float
    region_ms: float
    left: bool

    @property
    def ratio(self) -> float:
        return self.region_ms / self.tensorflow_ms

    @property
    def slower(self) -> bool:
        """True if the region is slower than TensorFlow by more than the tolerance."""
        return bool(timing.slower({0: self.tensorflow_ms}, {0: self.region_ms}))


def cases(every: int = 1) -> list[Case]:
    """Returns every `every`-th case."""
    found = itertools.product(
        _KINDS, (1, 2), (False, True), _SIZES, _CHANNELS, _BATCHES
    )
    return [Case(*one) for one in found][::every]


def measure(case: Case, cache_dir: str) -> Found:
    """Measures a case; `cache_dir` is an empty schedule cache."""
    frozen = _frozen(case)
    collected = graph_optimizer.collect(frozen, case.batch)
    schedules = {s: sequential_schedule(p) for s, p in collected.problems.items()}
    rewrite = functools.partial(
        graph_optimizer.rewrite, frozen, schedules, [case.batch]
    )
    (region,) = region_check.measure_made_up(
        frozen, rewrite, collected, [case.batch], "cpu"
    )
    return Found(
        case,
        sum(sum(problem.flops) for problem in collected.problems.values()),
        region.tensorflow_ms[case.batch],
        region.region_ms[case.batch],
        _is_left(frozen, case, cache_dir),
    )


def _frozen(case: Case) -> frozen_graphs.FrozenSignature:
    random = np.random.default_rng(0)
    window = 1 if case.kind == "1x1" else 3
    multiplied = 1 if case.kind == "depthwise" else case.channels
    shape = (window, window, case.channels, multiplied)
    filters = [
        tf.constant(random.normal(0, 0.1, shape), tf.float32) for _ in range(case.count)
    ]
    image = (case.batch, case.size, case.size, case.channels)

    @tf.function(input_signature=[tf.TensorSpec(image, name="x")], autograph=False)
    def function(x: tf.Tensor) -> dict[str, tf.Tensor]:
        for one in filters:
            if case.kind == "depthwise":
                x = tf.nn.depthwise_conv2d(x, one, [1, 1, 1, 1], "SAME")
            else:
                x = tf.nn.conv2d(x, one, 1, "SAME")
            x = tf.nn.relu(x)
        return {"y": tf.nn.max_pool2d(x, 2, 2, "SAME") if case.pool else x}

    concrete = function.get_concrete_function()
    return graph_optimizer.fold_constants(
        frozen_graphs.freeze_flat("function", concrete)
    )


def _is_left(frozen: frozen_graphs.FrozenSignature, case: Case, cache_dir: str) -> bool:
    """Returns whether the plugin, enabled also on cache misses, makes no region."""
    config = ios_tf.session_config(cache_dir=cache_dir, on_miss="greedy")
    (spec,) = frozen.inputs.values()
    outputs = [name for name, _ in frozen.outputs.values()]
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    metadata = tf.compat.v1.RunMetadata()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen.graph_def, name="")
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            x = np.zeros((case.batch, case.size, case.size, case.channels), np.float32)
            session.run(outputs, {spec.name: x}, options=options, run_metadata=metadata)
    nodes = (node for part in metadata.partition_graphs for node in part.node)
    return not any(node.op == REGION for node in nodes)


def _rows(found: Sequence[Found]) -> Iterator[list[str]]:
    """Yields a table row for the cases left to TensorFlow and one for the others."""
    for name, group in (
        ("left to TensorFlow", [one for one in found if one.left]),
        ("on the engine", [one for one in found if not one.left]),
    ):
        ratios = [one.ratio for one in group]
        yield [
            name,
            str(len(group)),
            str(sum(one.slower for one in group)),
            f"{statistics.median(ratios):.2f}" if ratios else "",
            f"{max(ratios):.2f}" if ratios else "",
        ]


def report(found: Sequence[Found]) -> str:
    """Returns tables of the regions left to TensorFlow and of all slower regions."""
    columns = ["", "regions", "slower", "median ratio", "largest"]
    lines = [table(columns, _rows(found))]
    slower = sorted((one for one in found if one.slower), key=lambda one: -one.ratio)
    if slower:
        rows = [
            [
                str(one.case),
                f"{one.flops}",
                f"{one.tensorflow_ms:.3f}",
                f"{one.region_ms:.3f}",
                f"{one.ratio:.2f}",
                "left" if one.left else "",
            ]
            for one in slower
        ]
        lines += [
            "",
            table(["slower", "flops", "TensorFlow ms", "engine ms", "", ""], rows),
        ]
    return "\n".join(lines)


def _run(options: argparse.Namespace) -> int:
    chosen = cases(options.every)
    found = []
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as cache_dir:
        for number, case in enumerate(chosen, 1):
            print(f"{number} of {len(chosen)}: {case}", file=sys.stderr, flush=True)
            found.append(measure(case, cache_dir))
    print(report(found))
    if options.json:
        write_json(
            options.json,
            {
                "command": f"python -m benchmarks small_regions "
                f"--every={options.every}",
                "date": utc_now(),
                "regions": [dataclasses.asdict(one) for one in found],
            },
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks small_regions")
    parser.add_argument("--every", type=int, default=1, help="measure every Nth region")
    parser.add_argument("--json", metavar="FILE")
    return parser


def main() -> int:
    """Runs the command line; returns its exit code."""
    return exit_code(_run, _parser().parse_args())
