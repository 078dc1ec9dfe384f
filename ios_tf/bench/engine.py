"""The engine's own benchmark: python -m ios_tf.bench.engine --device=cuda NETWORK...

Needs neither TensorFlow nor a network connection; NETWORKs are files that `ios_tf
export-blocks` wrote. Prints, for each network, the latencies of the paper's five
schedules with what finding them took, and with --check how far every operator and
every network is from a float64 reference, where PyTorch is installed.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.util
import json
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ios_tf import engine
from ios_tf.bench import reference
from ios_tf.bench.network import Network
from ios_tf.cost.cached import CachedCostModel
from ios_tf.cost.cost_model import Measurement
from ios_tf.cost.profiled import ProfiledCostModel
from ios_tf.errors import UserError
from ios_tf.report import table
from ios_tf.scheduler import (
    PAPER_PRUNING,
    STRATEGIES,
    BlockTooLargeError,
    Problem,
    Pruning,
    Schedule,
    Stage,
    Strategy,
    greedy_schedule,
    search,
    sequential_schedule,
)

# The largest difference from float64 over the largest value, by dtype; float32 with
# TF32 and without.
_TOLERANCES = {"tf32": 1e-3, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
_ACTIVATIONS = (
    "none",
    "relu",
    "relu6",
    "sigmoid",
    "tanh",
    "swish",
    "hard_sigmoid",
    "hard_swish",
    "elu",
)
# How far from the best schedule a search may end.
_SEARCH_TOLERANCE = 0.02


@dataclasses.dataclass(frozen=True)
class Row:
    """One strategy on one network.

    Attributes:
      latencies_ms: of the whole network, interleaved with the other strategies'.
      stages: of all regions.
      search_seconds, measurements: what finding the schedules took.
    """

    strategy: str
    latencies_ms: Sequence[float]
    stages: int
    search_seconds: float
    measurements: int

    @property
    def median_ms(self) -> float:
        return statistics.median(self.latencies_ms)


@dataclasses.dataclass(frozen=True)
class Setting:
    """How latencies are measured: on what, and how often."""

    device: str
    warmup: int
    number: int
    repeat: int
    rounds: int


def bench_schedules(
    network: Network,
    setting: Setting,
    strategies: Sequence[str] = STRATEGIES,
    pruning: Pruning = PAPER_PRUNING,
) -> list[Row]:
    """Searches and measures the strategies on one network."""
    found = {name: _search(network, name, setting, pruning) for name in strategies}
    latencies = np.zeros((len(strategies), setting.rounds))
    for region in network.regions:
        profiler = engine.Profiler(region.block, setting.device)
        latencies += profiler.measure(
            [_json(region.schedule(found[name].schedules)) for name in strategies],
            warmup=setting.warmup,
            number=setting.number,
            repeat=setting.rounds,
        )
    return [
        Row(
            name,
            latencies[i].tolist(),
            sum(len(r.schedule(found[name].schedules)) for r in network.regions),
            found[name].seconds,
            found[name].measurements,
        )
        for i, name in enumerate(strategies)
    ]


@dataclasses.dataclass(frozen=True)
class _Found:
    schedules: Mapping[str, Schedule]
    seconds: float
    measurements: int


def _search(
    network: Network, strategy: str, setting: Setting, pruning: Pruning
) -> _Found:
    # A cost model of its own: what each strategy takes is not paid by another.
    model = ProfiledCostModel(
        setting.device, Measurement(setting.warmup, setting.number, setting.repeat)
    )
    cached = CachedCostModel(model)
    start = time.monotonic()
    schedules = {}
    for signature, problem in network.problems.items():
        try:
            schedules[signature] = search(
                problem,
                cached,
                strategy,
                pruning,
                bound=cached.lower_bound,
                tolerance=_SEARCH_TOLERANCE,
            ).schedule
        except BlockTooLargeError as error:
            print(f"{network.name}: {error}: it runs sequentially", file=sys.stderr)
            schedules[signature] = sequential_schedule(problem)
        model.release()
    if strategy in ("sequential", "greedy"):  # nothing is searched
        return _Found(schedules, 0.0, 0)
    return _Found(schedules, time.monotonic() - start, model.measurements)


@dataclasses.dataclass(frozen=True)
class Check:
    """How far the engine is from float64: largest difference over largest value."""

    what: str
    dtype: str
    difference: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return self.difference <= self.tolerance


def check_network(network: Network, device: str, dtype: str) -> list[Check]:
    """Runs a network with random weights sequentially, greedily and merged."""
    checks = []
    for strategy in ("sequential", "greedy", "merge"):
        schedules = {
            signature: _without_measuring(problem, strategy)
            for signature, problem in network.problems.items()
        }
        worst = max(
            _difference(region.block, region.schedule(schedules), device, dtype)
            for region in network.regions
        )
        checks.append(_check(f"{network.name}, {strategy}", device, dtype, worst))
    return checks


def _without_measuring(problem: Problem, strategy: str) -> Schedule:
    if strategy == "greedy":
        return greedy_schedule(problem)
    if strategy == "sequential":
        return sequential_schedule(problem)
    # Fewest stages: every merge that is allowed is made.
    return search(problem, _OneEach(), strategy).schedule


class _OneEach:
    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """Every stage costs the same."""
        return 1.0


def check_operators(device: str, dtype: str) -> list[Check]:
    """Runs each type of operator alone, with shapes that are multiples of nothing."""
    return [
        _check(
            " ".join([operator["type"], *map(str, list(operator.values())[2:])]),
            device,
            dtype,
            _difference(block, [Stage(Strategy.CONCURRENT, ((0,),))], device, dtype),
        )
        for block in _samples()
        for operator in block["operators"]
    ]


def _samples() -> list[dict[str, Any]]:
    """Blocks of one operator, of every type."""
    conv = {"type": "conv2d", "filters": 24, "bias": True, "activation": "relu"}
    sepconv = {
        "type": "sepconv",
        "filters": 20,
        "bias": True,
        "padding": "SAME",
        "pre_activation": "relu",
    }
    image = [2, 13, 10, 12]
    one_input: list[dict[str, Any]] = [
        {**conv, "kernel": [1, 1]},
        {**conv, "kernel": [3, 3], "padding": "SAME"},
        {**conv, "kernel": [1, 7], "padding": "SAME"},
        {**conv, "kernel": [3, 3], "padding": "SAME", "strides": [2, 2]},
        {**conv, "kernel": [3, 3], "padding": "SAME", "dilations": [2, 2]},
        {**conv, "kernel": [3, 3], "groups": 4},
        {**conv, "kernel": [3, 3], "padding": [0, 1, 2, 0]},
        *(
            {**conv, "kernel": [3, 3], "activation": activation}
            for activation in _ACTIVATIONS
        ),
        *(
            {**conv, "kernel": [k, k], "groups": 12, "padding": "SAME", "strides": s}
            for k in (3, 5, 7)
            for s in ([1, 1], [2, 2])
        ),
        *({**sepconv, "kernel": [k, k]} for k in (3, 5, 7)),
        {**sepconv, "kernel": [5, 5], "strides": [2, 2], "multiplier": 2},
        *(
            {
                "type": "pool",
                "pool": p,
                "kernel": [3, 3],
                "strides": s,
                "padding": "SAME",
            }
            for p in ("max", "avg")
            for s in ([1, 1], [2, 2])
        ),
        {"type": "global_pool", "pool": "avg"},
        {"type": "global_pool", "pool": "max", "keep_dims": True},
        {"type": "pad", "padding": [1, 2, 0, 3]},
        {"type": "pad", "padding": [-1, 0, 2, -2]},
        *({"type": "activation", "activation": a} for a in _ACTIVATIONS),
        {"type": "scale", "activation": "relu"},
        {"type": "slice", "offset": 3, "size": 5},
    ]
    blocks = [([image], {**operator, "inputs": [-1]}) for operator in one_input]
    blocks += [
        ([image, [2, 11, 8, 24]], {**conv, "kernel": [3, 3], "residual": True}),
        ([image] * 3, {"type": "add", "activation": "relu"}),
        ([image, [2, 13, 10, 7]], {"type": "concat"}),
        ([image] * 2, {"type": "multiply"}),
        ([image, [2, 1, 1, 12]], {"type": "multiply"}),
        ([[2, 37]], {"type": "matmul", "filters": 10, "bias": True}),
        ([[2, 1001]], {"type": "softmax"}),
    ]
    return [
        {
            "version": 1,
            "inputs": inputs,
            "operators": [
                {
                    "type": operator["type"],
                    "inputs": [-1 - i for i in range(len(inputs))],
                    **{
                        k: v for k, v in operator.items() if k not in ("type", "inputs")
                    },
                }
            ],
            "outputs": [0],
        }
        for inputs, operator in blocks
    ]


def _check(what: str, device: str, dtype: str, difference: float) -> Check:
    tf32 = dtype == "float32" and device != "cpu" and not device.endswith(",tf32=0")
    return Check(what, dtype, difference, _TOLERANCES["tf32" if tf32 else dtype])


def _difference(
    block: Mapping[str, Any], stages: Sequence[Stage], device: str, dtype: str
) -> float:
    random = np.random.default_rng(0)
    block = {**block, "dtype": dtype}

    def uniform(shape: Sequence[int], scale: float = 1.0) -> np.ndarray:
        values = random.uniform(-scale, scale, shape).astype(np.float32)
        return _rounded(values, dtype)

    weights = [
        # Keeps the magnitude of what flows through; the last axis is the outputs.
        [uniform(s, (6 / max(np.prod(s[:-1]), 1)) ** 0.5) for s in shapes]
        for shapes in engine.problem(block)["weight_shapes"]
    ]
    inputs = [uniform(shape) for shape in block["inputs"]]
    flat = [array for arrays in weights for array in arrays]
    program = engine.Program(block, _json(stages), flat, device)
    found = program.run([_encoded(x, dtype) for x in inputs])
    worst = 0.0
    for output, expected in zip(
        found, reference.run(block, weights, inputs), strict=True
    ):
        difference = np.abs(_decoded(output, dtype) - expected).max()
        worst = max(worst, float(difference / np.abs(expected).max()))
    return worst


def _rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values that `dtype` represents exactly."""
    return _decoded(_encoded(values, dtype), dtype).astype(np.float32)


