"""Compares the engine with float64: python -m ios_tf.bench.checks --device=gpu ...

Runs every type of operator, and the networks that `ios_tf export-blocks` wrote, with
random weights. Needs PyTorch, the reference, but neither TensorFlow nor a network
connection.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ios_tf.bench import arrays
from ios_tf.bench.frameworks import interpreter
from ios_tf.bench.frameworks.weights import ACTIVATIONS, random_weights
from ios_tf.bench.network_search import schedule_json
from ios_tf.bench.standalone import utc_now
from ios_tf.differences import relative_difference, relative_norm
from ios_tf.errors import UserError
from ios_tf.files import write_json
from ios_tf.model.network import Network
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
from ios_tf.validation import add_engine_device

# The difference from float64, relative, by dtype; float32 with TF32 and without. Of an
# operator, and of a network, where each layer adds its rounding: 100 in a row, without
# residuals, left norms of 3.7e-3 (TF32), 2.7e-3 (float16) and 2.0e-2 (bfloat16), and
# largest differences of up to twice these.
_TOLERANCES = {"tf32": 1e-3, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
_NETWORK_TOLERANCES = {
    "tf32": 1e-2,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 5e-2,
}
# How many times its norm's limit the largest difference may be: TF32 rounds each factor
# to 11 bits, and one of a convolution's thousands of sums is twice as far off as most.
_OUTLIER = 3.0
# Logarithms and roots of the numbers below 0 among the inputs are NaN.
_OF_POSITIVE_NUMBERS = ("log", "log1p", "sqrt", "rsqrt")
_ACTIVATIONS = ("none", *(a for a in ACTIVATIONS if a not in _OF_POSITIVE_NUMBERS))


@dataclasses.dataclass(frozen=True)
class Check:
    """How far the engine is from float64.

    Attributes:
      difference: the largest difference over the largest value: sees one wrong value
        among many, and grows with their number.
      norm: the norm of the differences over that of the values: sees many that are a
        little wrong.
      tolerance: what the norm may be.
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
            signature: _without_measuring(problem, strategy)
            for signature, problem in network.problems.items()
        }
        worst = _worst(
            _differences(region.block, region.schedule(schedules), device, dtype)
            for region in network.regions
        )
        tolerance = _NETWORK_TOLERANCES[_arithmetic(device, dtype)]
        checks.append(Check(f"{network.name}, {strategy}", dtype, *worst, tolerance))
    return checks


def _without_measuring(problem: Problem, strategy: str) -> Schedule:
    if strategy == "greedy":
        return greedy_schedule(problem)
    if strategy == "sequential":
        return sequential_schedule(problem)
    # Fewest stages: every merge that is allowed is made.
    return search(problem, _OneEach(), SearchOptions(strategy)).schedule


class _OneEach:
    def stage_latency(self, problem: Problem, stage: Stage) -> float:
        """Every stage costs the same."""
        return 1.0


def check_operators(device: str, dtype: str) -> list[Check]:
    """Runs each type of operator alone, with shapes that are multiples of nothing."""
    tolerance = _TOLERANCES[_arithmetic(device, dtype)]
    schedule = Schedule((Stage(Strategy.CONCURRENT, ((0,),)),))
    checks = []
    for block in sample_blocks():
        (operator,) = block["operators"]
        what = " ".join([operator["type"], *map(str, list(operator.values())[2:])])
        differences = _differences(block, schedule, device, dtype)
        checks.append(Check(what, dtype, *differences, tolerance))
    return checks


def sample_blocks() -> list[dict[str, Any]]:
    """Blocks of one operator, of every type."""
    alone = [*_convolutions(), *_of_images()]
    samples = [([_IMAGE], operator) for operator in alone]
    samples += _of_other_inputs()
    blocks = []
    for inputs, operator in samples:
        refs = [-1 - i for i in range(len(inputs))]
        first = {"type": operator["type"], "inputs": refs}
        blocks.append(
            {
                "version": 1,
                "inputs": inputs,
                "operators": [{**first, **operator}],
                "outputs": [0],
            }
        )
    return blocks


