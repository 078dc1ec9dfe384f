"""Random weights for which the outputs of a deep block still reveal errors.

If the values grew or shrank from operator to operator, a softmax at the end would hide
all errors: it would return a single 1 among zeros, or the same number everywhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.frameworks import interpreter
from benchmarks.frameworks.ops import Sampling, Window
from ios_tf.native import engine

# The bias's share of an output's second moment. It is small because each convolution
# reduces the contribution of earlier operators by this share.
_BIAS = 0.01
# A standard normal distribution on a grid.
_NORMAL = np.linspace(-6, 6, 241)
_DENSITY = np.exp(-(_NORMAL**2) / 2)
_DENSITY /= _DENSITY.sum()


def random_weights(
    block: Mapping[str, Any], random: np.random.Generator
) -> list[list[np.ndarray]]:
    """Returns weights for which values keep their magnitude in blocks of any depth.

    The outputs of convolutions and matmuls (before residual and activation) and of
    scales have a mean square of about 1.

    Args:
      block: the block's JSON object; its inputs are assumed to be uniform(-1, 1).
      random: the generator; equal states produce equal weights.

    Returns:
      The weights of each operator, float32, as for `engine.Program`.
    """
    weights = [
        [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
        for shapes in engine.problem(block)["weight_shapes"]
    ]
    inputs = [_Values.new(0.0, 1 / 3, shape[-1]) for shape in block["inputs"]]
    interpreter.run(_ScalingOps(), block, weights, inputs)
    return weights


@dataclasses.dataclass(frozen=True)
class _Values:
    """Statistics of a tensor's values that determine their magnitude.

    Attributes:
      mean: mean of all values.
      deviations: standard deviations by source. A value is the mean plus a sum of
        independent terms of mean 0, one per source. Terms of the same source add up, so
        a tensor that is added to itself doubles.
      channels: the last dimension.
    """

    mean: float
    deviations: Mapping[object, float]
    channels: int

    @classmethod
    def new(cls, mean: float, mean_square: float, channels: int) -> _Values:
        """Returns values that are independent of all others."""
        variance = max(mean_square - mean**2, 0.0)
        return cls(mean, {object(): variance**0.5}, channels)

    @property
    def variance(self) -> float:
        return sum(deviation**2 for deviation in self.deviations.values())

    @property
    def mean_square(self) -> float:
        return self.mean**2 + self.variance


class _ScalingOps:
    """Ops that track the values' magnitude, and scale the operators' weights.

    The weights are uniform(-1, 1) before an operator is called and final afterwards.
    Means over a window are assumed to be as large as its cells, because the cells of
    one channel are similar.
    """

    def convolve(
        self,
        x: _Values,
        filters: np.ndarray,
        bias: np.ndarray | None,
        window: Window,
        groups: int,
    ) -> _Values:
        return _product(x, filters, bias, window.cells().mean() * filters.shape[2])

    def matmul(
        self, x: _Values, matrix: np.ndarray, bias: np.ndarray | None
    ) -> _Values:
        return _product(x, matrix, bias, matrix.shape[0])

    def matmul_maps(
        self, x: _Values, filters: np.ndarray, bias: np.ndarray | None
    ) -> _Values:
        return _product(x, filters, bias, np.prod(filters.shape[:3]))

    def scale(
        self, x: _Values, scale: np.ndarray, shift: np.ndarray, rank: int
    ) -> _Values:
        return _product(x, scale, shift, 1)

    def pool(self, x: _Values, kind: str, window: Window) -> _Values:
        return x

    def global_pool(self, x: _Values, kind: str, keep: bool) -> _Values:
        return x

    def pad_with(
        self, x: _Values, padding: Sequence[int], mode: str, value: float
    ) -> _Values:
        return _Values.new(x.mean, x.mean_square, x.channels + sum(padding[4:]))

    def pad(self, x: _Values, padding: Sequence[int]) -> _Values:
        return x

    def concat(self, xs: Sequence[_Values]) -> _Values:
        channels = [x.channels for x in xs]
        mean = np.average([x.mean for x in xs], weights=channels)
        mean_square = np.average([x.mean_square for x in xs], weights=channels)
        return _Values.new(float(mean), float(mean_square), sum(channels))

    def slice(self, x: _Values, offset: int, size: int) -> _Values:
        return _Values.new(x.mean, x.mean_square, size)

    def add(self, x: _Values, y: _Values) -> _Values:
        sums = {
            source: x.deviations.get(source, 0.0) + y.deviations.get(source, 0.0)
            for source in {**x.deviations, **y.deviations}
        }
        return _Values(x.mean + y.mean, sums, x.channels)

    def multiply(self, x: _Values, y: _Values) -> _Values:
        mean_square = x.mean_square * y.mean_square
        return _Values.new(x.mean * y.mean, mean_square, x.channels)

    def convolve_transposed(
        self,
        x: _Values,
        filters: np.ndarray,
        bias: np.ndarray | None,
        window: Window,
    ) -> _Values:
        # Every cell of the input contributes a window to the output.
        cells = np.prod(window.image) * np.prod(window.kernel) / np.prod(window.output)
        return _product(x, filters, bias, cells * filters.shape[2])

    def depth_to_space(self, x: _Values, size: int) -> _Values:
        return _Values.new(x.mean, x.mean_square, x.channels // size**2)

    def space_to_depth(self, x: _Values, size: int) -> _Values:
        return _Values.new(x.mean, x.mean_square, x.channels * size**2)

    def normalize(
        self, x: _Values, radius: int, bias: float, alpha: float, beta: float
    ) -> _Values:
        by = (bias + alpha * (2 * radius + 1) * x.mean_square) ** beta
        return _Values.new(x.mean / by, x.mean_square / by**2, x.channels)

    def resize(self, x: _Values, sampling: Sampling) -> _Values:
        return x

    def softmax(self, x: _Values) -> _Values:
        return _Values.new(1 / x.channels, 1 / x.channels**2, x.channels)

    def activate(self, name: str, x: _Values, alpha: float, beta: float) -> _Values:
        # Logarithms and roots of negative numbers count as 0.
        with np.errstate(all="ignore"):
            y = ACTIVATIONS[name](x.mean + x.variance**0.5 * _NORMAL, alpha, beta)
        y = np.nan_to_num(y, posinf=0, neginf=0)
        mean, mean_square = (float((_DENSITY * f).sum()) for f in (y, y**2))
        return _Values.new(mean, mean_square, x.channels)


def _product(
    x: _Values, weights: np.ndarray, bias: np.ndarray | None, terms: float
) -> _Values:
    """Scales weights and bias for sums of `terms` products; returns the sums."""
    of_bias = 0.0 if bias is None else _BIAS
    _scale_to(weights, (1 - of_bias) / (terms * x.mean_square))
    if bias is not None:
        _scale_to(bias, of_bias)
    return _Values.new(0.0, 1.0, weights.shape[-1])


def _scale_to(uniform: np.ndarray, mean_square: float) -> None:
    """Scales uniform(-1, 1), whose mean square is 1/3, in place."""
    uniform *= np.float32((3 * mean_square) ** 0.5)


def _expm1(x: np.ndarray) -> np.ndarray:
    """Computes expm1 only for numbers below 0, because others could overflow."""
    return np.expm1(np.minimum(x, 0))


_erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "relu": lambda x, a, b: np.maximum(x, 0),
    "relu6": lambda x, a, b: np.clip(x, 0, 6),
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "swish": lambda x, a, b: x / (1 + np.exp(-a * x)),
    "hard_sigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "hard_swish": lambda x, a, b: x * np.clip(x + 3, 0, 6) / 6,
    "elu": lambda x, a, b: np.where(x > 0, x, a * _expm1(x)),
    "leaky_relu": lambda x, a, b: np.where(x > 0, x, a * x),
    "selu": lambda x, a, b: 1.0507 * np.where(x > 0, x, 1.67326 * _expm1(x)),
    "softplus": lambda x, a, b: np.logaddexp(x, 0),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "gelu": lambda x, a, b: 0.5 * x * (1 + _erf(x * 0.5**0.5)),
    "gelu_tanh": lambda x, a, b: 0.5 * x * (1 + _erf(x * 0.5**0.5)),
    "mish": lambda x, a, b: x * np.tanh(np.logaddexp(x, 0)),
    "maximum": lambda x, a, b: np.maximum(x, a),
    "minimum": lambda x, a, b: np.minimum(x, a),
    "clip": lambda x, a, b: np.clip(x, a, b),
    "threshold": lambda x, a, b: np.where(x > a, x, 0),
    "exp": lambda x, a, b: np.exp(x),
    "expm1": lambda x, a, b: np.expm1(x),
    "log": lambda x, a, b: np.log(x),
    "log1p": lambda x, a, b: np.log1p(x),
    "sqrt": lambda x, a, b: np.sqrt(x),
    "rsqrt": lambda x, a, b: x**-0.5,
    "square": lambda x, a, b: np.square(x),
    "pow": lambda x, a, b: x**a,
    "abs": lambda x, a, b: np.abs(x),
    "erf": lambda x, a, b: _erf(x),
    "erfc": lambda x, a, b: 1 - _erf(x),
    "sin": lambda x, a, b: np.sin(x),
}