def _encoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """As the engine takes them: bfloat16 as its bits."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _decoded(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return values.astype(np.float64)
    return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _json(stages: Sequence[Stage]) -> dict[str, Any]:
    return json.loads(Schedule(tuple(stages)).to_json())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives 0, 1 for failure, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (UserError, engine.EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    setting = Setting(
        options.device, options.warmup, options.number, options.repeat, options.rounds
    )
    fingerprint = engine.device_fingerprint(setting.device)
    print(fingerprint)
    networks = [Network.read(path) for path in options.networks]
    result: dict[str, Any] = {
        "command": "python -m ios_tf.bench.engine " + " ".join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(
            timespec="seconds"
        ),
        "device": fingerprint,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    failed = False
    if options.check:
        checks = _checks(networks, setting.device, options.dtypes)
        result["checks"] = [dataclasses.asdict(check) for check in checks]
        failed = not all(check.passed for check in checks)
    if not options.only_check:
        result["networks"] = {}
        for network in networks:
            rows = bench_schedules(network, setting, options.strategies)
            result["networks"][network.name] = [dataclasses.asdict(r) for r in rows]
            print(f"\n{network.name}")
            print(_table(rows), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return int(failed)


def _checks(
    networks: Sequence[Network], device: str, dtypes: Sequence[str]
) -> list[Check]:
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: nothing is checked")
        return []
    checks = []
    for dtype in dtypes:
        checks += check_operators(device, dtype)
        for network in networks:
            checks += check_network(network, device, dtype)
    failed = [check for check in checks if not check.passed]
    for check in failed:
        print(
            f"FAILED {check.what} ({check.dtype}): {check.difference:.1e}, "
            f"at most {check.tolerance:.0e}"
        )
    print(f"{len(checks) - len(failed)} of {len(checks)} checks passed", flush=True)
    return checks


def _table(rows: Sequence[Row]) -> str:
    first_ms = rows[0].median_ms
    return table(
        ("", "median ms", "speedup", "stages", "search s", "measurements"),
        [
            (
                row.strategy,
                f"{row.median_ms:.3f}",
                f"{first_ms / row.median_ms:.2f}",
                str(row.stages),
                f"{row.search_seconds:.1f}",
                str(row.measurements),
            )
            for row in rows
        ],
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ios_tf.bench.engine",
        description="Benchmarks the engine without TensorFlow.",
    )
    parser.add_argument("networks", metavar="NETWORK", nargs="*")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1,tf32=0 …")
    parser.add_argument("--check", action="store_true", help="against float64 first")
    parser.add_argument("--only_check", action="store_true", help="measure nothing")
    parser.add_argument(
        "--dtypes",
        type=lambda text: text.split(","),
        default=["float32"],
        metavar="A,B",
        help="of --check: float32, float16, bfloat16; default: float32",
    )
    parser.add_argument(
        "--strategies",
        type=lambda text: text.split(","),
        default=["sequential", "greedy", "merge", "parallel", "both"],
        metavar="A,B",
        help="speedups are over the first",
    )
    parser.add_argument("--warmup", type=int, default=2, help="runs before each")
    parser.add_argument("--number", type=int, default=10, help="runs a measurement")
    parser.add_argument("--repeat", type=int, default=3, help="measurements a stage")
    parser.add_argument("--rounds", type=int, default=20, help="of whole networks")
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