_IMAGE = [2, 13, 10, 12]
_CONVOLUTION = {"type": "conv2d", "filters": 24, "bias": True, "activation": "relu"}


def _convolution(kernel: list[int], **attributes: Any) -> dict[str, Any]:
    return {**_CONVOLUTION, "kernel": kernel, **attributes}


def _convolutions() -> list[dict[str, Any]]:
    separable = {"type": "sepconv", "filters": 20, "bias": True, "padding": "SAME"}
    separable["pre_activation"] = "relu"
    transposed = {"type": "conv2d_transpose", "filters": 7, "strides": [2, 2]}
    return [
        _convolution([1, 1]),
        _convolution([3, 3], padding="SAME"),
        _convolution([1, 7], padding="SAME"),
        _convolution([3, 3], padding="SAME", strides=[2, 2]),
        _convolution([3, 3], padding="SAME", dilations=[2, 2]),
        _convolution([3, 3], groups=4),
        _convolution([3, 3], padding=[0, 1, 2, 0]),
        *(_convolution([3, 3], activation=a) for a in _ACTIVATIONS),
        *(
            _convolution([k, k], groups=12, padding="SAME", strides=s)
            for k in (3, 5, 7)
            for s in ([1, 1], [2, 2])
        ),
        *({**separable, "kernel": [k, k]} for k in (3, 5, 7)),
        {**separable, "kernel": [5, 5], "strides": [2, 2], "multiplier": 2},
        {**transposed, "kernel": [3, 3], "padding": "SAME", "bias": True},
        {**transposed, "kernel": [2, 4], "activation": "relu"},
        {**transposed, "kernel": [3, 2], "padding": [1, -1, 0, -1], "bias": True},
    ]


def _of_images() -> list[dict[str, Any]]:
    """Other operators that read one image, and nothing besides."""
    mirrored = {"type": "pad", "padding": [2, 1, 3, 1]}
    channels = {"type": "pad", "padding": [1, 0, 2, 0], "channel_padding": [3, 5]}
    return [
        *(
            {
                "type": "pool",
                "pool": kind,
                "kernel": [3, 3],
                "strides": strides,
                "padding": "SAME",
            }
            for kind in ("max", "avg")
            for strides in ([1, 1], [2, 2])
        ),
        {"type": "global_pool", "pool": "avg"},
        {"type": "global_pool", "pool": "max", "keep_dims": True},
        {"type": "global_pool", "pool": "sum"},
        *(
            {
                "type": "resize",
                "interpolation": interpolation,
                "coordinates": coordinates,
                "output_size": size,
            }
            for interpolation in ("nearest", "bilinear")
            for coordinates in ("asymmetric", "half_pixel", "align_corners")
            for size in ([17, 25], [5, 10])
        ),
        {"type": "resize", "factors": [2, 3]},
        {"type": "depth_to_space", "block_size": 2},
        {"type": "lrn", "depth_radius": 2, "normalization": [1, 0.1, 0.75]},
        {"type": "lrn", "depth_radius": 5, "normalization": [2, 0.1, 0.6]},
        {"type": "pad", "padding": [1, 2, 0, 3]},
        {"type": "pad", "padding": [-1, 0, 2, -2]},
        {**mirrored, "pad_mode": "reflect"},
        {**mirrored, "pad_mode": "symmetric"},
        {**channels, "pad_value": -0.5},
        *({"type": "activation", "activation": a} for a in _ACTIVATIONS),
        {"type": "scale", "activation": "relu"},
        {"type": "slice", "offset": 3, "size": 5},
    ]


