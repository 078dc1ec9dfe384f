"""How the dynamic program scales: time and measurements against n and d, as a plot.

    python -m benchmarks scaling docs/results/scaling.png

Searches generated graphs (chains, antichains, parallel chains, random) for a simulated
device, so it needs neither a model nor a device. The plot includes the paper's bound on
transitions, C(n / d + 2, 2) ^ d (section 4.2).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import random
import time
from collections.abc import Iterator, Sequence

from benchmarks.simulated_gpu import DEVICES
from ios_tf.cost import CachedCostModel, SimulatedCostModel
from ios_tf.files import write_json
from ios_tf.scheduler import (
    PAPER_PRUNING,
    UNPRUNED,
    BlockTooLargeError,
    Bounds,
    Complexity,
    Problem,
    SearchOptions,
    bitsets,
    complexity,
    search,
)
from ios_tf.scheduler.dynamic_programming import solve
from ios_tf.scheduler.state_space import build_state_space

# Graphs with more transitions are left out.
_MAX_TRANSITIONS = 4_000_000
_SEEDS = 3
_REPEAT = 3
_BY_WIDTH = "chains, n = 24"


@dataclasses.dataclass(frozen=True)
class Point:
    """One graph.

    Attributes:
      family: the kind of generated graph.
      counts: complexity of the graph, unpruned.
      solve_seconds: time of enumeration and dynamic program, unpruned, with known
        latencies.
      distinct_stages: number of latencies that the unreduced dynamic program needs,
        unpruned.
      measured: number of latencies that a search with r = 3, s = 8 measures.
    """

    family: str
    counts: Complexity
    solve_seconds: float
    distinct_stages: int
    measured: int


def points(largest: int) -> Iterator[Point]:
    """Yields graphs of up to `largest` operators, then graphs of growing width."""
    for operators in range(4, largest + 1, 4):
        yield from _points("chain", _parallel_chains(operators, 1))
        yield from _points("antichain", _parallel_chains(operators, operators))
        yield from _points("4 chains", _parallel_chains(operators, 4))
        for seed in range(_SEEDS):
            yield from _points("random", _random(seed, operators))
    for chains in range(1, 9):
        yield from _points(_BY_WIDTH, _parallel_chains(24, chains))


def _points(family: str, problem: Problem) -> Iterator[Point]:
    try:
        space = build_state_space(problem, UNPRUNED, limit=_MAX_TRANSITIONS)
    except BlockTooLargeError:
        return
    seconds = math.inf
    for _ in range(_REPEAT):  # take the fastest, because the machine may be busy
        start = time.perf_counter()
        space = build_state_space(problem, UNPRUNED)
        solve(space, 1.0 + 0.1 * bitsets.sizes(space.stages))
        seconds = min(seconds, time.perf_counter() - start)
    cached = CachedCostModel(SimulatedCostModel(DEVICES["h200"]))
    search(
        problem,
        cached,
        SearchOptions("parallel", PAPER_PRUNING),
        Bounds(cached.lower_bound, 0.02),
    )
    counts = complexity(problem)
    yield Point(family, counts, seconds, space.stages.shape[1], cached.measured)


def _parallel_chains(operators: int, chains: int) -> Problem:
    return _problem(operators, [(op, op + chains) for op in range(operators - chains)])


def _random(seed: int, operators: int) -> Problem:
    rng = random.Random(f"{operators} {seed}")
    pairs = itertools.combinations(range(operators), 2)
    return _problem(operators, [p for p in pairs if rng.random() < 4 / operators])


def _problem(operators: int, edges: Sequence[tuple[int, int]]) -> Problem:
    """Returns a graph whose operators are convolutions of a few kinds."""
    graph = Problem.from_edges(operators, edges)
    shapes = [(1, 14, 14, 32 << op % 4) for op in range(operators)]
    convolution = {"type": "conv2d", "kernel": [3, 3]}
    return dataclasses.replace(
        graph,
        block={**graph.block, "operators": [convolution] * operators},
        shapes=tuple(shapes),
        flops=tuple(2 * 14 * 14 * shape[3] * 9 * 64 for shape in shapes),
        operator_keys=tuple(f"convolution {op % 4}" for op in range(operators)),
    )


def plot(found: Sequence[Point], path: str) -> None:
    """Draws transitions, seconds and latencies against n and against d.

    Raises:
      ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(3, 2, figsize=(11, 12), sharex="col", sharey="row")
    families = list(dict.fromkeys(point.family for point in found))
    for number, family in enumerate(families):
        of_family = [point for point in found if point.family == family]
        if family == _BY_WIDTH:
            (_, top), (_, middle), (_, bottom) = rows
            x = [point.counts.width for point in of_family]
        else:
            (top, _), (middle, _), (bottom, _) = rows
            x = [point.counts.operators for point in of_family]
        style = {"color": f"C{number}", "marker": "o", "markersize": 4}
        style["linestyle"] = "" if family == "random" else "-"
        top.plot(x, [p.counts.transitions for p in of_family], label=family, **style)
        bound = {**style, "marker": "_", "markersize": 9, "alpha": 0.7}
        if family != "random":
            bound["linestyle"] = ":"
        top.plot(x, [p.counts.bound for p in of_family], **bound)
        middle.plot(x, [p.solve_seconds for p in of_family], **style)
        bottom.plot(x, [p.distinct_stages for p in of_family], **style, alpha=0.3)
        bottom.plot(x, [p.measured for p in of_family], **{**style, "marker": "s"})
    for top in rows[0]:
        top.plot([], [], ":k", marker="_", label="the paper's bound")
        top.legend()
    for row, label in zip(
        rows,
        (
            "transitions, unpruned",
            "seconds of the dynamic program, unpruned",
            "stages, unpruned (pale); measured, r = 3, s = 8",
        ),
        strict=True,
    ):
        row[0].set(ylabel=label, yscale="log")
        for axes in row:
            axes.grid(alpha=0.3)
    rows[-1][0].set(xlabel="operators n")
    rows[-1][1].set(xlabel="width d")
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "output", help="file of the plot, for example docs/results/scaling.png"
    )
    parser.add_argument(
        "--largest", type=int, default=32, help="the largest number of operators"
    )
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args(arguments)
    found = list(points(options.largest))
    plot(found, options.output)
    if options.json:
        data = [
            {**dataclasses.asdict(point), "bound": point.counts.bound}
            for point in found
        ]
        write_json(options.json, data)
