"""Compares the engine with float64: python -m benchmarks checks --device=gpu ...

Runs every type of operator, also on a NaN, and the networks that `python -m benchmarks
export_blocks` wrote, with random weights. Needs PyTorch as the reference, but neither
TensorFlow nor a network connection.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import arrays
from benchmarks.frameworks import interpreter
from benchmarks.frameworks.runner import Data
from benchmarks.network import Network
from benchmarks.operator_samples import sample_blocks
from benchmarks.results import write_measured
from benchmarks.standalone import add_engine_device
from ios_tf.differences import relative_difference, relative_norm
from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import (
    Problem,
    Schedule,
    SearchOptions,
    Stage,
    Strategy,
    greedy_schedule,
    search,
    sequential_schedule,
)
from ios_tf.tuning.parts import parts_of

# Limits of `Check.norm`, by dtype; "tf32" is float32 with TF32. The first limits are
# for an operator, the second for a network, where each layer adds its rounding. For 100
# consecutive layers without residuals, `Check.norm` was 3.7e-3 (TF32), 2.7e-3 (float16)
# and 2.0e-2 (bfloat16), and `Check.difference` was up to twice as large.
_TOLERANCES = {"tf32": 1e-3, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
_NETWORK_TOLERANCES = {
    "tf32": 1e-2,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
# The largest difference may exceed the limit of the norm by this factor. TF32 rounds
# each operand to 11 bits, and the worst of a convolution's thousands of sums has twice
# the usual error.
_OUTLIER = 3.0
# The differences if the engine cannot run a block.
_FAILED = (np.inf, np.inf)
# The types of operators that cuDNN computes, together with their activations.
_FUSED = ("conv2d", "conv2d_transpose", "matmul", "sepconv")


@dataclasses.dataclass(frozen=True)
class Check:
    """The difference between the engine and float64.

    Attributes:
      difference: the largest difference, divided by the largest value. It reveals one
        wrong value among many, and grows with the number of values.
      norm: the norm of the differences, divided by the norm of the values. It reveals
        many values that are slightly wrong.
      tolerance: the limit of the norm.
    """

    what: str
    dtype: str
    difference: float
    norm: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return max(self.difference / _OUTLIER, self.norm) <= self.tolerance


def check_network(network: Network, device: str, dtype: str) -> list[Check]:
    """Runs a network with random weights sequentially, greedily and merged."""
    checks = []
    for strategy in ("sequential", "greedy", "merge"):
        schedules = {
            signature: without_measuring(problem, strategy)
            for signature, problem in network.problems.items()
        }
        worst = _worst(
            _differences(region.block, region.schedule(schedules), device, dtype)
            for region in network.regions
        )
        tolerance = _NETWORK_TOLERANCES[_arithmetic(device, dtype)]
        checks.append(Check(f"{network.name}, {strategy}", dtype, *worst, tolerance))
    return checks


def without_measuring(problem: Problem, strategy: str) -> Schedule:
    """Returns a block's schedule by a strategy, without a device."""
    if strategy == "greedy":
        return greedy_schedule(problem)
    if strategy == "sequential":
        return sequential_schedule(problem)
    # All stages cost the same, so the search minimizes their number. It thus makes all
    # merges that are allowed within a part.
    options = SearchOptions(strategy)
    parts, _ = parts_of(problem, options.pruning)
    found = [
        (part.operators, search(part.problem, _OneEach(), options).schedule)
        for part in parts
    ]
    return Schedule.of_parts(found, problem.signature)


class _OneEach:
    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """Returns the same cost for every stage."""
        return 1.0


def check_operators(device: str, dtype: str) -> list[Check]:
    """Runs each type of operator alone, with shapes that match no block size."""
    tolerance = _TOLERANCES[_arithmetic(device, dtype)]
    schedule = Schedule((Stage(Strategy.CONCURRENT, ((0,),)),))
    checks = []
    for block in sample_blocks():
        (operator,) = block["operators"]
        differences = _differences(block, schedule, device, dtype)
        checks.append(Check(_description(operator), dtype, *differences, tolerance))
    return checks