def _of_other_inputs() -> list[tuple[list[list[int]], dict[str, Any]]]:
    """Operators that read several tensors, or no image of the usual size."""
    return [
        ([_IMAGE, [2, 11, 8, 24]], _convolution([3, 3], residual=True)),
        ([_IMAGE] * 3, {"type": "add", "activation": "relu"}),
        ([_IMAGE, [2, 13, 10, 7]], {"type": "concat"}),
        ([_IMAGE] * 2, {"type": "binary"}),
        ([_IMAGE, [2, 1, 1, 12]], {"type": "binary"}),
        ([[2, 37]], {"type": "matmul", "filters": 10, "bias": True}),
        ([[2, 5, 3, 7]], {"type": "matmul", "kernel": [5, 3], "filters": 10}),
        ([[2, 1001]], {"type": "softmax"}),
        ([[2, 6, 8, 3]], {"type": "space_to_depth", "block_size": 2}),
    ]


def _arithmetic(device: str, dtype: str) -> str:
    tf32 = dtype == "float32" and device != "cpu" and not device.endswith(",tf32=off")
    return "tf32" if tf32 else dtype


def _worst(differences: Iterable[tuple[float, float]]) -> tuple[float, float]:
    largest, norms = zip(*differences, strict=True)
    return max(largest), max(norms)


def _differences(
    block: Mapping[str, Any], schedule: Schedule, device: str, dtype: str
) -> tuple[float, float]:
    from ios_tf.bench.frameworks.torch_ops import TorchOps

    random = np.random.default_rng(0)
    block = {**block, "dtype": dtype}
    weights = [
        [arrays.rounded(w, dtype) for w in of_operator]
        for of_operator in random_weights(block, random)
    ]
    inputs = [
        arrays.rounded(random.uniform(-1, 1, shape), dtype) for shape in block["inputs"]
    ]
    flat = [array for of_operator in weights for array in of_operator]
    program = engine.Program(block, schedule_json(schedule), flat, device)
    found = program.run([arrays.encoded(x, dtype) for x in inputs])
    outputs = [arrays.decoded(output, dtype) for output in found]
    reference = interpreter.compute(TorchOps(dtype="float64"), block, weights, inputs)
    return _worst(
        (relative_difference(y, expected), relative_norm(y, expected))
        for y, expected in zip(outputs, reference, strict=True)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives 0, 1 for failure, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (UserError, engine.EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    fingerprint = engine.device_fingerprint(options.device)
    print(fingerprint)
    networks = [Network.read(path) for path in options.networks]
    if importlib.util.find_spec("torch") is None:
        raise UserError("PyTorch, the float64 reference, is not installed")
    checks = []
    for dtype in options.dtypes:
        if not options.only_networks:
            checks += check_operators(options.device, dtype)
        for network in networks:
            checks += check_network(network, options.device, dtype)
    failed = [check for check in checks if not check.passed]
    for check in failed:
        print(
            f"FAILED {check.what} ({check.dtype}): norm {check.norm:.1e}, at most "
            f"{check.tolerance:.0e}; largest {check.difference:.1e}, at most "
            f"{_OUTLIER * check.tolerance:.0e}"
        )
    print(f"{len(checks) - len(failed)} of {len(checks)} checks passed")
    if options.json:
        result = {
            "command": "python -m ios_tf.bench.checks " + " ".join(sys.argv[1:]),
            "date": utc_now(),
            "device": fingerprint,
            "checks": [dataclasses.asdict(check) for check in checks],
        }
        write_json(options.json, result)
    return int(bool(failed))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --device and --dtypes."""
    add_engine_device(parser)
    parser.add_argument(
        "--dtypes",
        type=_dtypes,
        default=["float32"],
        metavar="A,B",
        help="float32, float16, bfloat16; default: float32",
    )


def _dtypes(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _TOLERANCES or name == "tf32":
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of float32, float16, bfloat16"
            )
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ios_tf.bench.checks",
        description="Compares the engine with a float64 reference.",
    )
    parser.add_argument("networks", metavar="NETWORK", nargs="*")
    parser.add_argument("--only_networks", action="store_true", help="no operators")
    add_arguments(parser)
    parser.add_argument("--json", metavar="FILE", help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