def check_nan(device: str, dtype: str) -> list[Check]:
    """Runs each type of operator on a NaN. Compares where outputs are NaN with the CPU.

    A difference is allowed if cuDNN may fuse an activation: it promises to keep NaN
    only for its slowest engine.
    """
    schedule = Schedule((Stage(Strategy.CONCURRENT, ((0,),)),))
    checks = []
    for block in sample_blocks():
        (operator,) = block["operators"]
        data = Data.of({**block, "dtype": dtype}, np.random.default_rng(0))
        data.inputs[0].flat[data.inputs[0].size // 2] = np.nan
        on_cpu = dataclasses.replace(data, block={**block, "dtype": "float32"})
        may_fuse = device != "cpu" and operator["type"] in _FUSED
        may_lose = may_fuse and operator.get("activation", "none") != "none"
        what = f"NaN in {_description(operator)}"
        outputs = _outputs(data, schedule, device)
        if not outputs:
            checks.append(Check(what, dtype, *_FAILED, 0.0))
            continue
        differences = _worst(
            (relative_difference(found, expected), relative_norm(found, expected))
            for found, expected in zip(
                map(_is_nan, outputs),
                map(_is_nan, _outputs(on_cpu, schedule, "cpu")),
                strict=True,
            )
        )
        checks.append(Check(what, dtype, *differences, np.inf if may_lose else 0.0))
    return checks


def _is_nan(output: np.ndarray) -> np.ndarray:
    return np.isnan(output).astype(np.float32)


def _description(operator: Mapping[str, Any]) -> str:
    return " ".join([operator["type"], *map(str, list(operator.values())[2:])])


def _arithmetic(device: str, dtype: str) -> str:
    tf32 = dtype == "float32" and device != "cpu" and not device.endswith(",tf32=off")
    return "tf32" if tf32 else dtype


def _worst(differences: Iterable[tuple[float, float]]) -> tuple[float, float]:
    largest, norms = zip(*differences, strict=True)
    return max(largest), max(norms)


def _differences(
    block: Mapping[str, Any], schedule: Schedule, device: str, dtype: str
) -> tuple[float, float]:
    from benchmarks.frameworks.torch_ops import TorchOps

    data = Data.of({**block, "dtype": dtype}, np.random.default_rng(0))
    outputs = _outputs(data, schedule, device)
    if not outputs:
        return _FAILED
    reference = interpreter.compute(
        TorchOps(dtype="float64"), data.block, data.weights, data.inputs
    )
    return _worst(
        (relative_difference(y, expected), relative_norm(y, expected))
        for y, expected in zip(outputs, reference, strict=True)
    )


def _outputs(data: Data, schedule: Schedule, device: str) -> list[np.ndarray]:
    """Returns the engine's outputs as float32.

    If the engine fails, prints the error and returns no outputs, so that the other
    checks still run.
    """
    dtype = data.block["dtype"]
    try:
        program = engine.Program(
            data.block, schedule.json_object(), data.flat_weights(), device
        )
        found = program.run([arrays.encoded(x, dtype) for x in data.inputs])
    except engine.EngineError as error:
        print(f"the engine cannot run a block: {error}", flush=True)
        return []
    return [arrays.decoded(output, dtype) for output in found]


def run(options: argparse.Namespace) -> int:
    """Prints failed checks; returns 1 if any check failed."""
    print(engine.device_fingerprint(options.device))
    networks = [Network.read(path) for path in options.networks]
    if importlib.util.find_spec("torch") is None:
        raise UserError(
            "PyTorch, the float64 reference, is not installed. Run pip install torch"
        )
    checks: list[Check] = []
    for found in _all_checks(networks, options):
        checks += found
        for check in found:
            if not check.passed:
                print(_failure(check), flush=True)
        # Write after each step, in case the time limit ends the process.
        if options.json:
            records = [dataclasses.asdict(check) for check in checks]
            write_measured(options.json, options, checks=records)
    failed = sum(not check.passed for check in checks)
    print(f"{len(checks) - failed} of {len(checks)} checks passed")
    return int(failed > 0)


def _all_checks(
    networks: Sequence[Network], options: argparse.Namespace
) -> Iterator[list[Check]]:
    """Yields the checks of operators and of each network, for each dtype."""
    for dtype in options.dtypes:
        if not options.only_networks:
            yield check_operators(options.device, dtype)
            yield check_nan(options.device, dtype)
        for network in networks:
            yield check_network(network, options.device, dtype)


def _failure(check: Check) -> str:
    return (
        f"FAILED {check.what} ({check.dtype}): the norm of the differences is "
        f"{check.norm:.1e} (limit {check.tolerance:.0e}), and the largest difference "
        f"is {check.difference:.1e} (limit {_OUTLIER * check.tolerance:.0e})"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("networks", metavar="NETWORK", nargs="*")
    parser.add_argument(
        "--only_networks", action="store_true", help="skip the single operators"
    )
    add_engine_device(parser)
    parser.add_argument(
        "--dtypes",
        type=_dtypes,
        default=["float32"],
        metavar="A,B",
        help="float32, float16, bfloat16; default: float32",
    )
    parser.add_argument("--json", metavar="FILE", help="write the results to this file")


def _dtypes(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _TOLERANCES or name == "tf32":
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of float32, float16, bfloat16"
            )
    return names
